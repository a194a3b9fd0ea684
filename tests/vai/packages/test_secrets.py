"""Known formats of secrets are found in any file, at any place, and not where there are none."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from plughost.vai.packages import secret_scan
from plughost.vai.packages.secret_scan import FoundSecret, scan
from tests.support import ROOT

# Put together here, so that nobody who scans this repository is alarmed.
SAMPLES = {
    "AWS access key": "AKIA" + "QWERTYUIOPASDFGH",
    "GitHub token": "ghs_" + "0aA1" * 9,
    "GitLab token": "glpat-" + "x1Y2-" * 4,
    "Slack token": "xoxb-" + "123456789012-abcdefABCDEF",
    "Slack webhook": "hooks.slack.com/services/" + "T0123456/B0123456/" + "a1" * 12,
    "Anthropic key": "sk-ant-" + "api03-" + "aB3_" * 24,
    "OpenAI key": "sk-proj-" + "aB3-" * 12,
    "Google API key": "AIza" + "Sy" + "a1_" * 11,
    "Stripe key": "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc",
    "npm token": "npm_" + "aB3c" * 9,
    "PyPI token": "pypi-" + "AgEIcHlwaS5vcmc" + "CJDk2" * 12,
    "Hugging Face token": "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH",
    "Vault token": "hvs." + "CAESI" * 6,
    "delegation token": "vai_dlg_" + "0123456789abcdefghij",
    "private key": "-----BEGIN " + "EC PRIVATE KEY-----\n" + "MHcCAQEEIIu" * 6 + "\n",
    "PuTTY key": "PuTTY-User-Key-File-"
    + "3: ssh-ed25519\r\nEncryption: none\r\nComment: me\r\nPublic-Lines: 2\r\n"
    + "AAAA" * 16,
    "JSON Web Token": "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0." + "a-_1" * 10,
}


@pytest.mark.clause("VAI-01", "VAI-90")
@pytest.mark.parametrize("kind", SAMPLES)
def test_a_secret_is_found_and_its_line_told(kind):
    for around in (
        b"one\ntwo\n%s\n", b"a=1\nx='%s';", b"\n\x00\x01%s\xff", b"\n%s", b"\nTOKEN_%s", rb'{"a": "x\n%s"}',
        rb'{"a": "x\u000a%s"}', b"%s EXAMPLE",
    ):  # fmt: skip
        text = around % SAMPLES[kind].encode()
        line = 1 + around.partition(b"%s")[0].count(b"\n")
        assert scan(io.BytesIO(text)) == [FoundSecret(kind, line)]


@pytest.mark.parametrize("kind", SAMPLES)
def test_it_is_found_across_the_borders_of_what_is_read_at_once(kind, monkeypatch):
    monkeypatch.setattr(secret_scan, "_WINDOW", 10_000)
    for offset in range(9_900, 10_030, 7):
        text = b"-\n" * (offset // 2) + SAMPLES[kind].encode() + b"\n" * 20_000
        assert scan(io.BytesIO(text)) == [FoundSecret(kind, offset // 2 + 1)]


@pytest.mark.parametrize(
    "text",
    [
        "AKIA" + "IOSFODNN7EXAMPLE",  # the one in the manual
        "AKIA" + "QWERTYUIOPASDFGHJKL",  # longer than a key
        "XAKIA" + "QWERTYUIOPASDFGH",  # inside a word
        "ghp_" + "short",
        "-----BEGIN " + "PRIVATE KEY-----",  # a program that reads keys
        "-----BEGIN " + "PUBLIC KEY-----\n" + "MHcCAQEEIIu" * 6,
        "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0",
        "sk-" + "learn",
        "hf_" + "hub_download_and_cache_files_here_ok",
    ],
)
def test_what_only_looks_like_one_is_let_be(text):
    assert scan(io.BytesIO(text.encode())) == []


def test_our_own_sources_and_a_python_binary_hold_none():
    files = [path for path in (ROOT / "src").rglob("*") if path.is_file()]
    for path in [*files, sys.executable]:
        with open(path, "rb") as file:
            assert scan(file) == [], path


def test_a_file_full_of_beginnings_is_scanned_in_linear_time():
    """A stranger's file must not keep us busy."""
    code = (
        "import io, time; from plughost.vai.packages.secret_scan import scan\n"
        "for piece in (b'eyJ', b' eyJ', b'eyJa.', b'-----BEGIN ', b'AKIA', b'sk-ant-', b'e\\0y\\0J\\0a\\0', b'-----BEGIN PRIVATE KEY----- ' + b'+' * 150):\n"
        "    scan(io.BytesIO(piece * (500_000 // len(piece))))\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=30)


@pytest.mark.parametrize("kind", SAMPLES)
@pytest.mark.parametrize("coding", ["utf-16-le", "utf-16-be", "utf-16"])
def test_it_is_found_in_the_text_of_another_system(kind, coding):
    text = f"one\r\nkey = '{SAMPLES[kind]}'\r\n".encode(coding)
    assert scan(io.BytesIO(text)) == [FoundSecret(kind, 2)]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("GitHub token", "ghs_" + "0aA1" * 20),
        ("JSON Web Token", SAMPLES["JSON Web Token"] + "EXAMPLE"),
        ("JSON Web Token", "eyJ" + "EXAMPLE" * 3 + ".eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0." + "a-_1" * 10),
        ("private key", "'-----BEGIN " + "PRIVATE KEY-----' + MHcCAQ\n".replace("MHcCAQ", f"'{'MHcCAQEEIIu' * 6}'")),
        ("private key", 'K = ("-----BEGIN ' + 'PRIVATE KEY-----\\n"\n     "' + "MHcCAQEEIIu" * 6 + '\\n"\n'),
        ("private key", "-----BEGIN " + "RSA PRIVATE KEY-----" + "MHcCAQEEIIu" * 6),
        ("private key", "-----BEGIN " + "RSA PRIVATE KEY----- " + "MHcCAQEEIIu" * 6 + " -----END"),
        ("private key", "-----BEGIN " + "RSA PRIVATE KEY-----\r\nProc-Type: 4,ENCRYPTED\r\nDEK-Info: AES,12\r\n\r\n"
         + "MHcCAQEEIIu" * 6),
    ],
)  # fmt: skip
def test_it_is_found_however_it_is_spelled(kind, text):
    assert scan(io.BytesIO(text.encode())) == [FoundSecret(kind, 1)]


def test_a_key_is_found_however_deep_a_file_of_settings_has_it():
    for gap in ("    ", "\t\t", " " * 20):
        text = "tls: |\n" + "".join(f"{gap}{line}\n" for line in SAMPLES["private key"].splitlines())
        assert scan(io.BytesIO(text.encode())) == [FoundSecret("private key", 2)]
