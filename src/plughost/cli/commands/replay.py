"""`plughost replay`: replays recorded traffic as a fake plugin or as a fake host."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from plughost import interrupt
from plughost.cli.options import targets
from plughost.cli.options.numbers import SECONDS
from plughost.cli.ui import output
from plughost.spec import PluginSpec

if TYPE_CHECKING:
    from plughost.testing import Traffic


@click.command()
@targets.options
@click.option("--as-host", is_flag=True, help="Play the host: send a plugin what was recorded.")
@click.option(
    "--timeout",
    type=SECONDS,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="With --as-host: time for the plugin to answer and to end.",
)
@click.argument("traffic", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("words", nargs=-1, metavar="[TARGET]")
def replay(
    target: targets.Target, as_host: bool, timeout: float, traffic: Path, words: tuple[str, ...]
) -> None:
    """Play recorded traffic, as the plugin or as its host.

    By default this command acts as the plugin, on stdin and stdout. With --as-host it starts TARGET and acts
    as its host. Exits with 1 if the other side sends something other than what was recorded, and shows the
    difference.

    \b
    Examples:
      plughost call --contract mcptest ping -- plughost replay echo.traffic
      plughost replay echo.traffic --as-host plugins/echo-mcptest
      plughost replay echo.traffic --as-host -- python3 echo.py
    """
    from plughost.testing import Traffic, play_host, play_plugin

    recorded = Traffic.load(traffic)
    if as_host:
        spec = _spec(target, words, recorded)
        problem = interrupt.run(play_host(recorded, spec, patience=timeout))
    elif words or target.bare:
        raise click.UsageError("a TARGET needs --as-host; without it, this command plays the plugin itself")
    else:
        problem = play_plugin(recorded, shown=output.terminal())
    if problem:
        output.say(problem)
        sys.exit(1)


def _spec(target: targets.Target, words: Sequence[str], recorded: Traffic) -> PluginSpec:
    """The spec of the plugin; a bare command is taken for the plugin that was recorded."""
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
