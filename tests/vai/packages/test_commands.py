"""The commands: quiet when all is well, one JSON document when asked, and words that say what to do."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from plughost.cli.main import main
from tests.support import ROOT
from tests.support import sample_package as little


@pytest.fixture
def run(capfdbinary, folder, monkeypatch):
    """A command in a folder of its own: exit code, stdout and stderr."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))

    def run(*words):
        code = 0
        try:
            main([str(word) for word in words])
        except SystemExit as ended:
            code = ended.code
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return run


@pytest.fixture
def trusted(run, folder):
    """A signed package in dist, and a trust file in the usual place."""
    little.write(folder / "source")
    (folder / "dist").mkdir()
    made = json.loads(run("pack", "source", "--out", "dist", "--json")[1])
    key = json.loads(run("keygen", "key", "--json")[1])
    assert run("sign", made["file"], "--key", "key") == (0, "", "")
    (folder / "config/plughost").mkdir(parents=True)
    (folder / "config/plughost/trust.toml").write_text(f'[[publishers.acme.keys]]\nkey = "{key["key"]}"\n')
    return {**key, **made}


@pytest.mark.clause("VAI-01", "VAI-82", "VAI-84")
def test_from_a_folder_to_an_installed_package(run, trusted, folder):
    file, digest = trusted["file"], trusted["digest"]
    assert run("pack", "source", "--out", "dist") == (0, f"{file} {digest}\n", "")
    code, out, _ = run("verify", file)
    assert (code, out) == (0, f"acme/little@0.1.0: signed and trusted by acme ({trusted['key_id'][:16]})\n")
    for words in ("--save", "--locked"):
        assert run("install", file, words) == (0, f"acme/little@0.1.0 {digest}\n", "")
    out = run("install", file, "--json")[1]
    assert (json.loads(out)["posture"], json.loads(out)["digest"]) == ("trusted", digest)
    assert Path(json.loads(out)["path"], "bin/plugin").is_file()
    assert run("packages", "ls") == (0, f"acme/little@0.1.0  trusted  {digest}\n", "")
    code, out, _ = run("packages", "show", "acme/little", "--json")
    shown = json.loads(out)
    assert (code, shown["intact"], shown["available"], shown["manifest"]["name"]) == (0, True, True, "Little")
    card = (shown["publisher"], shown["posture"], shown["key_id"], shown["digest"], shown["source"])
    assert card == ("acme", "trusted", trusted["key_id"], digest, shown["manifest"]["source"])
    assert run("packages", "rm", "acme/little") == (0, "", "")
    assert run("packages", "ls", "--json") == (0, "[]\n", "")


def test_what_is_refused_says_why_and_what_to_do(run, trusted, folder):
    (folder / "config/plughost/trust.toml").unlink()
    code, out, err = run("install", trusted["file"])
    assert (code, out) == (3, "")
    assert "package_untrusted" in err
    assert "--trust" in err
    code, out, err = run("install", trusted["file"], "--json")
    assert (code, json.loads(out)["error"]["code"], err) == (3, "package_untrusted", "")
    assert run("packages", "ls", "--json")[1] == "[]\n"
    assert run("install", "nothing.vai.tar")[0] == 2
    assert run("install", trusted["file"], "--locked", "--save")[0] == 2
    assert run("install", trusted["file"], "--locked")[0] == 2  # there is no lock file
    assert run("packages", "show", "acme/nothing")[0] == 3


@pytest.mark.clause("VAI-84")
def test_what_nobody_trusted_has_signed_is_kept_in_development_and_never_available(run, trusted, folder):
    (folder / "config/plughost/trust.toml").unlink()
    code, out, err = run("install", trusted["file"], "--development")
    assert (code, out, "but cannot be used" in err) == (0, f"acme/little@0.1.0 {trusted['digest']}\n", True)
    (row,) = json.loads(run("packages", "ls", "--json")[1])
    assert (row["posture"], row["available"]) == ("unknown_key", False)


@pytest.mark.clause("VAI-84")
def test_a_revoked_key_is_seen_at_once(run, trusted, folder):
    run("install", trusted["file"])
    file = folder / "config/plughost/trust.toml"
    file.write_text(file.read_text() + "revoked = true\n")
    (row,) = json.loads(run("packages", "ls", "--json")[1])
    assert (row["posture"], row["available"]) == ("unknown_key", False)
    assert "is revoked" in row["why"]


