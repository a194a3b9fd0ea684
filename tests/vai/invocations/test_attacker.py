"""A package that was made to get more than it was given, in its sandbox: refused, and in its record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plughost.vai.runtime import VaiRuntime
from tests.support.many_exports import manifest
from tests.vai.invocations.conftest import bound
from tests.vai.invocations.test_harness import ask, record, refusals, told, wanted, with_a_chain

pytestmark = pytest.mark.usefixtures("strict")


@pytest.fixture
async def runtime(ground: Path, runtime_of) -> VaiRuntime:
    (ground / "lab/vai-plugin.toml").write_text(manifest())
    made: VaiRuntime = await runtime_of(sandbox="strict", artifacts=str(ground / "artifacts"))
    await with_a_chain(made)
    return made


@pytest.mark.clause("VAI-41", "VAI-42")
async def test_a_wider_scope_and_another_algorithm(runtime: VaiRuntime) -> None:
    narrow = bound("triage_with_files", scopes=frozenset({"chains:read"}))
    steps = [
        ask("GET", "/v1/chains/ch_1"),
        ask("POST", "/v1/runs", {}),
        {"do": "forge", "path": "/v1/chains/ch_1"},
    ]
    outcome = await runtime.invoke(wanted(*steps, binding=narrow))
    (good, _), (wider, problem), forged = told(outcome)
    assert (good, wider, problem["code"]) == (200, 403, "scope_missing")
    assert forged == [401] * 4
    assert await refusals(runtime, outcome) == ["scope_missing", *["unauthenticated"] * 4]


@pytest.mark.clause("VAI-34")
async def test_events_and_results_for_other_requests(runtime: VaiRuntime) -> None:
    outcome = await runtime.invoke(wanted({"do": "stray"}, binding=bound("triage_with_files")))
    assert told(outcome) == []
    events = (await record(runtime, outcome.invocation_id))["events"]
    assert [each["event"]["type"] for each in events] == ["protocol.refused"] * 2


@pytest.mark.clause("VAI-58", "VAI-93")
@pytest.mark.parametrize(
    "steps",
    [
        [{"do": "hand over", "path": "../../../secrets/org_1/key"}],
        [{"do": "hand over", "path": "/etc/passwd"}],
        [{"do": "link", "to": "/etc/passwd", "name": "mine"}, {"do": "hand over", "path": "mine"}],
        [{"do": "link", "to": "/etc", "name": "mine"}, {"do": "hand over", "path": "mine/passwd"}],
    ],
    ids=["up", "absolute", "a link", "a link on the way"],
)
async def test_an_artifact_that_is_not_its_own(
    runtime: VaiRuntime, ground: Path, steps: list[dict[str, Any]]
) -> None:
    outcome = await runtime.invoke(wanted(*steps, binding=bound("triage_with_files")))
    assert (outcome.status, outcome.reason, outcome.result) == ("failed", "denied", None)
    kept = await record(runtime, outcome.invocation_id)
    assert (kept["status"], kept["reason"]) == ("failed", "denied")
    assert "not in its scratch folder" in kept["message"]
    assert not (ground / "artifacts").exists()
