"""The engine under the axes: verdicts, bounds, and nothing left behind, whatever a plugin does."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from pathlib import Path
from xml.etree import ElementTree

import pytest

import plughost
from plughost.conformance import runner
from plughost.conformance.axis import Axis, AxisVerdict, Failed, require
from plughost.conformance.junit import junit
from plughost.conformance.plugin_under_test import PluginUnderTest, Sample
from plughost.conformance.raw_process import MAX_UNREAD_BYTES
from plughost.conformance.runner import ConformanceReport, axes_of, run_axes
from tests.support import PLUGINS, PYTHON, all_gone, plugin_process, processes, until

HOSTILE = "\x1b]0;title\x07\x1b[2J \x00\x7f\x9b31m \u202e \ufffe"


def script(text, mark="", *, contract="mcptest", **more):
    """A plugin in a few lines."""
    return plughost.PluginSpec(
        contract=contract,
        name="p",
        command=[*PYTHON, "-c", f"import json, os, sys, time\n{text}", mark],
        **more,
    )


def parley(mark, **env):
    command = [*PYTHON, str(PLUGINS / "parley_puppet.py"), mark]
    return plughost.PluginSpec(contract="parley", name="p", command=command, env=env)


def axes(monkeypatch, *tests):
    """These tests as the axes of every contract."""
    made = tuple(Axis(name=test.__name__, promise=test.__name__, test=test) for test in tests)
    monkeypatch.setattr(runner, "axes_of", lambda contract: made)


ECHO = """
for line in sys.stdin:
    print(json.dumps({"id": json.loads(line)["id"], "result": None}), flush=True)