@pytest.mark.parametrize(
    ("how", "posture"),
    [("unsigned", "unsigned"), ("altered", "altered"), ("stranger", "unknown_key"), ("broken", "invalid")],
)
@pytest.mark.clause("VAI-84")
def test_verify_says_one_word_and_exits_1(how, posture, run, trusted, folder):
    beside = folder / "dist/marketplace.signature.json"
    if how == "unsigned":
        beside.unlink()
    elif how == "altered":
        data = bytearray(Path(trusted["file"]).read_bytes())
        data[data.index(b"#!/bin/sh")] ^= 1
        Path(trusted["file"]).write_bytes(data)
    elif how == "stranger":
        run("keygen", "other")
        run("sign", trusted["file"], "--key", "other")
    else:
        beside.write_text("{}")
    code, out, _ = run("verify", trusted["file"], "--json")
    assert (code, json.loads(out)["posture"]) == (1, posture)


@pytest.mark.parametrize("content", ["root:x:0:0:root:/root:/bin/sh\n" * 40, "", "\0" * 1024])
def test_what_never_was_a_package_is_invalid_and_one_by_its_name_is_altered(content, run, trusted, folder):
    for name, posture in (("passwd", "invalid"), ("x.tar", "invalid"), ("x.vai.tar", "altered")):
        (folder / name).write_text(content)
        code, out, _ = run("verify", name)
        assert (code, out.startswith(f"{name}: {posture}: ")) == (1, True), out


def test_diff_tells_files_permissions_and_schemas(run, trusted, folder):
    run("install", trusted["file"])
    asks = '[exports.permissions]\nnetwork = "egress"\nsecret_slots = ["token"]\n\n[exports.tool]'
    source = little.write(
        folder / "newer",
        version="0.2.0",
        manifest=little.MANIFEST.replace("[exports.tool]", asks),
        README_md="hi",
    )
    (source / "schemas/input.json").write_text('{"type": "array"}')
    (folder / "more").mkdir()
    run("pack", "newer", "--out", "more")
    run("install", "more/little-0.2.0.vai.tar", "--development")
    code, out, _ = run("packages", "diff", "acme/little@0.1.0", "acme/little@0.2.0")
    assert (code, out.splitlines()) == (
        0,
        [
            "permission exports.echo.permissions.network: none → egress",
            "permission exports.echo.permissions.secret_slots: none → token",
            "schema     ~ echo.input_schema (schemas/input.json)",
            "manifest   version: 0.1.0 → 0.2.0",
            "file       + README.md",
            "file       ~ schemas/input.json",
            "file       ~ vai-plugin.toml",
        ],
    )
    found = json.loads(run("packages", "diff", "acme/little@0.1.0", "acme/little@0.2.0", "--json")[1])
    assert found["permissions"][0] == {
        "field": "exports.echo.permissions.network", "before": "none", "after": "egress",
    }  # fmt: skip


def test_what_a_package_says_of_itself_stays_on_its_line(run, folder, monkeypatch):
    """Also one that was let in when nobody looked."""
    forged = 'source = "x\\u001b[1A\\u001b]0;pwn\\u0007\\nposture    trusted"\nname = "Little"'
    little.write(folder / "source", manifest=little.MANIFEST.replace('name = "Little"', forged))
    assert run("pack", "source")[0] == 2
    monkeypatch.setattr("plughost.contracts.vai.manifest_rules.check", lambda *judged: None)
    assert run("pack", "source")[0] == 0
    assert run("install", "little-0.1.0.vai.tar", "--development")[0] == 0
    code, out, _ = run("packages", "show", "acme/little")
    assert (code, [line for line in out.splitlines() if line.startswith("posture")]) == (
        0,
        ["posture    unsigned"],
    )
    assert all(line.isprintable() for line in out.splitlines())


def test_a_damaged_package_is_shown_as_such(run, trusted):
    path = Path(json.loads(run("install", trusted["file"], "--json")[1])["path"], "bin/plugin")
    path.chmod(0o755)
    path.write_text("#!/bin/sh\nfalse\n")
    path.chmod(0o555)
    why = "its files do not match the signed digest"
    code, out, err = run("packages", "show", "acme/little")
    assert (code, "posture    damaged\n" in out, f"why        {why}\n" in out) == (1, True, True)
    assert "plughost install PACKAGE" in err
    code, out, _ = run("packages", "show", "acme/little", "--json")
    shown = json.loads(out)
    assert (code, shown["posture"], shown["available"], shown["intact"]) == (1, "damaged", False, False)
    assert (shown["damage"], trusted["digest"] in shown["remedy"]) == (why, True)
    code, out, err = run("packages", "ls")
    assert (code, out) == (1, f"acme/little@0.1.0  damaged  {trusted['digest']}\n")
    assert f"acme/little@0.1.0 is damaged: {why}" in err
    assert "plughost install PACKAGE" in err
    code, out, err = run("packages", "ls", "--json")
    assert (code, [row["posture"] for row in json.loads(out)], err) == (1, ["damaged"], "")
    code, out, err = run("packages", "diff", "acme/little", "acme/little", "--json")
    assert (code, json.loads(out)["error"]["code"]) == (3, "package_damaged")
    assert run("install", trusted["file"])[0] == 0
    assert run("packages", "ls") == (0, f"acme/little@0.1.0  trusted  {trusted['digest']}\n", "")


