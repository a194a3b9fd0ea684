"""Parses the shebang (`#!`), the first line of a script, as the kernel and `env` read it."""

from __future__ import annotations

import os
import re
import shlex
from typing import NamedTuple

from plughost._util.text import escape_controls
from plughost.errors import SandboxUnavailable
from plughost.sandbox.resolve.elf import open_file

ENV = ("env", "/usr/bin/env", "/bin/env")
LONGEST = 256
"""The kernel reads no more of a shebang."""

_SPLIT = re.compile(r"-v*S|--split-string[= ]")


class Shebang(NamedTuple):
    """The interpreter of a script and its arguments."""

    interpreter: str
    words: tuple[str, ...]
    """The arguments of the interpreter before the script's own path."""
    by_name: bool = False
    """Whether `env` looks the interpreter up on PATH."""


def read_shebang(path: str) -> Shebang | None:
    """The shebang of a file; None when it is not a script, SandboxUnavailable when it is unclear what would
    run it."""
    try:
        return parse(_head(path))
    except ValueError as error:
        raise SandboxUnavailable(
            f"the first line of {path} cannot be used in a sandbox: {error}. There, `env` can only name an "
            "interpreter and its arguments, without options and variables",
            hint="write a line such as #!/usr/bin/env python3, and set variables with `env` in plughost.toml",
        ) from None


def interpreter(path: str) -> str | None:
    """The program that the kernel runs a script with, which may be `env`; None when the file is not a
    script."""
    head = _head(path)
    words = os.fsdecode(_line(head)).split() if head.startswith(b"#!") else []
    return words[0] if words and words[0].startswith("/") else None


def parse(head: bytes) -> Shebang | None:
    """Parse the first bytes of a file; None when it is not a script, ValueError for an `env` line that says
    more than which interpreter to run."""
    if not head.startswith(b"#!"):
        return None
    line = os.fsdecode(_line(head)).strip(" \t")
    interpreter, _, rest = line.replace("\t", " ").partition(" ")
    rest = rest.strip(" ")
    if not interpreter:
        return None
    if os.path.basename(interpreter) == "env" and rest:
        return _parse_env(rest, line)
    return Shebang(interpreter, (rest,) if rest else ())


def _head(path: str) -> bytes:
    fd = open_file(path)
    if fd is None:
        return b""
    try:
        return os.pread(fd, LONGEST, 0)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _line(head: bytes) -> bytes:
    return re.split(rb"[\n\0]", head[2:], maxsplit=1)[0]


def _parse_env(rest: str, line: str) -> Shebang:
    """The shebang of an `env` line. The kernel passes everything after `env` as one argument; only `-S`
    splits it."""
    words = [rest]
    if (split := _SPLIT.match(rest)) is not None:
        try:
            words = shlex.split(rest[split.end() :])
        except ValueError:
            words = []
    if not words or words[0].startswith("-") or "=" in words[0]:
        raise ValueError(f"#!{escape_controls(line)}")
    return Shebang(words[0], tuple(words[1:]), by_name="/" not in words[0])


def without_env(command: tuple[str, ...]) -> tuple[str, ...]:
    """Drop a leading `env`: `/usr/bin/env node main.js` is `node main.js`. env only looks the name up, and
    need not be visible."""
    if len(command) < 2 or command[0] not in ENV or command[1].startswith("-") or "=" in command[1]:
        return command
    return command[1:]
