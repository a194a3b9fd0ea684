"""kaged: one plugin's trouble is handled as its clause says, and is not another's."""

from __future__ import annotations

import asyncio
import signal
from contextlib import asynccontextmanager

import pytest

import plughost
from plughost.events import Dropped, Exited, Notified
from tests.contracts.kaged.test_kaged_lifecycle import asked, reaches
from tests.support import all_gone, seen, until
from tests.support.kaged import folder, spec

PATIENCE = 30
"""Seconds within which a call of the other plugin is answered, on a machine that is busy with other things."""


@pytest.fixture
def undisturbed(slow_host, tmp_path, mark):
    """While it is entered, another plugin answers one call after another."""

    async def call_on(other, answered, enough):
        while not enough.is_set():
            sent = {"n": len(answered)}
            assert await asyncio.wait_for(other.call("p.echo", sent, timeout=1e6), PATIENCE) == sent
            answered.append(sent)

    @asynccontextmanager
    async def undisturbed():
        # Its own check-up is far away: a clock that jumps would leave it no time to answer.
        place = folder(tmp_path / mark / "well", name="other", health_interval_sec=300)
        other = await slow_host.add(spec(place))
        await other.call("p.echo")
        first = seen(other)["pid"]
        answered, enough = [], asyncio.Event()
        calling = asyncio.create_task(call_on(other, answered, enough))
        try:
            await until(lambda: answered)
            yield
            many = len(answered) + 3
            await until(lambda: calling.done() or len(answered) > many)
            assert (other.state, seen(other)["pid"]) == ("Running", first)
        finally:
            enough.set()
            await calling

    return undisturbed


async def _lives_on(plugin, clock, seconds):
    """Time passes in steps that leave it real time to answer what it is asked."""
    for _ in range(seconds):
        clock.advance(1)
        await plugin.call("p.echo")


@pytest.mark.clause("KAGED-23", "KAGED-34")
async def test_one_that_hangs_its_calls_but_answers_health_loses_the_calls_and_lives(
    slow_host, clock, tmp_path, mark, undisturbed
):
    plugin = await slow_host.add(spec(folder(tmp_path / mark)))
    await plugin.call("p.echo")
    async with undisturbed():
        lost = [asyncio.create_task(plugin.call("p.hold", timeout=50)) for _ in range(100)]
        await until(lambda: seen(plugin)["in_flight"] == 100)
        await _lives_on(plugin, clock, 49)
        assert not any(call.done() for call in lost)
        await _lives_on(plugin, clock, 2)
        outcomes = await asyncio.wait_for(asyncio.gather(*lost, return_exceptions=True), PATIENCE)
        assert {type(outcome) for outcome in outcomes} == {plughost.Timeout}
        await _lives_on(plugin, clock, 70)
    assert await asked(plugin, "health.check") == (4,)
    assert (plugin.state, seen(plugin)["in_flight"], seen(plugin)["failures"]) == ("Running", 0, 0)


@pytest.mark.clause("KAGED-23", "KAGED-32")
async def test_one_that_answers_calls_but_never_health_is_started_again_and_at_last_stopped(
    slow_host, clock, tmp_path, mark, undisturbed
):
    place = folder(tmp_path / mark, env={"silent": "health.check"}, health_interval_sec=5)
    plugin = await slow_host.add(spec(place))
    why = "it did not answer 'health.check' within 5 s"
    async with undisturbed():
        with slow_host.events() as told:
            for delay in (1.1, 4.1, None):
                assert await plugin.call("p.echo", {"a": 1}) == {"a": 1}
                clock.advance(5.1)
                assert await plugin.call("p.echo", {"a": 2}) == {"a": 2}
                clock.advance(5.1)
                assert await reaches(told, "Backoff" if delay else "Quarantined") == why
                if delay:
                    clock.advance(delay)
        with pytest.raises(plughost.Quarantined, match="health.check"):
            await plugin.call("p.echo")


@pytest.mark.clause("KAGED-26")
async def test_fifty_thousand_notifications_a_second_cost_nobody_an_answer(
    slow_host, clock, tmp_path, mark, undisturbed
):
    plugin = await slow_host.add(spec(folder(tmp_path / mark)))
    await plugin.call("p.echo")
    second = {"tells": [["p.happened", 0]] * 50_000}
    async with undisturbed():
        with slow_host.events() as told:
            for dropped in (49_900, 99_800):
                flood = asyncio.create_task(plugin.call("p.tell", second))
                assert await asyncio.wait_for(plugin.call("p.echo", {"a": 1}), 3 * PATIENCE) == {"a": 1}
                await flood
                heard = [
                    type(event) for event in iter(told.take, None) if isinstance(event, Notified | Dropped)
                ]
                assert (heard.count(Notified), heard.count(Dropped)) == (100, 1)
                assert seen(plugin)["dropped"] == dropped
                clock.advance(1)
    assert plugin.state == "Running"


@pytest.mark.clause("KAGED-25")
async def test_one_byte_over_four_mebibytes_ends_only_who_said_it(slow_host, tmp_path, mark, undisturbed):
    plugin = await slow_host.add(spec(folder(tmp_path / mark), backoff=[0]))
    await plugin.call("p.echo")
    async with undisturbed():
        waiting = asyncio.create_task(plugin.call("p.hold"))
        await until(lambda: seen(plugin)["in_flight"] == 1)
        with slow_host.events() as told:
            with pytest.raises(plughost.Malformed, match="longer than 4194304 bytes"):
                await plugin.call("p.fill", {"bytes": (4 << 20) + 1})
            with pytest.raises(plughost.PluginError):
                await waiting
            assert "longer than 4194304 bytes" in await reaches(told, "Backoff")
        assert seen(plugin)["failures"] == 1


@pytest.mark.clause("KAGED-24")
async def test_one_that_ignores_shutdown_the_end_of_stdin_and_sigterm_is_killed_on_time(
    slow_host, clock, tmp_path, mark, undisturbed
):
    place = folder(tmp_path / mark / "rude", env={"rude": "1", "silent": "shutdown"}, shutdown_timeout_sec=1)
    plugin = await slow_host.add(spec(place))
    await plugin.call("p.echo")
    async with undisturbed():
        with slow_host.events() as told:
            stopping = asyncio.create_task(plugin.stop())
            await asyncio.sleep(0)
            clock.advance(1.1)
            logs = slow_host.service("logs")
            await until(lambda: any("SIGTERM" in line.message for line in logs.recent("puppet")))
            assert not stopping.done()
            clock.advance(2)
            await asyncio.wait_for(stopping, PATIENCE)
            exits = [event for event in iter(told.take, None) if isinstance(event, Exited)]
        assert [event.exit_status for event in exits] == [-signal.SIGKILL]
        await all_gone(f"{mark}/rude")
