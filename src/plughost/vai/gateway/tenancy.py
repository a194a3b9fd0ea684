"""What a guest may see: what is of its own organisation and project. The rest might as well not exist."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Awaitable
from typing import Protocol, TypeVar

import msgspec

from plughost._util.text import truncate
from plughost.errors import InvalidSpec
from plughost.vai.bindings.binding import Binding, Scope
from plughost.vai.bindings.bindings import Bindings
from plughost.vai.gateway.guest import Guest
from plughost.vai.gateway.messages import HttpProblem


class Owned(Protocol):
    """An object that belongs to a tenant."""

    @property
    def scope(self) -> Scope: ...


T = TypeVar("T", bound=Owned)


async def its_own(guest: Guest, found: Awaitable[T]) -> T:
    """What was looked up, when it is the guest's; otherwise the same answer as for what is not there."""
    try:
        thing = await found
    except InvalidSpec:
        thing = None
    if thing is None or thing.scope != guest.scope:
        raise HttpProblem(404, "not_found", "there is no such object")
    return thing


def named(guest: Guest, kind: str, key: str) -> str:
    """A name for something new; with a key the same one each time in a project, so that it is made once."""
    if not key:
        return f"{kind}_{secrets.token_hex(16)}"
    identity = msgspec.json.encode([guest.scope, kind, key])
    return f"{kind}_{hashlib.sha256(identity).hexdigest()[:32]}"


def bound(bindings: Bindings, guest: Guest, export: str, package_id: str | None) -> Binding:
    """The export that is bound where the guest is; all calls of a session get the same version."""
    rollout_key = guest.run.invocation.related.session_id or guest.run.id
    found = [
        binding
        for binding in bindings.of(guest.scope, rollout_key)
        if binding.export_id == export and package_id in (None, binding.package_id)
    ]
    if not found:
        raise HttpProblem(404, "not_bound", f"no export {truncate(export)} is bound here")
    if len(found) > 1:
        packages = ", ".join(binding.package_id for binding in found)
        raise HttpProblem(409, "ambiguous", f"also give its package_id, one of: {packages}")
    return found[0]
