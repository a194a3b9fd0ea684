"""Secret scanner: finds secrets by their known formats, so that none is published. Reports kind and line
only."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator

import msgspec

from plughost._util.fsync import Readable

MAX_FINDINGS = 50
"""Reported findings per file."""
_WINDOW = 256 << 10
_OVERLAP = 16 << 10
"""Bytes by which two windows overlap, so that a match (also in UTF-16) between them is not missed."""


class FoundSecret(msgspec.Struct, frozen=True):
    """A secret in a file: its kind and line, never its value."""

    kind: str
    line: int


class _Format(msgspec.Struct, frozen=True):
    kind: str
    starts: tuple[bytes, ...]
    rest: re.Pattern[bytes]
    """The text after the start. Every repetition is bounded, because the file is untrusted."""


def _format(kind: str, starts: str, rest: str) -> _Format:
    return _Format(kind, tuple(starts.encode().split()), re.compile(rest.encode()))


_END = r"(?![A-Za-z0-9])"
_GAP = r"(?:\\[nrt]|[\s\"'`+\\]){0,200}"
"""Between the lines of a key: indentation of a settings file, or quotes of a program that concatenates it."""
_BODY = rf"{_GAP}(?:[A-Za-z-]{{1,40}}: [^\n]{{0,200}}\n{_GAP}){{0,8}}[A-Za-z0-9+/=]{{40}}"
_PUTTY = (
    r"[a-z0-9-]{1,40}\r?\nEncryption: [^\n]{1,40}\nComment: [^\n]{0,400}\n"
    r"Public-Lines: \d{1,4}\r?\n[A-Za-z0-9+/=]{40}"
)
"""A PuTTY file always contains the private key, too."""

FORMATS = (
    _format(
        "AWS access key", "AKIA ASIA", r"(?![A-Z0-9]{0,9}EXAMPLE)[A-Z2-7]{16}" + _END
    ),  # not AWS's examples
    _format("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{36,255}" + _END),
    _format("GitHub token", "github_pat_", r"[A-Za-z0-9]{22}_[A-Za-z0-9]{59}" + _END),
    _format("GitLab token", "glpat- gldt- glrt- glptt-", r"[A-Za-z0-9_-]{20}"),
    _format("Slack token", "xoxa- xoxb- xoxe- xoxp- xoxr- xoxs-", r"[0-9]{6,20}-[A-Za-z0-9-]{10}"),
    _format("Slack app token", "xapp-", r"[0-9]-[A-Z0-9]{6,20}-[0-9]{6,20}-[a-f0-9]{32}"),
    _format("Slack webhook", "hooks.slack.com/services/", r"T[A-Z0-9]{6,20}/B[A-Z0-9]{6,20}/[A-Za-z0-9]{20}"),
    _format("Anthropic key", "sk-ant-", r"[a-z0-9]{2,10}-[A-Za-z0-9_-]{40}"),
    _format("OpenAI key", "sk-proj- sk-svcacct- sk-admin-", r"[A-Za-z0-9_-]{40}"),
    _format("OpenAI key", "sk-", r"[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}" + _END),
    _format("Google API key", "AIza", r"[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    _format("Google client secret", "GOCSPX-", r"[A-Za-z0-9_-]{28}"),
    _format("Google access token", "ya29.", r"[A-Za-z0-9_-]{40}"),
    _format("Stripe key", "sk_live_ rk_live_ whsec_", r"[A-Za-z0-9]{24}"),
    _format("npm token", "npm_", r"[A-Za-z0-9]{36}" + _END),
    _format("PyPI token", "pypi-AgEIcHlwaS5vcmc pypi-AgENdGVzdC5weXBpLm9yZw", r"[A-Za-z0-9_-]{50}"),
    _format("Docker token", "dckr_pat_", r"[A-Za-z0-9_-]{27}"),
    _format("DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", r"[a-f0-9]{64}" + _END),
    _format("Hugging Face token", "hf_", r"[A-Za-z0-9]{34}" + _END),
    _format("Vault token", "hvs. hvb. hvr.", r"[A-Za-z0-9_-]{24}"),
    _format("SendGrid key", "SG.", r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    _format("Azure storage key", "AccountKey=", r"[A-Za-z0-9+/]{86}=="),
    _format("age key", "AGE-SECRET-KEY-1", r"[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}"),
    _format("delegation token", "vai_dlg_", r"[A-Za-z0-9._-]{20}"),
    _format("private key", "-----BEGIN", r" (?:[A-Z]{2,10} ){0,2}PRIVATE KEY(?: BLOCK)?-----" + _BODY),
    _format("PuTTY key", "PuTTY-User-Key-File-", r"[23]: " + _PUTTY),
    _format(
        "JSON Web Token",
        "eyJ",
        r"[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{20}",
    ),
)
"""The known formats of secrets."""
_WORD = re.compile(rb"[A-Za-z0-9]")
_ESCAPED = re.compile(rb"\\(?:[nrt]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})\Z")
"""An escape sequence, whose last letter is not part of a word: such as the line end in a string literal."""
_LETTERS = string.ascii_letters + string.digits + "+/=_.-"
_RUN = b"\1" * 20
_ZEROS = bytes(20)
_AS_RUNS = bytes(chr(byte) in _LETTERS for byte in range(256))
"""Every secret has at least 20 of these characters in a row; machine code and compressed data seldom do."""


def scan(file: Readable) -> list[FoundSecret]:
    """The secrets in a file, in the order of its lines."""
    found: list[FoundSecret] = []
    line = 1
    for window, fresh in _windows(file):
        runs = window.translate(_AS_RUNS)
        likely = [*(_hits(window) if _RUN in runs else ()), *_wide_hits(window, runs)]
        hits = sorted((place, kind) for place, kind in likely if place < fresh)
        found += [
            FoundSecret(kind, line + window.count(b"\n", 0, place)) for place, kind in hits[:MAX_FINDINGS]
        ]
        if len(found) >= MAX_FINDINGS:
            return found[:MAX_FINDINGS]
        line += window.count(b"\n", 0, fresh)
    return found


def _windows(file: Readable) -> Iterator[tuple[bytes, int]]:
    """Overlapping windows of a file, each with the number of bytes that the next one does not repeat."""
    overlap = b""
    while data := file.read(_WINDOW):
        window = overlap + data
        fresh = max(0, len(window) - _OVERLAP)
        yield window, fresh
        overlap = window[fresh:]
    yield overlap, len(overlap)


def _hits(window: bytes) -> Iterator[tuple[int, str]]:
    for form in FORMATS:
        for start in form.starts:
            place = window.find(start)
            while place >= 0:
                if _starts_word(window, place) and form.rest.match(window, place + len(start)):
                    yield place, form.kind
                place = window.find(start, place + 1)


def _starts_word(window: bytes, place: int) -> bool:
    """Whether no word continues here. An underscore may stand before: TOKEN_ghp_…"""
    inside = place > 0 and _WORD.match(window, place - 1)
    return not inside or _ESCAPED.search(window, max(0, place - 6), place) is not None


def _wide_hits(window: bytes, runs: bytes) -> Iterator[tuple[int, str]]:
    """Secrets in UTF-16, where every other byte is zero. Compressed data has few zeros."""
    some = window[::63]
    if some.count(0) * 100 <= len(some):
        return
    for first in (0, 1):
        if _RUN in runs[first::2] and _ZEROS in window[1 - first :: 2]:
            for place, kind in _hits(window[first::2]):
                yield first + 2 * place, kind
