"""Scopes and roles: what a credential of the gateway allows."""

from __future__ import annotations

from collections.abc import Iterable

_READ_WRITE = (
    "packages", "bindings", "secrets", "sessions", "chains", "runs", "compactions", "invocations", "events",
    "deliveries", "marketplace", "plugins", "keys",
)  # fmt: skip
_INVOKED = ("tools", "harnesses", "compactors")

ADMIN = "admin"
"""Includes every other scope, within its organisation."""
SCOPES: frozenset[str] = frozenset(
    [f"{name}:{verb}" for name in _READ_WRITE for verb in ("read", "write")]
    + [f"{name}:{verb}" for name in _INVOKED for verb in ("read", "invoke")]
    + ["secrets:use", "audit:read", "metrics:read", ADMIN]
)

_VIEWER = frozenset(scope for scope in SCOPES if scope.endswith(":read")) - {"audit:read", "keys:read"}
_DEVELOPER = _VIEWER | {f"{name}:invoke" for name in _INVOKED} | {
    f"{name}:write" for name in ("sessions", "chains", "runs", "compactions", "invocations", "events")
}  # fmt: skip
ROLES: dict[str, frozenset[str]] = {
    "viewer": _VIEWER,
    "developer": _DEVELOPER,
    "operator": SCOPES - {ADMIN, "keys:write"},
    "admin": frozenset({ADMIN}),
}
"""Named sets of scopes."""


def unknown_scopes(scopes: Iterable[str]) -> list[str]:
    """The words among these that are not scopes, in order."""
    return sorted(set(scopes) - SCOPES)


def allows(held: frozenset[str], needed: str) -> bool:
    """Whether a credential with these scopes allows what needs that scope."""
    return needed in held or ADMIN in held


def is_within(asked: frozenset[str], held: frozenset[str]) -> bool:
    """Whether a credential with the scopes `held` may mint one with the scopes `asked`."""
    return ADMIN in held or asked <= held
