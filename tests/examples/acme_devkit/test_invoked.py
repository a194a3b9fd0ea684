"""The package as the host's invocations run it: confined, with nothing to reach but the gateway's socket."""

from __future__ import annotations

import pytest

from plughost.contracts.vai.request_bodies import (
    EventSubject,
    HarnessPolicy,
    HarnessTarget,
    HookEvent,
    Trigger,
)
from plughost.vai.bindings.binding import Binding, BindingPolicy, Scope
from plughost.vai.bindings.bindings import FixedBindings
from plughost.vai.bindings.secret_source import SecretFolder
from plughost.vai.invocations.invocation import Invocation, Related
from plughost.vai.invocations.options import InvokerOptions
from plughost.vai.invocations.requests import HarnessRequest, HookRequest
from plughost.vai.runtime import VaiRuntime
from plughost.vai.state.chains import Block, Chain
from plughost.vai.state.sessions import TenantSession
from tests.support import confinable
from tests.support.vai_packages import Shelf, packaged

TENANT = Scope("org_1", "proj_1")
SLOTS = ("anthropic_key", "openai_key", "slack_webhook")


def bound(export: str, **config: object) -> Binding:
    return Binding(
        binding_id=f"bind_{export}",
        package_id="acme/devkit",
        package_version="0.1.0",
        export_id=export,
        scope=TENANT,
        config=config,
        secrets={slot: f"secret://org_1/{slot}" for slot in SLOTS},
        policy=BindingPolicy(network="none"),
    )


@pytest.fixture
async def runtime(monkeypatch):
    confinable.needs("strict")
    monkeypatch.setenv("PATH", confinable.PATH)
    bindings = [
        bound("triage", compact_above=1000, max_input_tokens=2000),
        bound("coder_window"),
        bound("slack_notify"),
    ]
    with confinable.open_folder() as place:
        for slot in SLOTS:
            secret = place / "secrets/org_1" / slot
            secret.parent.mkdir(parents=True, exist_ok=True)
            secret.write_text("http://127.0.0.1:9/of-no-use\n")
            secret.chmod(0o600)
        made = VaiRuntime(
            str(place / "state"),
            Shelf(packaged("acme-devkit", place)),
            FixedBindings(bindings),
            secret_source=SecretFolder(str(place / "secrets")),
            options=InvokerOptions(scratch_base=str(place)),
        )
        async with made as runtime:
            yield runtime


def investigation(checkpoint: object = None, **policy: object) -> Invocation:
    limits = {"max_depth": 4, "max_child_runs": 12, "allow_compaction": True, **policy}
    resuming = {} if checkpoint is None else {"checkpoint": checkpoint}
    return Invocation(
        binding=bound("triage", compact_above=1000, max_input_tokens=2000),
        work=HarnessRequest(
            target=HarnessTarget(session_id="sess_1", chain_id="ch_1", execution_id="exec_1"),
            trigger=Trigger("user_request", [{"type": "text", "text": "Investigate"}]),
            policy=HarnessPolicy(**limits),
            **resuming,
        ),
        related=Related(session_id="sess_1", chain_id="ch_1", run_id="run_0"),
        timeout_ms=60_000,
    )


@pytest.mark.clause("VAI-45", "VAI-58", "VAI-59", "VAI-56")
async def test_triage_compacts_begins_child_runs_and_goes_on_from_its_checkpoint(runtime) -> None:
    its = {"org_id": "org_1", "project_id": "proj_1", "session_id": "sess_1"}
    await runtime.state.sessions.create(TenantSession(title="a bug", **its))
    chain = Chain(chain_id="ch_1", **its)
    text = [Block("input", [{"type": "text", "text": f"{n}: " + "x" * 500}]) for n in range(40)]
    await runtime.state.chains.create(chain, text)
    first = await runtime.invoke(investigation(max_child_runs=2))
    assert first.ok, first
    assert first.result["checkpoint"]["data"] == {"cursor": 2}
    assert "was compacted to" in first.result["summary"]["text"]
    second = await runtime.invoke(investigation(first.result["checkpoint"]))
    assert second.ok, second
    assert second.result["checkpoint"]["data"] == {"cursor": 3}
    assert await runtime.state.chains.blocks("ch_1") == text, "the source stays as it is"


async def test_a_hook_without_a_network_says_that_it_may_be_tried_again(runtime) -> None:
    event = HookEvent(
        type="run.completed", occurred_at="2026-03-12T19:00:00Z", subject=EventSubject("run", "run_1")
    )
    work = HookRequest(delivery_id="del_1", attempt=1, event=event)
    outcome = await runtime.invoke(Invocation(binding=bound("slack_notify"), work=work))
    assert outcome.status in {"failed", "retryable_failure"}, outcome
