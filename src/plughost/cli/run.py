"""`plughost run`: keep plugins running and tell what happens to them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence

import click

from plughost.base.errors import InvalidSpec, PluginError
from plughost.base.events import Dropped, Event, Exited, Notified, Spawned, StateChanged
from plughost.cli import output, targets
from plughost.contracts.contract import PluginSpec
from plughost.host import Host, Plugin


@click.command()
@targets.options
@click.option("--json", "as_json", is_flag=True, help="Events as one JSON document per line.")
@click.argument("words", nargs=-1, metavar="[TARGET...]")
def run(
    target: targets.Target,
    as_json: bool,
    words: tuple[str, ...],
) -> None:
    """Start plugins and watch them until Ctrl-C. With no TARGET: all that plughost.toml binds."""
    specs = target.all(words)
    if not specs:
        raise InvalidSpec("the file binds no plugin")
    asyncio.run(_run(specs, as_json))


async def _run(specs: Sequence[PluginSpec], as_json: bool) -> None:
    loop = asyncio.get_running_loop()
    asked_to_end = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked_to_end.set)
    async with Host() as host:
        with host.events() as events:
            telling = asyncio.create_task(_tell(events, as_json))
            plugins = [await host.add(spec) for spec in specs]
            for plugin in plugins:
                await _start(plugin, as_json)
            if not as_json:
                output.say(f"ready: {', '.join(plugin.name for plugin in plugins)}; Ctrl-C ends them")
            ending = asyncio.create_task(asked_to_end.wait())
            await asyncio.wait({ending, telling}, return_when=asyncio.FIRST_COMPLETED)
            ending.cancel()
            await host.close()
        await telling


async def _start(plugin: Plugin, as_json: bool) -> None:
    """One that does not start is told and does not keep the others from running."""
    if plugin.inspect()["lifecycle"]["start"] == "per call":
        return
    try:
        await plugin.start()
    except PluginError as error:
        output.failure(error, as_json=as_json)


async def _tell(events: object, as_json: bool) -> None:
    async for event in events:  # type: ignore[attr-defined]
        if as_json:
            output.answer(event)
        else:
            output.say(f"{event.plugin}#{event.generation} {_words(event)}")


def _words(event: Event) -> str:
    if isinstance(event, Spawned):
        return f"started below process {event.pid}"
    if isinstance(event, StateChanged):
        return f"{event.old} → {event.new} ({event.why})"
    if isinstance(event, Exited):
        how = "ended" if event.expected else "died"
        tail = "".join(f"\n    {line}" for line in event.stderr_tail.splitlines())
        return f"{how}, exit status {event.exit_status}{tail}"
    if isinstance(event, Dropped):
        return f"dropped: {event.what} {event.head}".rstrip()
    if isinstance(event, Notified):
        return f"says {event.method}"
    return type(event).__name__