def test_a_signature_of_another_package_is_not_overwritten(run, trusted, folder):
    little.write(folder / "newer", version="0.2.0")
    run("pack", "newer", "--out", "dist")
    code, _, err = run("sign", "dist/little-0.2.0.vai.tar", "--key", "key")
    assert (code, "another package" in err) == (2, True)
    code, out, _ = run("sign", "dist/little-0.2.0.vai.tar", "--key", "key", "--out", "newer.json", "--json")
    assert (code, json.loads(out)["file"]) == (0, "newer.json")


@pytest.mark.parametrize("place", ["nowhere/lock", "dist", "key/lock", "/proc/lock"])
def test_what_cannot_be_pinned_is_not_installed(run, trusted, place):
    code, out, err = run("install", trusted["file"], "--save", "--lock-file", place)
    assert (code, out, f"{place} cannot be written" in err) == (2, "", True)
    assert run("packages", "ls", "--json")[1] == "[]\n"


@pytest.mark.parametrize("place", [".", "/", "", "..", "dist"])
def test_a_folder_is_no_file_to_write_to(run, trusted, place, folder):
    before = sorted(os.listdir(folder))
    for words in (("keygen", place), ("sign", trusted["file"], "--key", "key", "--out", place)):
        code, out, err = run(*words)
        assert (code, out, "Traceback" in err) == (2, "", False), words
        code, out, _ = run(*words, "--json")
        assert (code, json.loads(out)["error"]["code"]) == (2, "invalid_spec")
    assert sorted(os.listdir(folder)) == before


@pytest.mark.clause("VAI-84")
def test_vai_plugin_sign_is_the_same_command(run, trusted, folder, monkeypatch):
    import tomllib

    from plughost.cli.commands.vai import packing

    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["vai-plugin-sign"] == "plughost.cli.commands.vai.packing:vai_plugin_sign"
    beside = folder / "dist/marketplace.signature.json"
    beside.unlink()
    monkeypatch.setattr(sys, "argv", ["vai-plugin-sign", trusted["file"], "--key", "key"])
    packing.vai_plugin_sign()
    assert beside.exists()


def test_without_the_libraries_for_signatures_it_says_what_to_install(run, trusted, monkeypatch):
    monkeypatch.setitem(sys.modules, "securesystemslib", None)
    code, _, err = run("sign", trusted["file"], "--key", "key")
    assert (code, "pip install 'plughost[vai]'" in err) == (2, True)


def test_the_example_of_the_documentation_runs_as_it_stands(folder):
    (example,) = re.findall(r"```sh\n(.*?)```", (ROOT / "docs/packages.md").read_text(), re.S)
    shim = folder / "bin/plughost"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -m plughost.cli "$@"\n')
    shim.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{shim.parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    (folder / "work").mkdir()
    ran = subprocess.run(
        ["sh", "-euc", example],
        cwd=folder / "work",
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1].startswith("acme/hello@0.1.0  trusted  sha256:")
    assert (folder / "work/plughost-packages.lock").exists()


def test_the_trust_file_of_the_documentation_is_one(folder):
    from plughost.vai.packages.trust import publishers

    (example,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/packages.md").read_text(), re.S)
    (folder / "trust.toml").write_text(example)
    assert len(publishers.read(folder / "trust.toml").keys_of("acme")) == 2


def test_diff_is_silent_about_what_is_none_either_way(run, trusted, folder):
    run("install", trusted["file"])
    another = little.MANIFEST.partition("[[exports]]")[2].replace('"echo"', '"again"')
    little.write(folder / "newer", version="0.2.0", manifest=f"{little.MANIFEST}\n[[exports]]{another}")
    (folder / "more").mkdir()
    run("pack", "newer", "--out", "more")
    run("install", "more/little-0.2.0.vai.tar", "--development")
    code, out, _ = run("packages", "diff", "acme/little@0.1.0", "acme/little@0.2.0")
    assert (code, "none → none" in out) == (0, False)
    assert "manifest   exports.again.display_name: none → Echo" in out.splitlines()
