"""`usage`: the same tables as text or JSON, of all that session-reader has read."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser
from typing import Any

from burndown_screen import words
from burndown_screen.usage import Bucket, Row, Usage, events, read
from plughost_sdk.ainb import Error
from plughost_sdk.chunks import WIRE_VERSION, InTurn, Mismatch, Unreadable

ACTION = "sessions"
ARRIVES_WITHIN = 0.5
"""Seconds: session-reader may be added to the host a moment after us."""
TABLES = {"day": "days", "project": "projects", "model": "models"}
UNKNOWN_ACTION, UNKNOWN_METHOD, TIMED_OUT = -32602, -32601, -32002
MISMATCH, NO_READER = 3, 1


def run(host: Any, argv: list[str]) -> int:
    parser = ArgumentParser(
        prog="usage", description="Tokens and cost of coding agents, from their session logs."
    )
    parser.add_argument("--by", choices=TABLES, help="one table only")
    parser.add_argument("--json", action="store_true", help="as one JSON document")
    parser.add_argument(
        "--wait", type=float, default=60.0, metavar="SECONDS", help="for all logs to be read [60]"
    )
    asked = parser.parse_args(argv)
    try:
        chunk = InTurn().feed(_ask(host, max(0.0, asked.wait)))
    except Error as error:
        print(f"no usage: {error.message}; session-reader must run in the same host", file=sys.stderr)
        return NO_READER
    except Unreadable as error:
        print(f"no usage: {error}", file=sys.stderr)
        return MISMATCH
    if isinstance(chunk, Mismatch) or chunk is None:
        got = chunk.got if isinstance(chunk, Mismatch) else "unknown"
        print(f"schema mismatch: published is version {got}, this reads {WIRE_VERSION}", file=sys.stderr)
        return MISMATCH
    tables = [TABLES[asked.by]] if asked.by else [*TABLES.values()]
    try:
        usage = read(events.decode(chunk.raw).data)
    except (ValueError, RecursionError) as error:
        print(f"no usage: {error}", file=sys.stderr)
        return MISMATCH
    if asked.json:
        print(json.dumps(_document(usage, tables, not chunk.partial), indent=1))
    else:
        _print(usage, tables, not chunk.partial)
    return 0


def _ask(host: Any, wait: float) -> bytes:
    asked = json.dumps({"wait": wait}).encode()
    end = time.monotonic() + ARRIVES_WITHIN
    while True:
        try:
            told: bytes = host.action.invoke(ACTION, asked)
            return told
        except Error as error:
            if error.code != UNKNOWN_ACTION or time.monotonic() > end:
                raise
            time.sleep(0.02)


def _document(usage: Usage, tables: list[str], complete: bool) -> dict[str, Any]:
    return {
        "wire_version": WIRE_VERSION,
        "complete": complete,
        "total": _bucket(usage.total),
        **{table: [_row(table, row) for row in usage.tables[table]] for table in tables},
    }


def _row(table: str, row: Row) -> dict[str, Any]:
    path = {"path": row.note} if table == "projects" else {}
    return {"name": row.name, **path, **_bucket(row.bucket)}


def _bucket(bucket: Bucket) -> dict[str, Any]:
    """A cost of null is unknown. It is in cents of cents: what providers bill is not finer."""
    names = [name for name in Bucket.__struct_fields__ if name != "cost_usd"]
    cost = None if bucket.cost_usd is None else round(bucket.cost_usd, 6)
    return {"tokens": bucket.tokens, **{name: getattr(bucket, name) for name in names}, "cost_usd": cost}


def _print(usage: Usage, tables: list[str], complete: bool) -> None:
    for table in tables:
        print(f"{table:<28}{'tokens':>10}{'calls':>10}{'cost':>16}")
        for row in usage.tables[table]:
            _line(words.fit(row.name, 27), row.bucket)
        print()
    _line("total" if complete else "total so far", usage.total)
    if usage.total.unpriced_calls:
        calls = words.many(usage.total.unpriced_calls, "calls")
        print(f"? is the cost of {calls} to models without a known price")


def _line(name: str, bucket: Bucket) -> None:
    numbers = f"{words.tokens(bucket.tokens):>10}{bucket.call_count:>10,}{words.cost(bucket):>16}"
    print(words.pad(name, 28) + numbers)
