"""Builds the report of `plughost explain`: what was asked for, what was granted and where, and what enforces
it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence

import msgspec

from plughost.contracts.base import Contract, Permissions, ResolvedSpec
from plughost.contracts.resolve import sandbox_class
from plughost.errors import PluginError
from plughost.permissions import capabilities
from plughost.permissions.access import NONE, Access, Endpoint, ResourceLimits
from plughost.permissions.capability import Capability
from plughost.permissions.intersection import intersect
from plughost.permissions.parse import KINDS
from plughost.sandbox.denials import grant_hint
from plughost.sandbox.denials.grant_hint import format_endpoint
from plughost.sandbox.enforcement import describe_enforcement
from plughost.sandbox.explain.lints import lints
from plughost.sandbox.explain.report import (
    AskedAccess,
    Check,
    EnforcedLimit,
    Explanation,
    Grant,
    GrantSource,
    Limit,
    Missing,
)
from plughost.sandbox.manager import effective
from plughost.sandbox.mechanisms.features import KernelFeatures
from plughost.sandbox.plan import Enforcement, SandboxPlan, VisiblePath
from plughost.sandbox.planner import rlimits_for
from plughost.spec import PluginSpec

LIMITS = {
    "memory": "memory",
    "processes": "processes",
    "open_files": "open files",
    "file_size": "file size",
    "cpu_seconds": "processor seconds",
    "scratch": "scratch",
}
"""Each limit as the operator writes it, and as `describe_enforcement` names it."""
SCRATCH = ("/dev/shm", "/tmp")
MADE = ("/dev", "/proc", *SCRATCH)


def explain(
    spec: PluginSpec,
    contract: Contract,
    resolved: ResolvedSpec,
    confinement: SandboxPlan | PluginError,
    machine: KernelFeatures,
    source: GrantSource | None = None,
) -> Explanation:
    """Build the report. `confinement` is the sandbox plan of the plugin, or the error for which there is
    none."""
    source = source or GrantSource()
    confined = sandbox_class(spec, contract)
    permissions = resolved.permissions
    access = effective(spec, resolved)
    decided = None if isinstance(confinement, PluginError) else confinement
    held = (
        decided.enforcement
        if decided is not None
        else _planned_enforcement(confined, access, spec.limits, machine)
    )
    by = {holding.what: holding.by for holding in held}
    nothing = "nothing: class none" if confined == "none" else "nothing"
    granted = [
        *_capabilities(spec, contract, permissions, source),
        *(
            Grant(
                kind,
                format_endpoint(item),
                _access_rule(kind, item, permissions, source),
                by.get(described, nothing),
            )
            for kind, item in _items(access)
            for described in [f"{kind} {item}"]
        ),
    ]
    limits = [
        Limit(name, value, _limit_rule(name, value, source), by.get(f"{word} {value}", nothing))
        for name, word in LIMITS.items()
        for value in [getattr(spec.limits, name)]
    ]
    described = {f"{kind} {item}" for kind, item in _items(access)}
    described |= {f"{LIMITS[limit.name]} {limit.value}" for limit in limits}
    return Explanation(
        plugin=spec.name,
        contract=contract.name,
        sandbox=confined,
        chosen_by=_class_rule(spec, source),
        problem=confinement.report() if isinstance(confinement, PluginError) else None,
        asked=AskedAccess(
            None if permissions.asked is None else tuple(map(str, permissions.asked)),
            None
            if permissions.declared is None
            else tuple(f"{kind} {format_endpoint(item)}" for kind, item in _items(permissions.declared)),
            tuple(map(str, permissions.asked_by_call)),
        ),
        granted=tuple(granted),
        missing=(
            *_missing_capabilities(spec, contract, permissions),
            *_missing_access(spec, permissions, access),
        ),
        unused=tuple(_unused(spec, contract, permissions)),
        bound=None if decided is None or confined == "none" else _bound(decided, spec.limits),
        environment=tuple(sorted({*resolved.env, *(decided.launch.env if decided is not None else ())})),
        limits=tuple(limits),
        held=tuple(holding for holding in held if holding.what not in described),
        wire=tuple(_checks(contract, permissions)),
        lints=(*resolved.lints, *lints(spec, confined), *_elsewhere(spec, decided)),
    )


def _items(access: Access) -> Iterator[tuple[str, str | Endpoint]]:
    return ((kind, item) for kind in KINDS for item in getattr(access, kind))


def _only(kind: str, item: str | Endpoint) -> Access:
    return msgspec.structs.replace(NONE, **{kind: (item,)})


def _planned_enforcement(
    confined: str, access: Access, limits: ResourceLimits, machine: KernelFeatures
) -> tuple[Enforcement, ...]:
    """The enforcement that a capable machine would provide. The user is left out: it is not known without a
    try."""
    rlimits = rlimits_for(confined, limits, machine, None)
    held = describe_enforcement(confined, access, limits, rlimits, machine, None, grouped=False)
    return tuple(holding for holding in held if holding.what != "user")


def _capabilities(
    spec: PluginSpec, contract: Contract, permissions: Permissions, source: GrantSource
) -> Iterator[Grant]:
    for capability in sorted(permissions.capabilities, key=str):
        words = [word for word in spec.grants if _gives(word, capability, permissions)]
        usual = [word for word in spec.grants if word in contract.default_grants]
        if words:
            whose = _granted_by(words, source)
        elif set(usual) & set(source.grants):
            words, whose = usual, "--grant"
        else:
            said_nothing = tuple(spec.grants) == contract.default_grants
            words, whose = usual, "the contract's default" if said_nothing else source.file
        is_asked = capability.name in {each.name for each in permissions.asked or ()}
        asked = "its manifest asks; " if is_asked else ""
        methods = [check.method for check in _checks(contract, permissions) if capability.name in check.needs]
        at = f", at each {' and '.join(methods)}" if methods else ""
        yield Grant("capability", str(capability), f"{asked}{whose}: {', '.join(words)}", f"the host{at}")


def _gives(word: str, capability: Capability, permissions: Permissions) -> bool:
    if word in permissions.given:
        return capability in permissions.given[word].capabilities
    return word.partition("=")[0] == capability.name


def _granted_by(words: Sequence[str], source: GrantSource) -> str:
    return "--grant" if set(words) <= set(source.grants) else source.file


def _access_rule(kind: str, item: str | Endpoint, permissions: Permissions, source: GrantSource) -> str:
    is_asked = permissions.declared is not None and intersect(permissions.declared, _only(kind, item)) != NONE
    asked = "its manifest asks; " if is_asked else ""
    words = [word for word, given in permissions.given.items() if item in getattr(given.access, kind)]
    if words:
        return f"{asked}{_granted_by(words, source)}: {', '.join(words)}"
    if item in getattr(permissions.own, kind):
        return "its own"
    if _is_within(kind, item, source.allow):
        return f"{asked}--allow {kind}"
    return f"{asked}{source.file}: allow.{kind}"


def _is_within(kind: str, item: str | Endpoint, allowed: Access) -> bool:
    """Whether this access covers that item."""
    got = getattr(intersect(_only(kind, item), allowed), kind)
    if isinstance(item, Endpoint):
        return any(
            each.host == item.host and each.private >= item.private and each.plain >= item.plain
            for each in got
        )
    return item in got


def _class_rule(spec: PluginSpec, source: GrantSource) -> str:
    if source.sandbox:
        return "--sandbox"
    return source.file if spec.sandbox else "the contract's default"


def _limit_rule(name: str, value: int | None, source: GrantSource) -> str:
    if name in source.limits:
        return "--limit"
    return "plughost's default" if value == getattr(ResourceLimits(), name) else f"{source.file}: limits"


def _missing_capabilities(
    spec: PluginSpec, contract: Contract, permissions: Permissions
) -> Iterator[Missing]:
    usual = contract.default_grants if tuple(spec.grants) == contract.default_grants else ()
    for wanted in capabilities.ungranted(permissions.asked or (), permissions.capabilities):
        part = [str(held) for held in permissions.capabilities if held.name == wanted.name]
        words = _words_for(wanted, permissions)
        yield Missing(
            "capability",
            str(wanted),
            f"only {', '.join(part)} is granted" if part else "it is not granted",
            f"grants = {_toml_list([*spec.grants, *words])}",
            " ".join(f"--grant {shlex.quote(word)}" for word in (*usual, *words)),
        )


def _words_for(wanted: Capability, permissions: Permissions) -> list[str]:
    """The grants for what is missing of a capability: item by item where the contract has words for items."""
    held = {
        item for each in permissions.capabilities if each.name == wanted.name for item in each.scope or ()
    }
    missing = [item for item in wanted.scope or () if item not in held]
    if "item" not in permissions.granting or not missing:
        return [wanted.name]
    return [permissions.granting["item"].format(name=wanted.name, path=item) for item in missing]


def _missing_access(spec: PluginSpec, permissions: Permissions, access: Access) -> Iterator[Missing]:
    for kind, item in _items(permissions.declared or NONE):
        if _is_within(kind, item, access):
            continue
        part = getattr(intersect(_only(kind, item), access), kind)
        granting = grant_hint.grant_hint(kind, item, permissions.granting)
        others = spec.grants if granting.key == "grants" else map(format_endpoint, getattr(spec.allow, kind))
        yield Missing(
            kind,
            format_endpoint(item),
            f"only {', '.join(map(format_endpoint, part))} is allowed" if part else "nothing allows it",
            granting.toml([*others]),
            granting.option,
        )


def _unused(spec: PluginSpec, contract: Contract, permissions: Permissions) -> Iterator[str]:
    held = {capability.name for capability in permissions.capabilities}
    for word in spec.grants:
        if not (
            word in contract.default_grants or word in permissions.given or word.partition("=")[0] in held
        ):
            yield f"grant {word}"
    if permissions.declared is not None:
        for kind, item in _items(spec.allow):
            if intersect(permissions.declared, _only(kind, item)) == NONE:
                yield f"allow {kind} {format_endpoint(item)}"


def _bound(decided: SandboxPlan, limits: ResourceLimits) -> EnforcedLimit:
    places = sorted(decided.visible_paths, key=lambda place: place.path)
    if decided.confined != "strict":
        network = "no sockets at all"
    elif decided.access.connect:
        network = "private, with a proxy of the host to the allowed hosts only"
    else:
        network = "private, without any connection"
    strict = decided.confined == "strict"
    return EnforcedLimit(
        read_only=_paths(places, writable=False),
        writable=(*(SCRATCH if strict and decided.writable_tmp else ()), *_paths(places, writable=True)),
        made=(*(MADE if strict else ()), *(place.path for place in places if place.made)),
        scratch=limits.scratch if strict and decided.writable_tmp else None,
        network=network,
        starts_in=decided.starts_in,
    )


def _elsewhere(spec: PluginSpec, decided: SandboxPlan | None) -> Iterator[str]:
    if decided is not None and decided.starts_in in ("/tmp", "$TMPDIR") and spec.cwd is not None:
        yield (
            f"it starts in {decided.starts_in}: {spec.cwd} is not visible in its sandbox, because "
            "plughost.toml is there but does not set `cwd`; if that is the plugin's own folder, set "
            '`cwd = "."`'
        )


def _paths(places: Sequence[VisiblePath], *, writable: bool) -> tuple[str, ...]:
    return tuple(place.path for place in places if place.writable == writable)


def _checks(contract: Contract, permissions: Permissions) -> Iterator[Check]:
    for method, host_method in contract.host_methods.items():
        needs = host_method.checks if host_method.capability is None else (host_method.capability,)
        yield Check(
            method,
            needs,
            not needs or any(capabilities.allows(permissions.capabilities, word) for word in needs),
        )


def _toml_list(words: Sequence[str]) -> str:
    """A list in TOML."""
    return json.dumps(list(dict.fromkeys(words)), ensure_ascii=False)
