"""What the gateway refuses, in the records of those who asked: invocations that run, or lately did.

A token that is no good any more, or never was, stands in the record of the invocation that it names. Whoever
sent it may have made that up; that somebody did is what is recorded.
"""

from __future__ import annotations

import time
from typing import Any

from plughost.vai.gateway.guest import Guest
from plughost.vai.gateway.messages import HttpProblem, RequestHead
from plughost.vai.records.record import FIRST_REFUSAL, EventLogged, RecordSink

MOST = 100
"""Of one invocation while it runs, and as many after its end."""
REMEMBERED = 1024
"""Invocations that have ended, the latest."""
TOLD = frozenset({401, 403, 404})


class Refusals:
    """Writes refused requests into the records of the invocations that made them."""

    def __init__(self, records: RecordSink) -> None:
        self._records = records
        self._ended: dict[str, int] = {}
        """How often each was refused something since."""

    def of(self, guest: Guest, head: RequestHead, problem: HttpProblem) -> None:
        """To one that runs."""
        if problem.status not in TOLD or guest.over or guest.refusals >= MOST:
            return
        guest.refusals += 1
        event = {
            **_refused(head, problem),
            "path": guest.run.redactor.redact(head.path)[:200],
            "message": problem.message,
        }
        self._records.append(guest.run.event_entry(event))

    def after(self, invocation_id: str, head: RequestHead, problem: HttpProblem) -> None:
        """To one that has ended. Its secrets are forgotten by now, so nothing that was sent is told."""
        count = self._ended.get(invocation_id, MOST)
        if count < MOST:
            self._ended[invocation_id] = count + 1
            event = {**_refused(head, problem), "message": problem.message}
            at = time.time()
            self._records.append(
                EventLogged(invocation_id=invocation_id, number=FIRST_REFUSAL + count, at=at, event=event)
            )

    def ended(self, invocation_id: str) -> None:
        """From now on it is one that lately ran."""
        count = self._ended.pop(invocation_id, 0)  # one that is tried again ends again
        self._ended[invocation_id] = count
        if len(self._ended) > REMEMBERED:
            del self._ended[next(iter(self._ended))]


def _refused(head: RequestHead, problem: HttpProblem) -> dict[str, Any]:
    return {
        "type": "gateway.refused",
        "method": head.method,
        "status": problem.status,
        "code": problem.code,
    }
