"""Intersection of access: what a manifest asks for ∩ what the operator allows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from plughost.permissions.access import Access, Endpoint

T = TypeVar("T")


def intersect(asked: Access | None, allowed: Access) -> Access:
    """The access that is in both. If the manifest's format has no access (None), the operator alone
    decides."""
    if asked is None:
        return allowed
    return Access(
        read=_pairwise(asked.read, (*allowed.read, *allowed.write), narrower),
        write=_pairwise(asked.write, allowed.write, narrower),
        execute=_pairwise(
            asked.execute, allowed.execute, lambda first, second: first if first == second else None
        ),
        connect=_pairwise(asked.connect, allowed.connect, same_endpoint),
    )


def narrower(first: str, second: str) -> str | None:
    """The one of two paths that is below the other; None when neither is, or one contains `..`."""
    if ".." in (*first.split("/"), *second.split("/")):
        return None
    if first == second or first.startswith(second.rstrip("/") + "/"):
        return first
    return second if second.startswith(first.rstrip("/") + "/") else None


def same_endpoint(first: Endpoint, second: Endpoint) -> Endpoint | None:
    """The intersection of two endpoints: hosts and ports that both name. Private addresses, and connections
    without TLS, only if the operator, who is `second`, allows them."""
    if first.port != second.port and first.port and second.port:
        return None
    if covers(second.host, first.host):
        host = first.host
    elif covers(first.host, second.host):
        host = second.host
    else:
        return None
    return Endpoint(host, first.port or second.port, private=second.private, plain=second.plain)


def covers(pattern: str, host: str) -> bool:
    """Whether `pattern` matches every host that `host` matches; both may begin with `*.`."""
    if pattern in (host, "*"):
        return True
    return pattern.startswith("*.") and host.removeprefix("*").endswith(pattern[1:]) and host != pattern[2:]


def _pairwise(asked: Iterable[T], allowed: Iterable[T], common: Callable[[T, T], T | None]) -> tuple[T, ...]:
    given = list(allowed)
    found = [both for wanted in asked for each in given if (both := common(wanted, each)) is not None]
    return tuple(dict.fromkeys(found))