"""


async def test_a_verdict_tells_how_long_it_took_why_it_failed_and_what_was_said(monkeypatch, mark):
    async def good(subject):
        async with subject.wire() as wire:
            wire.send({"id": 1, "method": "x"})
            await wire.message()

    async def bad(subject):
        async with subject.wire() as wire:
            wire.send({"id": 2, "method": "x"})
            require((await wire.message())["result"], "it has nothing to say")

    axes(monkeypatch, good, bad)
    told = []
    report = await run_axes(script(ECHO, mark), on_verdict=told.append)
    passed, failed = report.verdicts
    assert told == [passed, failed]
    assert (passed.axis, passed.outcome, passed.reason, passed.frames) == ("good", "passed", "", ())
    assert (failed.axis, failed.outcome, failed.reason) == ("bad", "failed", "it has nothing to say")
    assert failed.frames == ('> {"id":2,"method":"x"}', '< {"id": 2, "result": null}')
    assert passed.seconds > 0
    assert not report.conforms
    assert (report.count("passed"), report.count("failed"), report.count("skipped")) == (1, 1, 0)
    await all_gone(mark)


async def test_a_reason_that_quotes_the_plugin_is_fit_to_be_shown(monkeypatch, mark):
    async def quotes(subject):
        raise Failed(f"{HOSTILE}\n{'x' * 100_000}")

    axes(monkeypatch, quotes)
    (verdict,) = (await run_axes(script(ECHO, mark))).verdicts
    first, second = verdict.reason.splitlines()
    assert first.isprintable()
    assert len(second) < 2100


async def test_a_contract_from_outside_brings_its_own_axes(mark):
    report = await run_axes(parley(mark), sample=Sample("echo", 1))
    assert [(verdict.axis, verdict.outcome) for verdict in report.verdicts] == [
        ("hello", "passed"),
        ("calls", "passed"),
    ]
    report = await run_axes(parley(mark, handshake="refuse"), sample=Sample("echo", 1))
    hello, calls = report.verdicts
    assert (hello.outcome, hello.reason) == ("failed", "it does not want to talk")
    assert (calls.outcome, calls.reason.splitlines()[0]) == (
        "failed",
        "plugin p handshake_failed: it does not want to talk",
    )
    await all_gone(mark)


async def test_what_a_plugin_is_not_asked_is_skipped_and_says_why(mark):
    report = await run_axes(parley(mark), only=["calls"])
    (verdict,) = report.verdicts
    assert (verdict.outcome, verdict.reason) == ("skipped", "no --sample was given")
    assert report.conforms


async def test_only_the_axes_that_are_named_and_only_those_that_there_are(mark):
    report = await run_axes(script(ECHO, mark), only=["shutdown", "ids"])
    assert [verdict.axis for verdict in report.verdicts] == ["ids", "shutdown"]
    with pytest.raises(plughost.InvalidSpec, match="unknown axis 'else'; known: "):
        await run_axes(script(ECHO), only=["what", "else", "ids"])
    with pytest.raises(
        plughost.InvalidSpec, match="no conformance axes for the contract 'nobody'; there are for"
    ):
        axes_of("nobody")


async def test_a_plugin_that_cannot_be_started_gets_no_verdict():
    spec = plughost.PluginSpec(contract="mcptest", name="p", command=["/no/such/program"])
    with pytest.raises(plughost.LaunchFailed, match="/no/such/program"):
        await run_axes(spec)


async def test_a_plugin_that_hangs_is_waited_for_no_longer_than_the_patience(mark):
    began = time.monotonic()
    report = await run_axes(script("time.sleep(600)", mark), timeout=1)
    assert time.monotonic() - began < 60
    assert report.count("failed") == len(report.verdicts)
    assert report.verdicts[0].reason == "the response to id 1 did not come within 1 s"
    await all_gone(mark)


async def test_an_axis_that_is_never_through_is_cut_short(monkeypatch, mark):
    async def endless(subject):
        async with subject.wire() as wire:
            for number in range(1_000_000):
                wire.send({"id": number, "method": "x"})
                await wire.message()

    axes(monkeypatch, endless)
    (verdict,) = (await run_axes(script(ECHO, mark), timeout=0.05)).verdicts
    assert verdict.reason in (
        "this check did not finish within 0.6 s",
        "a message did not come within 0.05 s",  # on a machine that is busy enough
    )
    await all_gone(mark)


async def test_a_plugin_that_floods_its_stdout_waits_and_is_read_on_when_there_is_room(mark):
    flood = script("while True: os.write(1, b'{}' + b' ' * 9997 + b'\\n')", mark)

    def written():
        about = Path(f"/proc/{plugin_process(mark)}/io").read_text()
        return int(about.split("wchar: ")[1].split()[0])

    async def stands_still():
        seen, times = -1, 0
        while times < 20:
            seen, before = await until(written), seen
            times = times + 1 if seen == before else 0
            await asyncio.sleep(0.002)
        return seen

    async with PluginUnderTest(flood).wire() as wire:
        await wire.message()
        await until(lambda: written() > MAX_UNREAD_BYTES)
        stopped_at = await asyncio.wait_for(stands_still(), 30)
        assert MAX_UNREAD_BYTES < stopped_at < 2 * MAX_UNREAD_BYTES
        for _ in range(300):
            await wire.message()
        await until(lambda: written() > 2.5 * MAX_UNREAD_BYTES)
    await all_gone(mark)


@pytest.mark.parametrize("contract", ["mcptest", "rune"])
async def test_a_plugin_that_dies_at_once_is_quoted(contract, mark):
    report = await run_axes(script("sys.exit('no config today')", mark, contract=contract))
    for verdict in report.verdicts:
        assert verdict.outcome == "failed"
        assert "no config today" in verdict.reason or verdict.axis == "shutdown"


@pytest.mark.parametrize(
    "answer",
    [
        HOSTILE,
        f'{{"id": {json.dumps(HOSTILE)}, "type": {json.dumps(HOSTILE)}, "result": 1}}',
        '{"id": $ID, "error": [1], "type": "handshake", "manifest": []}',
        '{"id": $ID, "error": {"code": [], "message": {}}, "type": "handshake", "manifest": {"plugin_id": [1]}}',
        '{"id": $ID, "error": {"code": -32601, "message": 5}, "type": "handshake", '
        '"manifest": {"plugin_id": "p", "plugin_version": {}, "protocol_version": [], "exposed_tools": {"a": 1}, '
        '"capabilities": "tool.execute"}}',
        '{"id": {}, "result": [], "error": 0, "type": "handshake", "status": [], "manifest": '
        '{"exposed_tools": [[], "a"], "capabilities": [{}]}}',
        "[" * 5000,
        '{"id": "' + "9" * 100_000 + '"}',
    ],
)
async def test_no_answer_is_so_odd_that_it_gets_past_the_axes_or_onto_a_terminal(answer, mark):
    text = f"""
