"""What a plugin says of a failure: bounded, and no part of a secret is left where it is cut."""

from __future__ import annotations

import pytest

from tests.vai.invocations.conftest import SECRET
from tests.vai.invocations.test_checks import heartbeat, set_schema

PAD = "x" * 70_000
"""Makes an answer one for a worker process."""


async def test_an_error_of_any_length_holds_nobody_up(bench) -> None:
    lab = bench()
    await lab.tool("writes", do="echo")
    async with heartbeat() as gaps:
        outcome = await lab.tool("writes", do="refuse", text="%252526&amp;", times=1_000_000)
    assert (outcome.status, outcome.reason) == ("failed", "protocol_failure")
    assert outcome.message == "it answered with no: something of 12000000 characters"
    assert gaps.worst < 0.5


async def test_a_code_of_an_error_is_told_whole_or_not_at_all(bench) -> None:
    outcome = await bench().tool("writes", do="refuse", text="KEY", code="c" * 201)
    assert outcome.message == "it answered with something of 201 characters: ***"


@pytest.mark.parametrize("pad", ["", PAD])
async def test_a_problem_that_is_cut_inside_a_secret_shows_nothing_of_it(bench, ground, pad) -> None:
    set_schema(ground, "output", {"additionalProperties": {"type": "string"}})
    manifest = ground / "lab/vai-plugin.toml"
    wants = 'input_schema = "schemas/input.json"\n'
    promises = 'output_schema = "schemas/output.json"\n'
    first, *others = manifest.read_text().split(wants)
    manifest.write_text(f"{first}{wants}" + f"{wants}{promises}".join(others))
    lab = bench()
    for before in (500 - len(SECRET) + 1, 490, 498):
        result = {"content": [], "structured_output": {"q" * before + "KEY": 1, "pad": pad}}
        outcome = await lab.tool("writes", do="answer", body={"status": "succeeded", "result": result})
        assert outcome.reason == "invalid_output"
        assert "qqq*" in outcome.message
        assert "qs" not in outcome.message


async def test_words_for_a_failure_that_are_cut_inside_a_secret_show_nothing_of_it(bench) -> None:
    before = 16384 - len(SECRET) + 1
    times = before // len(SECRET)
    said = "KEY" * times + "A" * (before - times * len(SECRET)) + "KEY"
    result = {"content": [], "structured_output": {"pad": PAD}}
    body = {"status": "failed", "error": {"code": "no", "message": said}, "result": result}
    outcome = await bench().tool("writes", do="answer", body=body)
    assert outcome.reason == "plugin:no"
    assert "A***" in outcome.message
    assert SECRET[:4] not in outcome.message
