"""`usage`: the same tables as text or JSON, of what session-reader has read or another plugin publishes."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser
from typing import Any

from burndown_screen import words
from burndown_screen.inbox import Inbox
from burndown_screen.usage import Bucket, Row, Usage, events, read
from plughost_sdk.ainb import Error, Plugin
from plughost_sdk.chunks import WIRE_VERSION, InTurn, Mismatch, Unreadable

ACTION = "sessions"
REFRESH, USAGE = "sessions.refresh_request", "sessions.usage_data"
ARRIVES_WITHIN = 0.5
"""Seconds: session-reader may be added to the host a moment after us."""
TABLES = {"day": "days", "project": "projects", "model": "models"}
LOOKS = 0.02
"""Seconds between two looks at the bus."""
UNKNOWN_ACTION, UNKNOWN_METHOD = -32602, -32601
MISMATCH, NO_READER = 3, 1


class NoUsage(Exception):
    """Why there is nothing to print, and the exit code for that."""

    def __init__(self, why: str, code: int) -> None:
        super().__init__(why)
        self.code = code


def run(plugin: Plugin, inbox: Inbox, argv: list[str]) -> int:
    parser = ArgumentParser(
        prog="usage", description="Tokens and cost of coding agents, from their session logs."
    )
    parser.add_argument("--by", choices=TABLES, help="one table only")
    parser.add_argument("--json", action="store_true", help="as one JSON document")
    parser.add_argument(
        "--wait", type=float, default=60.0, metavar="SECONDS", help="for all logs to be read [60]"
    )
    asked = parser.parse_args(argv)
    wait = max(0.0, asked.wait)
    try:
        told = _ask(plugin.host, wait)
        usage, complete = _published(plugin, inbox, wait) if told is None else _totals(told)
    except NoUsage as error:
        print(error, file=sys.stderr)
        return error.code
    except Error as error:
        print(f"no usage: {error.message}", file=sys.stderr)
        return NO_READER
    tables = [TABLES[asked.by]] if asked.by else [*TABLES.values()]
    if asked.json:
        print(json.dumps(_document(usage, tables, complete), indent=1))
    else:
        _print(usage, tables, complete)
    return 0


def _totals(told: bytes) -> tuple[Usage, bool]:
    """What session-reader answers, and whether it is all."""
    try:
        chunk = InTurn().feed(told)
        if chunk is None or isinstance(chunk, Mismatch):
            raise _mismatch(chunk)
        return read(events.decode(chunk.raw).data), not chunk.partial
    except (Unreadable, ValueError, RecursionError) as error:
        raise NoUsage(f"no usage: {error}", MISMATCH) from None


def _published(plugin: Plugin, inbox: Inbox, wait: float) -> tuple[Usage, bool]:
    """What any plugin publishes: as it comes over the bus, until it is complete or the time is over."""
    end = time.monotonic() + wait
    plugin.host.snapshot.publish(REFRESH, b"")
    inbox.wait_for_news()
    while not (inbox.complete or inbox.mismatch or inbox.trouble) and time.monotonic() < end:
        if inbox.usage is None and not inbox.expects:
            break
        plugin.host.snapshot.get(USAGE)  # which reads all that was sent before its answer
        plugin.handle_events()
        time.sleep(LOOKS)
    if inbox.mismatch is not None:
        raise _mismatch(inbox.mismatch)
    if inbox.usage is None:
        why = (
            inbox.trouble
            or f"nobody publishes {USAGE}; a plugin such as session-reader must run in the same host"
        )
        raise NoUsage(f"no usage: {why}", NO_READER)
    return inbox.usage, inbox.complete


def _mismatch(chunk: Mismatch | None) -> NoUsage:
    got = chunk.got if isinstance(chunk, Mismatch) else "unknown"
    return NoUsage(f"schema mismatch: published is version {got}, this reads {WIRE_VERSION}", MISMATCH)


def _ask(host: Any, wait: float) -> bytes | None:
    """session-reader's own answer; None when nobody here has such an action."""
    asked = json.dumps({"wait": wait}).encode()
    end = time.monotonic() + ARRIVES_WITHIN
    while True:
        try:
            told: bytes = host.action.invoke(ACTION, asked)
            return told
        except Error as error:
            if error.code == UNKNOWN_METHOD:
                return None  # the original host has no actions between plugins
            if error.code != UNKNOWN_ACTION:
                raise NoUsage(f"no usage: {error.message}", NO_READER) from None
            if time.monotonic() > end:
                return None
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
