"""The axes of rune: what keeps the contract passes them, and each catches what no other does."""

from __future__ import annotations

import shlex

import msgspec
import pytest

import plughost
from plughost.conformance.axis import Failed
from plughost.conformance.plugin_under_test import PluginUnderTest, Sample
from plughost.conformance.rune import AXES, do_handshake, request
from plughost.conformance.runner import run_axes
from tests.support import PLUGINS, PYTHON, ROOT, vouched
from tests.support.conformance import CANARIES, ECHO, examples, failed, folders, operated, reports

NAMES = [axis.name for axis in AXES]
REASONS = {
    "handshake": "its manifest has no plugin_version",
    "version": "asked for 'rterm.plugin.conformance', it says that it speaks 'rterm.plugin.conformance', not",
    "request": "it closed its stdout instead of sending the response to a request with unknown members",
    "tools": "a tool that it does not have is answered with status 'ok'",
    "capabilities": "its capability 'tool.execute' is listed twice",
    "errors": "a line that is not a request is answered with ok",
    "exit": "after its response it ended with 1, not 0",
}


@pytest.mark.clause("RUNE-04", "RUNE-10", "RUNE-11", "RUNE-12", "RUNE-13", "RUNE-15")
async def test_every_canary_conforms():
    for name, report in (await reports(folders(CANARIES / "rune", NAMES))).items():
        assert failed(report) == {}, name
        assert [verdict.axis for verdict in report.verdicts] == NAMES


async def test_every_broken_canary_is_caught_by_its_own_axis_alone():
    assert set(REASONS) == set(NAMES)
    for name, report in (await reports(folders(CANARIES / "broken/rune", NAMES))).items():
        assert list(failed(report)) == [name], failed(report)
        assert failed(report)[name].startswith(REASONS[name])
        (verdict,) = (verdict for verdict in report.verdicts if verdict.axis == name)
        assert verdict.frames[0].startswith('> {"type":"handshake","protocol_version":"rterm.plugin.v1"')


async def test_without_a_sample_its_first_tool_may_answer_as_it_likes():
    for name, report in (await reports([CANARIES / "rune/tools"], sample=None)).items():
        assert failed(report) == {}, name


async def test_every_example_conforms():
    for name, report in (await reports(examples("echo-rune*"))).items():
        assert failed(report) == {}, name


async def test_a_plugin_may_exit_when_it_is_asked_for_a_version_that_it_does_not_know():
    """As the published reference plugins do."""
    spec = plughost.PluginSpec(contract="rune", name="wild", command=[*PYTHON, str(PLUGINS / "wild_rune.py")])
    report = await run_axes(spec, sample=Sample("excerpt", {"text": "\U0001f600\U0001f600"}))
    assert failed(report) == {}
    assert [verdict.axis for verdict in report.verdicts] == NAMES


@pytest.mark.parametrize(
    ("grants", "reason"),
    [
        ([], "it asks for 'tool.execute', which is not granted: --grant tool.execute"),
        (["fs.read"], "it asks for 'tool.execute', which is not granted: --grant tool.execute"),
    ],
)
async def test_what_is_not_granted_may_not_be_asked_for(grants, reason):
    spec = msgspec.structs.replace(vouched(CANARIES / "rune/exit"), grants=grants)
    report = await run_axes(spec, only=["capabilities"])
    assert failed(report) == {"capabilities": reason}


async def test_what_is_granted_must_be_asked_for():
    spec = msgspec.structs.replace(vouched(CANARIES / "rune/request"), grants=["fs.read"])
    report = await run_axes(spec, only=["capabilities"])
    assert failed(report) == {"capabilities": "capabilities are granted to it, but it declares none"}


async def test_a_name_that_is_not_its_own_fails_the_handshake():
    spec = msgspec.structs.replace(vouched(CANARIES / "rune/exit"), name="another")
    report = await run_axes(spec, sample=ECHO)
    assert failed(report) == {"handshake": "it calls itself 'canary.exit', but is configured as 'another'"}


async def test_a_sample_must_be_a_tool_that_succeeds():
    spec = vouched(CANARIES / "rune/exit")
    report = await run_axes(spec, sample=Sample("no such"), only=["request", "tools"])
    assert failed(report)["request"].startswith("the sample call was answered with {'code': 'not_found'")
    assert failed(report)["tools"] == "it does not expose 'no such'; it exposes: echo"


async def test_a_plugin_that_lingers_is_past_its_teardown_time():
    spec = vouched(CANARIES / "rune/exit")
    lingering = ["/bin/sh", "-c", f"{shlex.join(spec.command)}; exec sleep 0.4 >&-"]
    report = await run_axes(
        msgspec.structs.replace(spec, command=lingering, options={"teardown_timeout": 0.1}), only=["exit"]
    )
    assert "the teardown time is 0.1 s" in failed(report)["exit"]


@pytest.mark.parametrize("folder", [path.name for path in examples("echo-rune*")])
async def test_an_example_stays_until_its_stdin_ends(folder):
    """A host that waits for the exit and reads stdout at the same time would otherwise lose its answer."""
    subject = PluginUnderTest(operated(ROOT / "plugins" / folder))
    async with subject.wire() as wire:
        manifest = await do_handshake(wire, subject.resolved.settings.protocol)
        wire.send(request(PluginUnderTest(subject.spec, ECHO), manifest))
        assert (await wire.message())["status"] == "ok"
        with pytest.raises(Failed, match="still running"):
            await wire.exit_status(timeout=0.3)
        wire.end_input()
        assert await wire.exit_status() == 0
