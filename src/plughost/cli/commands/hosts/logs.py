"""`plughost logs`: shows what plugins of running hosts have logged, and what happened to them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from plughost import interrupt
from plughost.cli.options import running
from plughost.cli.ui import output
from plughost.control import ControlClient

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def _since(context: click.Context, option: click.Parameter, text: str | None) -> float | None:
    """The age in seconds of the oldest line to show."""
    if text is None:
        return None
    if (age := re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)([smhd]?)", text)) is not None:
        return float(age[1]) * _UNITS[age[2]]
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is neither an age such as 30s, 10m, 2h or 1d, nor a time such as 2026-03-12T20:00"
        ) from None
    return max((datetime.now(UTC) - moment).total_seconds(), 0.0)


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines until Ctrl-C.")
@click.option(
    "--since", metavar="AGE|TIME", callback=_since, help="Only newer lines: 30s, 10m, 2h, 1d, or a time."
)
@click.option("--json", "as_json", is_flag=True, help="Print each line as a JSON document.")
@click.argument("plugin", required=False)
@running.hosts
def logs(
    choice: running.HostChoice, plugin: str | None, follow: bool, since: float | None, as_json: bool
) -> None:
    """Show what plugins logged and wrote to stderr.

    Also shows crashes and what sandboxes denied. Without PLUGIN, shows the lines of all plugins.
    """
    paths = choice.sockets() if plugin is None else [choice.the_host_of(plugin).path]
    if follow and len(paths) > 1:
        raise click.UsageError("several hosts are running: choose one with --host PID, or name the plugin")
    for path in paths:
        interrupt.run(_print_lines(path, plugin, follow, since, as_json))


async def _print_lines(
    path: Path, plugin: str | None, follow: bool, since: float | None, as_json: bool
) -> None:
    async with ControlClient(path) as client:
        async for line in client.logs(plugin, follow=follow, since=since):
            if as_json:
                output.answer(line)
            else:
                output.print_line(_text(line))


def _text(line: dict[str, Any]) -> str:
    moment = datetime.fromisoformat(line["time"]).astimezone()
    fields = f" {msgspec.json.encode(line['fields']).decode()}" if line.get("fields") else ""
    source = line.get("source", "log")
    where = "" if source == "log" else f" ({source})"
    when = moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03}"
    return f"{when} {line['plugin']} {line['level']}{where}: {line['message']}{fields}"
