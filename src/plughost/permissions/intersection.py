"""Powers that two sides agree on: what a manifest asks for and what the operator allows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from plughost.permissions.access import Access, Endpoint

T = TypeVar("T")


def intersect(asked: Access | None, allowed: Access) -> Access:
    """What is in both. A manifest that has no words for powers (None) leaves it to the operator."""
    if asked is None:
        return allowed
    return Access(
        read=_both(asked.read, (*allowed.read, *allowed.write), narrower),
        write=_both(asked.write, allowed.write, narrower),
        execute=_both(asked.execute, allowed.execute, lambda one, other: one if one == other else None),
        connect=_both(asked.connect, allowed.connect, same_endpoint),
    )


def narrower(one: str, other: str) -> str | None:
    """Of two paths the one that is below the other; None when neither is, or one leads upwards again."""
    if ".." in (*one.split("/"), *other.split("/")):
        return None
    if one == other or one.startswith(other.rstrip("/") + "/"):
        return one
    return other if other.startswith(one.rstrip("/") + "/") else None


def same_endpoint(one: Endpoint, other: Endpoint) -> Endpoint | None:
    """The hosts that both name, on the port that both name; private ones, and what is not TLS, only if
    the operator says so."""
    if one.port != other.port and one.port and other.port:
        return None
    if covers(other.host, one.host):
        host = one.host
    elif covers(one.host, other.host):
        host = other.host
    else:
        return None
    return Endpoint(host, one.port or other.port, private=other.private, plain=other.plain)


def covers(pattern: str, host: str) -> bool:
    """Whether every host that `host` names is one that `pattern` names."""
    if pattern in (host, "*"):
        return True
    return pattern.startswith("*.") and host.removeprefix("*").endswith(pattern[1:]) and host != pattern[2:]


def _both(asked: Iterable[T], allowed: Iterable[T], common: Callable[[T, T], T | None]) -> tuple[T, ...]:
    given = list(allowed)
    found = [both for wanted in asked for each in given if (both := common(wanted, each)) is not None]
    return tuple(dict.fromkeys(found))
