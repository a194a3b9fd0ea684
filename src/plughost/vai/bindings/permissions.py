"""Permissions of an export: asked for by its manifest ∩ allowed by its binding ∩ allowed by the host."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Sequence
from typing import Any, get_args

import msgspec

from plughost._util.text import truncate
from plughost.contracts.vai import manifest
from plughost.contracts.vai.manifest import Export
from plughost.errors import InvalidSpec
from plughost.permissions.intersection import covers
from plughost.vai.bindings.binding import BindingPolicy
from plughost.vai.bindings.problems import BindingProblem, pointer

EXECUTION_CLASSES = ("isolated", "worker", "inline")
"""Execution classes, from the most to the least confined."""

ALLOWED_VALUES: dict[str, tuple[str, ...]] = {
    "network": ("none", "egress"),
    "filesystem": ("none", "scratch", "assets_ro"),
    "execution_class": EXECUTION_CLASSES,
    "scopes": get_args(manifest.Scope),
}
"""The values that a policy may have, by field."""
NOT_TRUSTED = "execution class inline is only for publishers that are trusted for inline"
INLINE_HINT = "trust its publisher for inline, or bind it with execution_class worker or isolated"
DEFAULT_CONCURRENCY = 16
"""Concurrent requests of an export whose manifest sets no limit."""

ENCODER = msgspec.json.Encoder(order="deterministic")


class AskedPermissions(msgspec.Struct, frozen=True, kw_only=True):
    """The permissions that a manifest asks for one export."""

    network: str = "none"
    filesystem: str = "none"
    scopes: frozenset[str] = frozenset()
    execution_class: str
    timeout_ms: int
    max_concurrency: int


def asked_permissions(export: Export) -> AskedPermissions:
    """The permissions that an export asks for."""
    permissions = export.permissions
    return AskedPermissions(
        network=permissions.network,
        filesystem=permissions.filesystem,
        scopes=frozenset(permissions.gateway_api_scopes),
        execution_class=export.execution_class,
        timeout_ms=export.default_timeout_ms,
        max_concurrency=export.max_concurrency or DEFAULT_CONCURRENCY,
    )


class GrantedPermissions(msgspec.Struct, frozen=True, kw_only=True):
    """The permissions that an export is granted. Stored with every invocation."""

    network: str
    egress_domains: tuple[str, ...] | None
    """None allows any public host, where the network is `egress`."""
    filesystem: str
    scopes: tuple[str, ...]
    execution_class: str
    timeout_ms: int
    max_concurrency: int
    narrowed: tuple[str, ...] = ()
    """Each permission that is less than the manifest asks for, and whose policy reduced it."""

    @property
    def digest(self) -> str:
        """A digest of the permissions that are fixed at process start: processes are shared only where it is
        equal."""
        fixed = (self.network, self.egress_domains, self.filesystem, bool(self.scopes), self.execution_class)
        return hashlib.sha256(ENCODER.encode(fixed)).hexdigest()[:16]


Policies = Sequence[tuple[str, BindingPolicy]]
"""Policies, each with the name of its owner for messages."""


def grant(asked: AskedPermissions, policies: Policies, *, trusted_inline: bool) -> GrantedPermissions:
    """Intersects what a manifest asks for with every policy. InvalidSpec for an invalid policy, and for the
    class inline of a publisher who is not trusted for it."""
    if wrong := policy_problems(policies):
        raise InvalidSpec("; ".join(wrong))
    granted = {name: getattr(asked, name) for name in INTERSECT}
    domains: tuple[str, ...] | None = None
    narrowed: list[str] = []
    for owner, policy in policies:
        for name, intersect in INTERSECT.items():
            wanted, before = getattr(policy, name), granted[name]
            if wanted is not None and (now := intersect(before, wanted)) != before:
                granted[name] = now
                narrowed.append(f"{owner}: {name} {_format_value(now)} instead of {_format_value(before)}")
        if policy.egress_domains is not None:
            before, domains = domains, _intersect_hosts(domains, policy.egress_domains)
            if domains != before and granted["network"] == "egress":
                narrowed.append(
                    f"{owner}: egress_domains {_format_value(domains)} instead of {_format_value(before)}"
                )
    if granted["execution_class"] == "inline" and not trusted_inline:
        raise InvalidSpec(NOT_TRUSTED, hint=INLINE_HINT)
    return GrantedPermissions(
        network=granted["network"],
        egress_domains=domains if granted["network"] == "egress" else None,
        filesystem=granted["filesystem"],
        scopes=tuple(sorted(granted["scopes"])),
        execution_class=granted["execution_class"],
        timeout_ms=granted["timeout_ms"],
        max_concurrency=granted["max_concurrency"],
        narrowed=tuple(narrowed),
    )


def _same_or_none(first: str, second: str) -> str:
    """The value if both agree; otherwise "none", since neither value contains the other."""
    return first if first == second else "none"


def _narrower_class(first: str, second: str) -> str:
    return min(first, second, key=EXECUTION_CLASSES.index)


INTERSECT: dict[str, Callable[[Any, Any], Any]] = {
    "network": _same_or_none,
    "filesystem": _same_or_none,
    "execution_class": _narrower_class,
    "scopes": operator.and_,
    "timeout_ms": min,
    "max_concurrency": min,
}
"""How two values of a field are intersected."""


def _intersect_hosts(first: tuple[str, ...] | None, second: tuple[str, ...]) -> tuple[str, ...]:
    """The intersection of two lists of hosts; of a pattern and a host that it covers, the host."""
    if first is None:
        return tuple(sorted(set(second)))
    pairs = [(mine, theirs) for mine in first for theirs in second]
    common = {
        mine if covers(theirs, mine) else theirs
        for mine, theirs in pairs
        if covers(theirs, mine) or covers(mine, theirs)
    }
    return tuple(sorted(common))


def _format_value(value: Any) -> str:
    if value is None:
        return "any public host"
    return ", ".join(sorted(value)) or "nothing" if isinstance(value, frozenset | tuple) else str(value)


def policy_problems(policies: Policies) -> list[str]:
    """Messages for every value of a policy that no manifest could ask for."""
    return [f"{owner}: {each.sentence}" for owner, policy in policies for each in invalid_values(policy)]


def invalid_values(policy: BindingPolicy) -> list[BindingProblem]:
    """The values of a policy that no manifest could ask for."""
    wrong = []
    for name, known in ALLOWED_VALUES.items():
        value = getattr(policy, name)
        values = value if isinstance(value, frozenset) else {value} - {None}
        wrong += [
            _problem(name, f"{truncate(word)} is not one of {', '.join(known)}")
            for word in sorted(values - {*known}, key=str)
        ]
    for name in ("timeout_ms", "max_concurrency"):
        value = getattr(policy, name)
        if value is not None and (type(value) is not int or value < 1):
            wrong.append(_problem(name, f"must be a whole number of at least 1, not {truncate(value)}"))
    return wrong


def widening_values(asked: AskedPermissions, policy: BindingPolicy) -> list[BindingProblem]:
    """The valid values of a policy that allow more than the manifest asks for. An invocation never gets it,
    but whoever wrote the policy expects that."""
    invalid = {each.pointer for each in invalid_values(policy)}
    wrong = []
    for name, intersect in INTERSECT.items():
        wanted, limit = getattr(policy, name), getattr(asked, name)
        if wanted is None or wanted == "none" or pointer("policy", name) in invalid:
            continue
        if intersect(limit, wanted) != wanted:
            told = f"{_format_value(wanted)} is more than the manifest asks for: {_format_value(limit)}"
            wrong.append(_problem(name, told))
    if policy.egress_domains and asked.network == "none":
        wrong.append(_problem("egress_domains", "the manifest asks for no network"))
    return wrong


def untrusted_class(
    asked: AskedPermissions, policies: Policies, *, trusted_inline: bool
) -> list[BindingProblem]:
    """The problem of an export that would run in the class inline, while its publisher is not trusted for
    it."""
    wanted = [policy.execution_class for _, policy in policies if policy.execution_class in EXECUTION_CLASSES]
    granted = min([asked.execution_class, *wanted], key=EXECUTION_CLASSES.index)
    if trusted_inline or granted != "inline":
        return []
    where = pointer("policy", "execution_class")
    return [BindingProblem(where, f"{NOT_TRUSTED}; {INLINE_HINT}", NOT_TRUSTED)]


def _problem(name: str, message: str) -> BindingProblem:
    return BindingProblem(pointer("policy", name), message, f"{name} {message}")
