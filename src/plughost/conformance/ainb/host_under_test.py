"""Conformance of another host: it runs our canary plugins, which test the host from the inside."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from plughost.conformance.ainb import ORDER, canary_root
from plughost.conformance.axis import AxisVerdict
from plughost.conformance.host_process import HostProcess
from plughost.conformance.runner import ConformanceReport
from plughost.errors import InvalidSpec
from plughost.sandbox.untrusted_temp_dir import READABLE, temporary_folder

LIMIT = 60.0
"""Seconds until every canary must have its verdict."""
CONFIRMED_AFTER = {("quarantine", "passed"): 18.0, ("render", "skipped"): 2.0}
"""Seconds to wait for a contradiction before a verdict is final: a fourth start comes after 16 s; or a
frame."""
BESIDE_UNREADABLE = 20.0
"""Seconds for the canary beside a plugin with an unreadable manifest."""
LAST_WAIT = 20.0
"""Seconds for the host to exit after Ctrl-C."""
TICK = 0.05
SHOWN = 12
"""Lines of the host's output that are shown with a failure."""
_NONE = AxisVerdict(axis="", outcome="")
CLI_WORDS = ("hello wörld", "--flag", "-x")
SEEN, HIDDEN = "cts-log-error", "cts-log-trace"


class CanaryVerdict(msgspec.Struct, frozen=True):
    """The verdict.json that a canary writes."""

    outcome: str
    reason: str = ""
    final: bool = False


class VerdictFiles(NamedTuple):
    """Finds the canaries' verdicts: each in the canary's data folder, or else beside its program."""

    root: Path
    home: Path

    def file(self, name: str) -> Path:
        data = self.home / canary_root.AINB_HOME / "plugins" / name / "verdict.json"
        return data if data.exists() else self.root / name / "verdict.json"

    def read(self, name: str) -> CanaryVerdict:
        try:
            return msgspec.json.decode(self.file(name).read_bytes(), type=CanaryVerdict)
        except (OSError, ValueError):
            return CanaryVerdict(
                "failed",
                "there is no result from the test plugin: it was never started, or did not get that far",
            )

    def is_settled(self, name: str) -> bool:
        """Whether the verdict of a canary is final."""
        verdict = self.read(name)
        if name == "shutdown":  # its verdict comes only with the shutdown
            return self.file(name).exists()
        if (wait := CONFIRMED_AFTER.get((name, verdict.outcome))) is not None:
            return time.time() - self.file(name).stat().st_mtime > wait
        return verdict.final


