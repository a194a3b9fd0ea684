"""The axes of mcptest: what keeps the contract passes them, and each catches what no other does."""

from __future__ import annotations

import pytest

import plughost
from plughost.conformance.mcptest import AXES
from plughost.conformance.runner import run_axes
from tests.support import PLUGINS, PYTHON
from tests.support.conformance import CANARIES, examples, failed, folders, reports

NAMES = [axis.name for axis in AXES]
REASONS = {
    "responses": "what came instead of the response to id 'two' is not JSON",
    "framing": (
        "it wrote to stdout before it had the whole line",
        "the responses to two requests did not come",  # a busy machine brought the pieces at once
    ),
    "ids": "the response to id 0 carries id None",
    "dispatch": "an unknown method is answered with -32603, not -32601",
    "garbage": "it closed its stdout instead of sending an error for a line that is not JSON; its last words",
    "shutdown": "after the end of its stdin it ended with 1, not 0",
}


@pytest.mark.clause("MCPT-01", "MCPT-02", "MCPT-04", "MCPT-05", "MCPT-06", "MCPT-07", "MCPT-13", "MCPT-29")
async def test_every_canary_conforms():
    for name, report in (await reports(folders(CANARIES / "mcptest", NAMES))).items():
        assert failed(report) == {}, name
        assert [verdict.axis for verdict in report.verdicts] == NAMES


async def test_every_broken_canary_is_caught_by_its_own_axis_alone():
    assert set(REASONS) == set(NAMES)
    for name, report in (await reports(folders(CANARIES / "broken/mcptest", NAMES))).items():
        assert list(failed(report)) == [name], failed(report)
        assert failed(report)[name].startswith(REASONS[name])
        (verdict,) = (verdict for verdict in report.verdicts if verdict.axis == name)
        if name == "garbage":
            assert verdict.frames[-1].startswith(">")
        elif name != "shutdown":  # what it said too much may have come before the next request was sent
            assert any(frame.startswith("<") for frame in verdict.frames[-2:])


async def test_without_a_sample_a_method_that_nobody_knows_serves():
    for name, report in (await reports([CANARIES / "mcptest/responses"], sample=None)).items():
        assert failed(report) == {}, name


@pytest.mark.clause("MCPT-30")
async def test_every_example_conforms():
    for name, report in (await reports(examples("echo-mcptest*"))).items():
        assert failed(report) == {}, name


@pytest.mark.clause("MCPT-03", "MCPT-05")
async def test_a_plugin_that_answers_every_method_and_writes_both_members_conforms():
    command = [*PYTHON, str(PLUGINS / "wild_mcptest.py")]
    report = await run_axes(plughost.PluginSpec(contract="mcptest", name="wild", command=command))
    assert failed(report) == {}
    assert [verdict.axis for verdict in report.verdicts] == NAMES
