"""Many invocations at once over twenty exports, with deadlines, cancellations and crashes.

Each ends once, as its record says; no folder or token outlives its invocation, and no process its pool.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from plughost.contracts.vai.request_bodies import (
    CompactionTarget,
    EventSubject,
    HarnessPolicy,
    HarnessTarget,
    Trigger,
)
from plughost.vai.bindings.binding import Binding, Scope
from plughost.vai.gateway.gateway import Gateway
from plughost.vai.invocations.execution import Execution
from plughost.vai.invocations.invocation import Invocation, Related
from plughost.vai.invocations.outcome import Outcome
from plughost.vai.invocations.requests import (
    CompactionRequest,
    HarnessRequest,
    HookRequest,
    ToolRequest,
    Work,
)
from plughost.vai.records.journal import Journal
from plughost.vai.records.record import STATUSES, Entry, Finished, RecordedBinding, Started
from plughost.vai.runtime import VaiRuntime
from plughost.vai.state import outbox
from plughost.vai.state.chains import Chain
from tests.support import processes, until
from tests.support.many_exports import EXPORTS, manifest
from tests.support.records import RecordBook
from tests.vai.invocations.conftest import bound

CALM = {"tool": "echo", "hook": "ack", "compactor": "any", "harness": "ask"}
"""What each kind can do in any weather."""
DEEDS = {
    "tool": [
        "echo",
        "echo",
        "echo",
        "events",
        "ask",
        "wait",
        "fail",
        "crash",
        "leave",
        "ignore cancel",
        "retry",
    ],
    "hook": ["ack", "ack", "failed", "retryable_failure", "wait", "crash"],
    "compactor": ["any", "any", "any", "wait", "crash"],
    "harness": ["ask", "ask", "begin", "wait", "crash"],
}
STEPS: dict[str, dict[str, Any]] = {
    "ask": {"method": "GET", "path": "/v1/chains/ch_0"},
    "begin": {"method": "POST", "path": "/v1/runs", "json": {"export": "triage", "input": []}},
}


class Weather:
    """What was recorded and which tokens were given, as it happens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entries: list[Entry] = []
        self.tokens: list[str] = []
        tell, admit = Journal.append, Gateway.admit

        def told(journal: Journal, entry: Entry) -> None:
            self.entries.append(entry)
            tell(journal, entry)

        def admitted(gateway: Gateway, run: Execution) -> str:
            self.tokens.append(admit(gateway, run))
            return self.tokens[-1]

        monkeypatch.setattr(Journal, "append", told)
        monkeypatch.setattr(Gateway, "admit", admitted)

    def of(self, kind: type) -> list[Any]:
        return [entry for entry in self.entries if isinstance(entry, kind)]


def work(export: str, do: str, number: int) -> Work:
    name = f"exec_{number}"
    match EXPORTS[export][0]:
        case "tool":
            asked = {"do": do, "count": 3, "times": 2, "path": "/v1/chains/ch_0"}
            return ToolRequest(tool_execution_id=name, input=asked)
        case "hook":
            event = outbox.event("lab.weather", EventSubject("run", "run_1"), {"answer": do})
            return HookRequest(delivery_id=name, attempt=1, event=event)
        case "compactor":
            blocks = [{"kind": "input", "content": []}] * 3
            target = CompactionTarget(1000, do)
            return CompactionRequest(
                compaction_id=name, chain_id="ch_0", blocks=blocks, token_estimate=9, target=target
            )
    return HarnessRequest(
        target=HarnessTarget(session_id="sess_1", chain_id="ch_0", execution_id=name),
        trigger=Trigger("user_request", [STEPS.get(do, {"do": do})]),
        policy=HarnessPolicy(max_depth=1, max_child_runs=2, allow_compaction=False),
    )


