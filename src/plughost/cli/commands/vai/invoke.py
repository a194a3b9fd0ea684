"""`plughost invoke`: invokes one export of a package, sandboxed and recorded."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from plughost import interrupt
from plughost._util.nearest import did_you_mean
from plughost.cli.commands.vai import invoke_local
from plughost.cli.commands.vai.packages import store_option
from plughost.cli.commands.vai.packing import trust_option
from plughost.cli.options.numbers import SECONDS
from plughost.cli.options.targets import pair
from plughost.cli.ui import output

if TYPE_CHECKING:
    from plughost.vai.bindings.binding import Binding
    from plughost.vai.bindings.package import PackageSource
    from plughost.vai.invocations.invoker import LocalInvoker
    from plughost.vai.invocations.outcome import Outcome
    from plughost.vai.invocations.requests import Work

state_option = click.option(
    "--state", type=click.Path(path_type=Path), metavar="DIR",
    help="Folder of records. Default: in /var/lib for root, else in $XDG_STATE_HOME.",
)  # fmt: skip


@click.command(options_metavar="[OPTIONS]")
@store_option
@trust_option
@state_option
@click.option(
    "--export-config", "config", metavar="JSON", help="Configuration of the export; @FILE reads a file."
)
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="SLOT=secret://OWNER/NAME",
    help="Fill a secret slot; can be repeated.",
)
@click.option(
    "--secrets", "vault", type=click.Path(path_type=Path), metavar="DIR",
    help="Folder of secrets: DIR/OWNER/NAME, each file with mode 600.",
)  # fmt: skip
@click.option(
    "--egress",
    multiple=True,
    metavar="HOST",
    help="Allow this host, if the export asks for a network; can be repeated.",
)
@click.option("--org", default=invoke_local.LOCAL, show_default=True, help="Organisation to run it for.")
@click.option("--project", default=invoke_local.LOCAL, show_default=True, help="Project to run it for.")
@click.option("--timeout", type=SECONDS, metavar="SECONDS", help="Deadline. Default: that of the export.")
@click.option(
    "--sandbox",
    type=click.Choice(["strict", "landlock", "none"]),
    default="strict",
    show_default=True,
    help="Sandbox class.",
)
@click.option(
    "--stream", is_flag=True, help="Print each event as a line of JSON, and the outcome as the last line."
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole outcome as JSON, failures too.")
@click.argument("package", metavar="PACKAGE[@VERSION]|./FOLDER")
@click.argument("export")
@click.argument("given", metavar="[JSON]", default="{}")
def invoke(
    package: str,
    export: str,
    given: str,
    root: Path | None,
    trust_file: Path | None,
    state: Path | None,
    config: str | None,
    secrets: tuple[str, ...],
    vault: Path | None,
    egress: tuple[str, ...],
    org: str,
    project: str,
    timeout: float | None,
    sandbox: str,
    stream: bool,
    as_json: bool,
) -> None:
    """Run one export of a package, confined and recorded.

    PACKAGE is an installed package. A path that starts with ./ is a package's folder.

    JSON depends on the kind of the export. A tool takes its input, a hook an event, a compactor its blocks
    and target, a harness its trigger. With -, JSON is read from stdin.

    \b
    Examples:
      plughost invoke acme/devkit jira_search '{"query": "billing"}' --egress acme.atlassian.net
      plughost invoke ./my-plugin greet '{"name": "Ada"}' --stream
    """
    from plughost.vai.bindings.binding import Binding, BindingPolicy, Scope

    source, name, version = _source(package, root, trust_file)
    found = source.find(name, version)
    manifest_export = found.manifest.export(export)
    if manifest_export is None:
        has = did_you_mean(export, [each.id for each in found.manifest.exports])
        raise click.UsageError(f"{name} has no export {export!r}{has}")
    if egress and manifest_export.permissions.network == "none":
        raise click.UsageError(f"{export} does not ask for network access, so --egress cannot allow a host")
    untrusted_inline = manifest_export.execution_class == "inline" and not found.trusted_inline
    binding = Binding(
        binding_id=invoke_local.binding_id(name, Scope(org, project), export),
        package_id=name,
        package_version=version,
        export_id=export,
        scope=Scope(org, project),
        config=_object("--export-config", config or "{}"),
        secrets=dict(pair("--secret", "SLOT=secret://OWNER/NAME", word) for word in secrets),
        policy=BindingPolicy(
            network="egress" if egress else "none",
            egress_domains=tuple(egress),
            execution_class="worker" if untrusted_inline else None,
        ),
    )
    work = invoke_local.parse_request(manifest_export, _value("the input", given))
    _dump_no_core()
    try:
        outcome = interrupt.run(
            _invoke(
                source, binding, work, state or default_state_folder(), vault, timeout, sandbox, stream=stream
            )
        )
    except asyncio.CancelledError:  # by a signal, before it had begun
        raise SystemExit(3) from None
    _print_outcome(outcome, stream=stream, as_json=as_json)


async def _invoke(
    source: PackageSource,
    binding: Binding,
    work: Work,
    state: Path,
    vault: Path | None,
    timeout: float | None,
    sandbox: str,
    *,
    stream: bool,
) -> Outcome:
    from plughost.vai.bindings.bindings import FixedBindings
    from plughost.vai.bindings.secret_source import SecretFolder
    from plughost.vai.invocations.invocation import Invocation
    from plughost.vai.invocations.options import InvokerOptions
    from plughost.vai.runtime import VaiRuntime

    runtime = VaiRuntime(
        str(state),
        source,
        FixedBindings([binding, *invoke_local.others(source, binding)]),
        secret_source=None if vault is None else SecretFolder(str(vault)),
        options=InvokerOptions(sandbox=sandbox),
    )
    async with runtime:
        task = asyncio.current_task()
        assert task is not None
        _handle_signals(partial(_cancel, runtime.invoker, task))
        wanted = Invocation(
            binding=binding,
            work=work,
            related=await invoke_local.related(runtime, binding, work),
            timeout_ms=None if timeout is None else max(int(timeout * 1000), 1),
        )
        try:
            return await runtime.invoke(wanted, _print_event if stream else _show_event)
        finally:
            _handle_signals(_ignore)


def _cancel(invoker: LocalInvoker, task: asyncio.Task[Any], number: signal.Signals) -> None:
    """Cancels the running invocation, which still ends with an outcome; before it has begun, the whole
    task."""
    for invocation_id in invoker.running:
        invoker.cancel(invocation_id, number.name)
    if not invoker.running:
        task.cancel()


def _ignore(number: signal.Signals) -> None:
    """Ignores further signals: the invocation is ending already."""


def _handle_signals(do: Callable[[signal.Signals], None]) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    heeded = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]  # as with nohup
    interrupt.ask_to_end(do, *heeded)


def _source(package: str, root: Path | None, trust_file: Path | None) -> tuple[PackageSource, str, str]:
    """The package source, the package's name and its version.

    PUBLISHER/NAME is an installed package, even if a folder of that name exists here.
    """
    from plughost.contracts.vai.manifest_rules import is_package_id
    from plughost.errors import InvalidSpec
    from plughost.vai.bindings.package_source import FolderPackage, InstalledPackages
    from plughost.vai.packages.errors import NotInstalled
    from plughost.vai.packages.location import is_explicit_path
    from plughost.vai.packages.store.store import Store, default_root
    from plughost.vai.packages.trust import publishers

    is_name = "@" in package or is_package_id(package)
    if os.path.isdir(package) and (is_explicit_path(package) or not is_name):
        source = FolderPackage(Path(package))
        manifest = source.package.manifest
        return source, manifest.package_id, manifest.version
    if is_explicit_path(package):
        raise InvalidSpec(
            f"there is no folder {package!r}", hint="`plughost new vai NAME` makes a new package"
        )
    name, _, version = package.partition("@")
    store = Store(root or default_root()).open()
    try:
        release = store.find(name, version).release
    except NotInstalled as error:
        if os.path.isdir(package):
            error.hint = f"for the folder of that name, write ./{package}"
        raise
    return InstalledPackages(store, publishers.read(trust_file)), name, release.version


def _print_event(event: dict[str, Any]) -> None:
    output.answer({"event": event})


def _show_event(event: dict[str, Any]) -> None:
    """Shows an event's message to a person at the terminal."""
    if output.errors().isatty() and isinstance(message := event.get("message"), str):
        output.say(message)


