"""Rollout: which of two active versions of an export serves a call.

Every call has a rollout key. A stable hash puts each key of an export into one of 10,000 buckets:

    SHA-256 of org_id, project_id, package_id, export_id and the key, in UTF-8, with a zero byte between them;
    its first 8 bytes as a big-endian number, modulo 10,000

`project_id` is that of the binding, and empty for an organisation's binding. The version that was activated
last serves the buckets below 100 times its percent, and the other version serves the rest. So a key has the
same answer in every process, now and after restarts. Raising a share adds buckets and takes none away: no key
moves back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol, TypeVar

from plughost.vai.bindings.binding import Scope

BUCKETS = 10_000
BUCKETS_PER_PERCENT = BUCKETS // 100


class Version(Protocol):
    """An active version of an export, with its share of the traffic."""

    @property
    def traffic_percent(self) -> int: ...


V = TypeVar("V", bound=Version)


def bucket(scope: Scope, package_id: str, export_id: str, rollout_key: str) -> int:
    """The bucket of a rollout key, from 0 to 9,999. `scope` is that of the binding."""
    parts = (scope.org_id, scope.project_id or "", package_id, export_id, rollout_key)
    text = "\0".join(parts).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") % BUCKETS


def serving(versions: Sequence[V], bucket: int) -> V:
    """The version that serves a bucket. `versions` has one or two, in the order of their activation."""
    newest = versions[-1]
    return newest if bucket < newest.traffic_percent * BUCKETS_PER_PERCENT else versions[0]


def rollout_key(
    *,
    asked: str | None = None,
    session_id: str | None = None,
    idempotency_key: str | None = None,
    invocation_id: str,
) -> str:
    """The rollout key of a call: the caller's, else its session, else its Idempotency-Key, else the
    invocation itself."""
    return asked or session_id or idempotency_key or invocation_id