async def one(
    runtime: VaiRuntime, binding: Binding, number: int, chance: random.Random, longest: int
) -> Outcome | None:
    """None for one whose caller has left."""
    kind, words = EXPORTS[binding.export_id]
    do = chance.choice([deed for deed in DEEDS[kind] if deed != "leave" or "scratch" in words])
    wanted = Invocation(
        binding=binding,
        work=work(binding.export_id, do, number),
        related=Related(chain_id="ch_0"),
        timeout_ms=chance.choice((20, longest // 15, longest // 3, longest)),
    )
    task = asyncio.create_task(runtime.invoke(wanted))
    way, moment = chance.random(), chance.random() * 0.5
    if way < 0.3:
        await asyncio.sleep(moment)
        if way < 0.15:
            task.cancel("its caller left")
        elif runtime.invoker.running:
            runtime.cancel(chance.choice(runtime.invoker.running), "somebody said so")
    try:
        return await task
    except asyncio.CancelledError:
        return None


async def storm(
    runtime: VaiRuntime, weather: Weather, bindings: list[Binding], count: int, longest: int
) -> int:
    """Returns how many callers have left; what they wanted may not have begun."""
    chance = random.Random(4711)
    await runtime.state.chains.create(Chain(chain_id="ch_0", org_id="org_0", project_id="proj_1"))
    each = [bindings[number % len(bindings)] for number in range(count)]
    outcomes = await asyncio.gather(
        *(one(runtime, it, number, chance, longest) for number, it in enumerate(each))
    )
    await until(lambda: not runtime.invoker.running and not runtime.gateway._leaving)  # a harness's children
    assert not runtime.gateway.guests
    assert not list(Path(runtime._options.scratch_base).glob("plughost-scratch-*/*/*"))  # type: ignore[union-attr, arg-type]
    known = {outcome.invocation_id: outcome.status for outcome in outcomes if outcome is not None}
    told = {ended.invocation_id: ended.status for ended in weather.of(Finished)}
    assert known.items() <= told.items()
    assert {*STATUSES} == {*told.values()}, "all sorts of weather"
    assert "succeeded" in known.values(), "which some got through"
    return len(outcomes) - len(known)


async def refused(runtime: VaiRuntime, tokens: list[str]) -> Counter[int]:
    """What the gateway says to each of them, on its own socket."""
    wire = httpx.AsyncHTTPTransport(uds=await runtime.gateway.open())
    async with httpx.AsyncClient(transport=wire, base_url="http://gateway") as client:
        said: Counter[int] = Counter()
        for token in tokens:
            answer = await client.get("/v1/chains/ch_0", headers={"Authorization": f"Bearer {token}"})
            said[answer.status_code] += 1
    return said


async def weathered(
    ground: Path,
    runtime_of: Any,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    tenants: int,
    longest: int,
    runtime_url: str | None = None,
    **options: Any,
) -> None:
    weather = Weather(monkeypatch)
    (ground / "lab/vai-plugin.toml").write_text(manifest())
    scopes = [Scope(f"org_{number}", "proj_1") for number in range(tenants)]
    bindings = [bound(name, scope, f"bind_{name}_{scope.org_id}") for scope in scopes for name in EXPORTS]
    runtime: VaiRuntime = await runtime_of(*bindings, **options)
    left = await storm(runtime, weather, bindings, count, longest)

    calm = [
        Invocation(
            binding=binding, work=work(binding.export_id, CALM[EXPORTS[binding.export_id][0]], -number)
        )
        for number, binding in enumerate(bindings[: len(EXPORTS)])
    ]
    after = await asyncio.gather(*(runtime.invoke(wanted) for wanted in calm))
    assert [outcome for outcome in after if not outcome.ok] == [], "every export serves on"

    assert weather.tokens
    assert await refused(runtime, weather.tokens) == {401: len(weather.tokens)}
    await runtime.journal.flush()
    await runtime.__aexit__(None, None, None)
    assert not processes(str(ground))
    began, ended = weather.of(Started), weather.of(Finished)
    assert len(began) >= count - left + len(calm)
    assert {msgspec.json.decode(each.bound, type=RecordedBinding).export_id for each in began} == {*EXPORTS}
    assert Counter(each.invocation_id for each in ended) == Counter(each.invocation_id for each in began)
    with RecordBook(str(ground / "state"), runtime_url) as book:
        kept = {each["invocation_id"]: each["status"] for each in book.latest(len(began) + 1)}
    assert kept == {each.invocation_id: each.status for each in ended}


@pytest.mark.clause("VAI-03", "VAI-39", "VAI-10", "VAI-43", "VAI-41")
async def test_a_hundred_at_once(ground: Path, runtime_of, monkeypatch, runtime_url: str | None) -> None:
    await weathered(ground, runtime_of, monkeypatch, 100, 1, 3000, runtime_url=runtime_url, most_processes=12)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("sandbox", ["none", "strict"])
async def test_a_thousand_at_once(ground: Path, runtime_of, monkeypatch, sandbox: str) -> None:
    """Twenty exports for each of three tenants."""
    await weathered(ground, runtime_of, monkeypatch, 1000, 3, 30_000, most_processes=32, sandbox=sandbox)
