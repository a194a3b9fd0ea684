"""`plughost ps`: lists the plugins of running hosts, with what is measured of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import click

from plughost import interrupt
from plughost.cli.options import running
from plughost.cli.options.running import FoundHost
from plughost.cli.ui import output
from plughost.cli.ui.quantities import bytes_text, duration_text, latency_text

WATCH_INTERVAL = 1.0
"""Seconds between two looks with --watch."""
WIDE = 150
"""Columns of a terminal that shows all there is to show."""

HEADS = (
    "host", "plugin", "contract", "sandbox", "state", "gen", "pid", "uptime", "restarts", "memory", "cpu",
    "calls", "failed", "p50", "p99",
)  # fmt: skip
ESSENTIAL = ("plugin", "state", "pid", "uptime", "restarts", "memory", "calls", "failed", "p50", "p99")
"""For a terminal that is not so wide."""


@click.command()
@click.option("--watch", is_flag=True, help="Show the table again every second, until Ctrl-C.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document; with --watch, one per second."
)
@running.hosts
def ps(choice: running.HostChoice, watch: bool, as_json: bool) -> None:
    """List the plugins of running hosts.

    Shows the state, uptime, restarts, memory, calls, latencies and last error of each.
    """
    while True:
        found = interrupt.run(choice.look(usage=True))
        if watch and not as_json:
            output.clear()
        _show(found, as_json)
        if not watch:
            return
        time.sleep(WATCH_INTERVAL)


def _show(found: Sequence[FoundHost], as_json: bool) -> None:
    if as_json:
        output.answer({"hosts": [{"pid": host.pid, "plugins": host.plugins} for host in found]})
        return
    if not found:
        output.say("no host is running: start one with `plughost run`")
        return
    width = output.width()
    heads = HEADS if width is None or width >= WIDE else ESSENTIAL
    rows = [_row(host, plugin) for host in found for plugin in host.plugins]
    output.table([[row[head] for head in heads] for row in rows], heads)
    errors = [line for host in found for plugin in host.plugins for line in _errors(plugin)]
    if errors:
        output.print_line("", *errors)


def _row(host: FoundHost, plugin: dict[str, Any]) -> dict[str, str]:
    newest = plugin["instances"][-1] if plugin["instances"] else {}
    metrics = plugin.get("metrics") or {}
    values = {
        "host": host.pid,
        "plugin": plugin["name"],
        "contract": plugin["contract"],
        "sandbox": plugin["sandbox"],
        "state": plugin["state"],
        "gen": plugin["generation"],
        "pid": newest.get("pid"),
        "uptime": duration_text(metrics.get("uptime")),
        "restarts": metrics.get("restarts"),
        "memory": bytes_text(plugin.get("memory")),
        "cpu": duration_text(plugin.get("cpu")),
        "calls": metrics.get("calls"),
        "failed": metrics.get("failures"),
        "p50": latency_text(metrics.get("p50")),
        "p99": latency_text(metrics.get("p99")),
    }
    return {head: "" if value is None else str(value) for head, value in values.items()}


def _errors(plugin: dict[str, Any]) -> list[str]:
    """Why it does not run, or else its last error."""
    if (failure := plugin.get("failure")) is not None:
        hint = [f"  hint: {failure['hint']}"] if failure["hint"] else []
        return [f"{plugin['name']}: {failure['code']}: {failure['message']}", *hint]
    if (last := (plugin.get("metrics") or {}).get("last_error")) is not None:
        ago = duration_text(last["age"])
        return [f"{plugin['name']}: last error, {ago} ago: {last['code']}: {last['message']}"]
    return []
