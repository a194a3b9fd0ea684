"""`plughost doctor`: checks what works on this machine, by trying it."""

from __future__ import annotations

import os
import platform
import resource
import sys

import click
import msgspec

from plughost import interrupt
from plughost.cli.sandbox_selftest import SandboxTrial, try_sandbox
from plughost.cli.ui import output
from plughost.cli.ui.output import Styled
from plughost.contracts.registry import contract_names, get_contract
from plughost.engine.launcher import launch, selftest
from plughost.errors import InvalidSpec
from plughost.sandbox.mechanisms import availability, features


class DoctorFinding(msgspec.Struct):
    """The result of one check."""

    check: str
    ok: bool
    detail: str
    hint: str = ""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(as_json: bool) -> None:
    """Check what works on this machine.

    Each sandbox class is tested with escape attempts that must fail. Exits with 3 if plugins cannot be run
    safely or an escape succeeds. A class that is unavailable is listed with the reason; plugins that
    need it are not started.
    """
    here = features.kernel_features()
    findings = interrupt.run(_examine())
    around = availability.check_surroundings(os.environ.get("PLUGHOST_CGROUP"))
    matrix = list(availability.mechanisms(here, around))
    trials = interrupt.run(_try(here))
    healthy = all(finding.ok for finding in findings) and not any(each.escaped for each in trials)
    if as_json:
        answer = {"ok": healthy, "findings": findings, "sandbox": {"mechanisms": matrix, "classes": trials}}
        output.answer(answer)
    else:
        _show(findings, matrix, trials)
    if not healthy:
        sys.exit(3)


async def _examine() -> list[DoctorFinding]:
    linux = sys.platform.startswith("linux")
    findings = [
        DoctorFinding(
            "platform", linux, f"{platform.system()} {platform.release()}", "" if linux else "needs Linux"
        ),
        DoctorFinding("python", sys.version_info >= (3, 11), platform.python_version()),
    ]
    if linux:
        findings += [await _launcher(), _files()]
    return [*findings, _contracts()]


def _contracts() -> DoctorFinding:
    problems = []
    for name in contract_names():
        try:
            get_contract(name)
        except InvalidSpec as error:
            problems.append(error)
    if not problems:
        return DoctorFinding("contracts", True, ", ".join(contract_names()))
    hints = dict.fromkeys(error.hint for error in problems)
    return DoctorFinding("contracts", False, "; ".join(error.message for error in problems), "; ".join(hints))


async def _try(here: features.KernelFeatures) -> list[SandboxTrial]:
    """Tries each sandbox class for which no requirement is known to be missing."""
    tried = []
    for confined in ("strict", "landlock"):
        missing = availability.unavailable(confined, here)
        tried.append(
            await try_sandbox(confined) if missing is None else SandboxTrial.without(confined, *missing)
        )
    return tried


async def _launcher() -> DoctorFinding:
    native = launch.default_launcher() == (launch.NATIVE,)
    which = "compiled" if native else "Python (no compiler at build time: slower starts)"
    ok, detail = await selftest.run_selftest(launch.default_launcher(), "auto")
    if not ok:
        return DoctorFinding(
            "no orphans", False, f"{which} launcher: {detail}", "child processes of a plugin may outlive it"
        )
    if detail == "pidns":
        return DoctorFinding("no orphans", True, f"{which} launcher, PID namespace: guaranteed by the kernel")
    hint = "allow user namespaces (sysctl kernel.unprivileged_userns_clone / user.max_user_namespaces)"
    return DoctorFinding("no orphans", True, f"{which} launcher, subreaper: best effort", hint)


def _files() -> DoctorFinding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = hard // 5
    hint = "" if room >= 500 else "raise the hard limit of open files (ulimit -Hn) to run more"
    return DoctorFinding(
        "open files", True, f"limit {soft}; a host raises it to {hard}, enough for about {room} plugins", hint
    )


def _show(
    findings: list[DoctorFinding], matrix: list[availability.Mechanism], trials: list[SandboxTrial]
) -> None:
    ok, no, missing = Styled("ok", "green"), Styled("no", "red"), Styled("--", "yellow")
    output.table(
        (ok if each.ok else no, each.check, _detail_lines(each.detail, each.hint)) for each in findings
    )
    output.table(
        (
            (ok if each.there else missing, each.name, _detail_lines(each.detail, each.remedy))
            for each in matrix
        ),
        title="mechanisms that confine a plugin",
    )
    marks = [ok if each.works else no if each.escaped else missing for each in trials]
    output.table(
        [
            (mark, each.sandbox, _detail_lines(_outcome(each), each.remedy))
            for mark, each in zip(marks, trials, strict=True)
        ],
        title="sandbox classes, tested with escape attempts that must fail",
    )


def _detail_lines(detail: str, hint: str) -> list[str | Styled]:
    lines: list[str | Styled] = [*detail.split("\n")]
    return [*lines, Styled(hint, "dim")] if hint else lines


def _outcome(tried: SandboxTrial) -> str:
    if tried.works:
        held = ", ".join(name for name, came in tried.attempts.items() if came.startswith("refused"))
        by = ", ".join(tried.confined_by)
        return f"works: {held} refused; {by}" + (f"; {tried.detail}" if tried.detail else "")
    return f"not safe: {tried.detail}" if tried.escaped else f"unavailable: {tried.detail}"
