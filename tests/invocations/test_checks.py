"""Checks that would hold the event loop: in a worker process, up to the deadline and not further."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import plughost
from plughost.base.clock import LoopClock
from plughost.base.schema_cost import LARGEST_AT_ONCE
from plughost.base.worker_process import start
from plughost.invocations import schemas, worker
from plughost.invocations.chains import Chain
from plughost.invocations.checks import WORKER
from plughost.invocations.record import Ended, Said
from plughost.invocations.worker_pool import (
    MOST_WAITING,
    MOST_WAITING_OF_ONE,
    MOST_WAITING_OF_TENANT,
    WorkerPool,
)
from tests.invocations.conftest import SECRET
from tests.support import until

HOSTILE = "(?:a[ab]{3000}c|b[ab]{3000}d)"
SLOW = {"type": "object", "properties": {"text": {"pattern": HOSTILE}}}
OPTIONAL = {"properties": {"text": {"pattern": f"^$|{HOSTILE}"}}}


def set_schema(ground: Path, kind: str, schema: Any) -> None:
    (ground / f"lab/schemas/{kind}.json").write_text(json.dumps(schema))


class Gaps:
    """How long the event loop was held, at most. The bounds of tests are far above what is wanted, since this
    machine may be busy, and far below what a check takes that is done on the loop."""

    worst = 0.0


@asynccontextmanager
async def heartbeat() -> AsyncIterator[Gaps]:
    gaps, stop = Gaps(), asyncio.Event()

    async def beat() -> None:
        last = time.thread_time()
        while not stop.is_set():
            await asyncio.sleep(0)
            now = time.thread_time()
            gaps.worst, last = max(gaps.worst, now - last), now

    task = asyncio.create_task(beat())
    try:
        yield gaps
    finally:
        stop.set()
        await task


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.clause("VAI-03", "VAI-50")
async def test_a_schema_that_takes_minutes_ends_at_the_deadline_and_the_loop_goes_on(bench, ground) -> None:
    set_schema(ground, "output", SLOW)
    lab = bench()
    await lab.tool(do="echo")
    async with heartbeat() as gaps:
        began = time.monotonic()
        outcome = await lab.tool(do="repeat", text="ab", times=500_000, timeout_ms=3000)
    assert (outcome.status, outcome.reason) == ("cancelled", "deadline_exceeded")
    assert time.monotonic() - began < 15
    assert gaps.worst < 0.5
    await until(lambda: not lab.invoker.checks.pool.pids)
    assert (await lab.tool(do="echo")).ok, "others are served as ever"


@pytest.mark.parametrize(
    ("schema", "text", "worker"),
    [
        (None, "ab", False),
        (None, "ab" * LARGEST_AT_ONCE, True),
        (OPTIONAL, "", True),
        ({"properties": {"text": {"pattern": "^[a-z]{1,64}$"}}}, "ab", False),
        ({"properties": {f"p{n}": {"pattern": f"[a-c]{{2{n}}}"} for n in range(300)}}, "", True),
        ({"description": "x" * LARGEST_AT_ONCE}, "", True),
        ({"allOf": [{"properties": {"text": {"maxLength": 9}}}] * 500}, "", False),
        ({"allOf": [{"properties": {"text": {"maxLength": 9999}}}] * 500}, "a" * 1000, True),
    ],
)
async def test_what_is_small_for_its_schema_is_checked_at_once_and_the_rest_by_a_worker(
    bench, ground, schema, text, worker
) -> None:
    if schema is not None:
        set_schema(ground, "output", schema)
    lab = bench()
    outcome = await lab.tool(do="repeat", text=text, times=1)
    assert (outcome.status, outcome.message) == ("succeeded", None)
    assert outcome.result["structured_output"] == {"did": "repeat", "text": text}
    assert outcome.result["content"] == [{"type": "text", "text": "done"}]
    assert (lab.invoker.checks.pool.jobs > 0) == worker


async def test_input_and_its_schema_are_checked_the_same_way(bench, ground) -> None:
    set_schema(ground, "input", SLOW)
    lab = bench()
    wrong = await lab.tool(do="echo", text="ab")
    assert (wrong.status, wrong.reason) == ("failed", "invalid_input")
    assert wrong.message.startswith("text: the value does not match"), "the value is not told"
    assert (await lab.tool(do="echo")).ok
    assert lab.invoker.checks.pool.jobs == 1, "the second was small enough even for this schema"
    async with heartbeat() as gaps:
        late = await lab.tool(do="echo", text="ab" * 500_000, timeout_ms=500)
    assert (late.status, late.reason) == ("cancelled", "deadline_exceeded")
    assert gaps.worst < 1
    assert [each.reason for each in lab.kept.of(Ended)] == ["invalid_input", None, "deadline_exceeded"]


async def test_many_wrong_items_are_told_by_a_worker(bench, ground) -> None:
    """To tell each takes a hundred times as long as to see that there is one."""
    set_schema(ground, "output", {"properties": {"text": {"items": {"type": "integer"}}}})
    lab = bench()
    async with heartbeat() as gaps:
        outcome = await lab.tool(do="repeat", text="", times=15_000, as_list=True)
    assert (outcome.status, outcome.reason) == ("failed", "invalid_output")
    assert 'the value is not of type "integer"' in outcome.message
    assert lab.invoker.checks.pool.jobs == 1
    assert gaps.worst < 0.2


@pytest.mark.parametrize("inner", [{"const": "x" * 60_000}, {"enum": [10**4000]}])
async def test_wrong_items_are_told_by_a_worker_where_the_schema_has_long_words(bench, ground, inner) -> None:
    """Each problem repeats what its keyword says."""
    set_schema(ground, "output", {"properties": {"text": {"items": inner}}})
    lab = bench()
    async with heartbeat() as gaps:
        outcome = await lab.tool(do="repeat", text="", times=500, as_list=True)
    assert (outcome.status, outcome.reason) == ("failed", "invalid_output")
    assert lab.invoker.checks.pool.jobs == 1
    assert gaps.worst < 0.3


async def test_the_schemas_of_an_export_are_compiled_one_by_one(bench, ground, monkeypatch) -> None:
    """Each may take some 20 ms: others have their turn in between."""
    turns, compiled = 0, list[int]()
    original = schemas._made

    def noted(path: str, text: bytes) -> schemas.Schema:
        compiled.append(turns)
        return original(path, text)

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(schemas, "_made", noted)
    for kind in ("input", "output"):
        set_schema(ground, kind, {"type": "object"})
    lab = bench()
    task = asyncio.create_task(others())
    assert (await lab.tool(do="echo")).ok
    task.cancel()
    assert len(compiled) == len(set(compiled)) >= 2


async def test_unique_items_with_large_integers_are_checked_by_a_worker(bench, ground) -> None:
    """They are compared each with each."""
    set_schema(ground, "input", {"properties": {"numbers": {"uniqueItems": True}}})
    lab = bench()
    assert (await lab.tool(do="echo", numbers=[2**64 + n for n in range(10)])).ok
    assert lab.invoker.checks.pool.jobs == 0
    assert (await lab.tool(do="echo", numbers=[2**64 + n for n in range(2000)])).ok
    assert lab.invoker.checks.pool.jobs == 1


async def test_a_schema_that_cannot_be_used_is_told_when_it_is_used(bench, ground) -> None:
    set_schema(ground, "output", {"type": "objekt", "description": "x" * LARGEST_AT_ONCE})
    outcome = await bench().tool(do="repeat", text="", times=1)
    assert (outcome.status, outcome.reason) == ("failed", "invalid_request")
    assert "schemas/output.json cannot be used" in outcome.message


async def test_a_costly_configuration_schema_is_checked_before_the_first_invocation(bench, ground) -> None:
    manifest = ground / "lab/vai-plugin.toml"
    text = manifest.read_text().replace(
        'display_name = "A tool that only reads"',
        'display_name = "A tool that only reads"\nconfig_schema = "schemas/config.json"',
    )
    manifest.write_text(text)
    set_schema(ground, "config", SLOW)
    lab = bench()
    good, bad = (
        msgspec.structs.replace(lab.binding("reads"), config=config) for config in ({}, {"text": "a"})
    )
    assert (await lab.tool(binding=good, do="echo")).ok
    assert (await lab.tool(binding=good, do="echo")).ok
    assert lab.invoker.checks.pool.jobs == 1, "once for a binding"
    with pytest.raises(plughost.InvalidSpec, match="config: text: the value does not match"):
        await lab.tool(binding=bad, do="echo")


@pytest.mark.clause("VAI-94")
@pytest.mark.parametrize("shape", [{"as_list": True, "times": 20_000}, {"times": 20_000}])
async def test_secrets_in_a_large_answer_are_hidden_slice_by_slice(bench, shape) -> None:
    lab = bench()
    await lab.tool("writes", do="echo")
    async with heartbeat() as gaps:
        outcome = await lab.tool("writes", do="repeat", text="%4b&amp;KEY ", **shape)
    assert outcome.ok
    assert isinstance(outcome.payload, msgspec.Raw), "it is decoded by who wants it"
    assert SECRET.encode() not in bytes(outcome.payload)
    text = outcome.result["structured_output"]["text"]
    shown = ["%4b&amp;*** "] * 20_000
    assert text == (shown if "as_list" in shape else "".join(shown))
    assert gaps.worst < 0.5


@pytest.mark.parametrize("text", ["x", "\\", '"', "ü"])
async def test_a_long_string_fits_into_a_worker(bench, text) -> None:
    outcome = await bench().tool(do="repeat", text=text, times=4_000_000 // len(json.dumps(text)))
    assert (outcome.status, outcome.message) == ("succeeded", None)
    assert set(outcome.result["structured_output"]["text"]) == {text}


async def test_a_large_result_goes_into_its_chain_as_it_is(bench) -> None:
    lab = bench()
    await lab.chains.create(Chain(chain_id="ch_1", org_id="org_1", project_id="proj_1"))
    outcome = await lab.tool(do="repeat", text="x", times=100_000, chain_id="ch_1")
    assert isinstance(outcome.payload, msgspec.Raw)
    (block,) = await lab.chains.blocks("ch_1")
    assert block.content[0]["result"] == outcome.result


async def test_an_event_that_is_too_large_is_left_out_and_recorded(bench) -> None:
    lab = bench()
    heard: list[Any] = []
    outcome = await lab.tool(do="repeat", text="x", times=100_000, as_event=True, on_event=heard.append)
    assert outcome.ok
    assert heard == []
    (told,) = lab.kept.of(Said)
    assert told.event["type"] == "protocol.refused"
    assert f"the largest is {LARGEST_AT_ONCE}" in told.event["message"]


@asynccontextmanager
async def workers(**options: Any) -> AsyncIterator[WorkerPool]:
    clock = LoopClock(asyncio.get_running_loop())
    pool = WorkerPool(WORKER, clock, **options)
    try:
        yield pool
    finally:
        pids = pool.pids
        await pool.close()
        assert not any(map(is_running, pids))


async def check(pool: WorkerPool, *key: str, slow: bool = False, seconds: float = 60) -> Any:
    schema = json.dumps({"pattern": HOSTILE} if slow else {"type": "string"}).encode()
    value = json.dumps("ab" * 500_000 if slow else "").encode()
    head = {"job": "check", "schema": len(schema)}
    told, _ = await pool.ask(
        head, schema, value, key=key, deadline=asyncio.get_running_loop().time() + seconds
    )
    return told["problems"]


async def test_one_that_takes_all_its_time_leaves_the_other_workers_to_others() -> None:
    async with workers() as pool:
        hostile = [asyncio.ensure_future(check(pool, "hostile", slow=True)) for _ in range(5)]
        await asyncio.sleep(0)
        assert await check(pool, "one") == await check(pool, "two") == []
        assert len(pool.pids) == 2
        assert not any(task.done() for task in hostile)
        for task in hostile:
            task.cancel()
        await asyncio.wait(hostile)


async def test_when_all_workers_are_taken_one_is_ended_after_its_share() -> None:
    async with workers(share=0.2) as pool:
        hostile = [asyncio.ensure_future(check(pool, f"hostile {n}", slow=True)) for n in range(2)]
        await asyncio.sleep(0)
        assert await check(pool, "honest") == []
        done, _ = await asyncio.wait(hostile, return_when=asyncio.FIRST_COMPLETED)
        assert isinstance(done.pop().exception(), plughost.Overloaded)
        for task in hostile:
            task.cancel()
        await asyncio.wait(hostile)


async def test_who_waits_ends_at_his_own_deadline_and_what_waits_is_bounded() -> None:
    async with workers(most=1) as pool:
        hostile = asyncio.ensure_future(check(pool, "hostile", slow=True))
        await asyncio.sleep(0)
        with pytest.raises(plughost.Timeout):
            await check(pool, "late", seconds=0.05)
        waiting = [asyncio.ensure_future(check(pool, "hostile")) for _ in range(MOST_WAITING_OF_ONE)]
        await asyncio.sleep(0)
        with pytest.raises(plughost.Overloaded):
            await check(pool, "hostile")
        hostile.cancel()
        assert await check(pool, "another") == []
        assert await asyncio.gather(*waiting) == [[]] * MOST_WAITING_OF_ONE


@asynccontextmanager
async def asked(*checks: Any) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """Checks that wait or run, in this order."""
    tasks = [asyncio.ensure_future(each) for each in checks]
    await asyncio.sleep(0)
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def note_ends(tasks: list[asyncio.Task[Any]], ended: list[int]) -> None:
    """Which of them ended, in this order."""
    for number, task in enumerate(tasks):
        task.add_done_callback(lambda _, number=number: ended.append(number))


async def test_a_tenant_with_many_packages_and_projects_has_one_turn_like_any_other() -> None:
    async with workers(most=1) as pool, asked(check(pool, "one", "p", "slow", slow=True)) as slow:
        many = [check(pool, "many", f"p{n % 5}", f"package {n}") for n in range(30)]
        async with asked(*many, check(pool, "honest", "p", "package")) as tasks:
            note_ends(tasks, ended := [])
            slow[0].cancel()
            await asyncio.wait(tasks)
            assert 30 in ended[:2], ended
            assert sorted(number % 5 for number in ended[:6] if number < 30) == [0, 1, 2, 3, 4], (
                "projects, too"
            )
            assert all(task.result() == [] for task in tasks)
            assert pool._turns == {}


async def test_a_free_worker_is_for_the_tenant_who_has_none() -> None:
    async with workers() as pool:
        slow = check(pool, "many", "0", slow=True), check(pool, "other", "0", slow=True)
        quick = check(pool, "many", "1"), check(pool, "many", "2"), check(pool, "honest", "0")
        async with asked(*slow, *quick) as tasks:
            note_ends(tasks, ended := [])
            tasks[1].cancel()
            await asyncio.wait(tasks[1:])
            assert ended == [1, 4, 2, 3]


async def test_nobody_is_ended_for_a_tenant_who_has_as_many_workers() -> None:
    async with workers(share=0.05) as pool:
        many = [check(pool, "many", str(n), slow=True) for n in range(4)]
        async with asked(check(pool, "honest", "0", slow=True), *many) as (honest, *others):
            await until(lambda: sum(task.done() for task in others) == 3, patience=60)
            assert not honest.done()
            assert all(isinstance(task.exception(), plughost.Overloaded) for task in others if task.done())


async def test_what_a_tenant_has_waiting_is_bounded_and_keeps_nobody_else_from_waiting() -> None:
    async with workers(most=1) as pool, asked(check(pool, "one", "slow", slow=True)) as slow:
        many = [check(pool, "many", f"package {n % 17}") for n in range(17 * MOST_WAITING_OF_ONE)]
        async with asked(*many) as tasks:
            await until(lambda: any(task.done() for task in tasks))
            over = [task for task in tasks if task.done()]
            assert len(over) == len(tasks) - MOST_WAITING_OF_TENANT
            assert all(isinstance(task.exception(), plughost.Overloaded) for task in over)
            async with asked(check(pool, "honest", "package")) as honest:
                assert not honest[0].done()
                slow[0].cancel()
                assert await honest[0] == []


async def test_where_all_is_full_the_tenant_who_has_most_waiting_gives_way() -> None:
    async with workers(most=1) as pool, asked(check(pool, "one", "slow", slow=True)) as slow:
        full = MOST_WAITING // MOST_WAITING_OF_TENANT
        many = [check(pool, f"t{n % full}", f"package {n // 50}") for n in range(MOST_WAITING)]
        async with asked(*many) as tasks:
            assert not any(task.done() for task in tasks)
            async with asked(check(pool, "honest", "package")) as honest:
                await until(lambda: any(task.done() for task in tasks))
                (gone,) = (task for task in tasks if task.done())
                assert isinstance(gone.exception(), plughost.Overloaded)
                with pytest.raises(plughost.Overloaded):
                    await check(pool, "t3", "package 0")
                slow[0].cancel()
                assert await honest[0] == []


async def test_a_worker_that_is_killed_fails_its_check_and_another_takes_its_place() -> None:
    async with workers(most=1) as pool:
        running = asyncio.ensure_future(check(pool, "one", slow=True))
        await until(lambda: pool.pids)
        os.kill(pool.pids[0], signal.SIGKILL)
        with pytest.raises(plughost.HostFailed):
            await running
        assert await check(pool, "one") == []


@pytest.fixture
def started(monkeypatch) -> list[subprocess.Popen[bytes]]:
    """The processes of workers, as they are started."""
    processes: list[subprocess.Popen[bytes]] = []

    def noted(module: str) -> subprocess.Popen[bytes]:
        processes.append(start(module))
        return processes[-1]

    monkeypatch.setattr(worker, "start", noted)
    return processes


def fail(*args: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("call", ["pidfd_open", "add_reader"])
async def test_nothing_is_left_of_a_worker_that_cannot_be_listened_to(call, started, monkeypatch) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(os if call == "pidfd_open" else asyncio.get_running_loop(), call, fail)
        async with workers() as pool:
            with pytest.raises(plughost.HostFailed, match="No space left"):
                await check(pool, "one", "package")
    (process,) = started
    assert process.returncode is not None
    assert sorted(os.listdir("/proc/self/fd")) == before


async def test_a_worker_that_cannot_be_written_to_is_ended_and_reaped_without_being_heard_of(
    started, monkeypatch
) -> None:
    loop = asyncio.get_running_loop()
    before = sorted(os.listdir("/proc/self/fd"))
    async with workers() as pool:
        with monkeypatch.context() as patch:
            add_reader = loop.add_reader
            patch.setattr(loop, "add_writer", fail)
            # The pipe is listened to as ever, but not the descriptor that tells of the end.
            patch.setattr(
                loop, "add_reader", lambda fd, do: fail() if do.__name__ == "_reap" else add_reader(fd, do)
            )
            with pytest.raises(plughost.HostFailed):
                await check(pool, "one", "package")
        await check(pool, "one", "package")
    assert [process.returncode is not None for process in started] == [True, True]
    assert sorted(os.listdir("/proc/self/fd")) == before


async def test_workers_that_nobody_needs_are_ended_and_have_no_environment() -> None:
    async with workers(idle=0.05) as pool:
        assert await check(pool, "one") == []
        (pid,) = pool.pids
        assert Path(f"/proc/{pid}/environ").read_bytes() == b""
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        assert len(os.listdir(f"/proc/{pid}/fd")) == 3
        await until(lambda: not is_running(pid))
        assert pool.pids == []


async def test_a_value_that_needs_too_much_memory_is_refused() -> None:
    async with workers() as pool:
        deadline = asyncio.get_running_loop().time() + 60
        value = b"[" + b"[[]]," * (6 << 20) + b"0]"
        head = {"job": "check", "schema": 2}
        told, _ = await pool.ask(head, b"{}", value, key=("one",), deadline=deadline)
        assert told == {"failed": "MemoryError"}


PROGRAM = f"""
import asyncio, sys
from plughost.base.clock import LoopClock
from plughost.invocations.worker_pool import WorkerPool

async def main():
    pool = WorkerPool({WORKER!r}, LoopClock(asyncio.get_running_loop()))
    schema, value = b'{{"pattern": "{HOSTILE}"}}', b'"' + b"ab" * 500_000 + b'"'
    head = {{"job": "check", "schema": len(schema)}}
    asking = asyncio.ensure_future(pool.ask(head, schema, value, key=(1,), deadline=1e12))
    await asyncio.sleep(0)
    print(*pool.pids, flush=True)
    await asking

asyncio.run(main())
"""


async def test_nothing_is_left_of_a_host_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        pid = int(await asyncio.to_thread(host.stdout.readline))
        await until(lambda: _cpu(pid) > 0.6, patience=60)  # it is in the midst of it
        host.kill()
    await until(lambda: not is_running(pid))


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