class HostTrial:
    """Runs the canaries in another host. `host` is its command, with `{root}` for the plugin root; `cli` is
    the command to run a plugin's command line, with `{root}`, `{namespace}` and `{args}`."""

    def __init__(self, host: str, cli: str | None = None, limit: float | None = None) -> None:
        self._host = _words(host, "--host", ("{root}",))
        self._cli = None if cli is None else _words(cli, "--cli", ("{root}", "{namespace}", "{args}"))
        self._limit = LIMIT if limit is None else limit

    async def run(
        self, only: Collection[str] = (), on_verdict: Callable[[AxisVerdict], None] = lambda verdict: None
    ) -> ConformanceReport:
        """Runs the named axes, or all, and returns the report."""
        if unknown := set(only) - set(ORDER):
            raise InvalidSpec(f"no such axis: {', '.join(sorted(unknown))}; known: {', '.join(ORDER)}")
        axes = [name for name in ORDER if not only or name in only]
        with temporary_folder("plughost-conform-", READABLE) as scratch:
            # READABLE: a host may refuse files that other users cannot read unless the operator grants them
            verdicts = await self._examine(Path(scratch), axes)
        for verdict in verdicts:
            on_verdict(verdict)
        return ConformanceReport(shlex.join(self._host), "ainb", tuple(verdicts))

    async def _examine(self, scratch: Path, axes: Sequence[str]) -> list[AxisVerdict]:
        home = canary_root.home(scratch / "home")
        env = _env(home)
        began = time.monotonic()
        verdicts = {}
        if inside := [name for name in axes if name != "cli"]:
            root = canary_root.root(scratch / "root", {*inside, canary_root.PARTNER}, judging=True)
            canary_root.add_foreign(root)
            verdict_files = VerdictFiles(root, home)
            words, early = await self._watch(verdict_files, inside, env)
            verdicts = {name: _verdict(verdict_files, name, words, early) for name in inside}
        if verdicts.get("manifest", _NONE).outcome == "passed":
            verdicts["manifest"] = await self._beside_unreadable(scratch)
        if "cli" in axes:
            verdicts["cli"] = await self._dispatch(scratch / "cli-root", env)
        share = (time.monotonic() - began) / len(axes)  # they run concurrently
        return [msgspec.structs.replace(verdicts[name], seconds=share) for name in axes]

    async def _watch(
        self,
        verdict_files: VerdictFiles,
        names: Sequence[str],
        env: dict[str, str],
        limit: float | None = None,
    ) -> tuple[list[str], str]:
        """Runs the host until each canary has its verdict. Returns the host's output, and how it exited
        wrongly."""
        early = ""
        async with HostProcess(
            [word.replace("{root}", str(verdict_files.root)) for word in self._host], env
        ) as host:
            end = time.monotonic() + (self._limit if limit is None else limit)
            while time.monotonic() < end and not all(map(verdict_files.is_settled, names)):
                if await host.ends_within(TICK):
                    early = f"it exited by itself, with {host.status}"
                    break
            host.interrupt()
            if not await host.ends_within(LAST_WAIT):
                early = f"it had not ended {LAST_WAIT:g} s after Ctrl-C"
        return [*host.stdout.decode(errors="replace").splitlines(), *host.stderr], early

    async def _beside_unreadable(self, scratch: Path) -> AxisVerdict:
        """Whether the host loads a plugin although another plugin's manifest is unreadable.

        It has a plugin root of its own, so that a host that gives up there is still tested by the other
        canaries.
        """
        home = canary_root.home(scratch / "home-beside-unreadable")
        root = canary_root.root(scratch / "root-beside-unreadable", ["manifest"], judging=True)
        canary_root.add_unreadable(root)
        verdict_files = VerdictFiles(root, home)
        words, early = await self._watch(
            verdict_files, ["manifest"], _env(home), min(self._limit, BESIDE_UNREADABLE)
        )
        if verdict_files.file("manifest").exists():
            return AxisVerdict(axis="manifest", outcome="passed")
        reason = "it does not load a plugin beside another one whose manifest cannot be read"
        reason = f"{reason}; {early}" if early else reason
        return AxisVerdict(axis="manifest", outcome="failed", reason=reason, frames=tuple(words[-SHOWN:]))

    async def _dispatch(self, place: Path, env: dict[str, str]) -> AxisVerdict:
        if self._cli is None:
            return AxisVerdict(
                axis="cli",
                outcome="skipped",
                reason="pass --cli, the command line with which this host passes arguments to a plugin",
            )
        root = canary_root.root(place, ["cli"], judging=False)
        replacements = {"{root}": [str(root)], "{namespace}": ["cts-cli"], "{args}": list(CLI_WORDS)}
        command = [
            argument
            for word in self._cli
            for argument in replacements.get(word, [word.replace("{root}", str(root))])
        ]
        async with HostProcess(command, env) as program:
            ended = await program.ends_within(self._limit)
        wanted = "\0".join(CLI_WORDS).encode() + b"\xff\n"
        reason = ""
        if not ended:
            reason = f"{shlex.join(command)} did not end within {self._limit:g} s"
        elif program.stdout != wanted:
            reason = f"it wrote {bytes(program.stdout[:200])!r} to stdout; the plugin wrote {wanted!r}"
        elif not _has_line(program.stderr, "cts-cli was here"):
            reason = "it did not write the plugin's stderr to its own"
        elif program.status != len(CLI_WORDS):
            reason = f"it ended with {program.status}, not with the plugin's exit code {len(CLI_WORDS)}"
        if not reason:
            return AxisVerdict(axis="cli", outcome="passed")
        return AxisVerdict(axis="cli", outcome="failed", reason=reason, frames=tuple(program.stderr)[-SHOWN:])


def _env(home: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(home), "AINB_HOME": str(home / canary_root.AINB_HOME)}


def _words(command: str, option: str, needed: Sequence[str]) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InvalidSpec(f"{option} cannot be read: {error}") from error
    for part in needed:
        if not any(part in word for word in words):
            raise InvalidSpec(f"{option} needs {part} in its command")
    return words


def _verdict(verdict_files: VerdictFiles, name: str, words: list[str], early: str) -> AxisVerdict:
    verdict = verdict_files.read(name)
    if verdict.outcome != "failed":
        objection = _objection(verdict_files, name, words) or (early if name == "shutdown" else "")
        verdict = CanaryVerdict("failed", objection) if objection else verdict
    elif early:
        verdict = CanaryVerdict("failed", f"{verdict.reason}; {early}")
    frames = tuple(words[-SHOWN:]) if verdict.outcome == "failed" else ()
    return AxisVerdict(axis=name, outcome=verdict.outcome, reason=verdict.reason, frames=frames)


def _objection(verdict_files: VerdictFiles, name: str, words: list[str]) -> str:
    """A failure that the canary itself cannot see; empty when there is none."""
    partner = verdict_files.read(canary_root.PARTNER)
    if name == "capabilities" and partner.final and partner.outcome == "failed":
        return partner.reason
    if name == "manifest" and (verdict_files.root / canary_root.FOREIGN / "started").exists():
        return "it started a plugin whose manifest has a different abi_version"
    if name == "log" and _has_line(words, SEEN) and _has_line(words, HIDDEN):
        return "it shows plugin log lines of level trace: log levels are not filtered"
    return ""


def _has_line(words: Collection[str], what: str) -> bool:
    return any(what in line for line in words)
