"""`plughost explain`: a dry run that shows a plugin's permissions, their source and their enforcement."""

from __future__ import annotations

import asyncio
import os
import sys

import click

from plughost import interrupt
from plughost.cli.options import targets
from plughost.cli.ui import output
from plughost.clock import best_clock
from plughost.contracts.registry import get_contract
from plughost.contracts.resolve import check_runnable
from plughost.errors import LaunchFailed
from plughost.sandbox.explain.report import Explanation, GrantSource
from plughost.spec import PluginSpec


@click.command()
@targets.options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("words", nargs=-1, metavar="[TARGET]")
def explain(target: targets.Target, as_json: bool, words: tuple[str, ...]) -> None:
    """Show a plugin's permissions and what enforces them.

    Lists what the plugin asks for, what it is granted and by whom, what enforces that, what it sees in its
    sandbox, and how to grant the rest. Nothing is started.

    Exits with 3 if the sandbox is unavailable on this machine; the permissions are shown all the same.
    """
    spec, rest = target.take(words)
    if rest:
        raise click.UsageError(f"unexpected: {' '.join(rest)}")
    found = interrupt.run(_explain(spec, target.source()))
    if as_json:
        output.answer(found)
    else:
        from plughost.cli.ui.explanation import show

        show(found)
    if found.problem is not None:
        sys.exit(3)


async def _explain(spec: PluginSpec, source: GrantSource) -> Explanation:
    from plughost.sandbox.explain.build import explain
    from plughost.sandbox.manager import SandboxManager
    from plughost.sandbox.mechanisms.features import kernel_features

    contract = get_contract(spec.contract)
    resolved = contract.resolve(spec)
    check_runnable(spec, resolved)
    clock = best_clock(asyncio.get_running_loop())
    cgroup = os.environ.get("PLUGHOST_CGROUP")
    manager = SandboxManager(clock, cgroup, lambda plugin, connection: None, dry_run=True)
    try:
        decided = await manager.confine(spec, resolved)
        return explain(spec, contract, resolved, decided, kernel_features(), source)
    except LaunchFailed as error:
        return explain(spec, contract, resolved, error, kernel_features(), source)
    finally:
        await manager.close()
        clock.close()
