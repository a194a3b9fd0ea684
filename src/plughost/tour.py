"""`make run`: the host at work. Starts plugins, calls them, kills one, shows what came of it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from plughost.base.errors import PluginError
from plughost.base.events import Exited, Subscription
from plughost.config import of_folder
from plughost.contracts.ainb import Ainb
from plughost.contracts.contract import PluginSpec
from plughost.host import Host, Plugin
from plughost.services.desks import FileDesk

PLUGINS = Path("plugins")
STRAY_PRINT = "import sys\nfor line in sys.stdin: print('debug: got', line.strip(), flush=True)"

WIDTH, HEIGHT = 100, 9
"""Of the screen that is shown."""

Row = tuple[str, str, str, str]


async def tour() -> None:
    async with Host() as host:
        print("ready: the tour's host is up", flush=True)
        with host.events() as events:
            _show([row async for row in _rows(host, events)])
        await _usage(host)


async def _rows(host: Host, events: Subscription) -> Any:
    echo = await host.add(PLUGINS / "echo-mcptest")
    tool = await host.add(PLUGINS / "echo-rune", grants=["tool.execute"])
    yield await _step("mcptest, Python", "first call: starts it", lambda: echo.call("echo", {"text": "hi"}))
    yield await _step("mcptest, Python", "second call: same process", lambda: echo.call("ping"))
    yield await _step("rune, Python", "one process for one call", lambda: tool.call("echo", {"text": "hi"}))
    if (PLUGINS / "echo-mcptest-c/bin/echo").exists():
        in_c = await host.add(PLUGINS / "echo-mcptest-c")
        yield await _step("mcptest, C", "first call: starts it", lambda: in_c.call("echo", [1, 2, 3]))
        yield await _step("mcptest, C", "second call: same process", lambda: in_c.call("echo", [1, 2, 3]))
    yield await _step("mcptest, Python", "the plugin says no", lambda: echo.call("nonsense"))
    yield await _step("rune, Python", "a tool it does not have", lambda: tool.call("nonsense"))
    spec = PluginSpec(contract="mcptest", name="chatty", command=["python3", "-c", STRAY_PRINT])
    chatty = await host.add(spec)
    yield await _step("chatty", "a stray print on the wire", lambda: chatty.call("x", timeout=5))
    yield await _step("mcptest, Python", "killed in the middle of a call", lambda: _kill_during_call(echo))
    yield await _notice(events)
    await echo.reload()
    yield await _step("mcptest, Python", "after a reload", lambda: echo.call("echo", {"text": "back"}))


async def _step(plugin: str, what: str, act: Callable[[], Awaitable[Any]]) -> Row:
    start = time.perf_counter()
    try:
        came = str(await act())
    except PluginError as error:
        came = f"{type(error).__name__}: {error.message}"
    return plugin, what, came, f"{(time.perf_counter() - start) * 1e3:.2f} ms"


async def _kill_during_call(plugin: Plugin) -> Any:
    call = asyncio.create_task(plugin.call("echo", {"text": "never seen"}))
    launcher = plugin.inspect()["instances"][0]["pid"]
    os.kill(launcher, signal.SIGKILL)  # the hardest way: not even the launcher can react
    return await call


async def _notice(events: Subscription) -> Row:
    while True:
        event = await events.get()
        if isinstance(event, Exited) and event.plugin == "echo":
            return "mcptest, Python", "what observers were told", f"exit status {event.exit_status}", "-"


async def _usage(host: Host) -> None:
    """Two plugins that work together: one reads session logs and publishes, the other has a screen."""
    home = (PLUGINS / "session-reader/samples").resolve()
    folders = {"read_claude_logs": home / ".claude/projects", "read_codex_logs": home / ".codex/sessions"}
    host.provide("fs", FileDesk(folders))
    reader = of_folder(PLUGINS / "session-reader")
    await host.add(msgspec.structs.replace(reader, env={"HOME": str(home)}))
    burndown = Ainb(await host.add(PLUGINS / "burndown"))
    totals = await burndown.cli("usage", ["--by", "project"])
    frame = await _frame(burndown)
    print("\nsession-reader reads sample logs and publishes; the screen of burndown:\n")
    print("\n".join(f"  │{line:<{WIDTH}}│" for line in frame))
    print("\nand its command line, plughost x usage --by project:\n")
    print(totals.stdout.decode() + totals.stderr.decode(), end="")


async def _frame(screen: Ainb) -> list[str]:
    """Once there is something on it."""
    for _ in range(500):
        buffer = (await screen.render(WIDTH, HEIGHT)).buffer
        cells = {(place.x, place.y): cell.symbol for place, cell in buffer.inside()}
        lines = ["".join(cells.get((x, y), " ") for x in range(WIDTH)) for y in range(HEIGHT)]
        if "tokens" in lines[0]:
            break
        await asyncio.sleep(0.02)
    return lines


def _show(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("plugin", "what", "what came of it", "time", title="plughost tour")
    for row in rows:
        table.add_row(*row)
    Console(width=None if os.isatty(1) else 120).print(table)


if __name__ == "__main__":
    if not PLUGINS.is_dir():
        raise SystemExit("the tour shows the plugins of this repository: run it from its root (make run)")
    asyncio.run(tour())
