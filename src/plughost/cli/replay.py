"""`plughost replay`: recorded traffic as a fake plugin, or as a fake host."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from plughost import interrupt
from plughost.cli import output, targets
from plughost.cli.numbers import SECONDS
from plughost.contracts.contract import PluginSpec

if TYPE_CHECKING:
    from plughost.testkit import Traffic


@click.command()
@targets.options
@click.option("--as-host", is_flag=True, help="Tell a plugin what it was told then.")
@click.option(
    "--timeout",
    type=SECONDS,
    default=10.0,
    show_default=True,
    help="Seconds for the plugin to say what it said, and to end.",
)
@click.argument("traffic", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("words", nargs=-1, metavar="[TARGET]")
def replay(
    target: targets.Target, as_host: bool, timeout: float, traffic: Path, words: tuple[str, ...]
) -> None:
    """Be the plugin of recorded TRAFFIC on stdin and stdout, or with --as-host its host.

    Exit 1 when the other side says something else than then.

    \b
    plughost call --contract mcptest ping -- plughost replay echo.traffic
    plughost replay echo.traffic --as-host plugins/echo-mcptest
    plughost replay echo.traffic --as-host -- python3 echo.py
    """
    from plughost.testkit import Traffic, play_host, play_plugin

    recorded = Traffic.load(traffic)
    if as_host:
        spec = _spec(target, words, recorded)
        problem = interrupt.run(play_host(recorded, spec, patience=timeout))
    elif words or target.bare:
        raise click.UsageError("as a fake plugin it takes no plugin: --as-host plays the host of one")
    else:
        problem = play_plugin(recorded, shown=output.terminal())
    if problem:
        output.say(problem)
        sys.exit(1)


def _spec(target: targets.Target, words: Sequence[str], recorded: Traffic) -> PluginSpec:
    """A bare command is taken for the plugin that was recorded."""
    if target.bare:
        target = msgspec.structs.replace(
            target,
            contract=target.contract or recorded.origin.contract,
            name=target.name or recorded.origin.plugin,
        )
    spec, rest = target.take(words)
    if rest:
        raise click.UsageError(f"unexpected: {' '.join(rest)}")
    return spec
