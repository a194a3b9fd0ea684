"""A plugin that ends, closes or falls silent at any step: its caller is told, and nothing is left."""

from __future__ import annotations

import asyncio

import pytest

import plughost
from tests.support import all_gone, seen, until
from tests.support.scripts import MCPTEST, PARLEY, PLAYS, RUNE, Play, Step


def moments() -> list[pytest.param]:
    """Before, within and after every frame that the plugin sends, and before each that it reads."""
    params = []
    for play in PLAYS.values():
        for at, step in enumerate(play.steps):
            if step[0] != "write":
                params.append(pytest.param(play, play.steps[:at], "crash", id=f"{play.contract}-before-{at}"))
                continue
            text, last = step[1], at == len(play.steps) - 1
            for cut in (1, len(text) // 2, len(text) - 1, len(text)):
                cut_steps = [*play.steps[:at], ["write", text[:cut]]]
                params.append(
                    pytest.param(
                        play, cut_steps, outcome(play, last, text, cut), id=f"{play.contract}-{at}-cut-{cut}"
                    )
                )
    return params


def outcome(play: Play, last: bool, text: str, cut: int) -> str:
    """A whole answer counts, even without its line end; but rune's counts only once the plugin ended well."""
    whole = cut == len(text) or (play is MCPTEST and cut == len(text) - 1)
    return "answer" if last and whole and play is not RUNE else "crash"


@pytest.mark.parametrize("end", [["kill"], ["exit", 0], ["exit", 3]], ids=["killed", "exit-0", "exit-3"])
@pytest.mark.parametrize(("play", "steps", "expected"), moments())
async def test_an_end_at_any_step_is_told_with_its_status(host, mark, play, steps, expected, end):
    plugin = await host.add(play.spec([*steps, end], mark))
    if (
        play is RUNE
        and end == ["exit", 0]
        and len(steps) == 4
        and steps[3][1].rstrip() == RUNE.steps[3][1].rstrip()
    ):
        expected = "answer"  # that is how a rune plugin ends
    async with asyncio.timeout(30):
        if expected == "answer":
            assert await plugin.call("echo", 1) == 1
            return
        with pytest.raises(plughost.PluginError) as caught:
            await plugin.call("echo", 1)
    # A handshake that is cut off may be told as what it is: a handshake that failed.
    assert isinstance(caught.value, plughost.Crashed | plughost.HandshakeFailed | plughost.Malformed)
    assert caught.value.exit_status == (-9 if end == ["kill"] else end[1])
    assert caught.value.plugin == "player"
    await all_gone(mark)


@pytest.mark.parametrize("play", PLAYS.values(), ids=PLAYS)
@pytest.mark.parametrize("after", ["nothing", "half an answer"])
async def test_stdout_closed_by_a_process_that_lives_on_is_a_crash(host, mark, play, after):
    steps: list[Step] = play.steps[:-1]
    if after == "half an answer":
        steps = [*steps, ["write", play.steps[-1][1][:10]]]
    plugin = await host.add(play.spec([*steps, ["close", 1], ["sleep"]], mark))
    async with asyncio.timeout(30):
        # rune takes a last line without its end for a line.
        with pytest.raises(plughost.Malformed if play is RUNE and after != "nothing" else plughost.Crashed):
            await plugin.call("echo", 1)
    await all_gone(mark)


@pytest.mark.parametrize("play", PLAYS.values(), ids=PLAYS)
@pytest.mark.parametrize("mode", ["pidns", "subreaper"])
async def test_a_grandchild_that_holds_stdout_does_not_hide_the_death(mark, play, mode):
    steps: list[Step] = [*play.steps[:-1], ["hold"], ["exit", 5]]
    async with plughost.Host(launch_mode=mode) as host, asyncio.timeout(30):
        plugin = await host.add(play.spec(steps, mark))
        with pytest.raises(plughost.Crashed) as caught:
            await plugin.call("echo", 1)
        assert caught.value.exit_status == 5
        await all_gone(mark)


@pytest.mark.parametrize("play", [MCPTEST, PARLEY], ids=["mcptest", "parley"])
async def test_a_plugin_that_never_reads_its_stdin_times_out_and_can_be_stopped(slow_host, clock, mark, play):
    """More than the pipe holds is waiting for it; the host neither blocks nor keeps its callers."""
    steps: list[Step] = [["sleep"]] if play is MCPTEST else [*PARLEY.steps[:2], ["sleep"]]
    plugin = await slow_host.add(play.spec(steps, mark, max_in_flight=64))
    large = "x" * 100_000
    calls = [asyncio.create_task(plugin.call("echo", large, timeout=5.0)) for _ in range(20)]
    await until(lambda: seen(plugin) and seen(plugin)["in_flight"] + seen(plugin)["waiting"] == 20)
    clock.advance(6)
    async with asyncio.timeout(30):
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes if not isinstance(outcome, plughost.Timeout)] == []
        plugin.kill()
        await plugin.stop()
    await all_gone(mark)
