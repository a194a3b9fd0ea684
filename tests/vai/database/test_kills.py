"""A host killed at any moment, on both databases: what was acknowledged is there, and everything comes to an end."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from plughost.vai.database.open_database import open_database
from plughost.vai.database.statements import statement
from plughost.vai.invocations.invocation import Invocation
from plughost.vai.invocations.requests import ToolRequest
from plughost.vai.runtime import VaiRuntime
from plughost.vai.state.runs import RunRecord
from tests.support import until
from tests.support.chaos_host import OWNER, runtime_for
from tests.support.postgres import Server, server
from tests.vai.invocations.conftest import bound, ground

__all__ = ["ground"]

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
CUT = statement(
    "cut",
    {
        None: "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    },
)


class Acknowledged:
    """What hosts said before they were killed."""

    def __init__(self) -> None:
        self.said: dict[str, list[str]] = {"inv": [], "result": [], "run": [], "event": []}

    def hear(self, line: str) -> None:
        kind, _, what = line.strip().partition(" ")
        if kind in self.said and line.endswith("\n"):
            self.said[kind].append(what)


async def killed(ground: Path, url: str | None, name: str, after: float, meanwhile=None) -> Acknowledged:
    """Runs a host, and kills it that many seconds after its first acknowledgement."""
    heard = Acknowledged()
    command = [sys.executable, "-m", "tests.support.chaos_host", str(ground), url or "", name]
    host = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, env=ENVIRONMENT, start_new_session=True
    )
    assert host.stdout is not None
    try:
        while "inv" not in (line := (await asyncio.wait_for(host.stdout.readline(), 60)).decode()):
            assert line, "it ended by itself"
            heard.hear(line)
        heard.hear(line)
        end = asyncio.get_running_loop().time() + after
        disturbance = asyncio.ensure_future(meanwhile()) if meanwhile else None
        while (left := end - asyncio.get_running_loop().time()) > 0:
            try:
                heard.hear((await asyncio.wait_for(host.stdout.readline(), left)).decode())
            except TimeoutError:
                break
        if disturbance is not None:
            await disturbance
    finally:
        os.kill(host.pid, signal.SIGKILL)
    for line in (await host.stdout.read()).decode().splitlines(keepends=True):
        heard.hear(line)
    await host.wait()
    return heard


async def check(runtime: VaiRuntime, heard: list[Acknowledged]) -> None:
    """What was acknowledged is there once; nothing is without an end; every event reached its hook."""
    said = {
        kind: [what for each in heard for what in each.said[kind]]
        for kind in ("inv", "result", "run", "event")
    }
    assert all(said.values()), "they came to do something"
    blocks = await runtime.state.chains.blocks("ch_1")
    results = Counter(block.content[0]["tool_execution_id"] for block in blocks)
    assert {*results.values()} == {1}, "no result of a tool is there twice"
    assert {*said["result"]} <= results.keys()
    for run_id in said["run"]:
        assert (await runtime.state.runs.run(run_id)).status == "succeeded"
    deadline = time.monotonic() + 60
    while True:
        deliveries = await runtime.deliveries.all()
        if not await runtime.state.outbox.waiting() and {each.status for each in deliveries} == {"acked"}:
            break
        assert time.monotonic() < deadline, Counter(each.status for each in deliveries)
        await asyncio.sleep(0.05)
    subjects = Counter(each.event.subject.id for each in deliveries)
    assert {*subjects.values()} == {1}, "an event has one delivery to one binding"
    assert {*said["event"], *said["run"]} <= subjects.keys()
    await runtime.journal.flush()
    records = await runtime.records.latest(1_000_000)
    status = {each["invocation_id"]: each["status"] for each in records}
    assert {status[invocation_id] for invocation_id in said["inv"]} == {"succeeded"}
    assert None not in status.values()


async def survive(ground: Path, url: str | None, kills: int, meanwhile=None) -> None:
    chance = random.Random(4711)
    heard = []
    for number in range(kills):
        disturb = meanwhile if meanwhile is not None and number % 3 == 0 else None
        heard.append(await killed(ground, url, f"h{number}", chance.random() * 0.3, disturb))
    async with runtime_for(ground, url) as runtime:
        await check(runtime, heard)


@pytest.mark.timeout(300)
@pytest.mark.clause("VAI-39", "VAI-51", "VAI-54")
async def test_twenty_kills_on_sqlite(ground: Path) -> None:
    await survive(ground, None, 20)


@pytest.fixture
def own_server():
    with server({"synchronous_commit": "on"}) as running:
        yield running


def disturbing(running: Server, url: str):
    """Restarts the server, or cuts its connections."""
    turns = iter(range(1_000_000))

    async def disturb() -> None:
        if next(turns) % 2:
            await asyncio.to_thread(running.stop)
            await asyncio.to_thread(running.start)
            return
        database = open_database("unused", url)
        await database.write(CUT())
        await database.close()

    return disturb


@pytest.mark.timeout(300)
@pytest.mark.clause("VAI-39", "VAI-51", "VAI-54")
async def test_twenty_kills_on_postgresql_with_restarts_of_the_server(
    ground: Path, own_server: Server
) -> None:
    url = await own_server.create()
    await survive(ground, url, 20, disturbing(own_server, url))


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("where", ["sqlite", "postgresql"])
async def test_a_hundred_kills(ground: Path, where: str, request: pytest.FixtureRequest) -> None:
    if where == "sqlite":
        return await survive(ground, None, 100)
    running = request.getfixturevalue("own_server")
    url = await running.create()
    return await survive(ground, url, 100, disturbing(running, url))


@pytest.mark.clause("VAI-39")
async def test_what_a_dead_process_ran_is_ended_by_another_within_its_lease(
    ground: Path, postgres: Server, tmp_path: Path
) -> None:
    """On another machine: nobody finds its journal."""
    url = await postgres.create()
    wait = Invocation(
        binding=bound("reads"), work=ToolRequest(tool_execution_id="toolx_1", input={"do": "wait"})
    )
    async with runtime_for(ground, url) as survivor:
        dead = runtime_for(ground, url)
        dead._folder = str(tmp_path / "elsewhere")
        await dead.__aenter__()
        started = await dead.start(wait)
        await dead.state.runs.start(RunRecord(run_id="run_1", invocation_id=started.invocation_id, **OWNER))
        await dead.lease._heartbeats.close()  # it is stopped
        began = time.monotonic()
        record = None
        while record is None or record["status"] is None:
            assert time.monotonic() < began + 30
            await asyncio.sleep(0.05)
            record = await survivor.records.get(started.invocation_id)
        assert (record["status"], record["reason"]) == ("failed", "host_ended")
        assert time.monotonic() - began < 2.0 * 4 / 3 + 2.0
        assert (await survivor.state.runs.run("run_1")).status == "failed"
        dead.cancel(started.invocation_id, "woken")
        await dead.__aexit__(None, None, None)
        record = await survivor.records.get(started.invocation_id)
        assert record is not None
        assert record["reason"] == "woken", "what it really was counts more than what was presumed"


async def test_a_process_that_was_stopped_past_its_lease_settles_nothing(
    ground: Path, postgres: Server
) -> None:
    url = await postgres.create()
    command = [sys.executable, "-m", "tests.support.chaos_host", str(ground), url, "stopped"]
    host = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, env=ENVIRONMENT, start_new_session=True
    )
    assert host.stdout is not None
    heard = Acknowledged()
    while not heard.said["event"]:
        heard.hear((await asyncio.wait_for(host.stdout.readline(), 60)).decode())
    os.kill(host.pid, signal.SIGSTOP)
    try:
        async with runtime_for(ground, url) as other:
            leases = statement("leases", {None: "SELECT lease FROM leases"})
            for _ in range(400):
                held = [row["lease"] for row in (await other.database.read(leases())).rows]
                if held == [other.lease.name]:
                    break
                await asyncio.sleep(0.05)
            assert held == [other.lease.name], "its lease has ended"
            os.kill(host.pid, signal.SIGCONT)
            for _ in range(400):
                held = [row["lease"] for row in (await other.database.read(leases())).rows]
                if len(held) == 2:
                    break
                heard.hear((await asyncio.wait_for(host.stdout.readline(), 60)).decode())
            assert len(held) == 2, "it goes on under a new one"
            os.killpg(host.pid, signal.SIGKILL)
            for line in (await host.stdout.read()).decode().splitlines(keepends=True):
                heard.hear(line)
            await host.wait()
    finally:
        if host.returncode is None:
            os.killpg(host.pid, signal.SIGKILL)
            await host.wait()
    async with runtime_for(ground, url) as runtime:
        await until(lambda: runtime.deliveries._started)
        await check(runtime, [heard])
