"""Many calls of a running host's plugins from a process of its own: `python -m tests.support.many_calls
HOW SOCKETS FIRST COUNT NAME...` makes calls FIRST, FIRST + 1, ... and prints the outcome of each as JSON.

HOW is `command`, for `plughost call` again and again in this process, or `client`, for a ControlClient with
several calls at a time.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import plughost
from plughost import control
from tests.support import ROOT
from tests.support.command_line import run_here

AT_A_TIME = 8
TIMEOUT = 60


class Outcome(NamedTuple):
    """How one call ended."""

    number: int
    answer: Any
    error: str = ""
    """The code of the error; empty for an answer."""

    @classmethod
    def of_command(cls, number: int, exit_code: int, stdout: str, stderr: str) -> Outcome:
        """The outcome of `plughost call --json`."""
        assert (exit_code, stdout.count("\n")) in ((0, 1), (3, 1)), (number, exit_code, stdout, stderr)
        document = json.loads(stdout)
        return cls(number, None, document["error"]["code"]) if exit_code else cls(number, document)


def words(sockets: Path, name: str, number: int) -> list[str]:
    """The words of `plughost` for one call."""
    params = json.dumps([name, number])
    return [
        "call", "--json", "--timeout", str(TIMEOUT), "--socket-dir", str(sockets), name, "echo", params
    ]  # fmt: skip


async def start(how: str, sockets: Path, numbers: range, names: Iterable[str]) -> list[Outcome]:
    """Make the calls in a new process; their outcomes."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, how, str(sockets), str(numbers.start), str(len(numbers)), *names,
        cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        stdout, stderr = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, stderr.decode()
    return [Outcome(*json.loads(line)) for line in stdout.splitlines()]


def _by_command(sockets: Path, calls: Iterable[tuple[int, str]]) -> list[Outcome]:
    outcomes = []
    for number, name in calls:
        ran = run_here(*words(sockets, name, number))
        outcomes.append(Outcome.of_command(number, ran.returncode, ran.stdout, ran.stderr))
    return outcomes


async def _by_client(sockets: Path, calls: Iterable[tuple[int, str]]) -> list[Outcome]:
    (path,) = control.hosts(sockets)
    slots = asyncio.Semaphore(AT_A_TIME)
    async with control.ControlClient(path) as client:

        async def call(number: int, name: str) -> Outcome:
            async with slots:
                try:
                    answer = await client.call(name, "echo", [name, number], timeout=TIMEOUT)
                except plughost.PluginError as error:
                    return Outcome(number, None, error.code)
                return Outcome(number, answer)

        return await asyncio.gather(*(call(*each) for each in calls))


def _main(how: str, sockets: str, first: str, count: str, *names: str) -> None:
    calls = [(number, names[number % len(names)]) for number in range(int(first), int(first) + int(count))]
    if how == "command":
        outcomes = _by_command(Path(sockets), calls)
    else:
        outcomes = asyncio.run(_by_client(Path(sockets), calls))
    for outcome in outcomes:
        print(json.dumps(outcome))


if __name__ == "__main__":
    _main(*sys.argv[1:])
