"""The terminal's own end: odd bytes, signals, and leaving it as it was."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from tests.support.screens import OURS, PATIENCE, easel, inputs, screen_command

pytestmark = pytest.mark.serial

CANONICAL = termios.ICANON | termios.ECHO
LEFT = b"\x1b[?1049l"


class Line:
    """A pseudo-terminal with a command on it."""

    def __init__(self, *words: str) -> None:
        self.ours, theirs = pty.openpty()
        self.shown = bytearray()
        env = {**os.environ, "PYTHONPATH": OURS, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *screen_command(*words)], stdin=theirs, stdout=theirs, stderr=theirs,
            env=env, cwd=ROOT,
        )  # fmt: skip
        self.theirs = theirs
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                self.shown += os.read(self.ours, 65536)
            except OSError:
                return

    def send(self, data: bytes) -> None:
        os.write(self.ours, data)

    def until(self, seen: Callable[[], Any]) -> None:
        end = time.monotonic() + PATIENCE
        while not seen():
            assert time.monotonic() < end, bytes(self.shown[-2000:])
            time.sleep(0.01)

    @property
    def is_canonical(self) -> bool:
        return termios.tcgetattr(self.theirs)[3] & CANONICAL == CANONICAL


@contextmanager
def line(folder: Path, **env: str) -> Iterator[tuple[Line, Path]]:
    noted = folder / "inputs"
    shown = Line(str(easel(folder, env={"INPUTS": str(noted), **env})))
    try:
        shown.until(lambda: b"nothing yet" in shown.shown)
        yield shown, noted
    finally:
        shown.process.kill()
        shown.process.wait()
        os.close(shown.theirs)
        os.close(shown.ours)


def typed(noted: Path) -> list[str]:
    return [params["key"]["code"].get("ch", "") for kind, params, _ in inputs(noted) if kind == "key"]


@pytest.mark.clause("AINB-26")
def test_odd_bytes_and_sequences_do_not_end_it(tmp_path):
    with line(tmp_path) as (shown, noted):
        for odd in (
            b"\xff",
            b"\x80",
            b"\xf0\x9fx",
            b"\x1b[97;1:3u",
            b"\x1b[1114112u",
            b"\x1b[55296u",
            b"\x1b[0u",
        ):
            shown.send(odd)
        shown.send("zé".encode())
        shown.until(lambda: typed(noted)[-2:] == ["z", "é"])
        assert set(typed(noted)) <= {"\ufffd", "x", "z", "é"}
        shown.send(b"\x11")
        assert shown.process.wait(PATIENCE) == 0
        assert shown.is_canonical


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_who_is_told_to_go_says_so_and_leaves_the_terminal_as_it_was(tmp_path, number):
    with line(tmp_path) as (shown, _):
        assert not shown.is_canonical
        shown.process.send_signal(number)
        assert shown.process.wait(PATIENCE) == 128 + number
        shown.until(lambda: LEFT in shown.shown)
        assert shown.is_canonical


def test_pressing_ctrl_c_again_and_again_leaves_at_once_and_the_terminal_as_it_was(tmp_path):
    with line(tmp_path) as (shown, _):
        start = time.monotonic()
        while shown.process.poll() is None and time.monotonic() - start < PATIENCE:
            shown.process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        assert shown.process.wait(PATIENCE) == 130
        shown.until(lambda: LEFT in shown.shown)
        assert shown.is_canonical


def test_who_was_stopped_goes_on_as_before(tmp_path):
    with line(tmp_path) as (shown, noted):
        for _ in range(3):
            shown.process.send_signal(signal.SIGSTOP)
            shown.process.send_signal(signal.SIGCONT)
        shown.send(b"\x1b[200~" + b"y" * 1000 + b"\x1b[201~z")
        shown.until(lambda: typed(noted)[-1:] == ["z"])
        assert len(typed(noted)) == 1001, "each once: by one thread"
        shown.send(b"\x11")
        assert shown.process.wait(PATIENCE) == 0


def test_who_suspends_it_gets_the_terminal_back_meanwhile(tmp_path):
    with line(tmp_path) as (shown, noted):
        shown.process.send_signal(signal.SIGTSTP)
        shown.until(lambda: LEFT in shown.shown and shown.is_canonical)
        shown.process.send_signal(signal.SIGCONT)
        shown.until(lambda: not shown.is_canonical)
        shown.send(b"z")
        shown.until(lambda: typed(noted) == ["z"])