def _print_outcome(outcome: Outcome, *, stream: bool, as_json: bool) -> None:
    report = {name: value for name, value in outcome.report().items() if value is not None}
    if stream:
        output.answer({"outcome": report})
    elif as_json:
        output.answer(report)
    elif outcome.ok:
        output.answer(outcome.payload)
    if outcome.ok:
        return
    if not as_json and not stream:
        output.say(f"{outcome.status}: {outcome.reason}")
        if outcome.message:
            output.say(outcome.message)
        if outcome.last_words:
            output.say(
                "its last lines on stderr:", *(f"  {line}" for line in outcome.last_words.splitlines())
            )
        if outcome.hint:
            output.say(f"hint: {outcome.hint}")
        output.say(f"hint: plughost invocations show {outcome.invocation_id}")
    raise SystemExit(1 if _is_plugins_fault(outcome) else 3)


def _is_plugins_fault(outcome: Outcome) -> bool:
    """Whether the plugin itself failed, by an error or an invalid answer; otherwise the host could not get an
    answer."""
    from plughost.vai.invocations.outcome import NO_REASON_GIVEN, PLUGIN_REASON_PREFIX

    reason = outcome.reason or ""
    words = {NO_REASON_GIVEN, "invalid_input", "invalid_output", "denied"}
    return outcome.status != "cancelled" and (reason in words or reason.startswith(PLUGIN_REASON_PREFIX))


def _dump_no_core() -> None:
    """Disables core dumps: this process holds secrets, and an unsandboxed plugin inherits the limit."""
    import resource

    from plughost.sandbox.planner import NO_CORE

    most = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (NO_CORE if most else 0, most))


def default_state_folder() -> Path:
    """The default folder of invocation records: in /var/lib for root, otherwise in XDG_STATE_HOME."""
    if os.geteuid() == 0 and not os.environ.get("XDG_STATE_HOME"):
        return Path("/var/lib/plughost/invocations")
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local/state")
    return Path(home, "plughost", "invocations")


def _object(name: str, text: str) -> dict[str, Any]:
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text()
        except OSError as error:
            raise click.UsageError(f"{name}: cannot read {text[1:]}: {error.strerror}") from error
    value = _value(name, text)
    if not isinstance(value, dict):
        raise click.UsageError(f"{name} is not a JSON object")
    return value


def _value(name: str, text: str) -> Any:
    try:
        return msgspec.json.decode(sys.stdin.buffer.read() if text == "-" else text.encode())
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{name} is not JSON: {error}") from error
