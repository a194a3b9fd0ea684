"""Invocations of a real plugin that are given secrets of the gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from plughost.gateway.secrets.gateway_secrets import GatewaySecrets
from plughost.vai.bindings.binding import Binding
from plughost.vai.bindings.bindings import FixedBindings
from plughost.vai.database.database import Database
from plughost.vai.database.sealing import Seal
from plughost.vai.invocations.invocation import Invocation
from plughost.vai.invocations.options import InvokerOptions
from plughost.vai.invocations.outcome import Outcome
from plughost.vai.invocations.requests import ToolRequest
from plughost.vai.runtime import VaiRuntime
from tests.gateway.secrets.conftest import ORG, OTHER_ORG, audit_lines, put
from tests.vai.invocations.conftest import Shelf, bound, ground

__all__ = ["ground"]

FIRST, SECOND = "the-first-value-4711", "the-second-value-4712"


@pytest.fixture
async def runtime(
    ground: Path, database_url: str | None, database: Database, secrets: GatewaySecrets
) -> AsyncIterator[VaiRuntime]:
    options = InvokerOptions(scratch_base=str(ground), sandbox="none")
    async with VaiRuntime(
        str(ground / "state"),
        Shelf(ground / "lab"),
        FixedBindings([bound("writes")]),
        database=database_url,
        secret_source=secrets,
        options=options,
    ) as runtime:
        yield runtime


async def say(runtime: VaiRuntime, text: str, binding: Binding | None = None) -> Outcome:
    work = ToolRequest(tool_execution_id="toolx_1", input={"do": "say", "text": text})
    return await runtime.invoke(Invocation(binding=binding or bound("writes"), work=work))


@pytest.mark.clause("GW-31", "VAI-65", "VAI-90")
async def test_the_next_invocation_has_the_new_value_and_nothing_shows_it(
    runtime: VaiRuntime, database: Database, master: Seal, secrets: GatewaySecrets
) -> None:
    outcomes = []
    for value in (FIRST, SECOND):
        await put(database, master, ORG, "key", value)
        # A plugin's words are redacted: whether it has a value is seen by what becomes of that value.
        outcomes.append(await say(runtime, f"KEY, not {FIRST[:-1]}_ or {SECOND}"))
    texts = [outcome.result["structured_output"]["text"] for outcome in outcomes]
    assert texts == [f"***, not {FIRST[:-1]}_ or {SECOND}", f"***, not {FIRST[:-1]}_ or ***"]
    await runtime.journal.flush()
    records = [await runtime.records.get(outcome.invocation_id) for outcome in outcomes]
    await secrets.close()
    lines = await audit_lines(database)
    assert [line["request_id"] for line in lines] == [outcome.invocation_id for outcome in outcomes]
    assert {(line["actor"], line["target"]) for line in lines} == {
        ("binding:bind_writes", "secret://org_1/key")
    }
    assert FIRST not in repr(outcomes) + repr(records) + repr(lines)


@pytest.mark.clause("GW-31")
async def test_an_invocation_that_may_not_have_a_secret_fails_and_says_why(
    runtime: VaiRuntime, database: Database, master: Seal
) -> None:
    outcome = await say(runtime, "KEY")
    assert (outcome.status, outcome.reason) == ("failed", "invalid_request")
    assert outcome.message == "there is no secret secret://org_1/key"
    await put(database, master, ORG, "key", FIRST, packages=["acme/others"])
    outcome = await say(runtime, "KEY")
    assert outcome.status == "failed"
    assert outcome.message == "the package acme/lab is not among those that may have secret://org_1/key"
    await put(database, master, OTHER_ORG, "key", SECOND)
    foreign = msgspec.structs.replace(bound("writes"), secrets={"key": "secret://org_2/key"})
    outcome = await say(runtime, "KEY", foreign)
    assert outcome.message == "there is no secret secret://org_2/key"
    await put(database, master, ORG, "key", FIRST, packages=["acme/lab"])
    assert (await say(runtime, "KEY")).status == "succeeded"
