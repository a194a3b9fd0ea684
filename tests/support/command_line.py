"""The command line in this very process, for tests in which the process is not the point: it starts at once."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

from plughost.cli.main import main


def run_here(*words: str, stdin: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run `plughost WORDS...`: what it writes, and the exit code that the shell would see."""
    given, out, err = _stream(stdin), _stream(), _stream()
    before = sys.stdin
    sys.stdin = given
    try:
        with (
            contextlib.chdir(cwd or os.getcwd()),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = _exit_code(words)
    finally:
        sys.stdin = before
    return subprocess.CompletedProcess(words, code, _text(out), _text(err))


def _exit_code(words: tuple[str, ...]) -> int:
    try:
        main([*words])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def _stream(text: str = "") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8", newline="")


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode()
