"""`plughost` on pseudo-terminals, one for stdout and one for stderr, and what they were sent."""

from __future__ import annotations

import os
import re
import selectors
import signal
import sys
import termios
import time
import traceback
from pathlib import Path
from typing import NamedTuple, NoReturn

from plughost.cli.main import main

EVIL = "\x1b[38;5;199mred\x1b]0;title\x07\x9b31m\x85\x7f\x08\r\u202eesrever\u2066\u200f\u2028\ufeff\ue000[/bold][red]"
"""Everything that a terminal, or rich, would obey; with a colour that plughost itself never uses."""
SGR = re.compile(r"\x1b\[[0-9;]*m")
PATIENCE = 60.0


class Seen(NamedTuple):
    code: int
    out: bytes
    err: bytes


def run(*words: str, cwd: Path, enough: bytes | None = None, env: dict[str, str] | None = None) -> Seen:
    """Run `plughost WORDS` to its end; with `enough`, until stdout or stderr shows that, then Ctrl-C.

    A fork of this process, where everything is imported already: a second less for each of many commands.
    """
    ours, theirs = zip(*(os.openpty() for _ in range(2)), strict=True)
    for slave in theirs:
        flags = termios.tcgetattr(slave)
        flags[1] &= ~termios.OPOST  # the terminal itself adds no carriage returns
        termios.tcsetattr(slave, termios.TCSANOW, flags)
    child = os.fork()
    if not child:
        _be_plughost(words, cwd, theirs, {"TERM": "xterm-256color", "COLUMNS": "200", **(env or {})})
    for slave in theirs:
        os.close(slave)
    said = dict.fromkeys(ours, b"")
    end = time.monotonic() + PATIENCE
    status: int | None = None
    try:
        with selectors.DefaultSelector() as watched:
            for master in ours:
                watched.register(master, selectors.EVENT_READ)
            while watched.get_map():
                assert time.monotonic() < end, (words, said)
                for key, _ in watched.select(1.0):
                    try:
                        data = os.read(key.fd, 65536)
                    except OSError:  # whoever had it open has ended
                        data = b""
                    said[key.fd] += data
                    if not data:
                        watched.unregister(key.fd)
                if enough is not None and any(enough in each for each in said.values()):
                    os.kill(child, signal.SIGINT)
                    enough = None
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return Seen(status, *said.values())
    finally:
        if status is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        for master in ours:
            os.close(master)


def _be_plughost(
    words: tuple[str, ...], cwd: Path, streams: tuple[int, ...], env: dict[str, str]
) -> NoReturn:
    code: object = 70
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.update(env)
        os.chdir(cwd)
        for number, stream in enumerate((os.open(os.devnull, os.O_RDONLY), *streams)):
            os.dup2(stream, number)
        sys.stdin, sys.stdout, sys.stderr = (open(number, mode) for number, mode in enumerate("rww"))
        try:
            main([*words])
            code = 0
        except SystemExit as ended:
            code = ended.code
            if isinstance(code, str):
                sys.stderr.write(code)
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code if isinstance(code, int) else 1 if code else 0)


def obeyed(said: bytes) -> list[str]:
    """What a terminal would obey in there, beside colours of our own."""
    text = said.decode(errors="backslashreplace")
    if "\x1b[38;5;199m" in text:
        return ["a stranger's colour"]
    return sorted(
        {ascii(each) for each in SGR.sub("", text) if not each.isprintable() and each not in "\n\t"}
    )
