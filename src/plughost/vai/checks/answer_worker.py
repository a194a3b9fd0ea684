"""The worker process that decodes and checks answers of exports: job `answer`, beside those for JSON Schemas.

A result is returned as newly encoded JSON, with the sizes of the pieces in which the host looks for secrets.
A piece never begins or ends inside a string, unless it is a part of one long string.
"""

from __future__ import annotations

from typing import Any

import msgspec

from plughost._util import text
from plughost._util.json_schema import worker
from plughost._util.redaction.json_pieces import pieces
from plughost._util.worker_process import serve
from plughost.contracts.vai.results import outcome, plain
from plughost.errors import Malformed

MAX_CODE = 4096
"""Characters of a plugin's own error code; a message may have four times as many."""


def handle(head: dict[str, Any], body: bytes) -> worker.Reply:
    """Does one job: decodes an answer and checks its output against a schema."""
    if head["job"] != "answer":
        return worker.handle(head, body)
    size = head["schema"]
    try:
        answer = outcome(head["op"], msgspec.Raw(memoryview(body)[size:]))
    except Malformed as error:
        return {"malformed": error.message, "head": error.head.hex()}, b""
    reply: dict[str, Any] = {"status": answer.status, "code": text.TruncatedText(""), "message": None}
    if answer.problem is not None:
        reply |= {"code": text.head(answer.problem.code, MAX_CODE)}
        reply |= {"message": text.head(answer.problem.message, 4 * MAX_CODE)}
    if answer.result is None:
        return reply | {"pieces": None}, b""
    result = plain(answer.result)
    if size and answer.status == "succeeded" and not result["is_error"]:
        output = result["structured_output"]
        try:
            checker = worker.compiled(body[:size])
        except ValueError as error:
            return {"wrong_schema": str(error)}, b""
        if not checker.fits(output):
            return reply | {"problems": checker.problems(output), "missing": output is None}, b""
    encoded = msgspec.json.encode(result)
    return reply | {"pieces": pieces(encoded)}, encoded


def main(host: int) -> None:
    """Entry point of the worker process; `host` is the process id of its host."""
    serve(handle, host)
