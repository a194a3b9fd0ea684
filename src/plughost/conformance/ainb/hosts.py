"""Another host on trial: it runs our canaries, which judge it from the inside."""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec

from plughost.base.errors import InvalidSpec
from plughost.conformance.ainb import ORDER, staging
from plughost.conformance.axis import Verdict
from plughost.conformance.program import Program
from plughost.conformance.suite import Report

LIMIT = 60.0
"""Seconds until every canary has its verdict."""
ALONE = 18.0
"""A plugin that died three times is watched for so long: the fourth start would come after 16 s."""
LAST_WAIT = 20.0
"""For the host to end once it was asked to."""
TICK = 0.05
SHOWN = 12
"""Lines of the host's own words with a failure."""
CLI_WORDS = ("hello wörld", "--flag", "-x")
SEEN, HIDDEN = "cts-log-error", "cts-log-trace"


class Told(msgspec.Struct, frozen=True):
    """A canary's verdict.json."""

    outcome: str
    reason: str = ""
    final: bool = False


class Trial:
    """`host` is its command, with `{root}` where its folder of plugins goes; `cli` is how it runs a command
    line of a plugin, with `{root}`, `{namespace}` and `{args}`."""

    def __init__(self, host: str, cli: str | None = None, limit: float = LIMIT) -> None:
        self._host = _words(host, "--host", ("{root}",))
        self._cli = None if cli is None else _words(cli, "--cli", ("{root}", "{namespace}", "{args}"))
        self._limit = limit
        self._told: dict[str, Told] = {}

    async def run(
        self, only: Collection[str] = (), told: Callable[[Verdict], None] = lambda verdict: None
    ) -> Report:
        if unknown := set(only) - set(ORDER):
            raise InvalidSpec(f"no such axis: {', '.join(sorted(unknown))}; known: {', '.join(ORDER)}")
        axes = [name for name in ORDER if not only or name in only]
        with tempfile.TemporaryDirectory(prefix="plughost-conform-") as scratch:
            verdicts = await self._examine(Path(scratch), axes)
        for verdict in verdicts:
            told(verdict)
        return Report(shlex.join(self._host), "ainb", tuple(verdicts))

    async def _examine(self, scratch: Path, axes: Sequence[str]) -> list[Verdict]:
        home = staging.home(scratch / "home")
        env = {**os.environ, "HOME": str(home), "AINB_HOME": str(home / ".agents-in-a-box")}
        began = time.monotonic()
        verdicts = {}
        inside = [name for name in axes if name != "cli"]
        if inside:
            root = staging.root(scratch / "root", {*inside, staging.PARTNER}, judging=True)
            staging.add_misfits(root)
            words, early = await self._watch(root, inside, env)
            self._told = {name: _read(root, name) for name in (*inside, staging.PARTNER)}
            verdicts = {name: self._verdict(root, name, words, early) for name in inside}
        if "cli" in axes:
            verdicts["cli"] = await self._dispatch(scratch / "cli-root", env)
        took = time.monotonic() - began
        return [msgspec.structs.replace(verdicts[name], seconds=took / len(axes)) for name in axes]

    async def _watch(self, root: Path, names: Sequence[str], env: dict[str, str]) -> tuple[list[str], str]:
        """Until each canary has its verdict and the host has ended; its words, and how it ended wrongly."""
        early = ""
        async with Program([word.replace("{root}", str(root)) for word in self._host], env) as host:
            end = time.monotonic() + self._limit
            while time.monotonic() < end and not all(_settled(root, name) for name in names):
                if await host.ends_within(TICK):
                    early = f"it ended by itself, with {host.status}"
                    break
            host.interrupt()
            if not await host.ends_within(LAST_WAIT):
                early = f"it had not ended {LAST_WAIT:g} s after Ctrl-C"
        return [*host.stdout.decode(errors="replace").splitlines(), *host.stderr], early

    def _verdict(self, root: Path, name: str, words: list[str], early: str) -> Verdict:
        told = self._told[name]
        outcome, reason = told.outcome, told.reason
        partner = self._told[staging.PARTNER]
        if outcome != "failed":
            if name == "capabilities" and partner.outcome == "failed" and partner.final:
                outcome, reason = "failed", partner.reason
            elif name == "manifest" and (root / staging.FOREIGN / "started").exists():
                outcome, reason = "failed", "it started a plugin whose manifest says another abi_version"
            elif name == "log" and _said(words, SEEN) and _said(words, HIDDEN):
                outcome, reason = (
                    "failed",
                    "it shows what a plugin logs with the level trace: nothing is filtered",
                )
            elif name == "shutdown" and early:
                outcome, reason = "failed", early
        elif early:
            reason = f"{reason}; {early}"
        frames = tuple(words[-SHOWN:]) if outcome == "failed" else ()
        return Verdict(axis=name, outcome=outcome, reason=reason, frames=frames)

    async def _dispatch(self, place: Path, env: dict[str, str]) -> Verdict:
        if self._cli is None:
            return Verdict(axis="cli", outcome="skipped", reason="--cli tells how it runs a command line")
        root = staging.root(place, ["cli"], judging=False)
        put = {"{root}": [str(root)], "{namespace}": ["cts-cli"], "{args}": list(CLI_WORDS)}
        command = [said for word in self._cli for said in put.get(word, [word.replace("{root}", str(root))])]
        async with Program(command, env) as program:
            ended = await program.ends_within(self._limit)
        wanted = "\0".join(CLI_WORDS).encode() + b"\xff\n"
        reason = ""
        if not ended:
            reason = f"{shlex.join(command)} did not end within {self._limit:g} s"
        elif program.stdout != wanted:
            reason = f"it wrote {bytes(program.stdout[:200])!r} to stdout, where the plugin wrote {wanted!r}"
        elif not _said(program.stderr, "cts-cli was here"):
            reason = "it did not write the plugin's stderr to its own"
        elif program.status != len(CLI_WORDS):
            reason = f"it ended with {program.status}, and the plugin's exit code is {len(CLI_WORDS)}"
        if not reason:
            return Verdict(axis="cli", outcome="passed")
        return Verdict(axis="cli", outcome="failed", reason=reason, frames=tuple(program.stderr)[-SHOWN:])


def _words(command: str, option: str, needed: Sequence[str]) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InvalidSpec(f"{option} cannot be read: {error}") from error
    for part in needed:
        if not any(part in word for word in words):
            raise InvalidSpec(f"{option} needs {part} in its command")
    return words


def _read(root: Path, name: str) -> Told:
    try:
        return msgspec.json.decode((root / name / "verdict.json").read_bytes(), type=Told)
    except (OSError, ValueError):
        return Told("failed", "its canary has no verdict: it was never started, or did not get as far")


def _settled(root: Path, name: str) -> bool:
    told = _read(root, name)
    file = root / name / "verdict.json"
    if name == "shutdown":  # what it waits for is the end
        return file.exists()
    if name == "quarantine" and told.outcome == "passed":
        return time.time() - file.stat().st_mtime > ALONE
    return told.final


def _said(words: Collection[str], what: str) -> bool:
    return any(what in line for line in words)
