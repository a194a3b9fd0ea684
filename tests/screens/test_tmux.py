"""Screens in a real terminal, as somebody sits before it."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from pathlib import Path

import pytest

from tests.support import all_gone, plugin_process, processes, until
from tests.support.screens import OURS, Terminal, easel, screen_command

pytestmark = pytest.mark.serial

HOSTILE = [
    "\x1b[2J",
    "\x1b[H",
    "\r",
    "\n",
    "\x07",
    "\x9b2J",
    "\u200b",
    "\u202e",
    "o" + "\u0301" * 500,
    "\x1b]0;x\x07",
]
ROWS = [
    [*"wide ", "漢", "", "字", "", "|"],
    [*"marks ", "e\u0301", "q\u0323", "|"],
    [*"family ", "👨‍👩‍👧", "", "|"],
    [*HOSTILE, "|"],
    [*"☰Menu㉈䷀", "𝌀", "|"],
]


@pytest.mark.clause("AINB-22", "AINB-40")
async def test_a_screen_is_drawn_with_colours_wide_marked_and_hostile_cells_and_ctrl_q_leaves_nothing(
    tmp_path,
):
    place = easel(tmp_path, env={"ROWS": json.dumps(ROWS)})
    with Terminal(screen_command(str(place)), columns=70, rows=12) as terminal:
        screen = terminal.until(lambda screen: "70x11" in screen and "\ufffd|" in screen)  # all of it
        lines = screen.splitlines()
        assert lines[3].rstrip() == "wide 漢字|"
        assert lines[4].rstrip() == "marks eq|".replace("e", "é").replace("q", "q\u0323")
        assert lines[5].rstrip() == "family 👨|"
        assert lines[6].rstrip() == "\ufffd" * 8 + "ó" + "\u0301" * 3 + "\ufffd|"
        assert lines[7].rstrip() == "\ufffdMenu" + "\ufffd" * 3 + "|"
        assert re.search(
            r"easel/main  Running  \d+\.\d ms +\d+/s  \d+ dropped .*Ctrl\+Q leaves", terminal.until("Running")
        )
        assert re.search(r"\x1b\[1m(\x1b\[\d+m)*\x1b\[38;5;196m70x11", terminal.screen(colours=True))
        assert terminal.modes() == "1 1 0"

        terminal.press("x")
        terminal.until("key x 0")
        terminal.press("C-c")
        terminal.until("key c 2")
        terminal.type("\x1b[<0;5;3M")
        terminal.until("mouse down 4,2")
        terminal.type("\x1b[<0;5;3m\x1b[<0;99999;99999M")
        terminal.press("y")
        terminal.until("key y 0")
        terminal.resize(50, 8)
        terminal.until("50x7")

        terminal.press("C-q")
        screen = terminal.until(lambda screen: re.search(r"left with \d+\n\d", screen))
        assert re.search(r"left with 0\n1\n", screen), "the terminal is as it was"
        assert terminal.modes() == "0 0 1"
        await all_gone(f"{place}/easel")


@pytest.mark.clause("AINB-22", "AINB-61")
async def test_dead_and_hung_plugins_are_shown_as_such_and_the_host_goes_on(tmp_path):
    easel(tmp_path, "sick", backoff=[5.0])
    easel(tmp_path, "well")
    with Terminal(screen_command("--root", str(tmp_path)), rows=16) as terminal:
        terminal.until("sick/main  Running")
        terminal.until("80x14")
        os.kill(plugin_process(f"{tmp_path}/sick/sick"), signal.SIGKILL)
        terminal.until(lambda screen: "sick has crashed" in screen and "it was killed by SIGKILL" in screen)
        terminal.press("C-NPage")
        terminal.until("well/main  Running")
        terminal.press("x")
        terminal.until("key x")
        terminal.press("C-PPage")
        # It was started again by itself. The other one is as large, so that alone says little.
        terminal.until(lambda screen: "sick/main  Running" in screen and "nothing yet" in screen)
        terminal.press("h")
        terminal.until("sick is unresponsive")
        terminal.press("r")
        terminal.until("nothing yet")
        terminal.press("C-q")
        terminal.until("left with 0")
        await all_gone(f"{tmp_path}/well/well")
        await all_gone(f"{tmp_path}/sick/sick")


@pytest.mark.clause("AINB-61")
async def test_a_quarantined_plugin_is_shown_with_its_last_words_and_can_be_restarted(tmp_path):
    with Terminal(named(easel(tmp_path, failure_limit=1))) as terminal:
        terminal.until("80x23")
        terminal.press("c")
        screen = terminal.until("ouch, said the easel\\x1b[2J")
        assert "easel is quarantined" in screen
        assert "it exited with code 3" in screen
        terminal.until("easel/main  Quarantined")
        terminal.press("r")
        terminal.until("80x23")


async def test_rows_that_have_not_changed_are_not_drawn_again(tmp_path):
    log = tmp_path / "drawn"
    with Terminal(screen_command(str(easel(tmp_path, env={"MOVING": "1"})))) as terminal:
        terminal.until(lambda screen: all(part in screen for part in ("80x23", "counting", "Running")))
        terminal.record(log)
        await until(lambda: log.exists() and log.read_bytes().count(b"counting") > 20)
        drawn = log.read_bytes()
        assert b"nothing yet" not in drawn
        assert b"80x23" not in drawn
        places = set(re.findall(rb"\x1b\[(\d+);1H", drawn))
        assert places <= {b"1", b"3", b"24"}, "where the cursor rests, the row that moves, the status"


@pytest.mark.parametrize("how", ["hangs up", "SIGTERM"])
async def test_when_the_terminal_or_the_user_is_gone_so_is_everything(tmp_path, how):
    place = easel(tmp_path, env={"MOVING": "1"})
    with Terminal(screen_command(str(place), "--fps", "60")) as terminal:
        terminal.until("80x23")
        if how == "hangs up":
            terminal.hang_up()
        else:
            [host] = [pid for pid in processes(str(place)) if b"\0plughost.cli" in command(pid)]
            os.kill(host, signal.SIGTERM)
            screen = terminal.until(lambda screen: re.search(r"left with \d+\n\d", screen))
            assert re.search(r"left with \d+\n1\n", screen)
        await all_gone(f"{place}/easel", within=30)


async def test_a_terminal_that_sends_no_signal_is_missed_all_the_same(tmp_path):
    place = easel(tmp_path, env={"MOVING": "1"})
    host, ours = in_terminal(screen_command(str(place)))
    read_until(ours, b"counting")
    os.close(ours)
    await until(lambda: host.poll() is not None)
    assert host.returncode == 128 + signal.SIGHUP
    await all_gone(f"{place}/easel", within=30)


def in_terminal(words: list[str]) -> tuple[subprocess.Popen[bytes], int]:
    """A program in a terminal that is not its controlling one, and the terminal's other end."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    env = {**os.environ, "PYTHONPATH": OURS, "TERM": "xterm-256color"}
    program = subprocess.Popen(words, stdin=its, stderr=its, stdout=its, env=env, start_new_session=True)
    os.close(its)
    return program, ours


