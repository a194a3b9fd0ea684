"""What goes to stdout (answers) and to stderr (words for people)."""

from __future__ import annotations

import os
import sys
from typing import Any, BinaryIO

import msgspec

from plughost.base.errors import PluginError


def answer(document: Any) -> None:
    """One JSON document on stdout; a Raw one as the plugin wrote it."""
    try:
        # A plugin's own JSON is passed on as it is, but on one line: outside of strings LF is white space.
        sys.stdout.buffer.write(msgspec.json.encode(document).replace(b"\n", b" ") + b"\n")
        sys.stdout.buffer.flush()
    except OSError as error:
        # What is still buffered must not fail once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # whoever read it has seen enough
            raise SystemExit(141) from None
        raise


def write(stream: BinaryIO, data: bytes) -> None:
    """Bytes as they are."""
    try:
        stream.write(data)
        stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise SystemExit(141) from None


def print_line(text: str) -> None:
    """A line for people that is an answer, and so goes to stdout."""
    write(sys.stdout.buffer, text.encode(errors="backslashreplace") + b"\n")


def say(text: str) -> None:
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError as error:  # nobody is left to tell but by the exit code
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
        raise SystemExit(3) from error


def failure(error: PluginError, *, as_json: bool) -> None:
    if as_json:
        answer({"error": error.report()})
    else:
        say(error.explain())
