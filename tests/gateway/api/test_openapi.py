"""The OpenAPI document describes every route as users call it, with every problem."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from plughost.gateway.problems import CODES
from tests.gateway.api.conftest import InProcess


async def document(gateway: InProcess) -> dict[str, Any]:
    found: dict[str, Any] = (await gateway.client("").get("/openapi.json")).json()
    return found


@pytest.mark.clause("GW-04", "VAI-73")
async def test_every_operation_has_a_summary_its_scope_and_its_problems(gateway: InProcess) -> None:
    described = await document(gateway)
    assert described["openapi"].startswith("3.1")
    operations = [
        (path, method, operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]
    assert len(operations) > 15
    for path, method, operation in operations:
        assert operation["summary"], path
        assert operation["operationId"]
        responses = operation["responses"]
        assert "500" in responses
        assert ("401" in responses) == bool(operation["security"]), (method, path)
        for status, response in responses.items():
            if int(status) >= 400:
                example = response["content"]["application/problem+json"]["example"]
                assert (example["status"], CODES[example["code"]].status) == (int(status), int(status))
    ids = [operation["operationId"] for _, _, operation in operations]
    assert len(set(ids)) == len(ids)


@pytest.mark.clause("GW-04")
async def test_examples_of_problems_fit_their_schema_and_every_reference_leads_somewhere(
    gateway: InProcess,
) -> None:
    described = await document(gateway)
    schemas = described["components"]["schemas"]
    checker = jsonschema_rs.Draft202012Validator(schemas["Problem"])

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if (reference := value.get("$ref")) is not None:
                assert reference.removeprefix("#/components/schemas/") in schemas
            if "application/problem+json" in value:
                checker.validate(value["application/problem+json"]["example"])
            for each in value.values():
                walk(each)
        elif isinstance(value, list):
            for each in value:
                walk(each)

    walk(described)


async def test_real_answers_fit_the_document(gateway: InProcess) -> None:
    described = await document(gateway)
    answer = await gateway.client().get("/v1/projects")
    [schema] = [
        content["schema"]
        for content in described["paths"]["/v1/projects"]["get"]["responses"]["200"]["content"].values()
    ]
    whole = {**schema, "components": described["components"]}
    jsonschema_rs.Draft202012Validator(whole).validate(answer.json())
    problem = (await gateway.client("").get("/v1/projects")).json()
    jsonschema_rs.Draft202012Validator(described["components"]["schemas"]["Problem"]).validate(problem)
