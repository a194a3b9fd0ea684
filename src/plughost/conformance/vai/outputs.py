"""The axes of outputs: results that match their schema, and no leaked secrets."""

from __future__ import annotations

import asyncio

import msgspec

from plughost._util.json_schema import validation
from plughost.conformance.axis import Axis, Skipped, require
from plughost.conformance.plugin_under_test import PluginUnderTest
from plughost.conformance.vai.requests import TENANT, manifest_of, request, schema_of
from plughost.conformance.vai.stub_host import body_of, open_stub
from plughost.contracts.vai.manifest import Export
from plughost.contracts.vai.results import outcome
from plughost.wire.messages import encode


async def schema(subject: PluginUnderTest) -> None:
    """Checks each export's result, and a tool's structured_output against its output_schema."""
    seen = 0
    async with open_stub(subject) as stub:
        for export in manifest_of(subject).exports:
            op, body = request(subject, export)
            answer = body_of(export, await stub.ask(op, body))
            result_outcome = outcome(op, msgspec.Raw(encode(answer)))
            promised = schema_of(subject, export.tool.output_schema) if export.tool is not None else None
            if export.tool is None or result_outcome.status != "succeeded" or promised is None:
                continue
            seen += 1
            assert result_outcome.result is not None
            if not result_outcome.result.is_error:
                problems = await asyncio.to_thread(
                    validation.problems_in_worker, promised, result_outcome.result.structured_output
                )
                wrong = "; ".join(problems)
                require(not problems, f"the output of {export.id} does not match its output_schema: {wrong}")
    if not seen and any(export.tool is not None for export in manifest_of(subject).exports):
        raise Skipped(
            "no tool with an output_schema succeeded; --sample 'EXPORT JSON' names an input that works"
        )


async def secrets(subject: PluginUnderTest) -> None:
    """Checks that no secret and no token appears in events, responses or stderr."""
    async with open_stub(subject) as stub:
        for export in manifest_of(subject).exports:
            await stub.ask(*request(subject, export))
        await stub.drain()
        transcript = encode(stub.transcript).decode()
        stub.wire.end_input()
        await stub.wire.exit_status()
        for secret in _planted(manifest_of(subject).exports):
            require(secret not in transcript, "a secret that it was given is in its events or its responses")
            require(secret not in stub.wire.last_words(), "a secret that it was given is in its stderr")


def _planted(exports: list[Export]) -> list[str]:
    slots = [f"secret_{slot}_{TENANT}" for export in exports for slot in export.permissions.secret_slots]
    return [*slots, f"vai_dlg_{TENANT}"]


def _has_none(subject: PluginUnderTest) -> str | None:
    asked = [export.permissions for export in manifest_of(subject).exports]
    return (
        None
        if any(each.secret_slots or each.gateway_api_scopes for each in asked)
        else "it declares no secrets"
    )


AXES = (
    Axis(
        name="schema",
        promise="answers with `ok: true`, a known status and a result of its kind; a tool's "
        "structured_output matches its output_schema",
        test=schema,
    ),
    Axis(
        name="secrets",
        promise="never reveals its secrets or its token in events, responses or stderr",
        test=secrets,
        skip_reason=_has_none,
    ),
)
