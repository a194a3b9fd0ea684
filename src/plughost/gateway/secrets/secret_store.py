"""SecretStore: writes, lists and deletes the secrets of tenants. No method returns a value.

Its methods are transactions (`Steps`), so that a change is stored together with its line in the audit log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from plughost._util.redaction.secret_set import MAX_IGNORED
from plughost.contracts.vai.manifest_rules import is_package_id
from plughost.gateway.problems import FieldError, Problem, not_found
from plughost.gateway.secrets.envelope import seal_value
from plughost.gateway.secrets.uri import NAME_RULE, SecretUri, is_secret_name
from plughost.vai.bindings.binding import Scope
from plughost.vai.bindings.secret_source import MAX_BYTES
from plughost.vai.database.database import Steps
from plughost.vai.database.sealing import Seal
from plughost.vai.database.statements import Query, Row, Statement, load_statements

_SQL = load_statements(__file__)
ADVANCE, FILL, FIND, PACKAGES, HOLD, DELETE, PAGE, PAGE_AFTER = (
    _SQL[name] for name in ("advance", "fill", "find", "packages", "hold", "delete", "page", "page_after")
)

MAX_PACKAGES = 100
"""Packages that one secret may list."""
SHOWN_BINDINGS = 5
"""Bindings that a refused deletion names."""


class SecretDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a secret but its value."""

    uri: str
    name: str
    version: int
    """Counts the values that it has had."""
    created_at: float
    updated_at: float
    packages: tuple[str, ...] | None = None
    """The packages that may be given the value; null for any."""


class SecretStore:
    """The secrets in the database, encrypted under a master key."""

    def __init__(self, master: Seal, now: Callable[[], float] = time.time) -> None:
        self._master = master
        self._now = now

    def put(
        self,
        scope: Scope,
        name: str,
        value: str,
        packages: Sequence[str] | UnsetType | None = UNSET,
    ) -> Steps[SecretDocument]:
        """Stores a new version of a secret, in place of the one before. `packages` that are not set stay as
        they are: a new value lifts no restriction. `invalid_request` names everything that is wrong."""
        if errors := [*_name_errors(name), *_value_errors(value), *_packages_errors(packages)]:
            raise Problem("invalid_request", "the secret was not stored", errors=errors)
        uri, now = SecretUri(scope, name), self._now()
        row = (yield ADVANCE(**columns(uri), now=now, nothing=b"")).rows[0]
        version: int = row["version"]
        if isinstance(packages, UnsetType):
            listed = row["packages"]
        else:
            listed = None if packages is None else msgspec.json.encode(sorted({*packages})).decode()
        envelope = seal_value(value, uri, version, self._master)
        yield FILL(**columns(uri), packages=listed, **msgspec.structs.asdict(envelope))
        return SecretDocument(
            uri=str(uri),
            name=name,
            version=version,
            created_at=row["created_at"],
            updated_at=now,
            packages=allowed_packages(listed),
        )

    def page(
        self, scope: Scope, limit: int, after: tuple[float, str] | None = None
    ) -> Steps[list[SecretDocument]]:
        """Some secrets of exactly this tenant, newest first: those after `created_at` and `name` of the last
        one on the page before."""
        tenant = {"org_id": scope.org_id, "project_id": scope.project_id or ""}
        if after is None:
            rows = (yield PAGE(**tenant, limit=limit)).rows
        else:
            rows = (yield PAGE_AFTER(**tenant, after_at=after[0], after_name=after[1], limit=limit)).rows
        return [_document(scope, row) for row in rows]

    def delete(
        self, scope: Scope, name: str, in_use: Callable[[str], Steps[list[str]]]
    ) -> Steps[SecretDocument]:
        """Deletes a secret; returns what it was. `in_use` gives the ids of the active bindings that map a
        URI: while there is one, the problem `in_use` refuses this."""
        uri = SecretUri(scope, name)
        # A binding that is being made holds the secret until it is stored: `in_use` must look after that.
        if not is_secret_name(name) or not (yield HOLD(**columns(uri))).rows:
            raise not_found("secret", str(uri))
        if bindings := (yield from in_use(str(uri))):
            more = ", …" if len(bindings) > SHOWN_BINDINGS else ""
            raise Problem(
                "in_use", f"{uri} is mapped by the bindings {', '.join(bindings[:SHOWN_BINDINGS])}{more}"
            )
        return _document(scope, (yield DELETE(**columns(uri))).rows[0])


def columns(uri: SecretUri) -> dict[str, Any]:
    """The key of a secret's row."""
    return {"org_id": uri.scope.org_id, "project_id": uri.scope.project_id or "", "name": uri.name}


def find(uri: SecretUri, statement: Statement = FIND) -> Query:
    """The query for the row of a secret."""
    return statement(**columns(uri))


def allowed_packages(listed: str | None) -> tuple[str, ...] | None:
    """The packages that may have a secret, from its row; None for any."""
    return None if listed is None else msgspec.json.decode(listed, type=tuple[str, ...])


def _document(scope: Scope, row: Row) -> SecretDocument:
    return SecretDocument(
        uri=str(SecretUri(scope, row["name"])),
        name=row["name"],
        version=row["version"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        packages=allowed_packages(row["packages"]),
    )


def _name_errors(name: str) -> list[FieldError]:
    return [] if is_secret_name(name) else [FieldError("/name", f"a name has {NAME_RULE}")]


def _value_errors(value: str) -> list[FieldError]:
    """Never with the value in a message."""
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return [FieldError("/value", "the value is not text that UTF-8 can encode")]
    if len(value) <= MAX_IGNORED:
        # A single character occurs in every text: it could not be redacted.
        return [
            FieldError("/value", f"the value has {len(value)} characters; the least is {MAX_IGNORED + 1}")
        ]
    if size > MAX_BYTES:
        return [FieldError("/value", f"the value has {size} bytes; the most is {MAX_BYTES}")]
    return []


def _packages_errors(packages: Sequence[str] | UnsetType | None) -> list[FieldError]:
    if packages is None or isinstance(packages, UnsetType):
        return []
    if len(packages) > MAX_PACKAGES:
        return [FieldError("/packages", f"there are {len(packages)} packages; the most is {MAX_PACKAGES}")]
    return [
        FieldError(f"/packages/{number}", "this is not a package id, such as acme/tools")
        for number, package in enumerate(packages)
        if not is_package_id(package)
    ]
