"""`plughost call`: makes one call and prints its result as one JSON document."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from plughost import interrupt
from plughost.cli.options import running, targets
from plughost.cli.options.numbers import SECONDS
from plughost.cli.options.record import TrafficRecording
from plughost.cli.options.record import options as record_options
from plughost.cli.ui import output
from plughost.cli.ui.findings import Findings, timeout_hint
from plughost.control import ControlClient
from plughost.engine.io.tap import Tap
from plughost.engine.progress import OnEvent
from plughost.errors import PluginError, Quarantined, Timeout
from plughost.handshake_store import default_folder
from plughost.host import Host
from plughost.sandbox.explain.lints import lints
from plughost.spec import PluginSpec
from plughost.wire.messages import ABSENT


@click.command(options_metavar="[OPTIONS]")
@targets.options
@running.hosts_or_new
@record_options
@click.option(
    "--timeout", type=SECONDS, metavar="SECONDS", help="Time to wait for the result. Default: the contract's."
)
@click.option(
    "--context",
    "context",
    multiple=True,
    metavar="NAME=VALUE",
    help="Context of the call, for contracts that have one.",
)
@click.option("--progress", is_flag=True, help="Print events of the call to stderr, as JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print failures as JSON too.")
@click.argument("words", nargs=-1, metavar="[TARGET] METHOD [PARAMS]")
def call(
    target: targets.Target,
    choice: running.HostChoice,
    recording: TrafficRecording,
    timeout: float | None,
    context: tuple[str, ...],
    progress: bool,
    as_json: bool,
    words: tuple[str, ...],
) -> None:
    """Call a method of a plugin and print its result.

    PARAMS is JSON, or - to read it from stdin.

    If `plughost run` is running a plugin of that name, the call goes to its process. Otherwise a process is
    started for the call. A folder, a bare command, -c, --record and options that adjust the plugin always
    start a new process.

    \b
    Examples:
      plughost call plugins/echo-mcptest echo '{"text": "hi"}'
      plughost call --contract mcptest ping -- python3 echo.py
    """
    name = None if recording.wanted else target.running_name(words)
    host = running.find_named(choice, name)
    if host is None:
        spec, rest = target.take(words)
    else:
        rest = words[1:]
    if not 1 <= len(rest) <= 2:
        raise click.UsageError("expected METHOD and at most one argument PARAMS: put the JSON in quotes")
    params = _params(rest[1]) if len(rest) == 2 else ABSENT
    origin = dict(targets.pair("--context", "NAME=VALUE", word) for word in context)
    on_event = _print_event if progress else None
    if host is not None and name is not None:
        result = interrupt.run(_call_running(host.path, name, rest[0], params, timeout, origin, on_event))
    else:
        findings = Findings()
        try:
            with recording.tap() as tap:
                result = interrupt.run(_call(spec, rest[0], params, timeout, origin, tap, findings, on_event))
        except PluginError as error:
            findings.show(error)
            raise
        findings.show()
    output.answer(result)


async def _call_running(
    path: Path,
    name: str,
    method: str,
    params: Any,
    timeout: float | None,
    context: dict[str, str],
    on_event: OnEvent | None,
) -> msgspec.Raw:
    """Call a plugin of a running host. Ctrl-C cancels the call, and the plugin runs on."""
    async with ControlClient(path) as client:
        try:
            result: msgspec.Raw = await client.call(
                name,
                method,
                params,
                timeout=timeout,
                context=context or None,
                type=msgspec.Raw,
                on_event=on_event,
            )
        except PluginError as error:
            if error.hint == Timeout.remedy:
                error.hint = timeout_hint(name, (await client.inspect(name))["state"])
            elif error.hint == Quarantined.remedy:
                error.hint = f"fix what failed, then reload it: `plughost reload {name}`"
            raise
        return result


def _print_event(event: msgspec.Raw) -> None:
    output.say(bytes(event).decode(errors="backslashreplace"))


async def _call(
    spec: PluginSpec,
    method: str,
    params: Any,
    timeout: float | None,
    context: dict[str, str],
    tap: Tap | None,
    findings: Findings,
    on_event: OnEvent | None = None,
) -> msgspec.Raw:
    most = interrupt.ONE_SHOT_GRACE if timeout is None else min(timeout, interrupt.ONE_SHOT_GRACE)
    async with Host(tap=tap, max_grace=most, handshakes=default_folder()) as host:
        findings.watch(host)
        plugin = await host.add(spec, start=False)  # the call starts it, so its timeout covers the start
        for lint in lints(spec, plugin.sandbox):
            output.say(f"{plugin.name} lint: {lint}")
        result: msgspec.Raw = await plugin.call(
            method, params, timeout=timeout, context=context or None, type=msgspec.Raw, on_event=on_event
        )
        return result


def _params(text: str) -> Any:
    try:
        return msgspec.json.decode(sys.stdin.buffer.read() if text == "-" else text.encode())
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"PARAMS is not JSON: {error}") from error