answer = json.loads({json.dumps(json.dumps(answer))})
for line in sys.stdin.buffer:
    try: number = json.dumps(json.loads(line).get("id"))
    except Exception: number = "null"
    sys.stderr.write({json.dumps(HOSTILE)})
    sys.stdout.buffer.write(answer.replace("$ID", number).encode(errors="surrogatepass") + b"\\n")
    sys.stdout.flush()
"""
    for contract in ("mcptest", "rune"):
        report = await run_axes(script(text, mark, contract=contract), timeout=5)
        assert report.count("failed") >= 5
        for verdict in report.verdicts:
            shown = [*verdict.reason.splitlines(), *verdict.frames]
            assert all(line.isprintable() for line in shown), shown
            assert all(len(line) < 5000 for line in shown)
    await all_gone(mark)


async def test_a_daemon_that_the_plugin_leaves_is_ended_with_it(mark):
    daemon = f"""
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    time.sleep(600)
{ECHO}"""
    report = await run_axes(script(daemon, mark), only=["ids"])
    assert report.conforms
    await all_gone(mark)


@pytest.mark.parametrize("begun", [False, True])
async def test_whoever_gives_up_in_the_middle_leaves_nothing_behind(begun, mark):
    task = asyncio.create_task(run_axes(script("time.sleep(600)", mark)))
    if begun:
        await until(lambda: len(processes(mark)) == 3)
    else:  # while it is being started
        await asyncio.sleep(0)
    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    task.cancel()
    began = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await task
    await all_gone(mark)
    assert time.monotonic() - began < 60
    assert complaints == []


async def test_silence_is_silence_and_the_end_is_the_end(mark):
    async with PluginUnderTest(
        script("os.write(1, b'{}\\n'); sys.stdin.read(); os.write(1, b'[]\\n')", mark)
    ).wire() as wire:
        assert await wire.message() == {}
        await wire.silent("at all")
        wire.end_input()
        assert await wire.exit_status() == 0
        with pytest.raises(Failed, match="it wrote to stdout too late"):
            await wire.ended("too late")
        await wire.ended("too late")
        await wire.silent("at all")
        with pytest.raises(Failed, match="it closed its stdout instead of sending a word"):
            await wire.message("a word")


def test_a_report_is_xml_whatever_the_plugin_said():
    everything = "".join(map(chr, [*range(0x300), 0x2028, 0xFFFE, 0xFFFF, 0xD800, 0xDFFF, 0x1F600])) + "]]>"
    verdicts = (
        AxisVerdict(axis="good", outcome="passed", seconds=1.5),
        AxisVerdict(axis="bad", outcome="failed", reason=everything, frames=(everything, "> <&>")),
        AxisVerdict(axis="idle", outcome="skipped", reason=everything),
    )
    tree = ElementTree.fromstring(junit(ConformanceReport(everything, "mcptest", verdicts)))
    assert {name: tree.get(name) for name in ("tests", "failures", "skipped", "time")} == {
        "tests": "3",
        "failures": "1",
        "skipped": "1",
        "time": "1.500",
    }
    assert [case.get("name") for case in tree] == ["good", "bad", "idle"]
    assert "😀]]>" in tree.find("testcase/failure").get("message")
    assert tree.find("testcase/failure").text.endswith("> <&>")


def test_only_the_last_frames_are_kept(mark):
    assert isinstance(PluginUnderTest(script(ECHO, mark)).frames, deque)
    assert PluginUnderTest(script(ECHO, mark)).frames.maxlen == 12