def read_until(terminal: int, seen: bytes) -> None:
    drawn = b""
    while seen not in drawn:
        drawn += os.read(terminal, 4096)


def command(pid: int) -> bytes:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()


@pytest.mark.clause("AINB-29")
async def test_a_terminal_that_takes_nothing_does_not_stop_the_host(tmp_path):
    """Nobody reads what is drawn; a plugin that dies is started again all the same."""
    rows = [[chr(65 + (x + y) % 26) for x in range(100)] for y in range(20)]
    count = tmp_path / "count"
    env = {"MOVING": "1", "ROWS": json.dumps(rows), "FRAMES": str(count)}
    program = f"{easel(tmp_path, env=env, backoff=[0.05], failure_limit=99)}/easel"
    host, ours = in_terminal([*named(Path(program).parent), "--fps", "60"])
    dead = 0
    try:
        read_until(ours, b"counting")
        await standstill(count)
        for _ in range(2):
            alive = await until(lambda: (pid := there(program)) != dead and pid)
            os.kill(alive, signal.SIGKILL)
            dead = alive
    finally:
        host.kill()
        host.wait()
        os.close(ours)
    await all_gone(program, within=30)


def named(place: Path) -> list[str]:
    """With the folder's own file as the operator's word."""
    return screen_command(str(place), "-c", str(place / "plughost.toml"))


async def standstill(count: Path) -> None:
    """No frame was asked for in half a second."""
    size = -1
    while (now := count.stat().st_size) != size:
        size = now
        await asyncio.sleep(0.5)


def there(program: str) -> int | None:
    try:
        return plugin_process(program)
    except (AssertionError, OSError):
        return None
