"""The demo of `make run`: starts plugins, calls them, kills one, and shows the results."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from plughost.config import load_folder
from plughost.contracts.ainb.contract import Ainb
from plughost.errors import PluginError
from plughost.events import Event, Exited, Logged, Subscription
from plughost.host import Host, Plugin
from plughost.services.files.service import FileService
from plughost.spec import PluginSpec
from plughost.wire.messages import ABSENT

PLUGINS = Path("plugins")
WORKER = """
import json, sys, time
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "work":
        print("work has begun", file=sys.stderr, flush=True)
        time.sleep(3600)
    print(json.dumps({"id": request["id"], "result": "back"}), flush=True)
"""
"""A plugin that logs when it begins to work, and is killed long before it could answer."""
STRAY_PRINT = "import sys\nfor line in sys.stdin: print('debug: got', line.strip(), flush=True)"

WIDTH, HEIGHT = 100, 9
"""The size of the screen that is shown, in cells."""

SCREEN_TIMEOUT = 60.0
"""Seconds for the screen to show usage."""

Row = tuple[str, str, str, str]


async def run_tour() -> None:
    """Runs the demo."""
    async with Host() as host:
        print("ready: the tour's host is up", flush=True)
        with host.events() as events:
            _show([row async for row in _rows(host, events)])
        await _usage(host)


async def _rows(host: Host, events: Subscription) -> Any:
    echo = await host.add(PLUGINS / "echo-mcptest")
    tool = await host.add(_with_long_timeouts(load_folder(PLUGINS / "echo-rune")), grants=["tool.execute"])
    hi = {"text": "hi"}
    yield await _step("mcptest, Python", "first call: starts it", lambda: _traced(echo, "echo", hi))
    yield await _step("mcptest, Python", "second call: same process", lambda: _traced(echo, "ping"))
    yield await _step("rune, Python", "one process for one call", lambda: tool.call("echo", hi))
    if (PLUGINS / "echo-mcptest-c/bin/echo").exists():
        in_c = await host.add(PLUGINS / "echo-mcptest-c")
        yield await _step("mcptest, C", "first call: starts it", lambda: _traced(in_c, "echo", [1, 2, 3]))
        yield await _step("mcptest, C", "second call: same process", lambda: _traced(in_c, "echo", [1, 2, 3]))
    yield await _step("mcptest, Python", "the plugin says no", lambda: echo.call("nonsense"))
    yield await _step("rune, Python", "a tool it does not have", lambda: tool.call("nonsense"))
    spec = PluginSpec(contract="mcptest", name="chatty", command=["python3", "-c", STRAY_PRINT])
    chatty = await host.add(spec)
    yield await _step("chatty", "a stray print on the wire", lambda: chatty.call("x", timeout=5))
    spec = PluginSpec(contract="mcptest", name="worker", command=["python3", "-c", WORKER])
    worker = await host.add(spec)
    yield await _step("worker", "killed in the middle of a call", lambda: _kill_during_call(worker, events))
    yield await _notice(events)
    await worker.reload()
    yield await _step("worker", "after a reload", lambda: worker.call("anything"))


def _with_long_timeouts(spec: PluginSpec) -> PluginSpec:
    """A rune plugin with longer timeouts than its contract's defaults, for a busy machine."""
    times = dict.fromkeys(
        ("timeout", "launch_timeout", "handshake_timeout", "teardown_timeout"), SCREEN_TIMEOUT
    )
    return msgspec.structs.replace(spec, options={**spec.options, **times})


async def _step(plugin: str, what: str, act: Callable[[], Awaitable[Any]]) -> Row:
    start = time.perf_counter()
    try:
        result = str(await act())
    except PluginError as error:
        result = f"{type(error).__name__}: {error.message}"
    return plugin, what, result, f"{(time.perf_counter() - start) * 1e3:.2f} ms"


async def _traced(plugin: Plugin, method: str, params: Any = ABSENT) -> str:
    """The result, and the process that it came from."""
    result = await plugin.call(method, params)
    return f"{result} from process {plugin.inspect()['instances'][0]['pid']}"


async def _kill_during_call(plugin: Plugin, events: Subscription) -> Any:
    call = asyncio.create_task(plugin.call("work"))
    begun = asyncio.create_task(_first(events, lambda event: _is_begun(event, plugin)))
    await asyncio.wait([call, begun], return_when=asyncio.FIRST_COMPLETED)
    begun.cancel()
    if not call.done():
        launcher = plugin.inspect()["instances"][0]["pid"]
        os.kill(launcher, signal.SIGKILL)  # the hardest way: not even the launcher can react
    return await call


def _is_begun(event: Event, plugin: Plugin) -> bool:
    return isinstance(event, Logged) and event.plugin == plugin.name and event.message == "work has begun"


async def _notice(events: Subscription) -> Row:
    event = await _first(events, lambda event: isinstance(event, Exited) and event.plugin == "worker")
    assert isinstance(event, Exited)
    return "worker", "events for observers", f"exit status {event.exit_status}", "-"


async def _first(events: Subscription, wanted: Callable[[Event], bool]) -> Event:
    async for event in events:
        if wanted(event):
            return event
    raise SystemExit("the tour's host ended too early")


async def _usage(host: Host) -> None:
    """Shows two plugins that work together: one reads session logs and publishes, the other has a screen."""
    home = (PLUGINS / "session-reader/samples").resolve()
    folders = {"read_claude_logs": home / ".claude/projects", "read_codex_logs": home / ".codex/sessions"}
    host.provide("fs", FileService(folders))
    reader = load_folder(PLUGINS / "session-reader")
    await host.add(msgspec.structs.replace(reader, env={"HOME": str(home)}))
    burndown = Ainb(await host.add(PLUGINS / "burndown"))
    totals = await burndown.cli("usage", ["--by", "project"])
    frame = await _frame(burndown)
    print("\nsession-reader reads sample logs and publishes; the screen of burndown:\n")
    print("\n".join(f"  │{line:<{WIDTH}}│" for line in frame))
    print("\nand its command line, plughost x usage --by project:\n")
    print(totals.stdout.decode() + totals.stderr.decode(), end="")


async def _frame(screen: Ainb) -> list[str]:
    """The lines of the screen, once it shows usage."""
    end = time.monotonic() + SCREEN_TIMEOUT
    while True:
        buffer = (await screen.render(WIDTH, HEIGHT)).buffer
        cells = {(place.x, place.y): cell.symbol for place, cell in buffer.inside()}
        lines = ["".join(cells.get((x, y), " ") for x in range(WIDTH)) for y in range(HEIGHT)]
        if "tokens" in lines[0]:
            return lines
        if time.monotonic() > end:
            raise SystemExit(f"the screen of burndown showed no usage within {SCREEN_TIMEOUT:g} s")
        await asyncio.sleep(0.02)


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
    asyncio.run(run_tour())
