"""The worker process that checks values against JSON Schemas: jobs `compile` and `check`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from plughost._util.json_schema.validation import Checker
from plughost._util.worker_process import serve

Reply = tuple[dict[str, Any], bytes]


@lru_cache(maxsize=16)
def _checker(schema: bytes, mask: str | None) -> Checker:
    return Checker(msgspec.json.decode(schema), mask=mask)


def compiled(schema: bytes, mask: str | None = "the value") -> Checker:
    """The compiled schema, from a small cache. Raises ValueError when it cannot be used."""
    try:
        return _checker(schema, mask)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def handle(head: dict[str, Any], body: bytes) -> Reply:
    """Handle a job. Replies `wrong_schema`: why the schema cannot be used; `problems`: what is wrong with the
    value.

    The body is the schema, of `schema` bytes, and then the value. Messages contain the value only if `shown`
    is set.
    """
    size = head["schema"]
    try:
        checker = compiled(body[:size], None if head.get("shown") else "the value")
    except ValueError as error:
        return {"wrong_schema": str(error)}, b""
    if head["job"] == "compile":
        return {"problems": []}, b""
    value = msgspec.json.decode(memoryview(body)[size:])
    return {"problems": [] if checker.fits(value) else checker.problems(value)}, b""


def main(host: int) -> None:
    """Answer the questions of the host on this descriptor until it closes it."""
    serve(handle, host)
