"""`plughost doctor`: what works on this machine, found by trying it."""

from __future__ import annotations

import asyncio
import platform
import resource
import sys
from typing import Any

import click
import msgspec

from plughost.cli import output
from plughost.contracts.contract import names
from plughost.runtime import launch, probe


class Finding(msgspec.Struct):
    check: str
    ok: bool
    detail: str
    hint: str = ""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def doctor(as_json: bool) -> None:
    """Find out what works here. Exit 3 when plugins cannot be run safely."""
    findings = asyncio.run(_examine())
    healthy = all(finding.ok for finding in findings)
    if as_json:
        output.answer({"ok": healthy, "findings": findings})
    else:
        _show(findings)
    if not healthy:
        sys.exit(3)


async def _examine() -> list[Finding]:
    linux = sys.platform.startswith("linux")
    findings = [
        Finding(
            "platform", linux, f"{platform.system()} {platform.release()}", "" if linux else "needs Linux"
        ),
        Finding("python", sys.version_info >= (3, 11), platform.python_version()),
    ]
    if linux:
        findings += [await _launcher(), _files()]
    findings.append(Finding("contracts", True, ", ".join(names())))
    return findings


async def _launcher() -> Finding:
    native = launch.default_launcher() == (launch.NATIVE,)
    which = "compiled" if native else "Python (no compiler at build time: slower starts)"
    ok, detail = await probe.held(launch.default_launcher(), "auto")
    if not ok:
        return Finding(
            "no orphans", False, f"{which} launcher: {detail}", "nothing holds a plugin's descendants"
        )
    if detail == "pidns":
        return Finding("no orphans", True, f"{which} launcher, PID namespace: held by the kernel")
    hint = "allow user namespaces (sysctl kernel.unprivileged_userns_clone / user.max_user_namespaces)"
    return Finding("no orphans", True, f"{which} launcher, subreaper: best effort", hint)


def _files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = hard // 5
    hint = "" if room >= 500 else "raise the hard limit of open files (ulimit -Hn) to run more"
    return Finding(
        "open files", True, f"limit {soft}, raised to {hard} by a host: about {room} plugins", hint
    )


def _show(findings: list[Finding]) -> None:
    from rich.console import Console
    from rich.table import Table

    table: Any = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for finding in findings:
        mark = "[green]ok[/]" if finding.ok else "[red]no[/]"
        hint = f"\n[dim]{finding.hint}[/]" if finding.hint else ""
        table.add_row(mark, finding.check, finding.detail + hint)
    Console().print(table)
