"""Mapping: whether somebody may map secrets to the slots of a binding."""

from __future__ import annotations

from collections.abc import Mapping

from plughost.gateway.auth.principal import Principal
from plughost.gateway.auth.scopes import allows
from plughost.gateway.problems import FieldError
from plughost.gateway.secrets.secret_store import HOLD, PACKAGES, allowed_packages, find
from plughost.gateway.secrets.uri import parse_uri
from plughost.vai.bindings.binding import Scope
from plughost.vai.database.database import Steps

USE = "secrets:use"
"""The scope that mapping needs."""


def check_mapping(
    principal: Principal, scope: Scope, package_id: str, mapped: Mapping[str, str], *, hold: bool
) -> Steps[list[FieldError]]:
    """The reasons why the principal may not map these secrets (slot to URI) in a binding of that tenant and
    package; empty when all may be mapped.

    `hold` keeps the secrets from being deleted until the transaction ends, which stores the binding. Only
    within `Database.write`.
    """
    errors: dict[str, str] = {}
    if not allows(principal.scopes, USE):
        errors = dict.fromkeys(mapped, f"mapping a secret needs the scope {USE}")
        mapped = {}
    # Always in the same order: two transactions that hold the same secrets do not wait for each other.
    for slot, text in sorted(mapped.items(), key=lambda item: item[1]):
        uri = parse_uri(text)
        if uri is None:
            errors[slot] = "write secret://org/name or secret://org/project/name"
            continue
        found = None
        if uri.is_visible_to(scope):
            found = (yield find(uri, HOLD if hold else PACKAGES)).first()
        if found is None:
            errors[slot] = f"there is no secret {uri}"
        elif not may_have(package_id, allowed_packages(found["packages"])):
            errors[slot] = f"the package {package_id} is not among those that may have {uri}"
    return [FieldError(_pointer(slot), message) for slot, message in sorted(errors.items())]


def may_have(package_id: str, packages: tuple[str, ...] | None) -> bool:
    """Whether a package may be given a secret that lists these packages."""
    return packages is None or package_id in packages


def _pointer(slot: str) -> str:
    """The JSON pointer to a slot in the body of a binding."""
    return "/secrets/" + slot.replace("~", "~0").replace("/", "~1")
