"""`plughost dev`: runs a plugin under development, restarts it on every change and shows its traffic and
logs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from plughost import interrupt
from plughost._util.text import TruncatedText
from plughost.cli.dev import file_watch
from plughost.cli.dev.build import Build
from plughost.cli.dev.frame_log import FrameLog, readable, shorten
from plughost.cli.dev.stdin_lines import StdinLines
from plughost.cli.options import targets
from plughost.cli.ui.dev_output import DevOutput
from plughost.cli.ui.event_text import event_text, is_repetition
from plughost.cli.ui.line_writer import LineWriter
from plughost.errors import InvalidSpec, PluginError
from plughost.events import Logged, Subscription
from plughost.host import Host, Plugin
from plughost.services.logs import MAX_MESSAGE
from plughost.spec import PluginSpec
from plughost.wire.messages import ABSENT

INTERVAL = 0.2
"""Seconds between two scans of the files."""
START = 0.4
"""Seconds that a plugin without a handshake must have lived to be called ready."""
SETTLE = 0.05
"""Seconds between rescans of files that are being written, until they no longer change."""


@click.command()
@targets.adjusting
@click.option("--build", metavar="CMD", help="Command to run in DIR before every start.")
@click.option(
    "--ignore",
    multiple=True,
    metavar="GLOB",
    help="Files and folders to ignore, such as the plugin's own data; can be repeated.",
)
@click.option("--until-eof", is_flag=True, help="Exit at the end of stdin, once its calls are answered.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one document per line.")
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
def dev(
    target: targets.Target,
    folder: Path,
    build: str | None,
    ignore: tuple[str, ...],
    until_eof: bool,
    as_json: bool,
) -> None:
    """Run a plugin and restart it whenever a file changes.

    Shows stderr, changes of state, errors, and every message with its size and time. A line on stdin is a
    call: METHOD, optionally followed by its params as JSON.

    \b
    Examples:
      plughost dev plugins/echo-mcptest
      plughost dev plugins/echo-mcptest-go --build 'go build -o bin/echo echo.go'
      plughost dev plugins/notes --grant declared --allow read=~/notes
    """
    interrupt.run(_dev(target, folder, build, ignore, as_json=as_json, until_eof=until_eof))


async def _dev(
    target: targets.Target,
    folder: Path,
    build: str | None,
    ignore: Sequence[str],
    *,
    as_json: bool,
    until_eof: bool,
) -> None:
    loop = asyncio.get_running_loop()
    asked_to_end = asyncio.Event()
    interrupt.ask_to_end(lambda _: asked_to_end.set(), signal.SIGINT, signal.SIGTERM)
    out = LineWriter(1, lambda: loop.call_soon_threadsafe(asked_to_end.set))
    screen = DevOutput(out, as_json=as_json)
    async with Host(tap=FrameLog(screen)) as host:
        with host.events() as events:
            session = DevSession(host, target, folder, screen, build, ignore)
            printing = asyncio.create_task(_print_events(events, screen))
            running = asyncio.create_task(session.keep())
            running.add_done_callback(lambda _: asked_to_end.set())
            async with StdinLines(session.call) as typed:
                ends: list[asyncio.Task[Any]] = [asyncio.create_task(asked_to_end.wait())]
                if until_eof or os.isatty(0):
                    ends.append(asyncio.create_task(session.until_answered(typed)))
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in (running, *ends):
                task.cancel()
            await asyncio.wait([running])
            await interrupt.close(host)
        await printing
    if not running.cancelled():
        running.result()
    if not await asyncio.to_thread(out.finish):
        raise OSError(out.problem or "the output was closed")


async def _print_events(events: Subscription, screen: DevOutput) -> None:
    async for event in events:
        if is_repetition(event):
            continue
        fields = {name: getattr(event, name) for name in event.__struct_fields__ if name != "at"}
        fields.update({name: readable(raw) for name, raw in fields.items() if isinstance(raw, msgspec.Raw)})
        words = event_text(event)[0]  # the stderr tail was shown as it was written
        kind, who = type(event).__name__.lower(), f"{event.plugin}#{event.generation}"
        if isinstance(event, Logged) and len(event.message) >= MAX_MESSAGE:  # it has been cut
            fields["message"] = TruncatedText(event.message, is_cut=True)
            screen.show(kind, who, TruncatedText(words, is_cut=True), **fields)
        else:
            screen.show(kind, f"{who} {words}", **fields)


class DevSession:
    """Keeps the plugin of one folder running, as the folder is now."""

    def __init__(
        self,
        host: Host,
        target: targets.Target,
        folder: Path,
        screen: DevOutput,
        build: str | None,
        ignored: Sequence[str],
    ) -> None:
        self._host = host
        self._target = target
        self._folder = folder
        self._screen = screen
        self._build = None if build is None else Build(build, folder, screen)
        self._ignored = ignored
        self._seen: file_watch.Look = {}
        self._ready = asyncio.Event()

    async def keep(self) -> None:
        """Builds and starts the plugin, and again after every change. An error is shown, and the next change
        awaited."""
        self._seen = await self._look()
        while True:
            self._ready.clear()
            changes = await self._build_and_start()
            self._ready.set()
            files = changes or await self._changes()
            shown = ", ".join(files[:5]) + (" …" if len(files) > 5 else "")
            self._screen.show("changed", f"changed: {shown}", files=files[:100])

    async def _build_and_start(self) -> list[str]:
        """Builds and starts the plugin; returns the files that changed meanwhile."""
        if self._build is None:
            await self._start()
            return []
        before = self._seen
        with contextlib.suppress(PluginError):  # the folder may become a plugin only by the build
            self._spec()
        well = await self._build.run()
        self._seen = await self._look()
        changes = self._build.others(before, self._seen)
        if well and not changes:
            await self._start()
        return changes

    async def _start(self) -> None:
        for name in self._host.plugins:
            await self._host.remove(name)
        try:
            spec = self._spec()
            plugin = await self._host.add(spec, start=False)
            plugin.redactor.add_from(
                self._screen.redactor
            )  # its output is truncated before the screen gets it
            await plugin.start()
            means = await self._settle(plugin)
        except PluginError as error:
            self._screen.error(error)
        else:
            words = f"ready: {spec.name} ({spec.contract}): {means}"
            self._screen.show("ready", words, plugin=spec.name, contract=spec.contract, means=means)

    async def _settle(self, plugin: Plugin) -> str:
        """Returns what `ready` means for a plugin that was started. One without a handshake must live for a
        moment first, or its failure is raised: many programs fail while they import their modules."""
        lifecycle = plugin.inspect()["lifecycle"]
        if lifecycle["start"] == "per call":
            return "each call starts a process"
        if lifecycle["handshake"]:
            return "its handshake is done"
        end = time.monotonic() + START
        while time.monotonic() < end:
            if plugin.failure is not None:
                raise plugin.failure.copy()
            await asyncio.sleep(START / 20)
        return (
            f"it has run for {START:g} s; {plugin.contract} has no handshake, so only a call shows whether "
            "it works"
        )

    def _spec(self) -> PluginSpec:
        """The spec of the folder as it is now. The values of its environment variables are redacted from here
        on."""
        spec = self._target.adjusted(self._target.in_folder(self._folder))
        self._screen.hide(spec.env)
        return spec

    async def _look(self) -> file_watch.Look:
        return await asyncio.to_thread(file_watch.look, self._folder, self._ignored)

    async def _changes(self) -> list[str]:
        """Waits until files have changed and are stable again."""
        while True:
            await asyncio.sleep(INTERVAL)
            now = await self._look()
            while (later := await self._later()) != now:
                now = later
            files, self._seen = file_watch.changed(self._seen, now), now
            if self._build is not None:
                files = self._build.only_sources(files)
            if files:
                return files

    async def _later(self) -> file_watch.Look:
        await asyncio.sleep(SETTLE)
        return await self._look()

    async def until_answered(self, typed: StdinLines) -> None:
        """Waits until stdin has ended and all its calls are answered; the plugin is started at least once."""
        await self._ready.wait()
        await typed.answered()

    async def call(self, line: str) -> None:
        """Makes the call on a line of stdin: METHOD and optional JSON params."""
        method, _, text = line.strip().partition(" ")
        if not method:
            return
        await self._ready.wait()
        start = time.monotonic()
        try:
            answer = bytes(await self._call(method, text))
        except PluginError as error:
            self._screen.error(error)
        else:
            took = (time.monotonic() - start) * 1000
            words, result = f"{method} answered in {took:.1f} ms:", readable(answer)
            self._screen.show("answer", words, shorten(answer), method=method, ms=took, result=result)

    async def _call(self, method: str, text: str) -> msgspec.Raw:
        try:
            params = msgspec.json.decode(text) if text.strip() else ABSENT
        except (ValueError, RecursionError) as error:
            raise InvalidSpec(
                f"the params are not JSON: {error}", hint='type METHOD {"name": "value"}'
            ) from error
        for plugin in self._host.plugins.values():
            answer: msgspec.Raw = await plugin.call(method, params, type=msgspec.Raw)
            return answer
        raise InvalidSpec(
            "there is no plugin to call", hint="fix the plugin: it is started again when a file changes"
        )
