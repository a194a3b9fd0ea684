"""What an export may: asked by its manifest ∩ allowed by its binding ∩ allowed by the host."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Sequence
from typing import Any, get_args

import msgspec

from plughost._util.text import truncate
from plughost.contracts.vai import manifest
from plughost.errors import InvalidSpec
from plughost.permissions.intersection import covers
from plughost.vai.bindings.binding import BindingPolicy

CLASSES = ("isolated", "worker", "inline")
"""From the narrowest to the widest."""

WORDS: dict[str, tuple[str, ...]] = {
    "network": ("none", "egress"),
    "filesystem": ("none", "scratch", "assets_ro"),
    "execution_class": CLASSES,
    "scopes": get_args(manifest.Scope),
}
"""What a policy may say, by the name of what it speaks of."""
USUAL_CONCURRENCY = 16
"""Of an export whose manifest names none."""

ENCODER = msgspec.json.Encoder(order="deterministic")


class AskedPermissions(msgspec.Struct, frozen=True, kw_only=True):
    """What a manifest asks for one export."""

    network: str = "none"
    filesystem: str = "none"
    scopes: frozenset[str] = frozenset()
    execution_class: str
    timeout_ms: int
    max_concurrency: int


class GrantedPermissions(msgspec.Struct, frozen=True, kw_only=True):
    """What it gets. Stored with every invocation."""

    network: str
    egress_domains: tuple[str, ...] | None
    """None is any public host, where the network is `egress`."""
    filesystem: str
    scopes: tuple[str, ...]
    execution_class: str
    timeout_ms: int
    max_concurrency: int
    narrowed: tuple[str, ...] = ()
    """What is less than the manifest asks, and who said so."""

    @property
    def digest(self) -> str:
        """Of what is fixed when a process starts: two that differ in it never share one."""
        fixed = (self.network, self.egress_domains, self.filesystem, bool(self.scopes), self.execution_class)
        return hashlib.sha256(ENCODER.encode(fixed)).hexdigest()[:16]


Policies = Sequence[tuple[str, BindingPolicy]]
"""Each with the name of its owner."""


def grant(asked: AskedPermissions, policies: Policies, *, trusted_inline: bool) -> GrantedPermissions:
    """Each policy narrows; none widens. InvalidSpec for one that makes no sense, and inline without trust."""
    if wrong := contradictions(policies):
        raise InvalidSpec("; ".join(wrong))
    left = {name: getattr(asked, name) for name in NARROWING}
    domains: tuple[str, ...] | None = None
    narrowed: list[str] = []
    for owner, policy in policies:
        for name, both in NARROWING.items():
            wanted, before = getattr(policy, name), left[name]
            if wanted is not None and (now := both(before, wanted)) != before:
                left[name] = now
                narrowed.append(f"{owner}: {name} {_told(now)} of {_told(before)}")
        if policy.egress_domains is not None:
            before, domains = domains, _hosts_of_both(domains, policy.egress_domains)
            if domains != before and left["network"] == "egress":
                narrowed.append(f"{owner}: egress_domains {_told(domains)} of {_told(before)}")
    if left["execution_class"] == "inline" and not trusted_inline:
        raise InvalidSpec(
            "execution class inline is for publishers that are trusted for it",
            hint="trust its publisher for inline, or bind it with execution_class worker or isolated",
        )
    return GrantedPermissions(
        network=left["network"],
        egress_domains=domains if left["network"] == "egress" else None,
        filesystem=left["filesystem"],
        scopes=tuple(sorted(left["scopes"])),
        execution_class=left["execution_class"],
        timeout_ms=left["timeout_ms"],
        max_concurrency=left["max_concurrency"],
        narrowed=tuple(narrowed),
    )


def _or_none(one: str, other: str) -> str:
    """Of two that do not contain each other nothing is left."""
    return one if one == other else "none"


def _narrower_class(one: str, other: str) -> str:
    return min(one, other, key=CLASSES.index)


NARROWING: dict[str, Callable[[Any, Any], Any]] = {
    "network": _or_none,
    "filesystem": _or_none,
    "execution_class": _narrower_class,
    "scopes": operator.and_,
    "timeout_ms": min,
    "max_concurrency": min,
}
"""What two sides agree on, by the name of what they speak of."""


def _hosts_of_both(one: tuple[str, ...] | None, other: tuple[str, ...]) -> tuple[str, ...]:
    """The hosts that both lists name; where one has a pattern, the narrower of the two."""
    if one is None:
        return tuple(sorted(set(other)))
    pairs = [(mine, theirs) for mine in one for theirs in other]
    common = {
        mine if covers(theirs, mine) else theirs
        for mine, theirs in pairs
        if covers(theirs, mine) or covers(mine, theirs)
    }
    return tuple(sorted(common))


def _told(value: Any) -> str:
    if value is None:
        return "any public host"
    return ", ".join(sorted(value)) or "nothing" if isinstance(value, frozenset | tuple) else str(value)


def contradictions(policies: Policies) -> list[str]:
    """Every value of a policy that no manifest could ask for."""
    wrong = []
    for owner, policy in policies:
        for name, known in WORDS.items():
            value = getattr(policy, name)
            said = value if isinstance(value, frozenset) else {value} - {None}
            wrong += [
                f"{owner}: {name} {truncate(word)} is none of {', '.join(known)}"
                for word in sorted(said - {*known}, key=str)
            ]
        for name in ("timeout_ms", "max_concurrency"):
            value = getattr(policy, name)
            if value is not None and (type(value) is not int or value < 1):
                wrong.append(f"{owner}: {name} is a number from 1 on, not {truncate(value)}")
    return wrong
