"""The harness as the host's invocations run it: confined, with nothing to reach but the gateway's socket."""

from __future__ import annotations

import os

import pytest

from plughost.contracts.vai.bodies import HarnessPolicy, HarnessTarget, Trigger
from plughost.invocations.binding import Binding, Policy, Scope
from plughost.invocations.invocation import Invocation, Related
from plughost.invocations.invoker import LocalInvoker, Options
from plughost.invocations.secret_source import SecretFolder
from plughost.invocations.tokens import Issuer
from plughost.invocations.work import Harness
from tests import confinable
from tests.vai_http import serving
from tests.vai_packages import Nowhere, Shelf, packaged

SLOTS = ("anthropic_key", "openai_key")


def answer(asked):
    if asked.path == "/v1/runs":
        return 201, {"run_id": f"run_of_{asked.headers['idempotency-key']}", "status": "succeeded"}
    return 200, {"chain_id": "ch_1", "token_estimate": 10}


@pytest.mark.clause("VAI-45", "VAI-58")
async def test_triage_reaches_the_gateway_by_its_reserved_name(host, monkeypatch):
    confinable.needs("strict")
    monkeypatch.setenv("PATH", confinable.PATH)
    with confinable.open_folder() as place, serving(answer, socket=place / "gateway.sock") as gateway:
        os.chmod(place / "gateway.sock", 0o666)
        folder = packaged("acme-devkit", place)
        for slot in SLOTS:
            secret = place / "secrets/org_1" / slot
            secret.parent.mkdir(parents=True, exist_ok=True)
            secret.write_text("of no use\n")
            secret.chmod(0o600)
        invoker = LocalInvoker(
            host, Shelf(folder), Nowhere(), host._clock,
            secret_source=SecretFolder(str(place / "secrets")),
            issuer=Issuer(),
            options=Options(scratch_base=str(place), gateway_socket=str(place / "gateway.sock")),
        )  # fmt: skip
        binding = Binding(
            binding_id="bind_1", package_id="acme/devkit", package_version="0.1.0", export_id="triage",
            scope=Scope("org_1", "proj_1"), secrets={slot: f"secret://org_1/{slot}" for slot in SLOTS},
            policy=Policy(network="none"),
        )  # fmt: skip
        work = Harness(
            target=HarnessTarget(session_id="sess_1", chain_id="ch_1", execution_id="exec_1"),
            trigger=Trigger("user_request", [{"type": "text", "text": "Investigate"}]),
            policy=HarnessPolicy(max_depth=4, max_child_runs=12, allow_compaction=True),
        )
        wanted = Invocation(binding=binding, work=work, related=Related(run_id="run_0"), timeout_ms=60_000)
        outcome = await invoker.invoke(wanted)
        await invoker.close()
    assert outcome.ok, outcome
    assert outcome.result["checkpoint"] == {"kind": "checkpoint", "data": {"cursor": 3}}
    assert [asked.path for asked in gateway.asked] == [
        "/v1/chains/ch_1",
        *["/v1/runs"] * 3,
        "/v1/chains/ch_1/blocks",
    ]
    assert {asked.headers["host"] for asked in gateway.asked} == {"gateway.vai.internal"}
    assert all(asked.headers["authorization"].startswith("Bearer vai_dlg_") for asked in gateway.asked)
