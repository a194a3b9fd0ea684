"""API keys: `vai_key_<id>_<secret>`. The database has a digest of the secret, never the secret itself.

A secret has 256 random bits, so a plain SHA-256 digest is enough: nobody can try them all.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable

import msgspec

from plughost.clock import Clock
from plughost.gateway.auth.principal import Principal
from plughost.gateway.auth.scopes import is_within, unknown_scopes
from plughost.gateway.problems import FieldError, Problem, not_found
from plughost.vai.background import BackgroundTask
from plughost.vai.database.database import Database, Steps
from plughost.vai.database.filters import Filters
from plughost.vai.database.statements import Row, load_statements

_SQL = load_statements(__file__)
INSERT, FIND, REVOKE, USED, OPERATORS = (
    _SQL[name] for name in ("insert", "find", "revoke", "used", "operators")
)

PREFIX = "vai_key_"
_SHAPE = re.compile(rf"{PREFIX}([0-9a-f]{{16}})_([A-Za-z0-9_-]{{43}})")
CHANNEL = "plughost_api_keys"
"""The channel on which processes tell each other of revoked keys."""
MAX_CACHED = 10_000
"""Keys that are known in memory."""
CACHE_SECONDS = 1.0
"""After this time a cached key is read again, in case an announcement was lost."""
USED_SECONDS = 60.0
"""Seconds between two notes of the last use."""
MAX_NAME = 200

LIST = Filters(
    "SELECT key_id, org_id, project_id, name, digest, scopes, is_operator, created_at, created_by, "
    "expires_at, revoked_at, last_used_at FROM api_keys",
    equal={"org": "org_id", "project": "project_id"},
    at_least={},
    below={},
    needs={"project": "org"},
    newest_first=("created_at", "key_id"),
)


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """An API key without its secret."""

    key_id: str
    org_id: str
    project_id: str | None
    """The only project that it opens; None for all projects of the organisation."""
    name: str
    scopes: tuple[str, ...]
    is_operator: bool
    """Whether it may make organisations."""
    created_at: float
    created_by: str
    expires_at: float | None
    revoked_at: float | None
    last_used_at: float | None


class NewApiKey(ApiKey, frozen=True, kw_only=True):
    """A new key, with what is shown once."""

    key: str | None
    """The whole credential; null when the request is repeated."""

    def __repr__(self) -> str:
        return f"<NewApiKey {self.key_id}>"


class KeyRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The wanted properties of a new key."""

    name: str
    scopes: tuple[str, ...]
    project_id: str | None = None
    expires_at: float | None = None


def create(
    principal: Principal, wanted: KeyRequest, now: float, *, is_operator: bool = False
) -> Steps[NewApiKey]:
    """Creates a key that is no wider than the principal's own credential."""
    problems = [
        FieldError("/scopes", f"{word[:100]!r} is not a scope") for word in unknown_scopes(wanted.scopes)
    ]
    if not wanted.scopes:
        problems.append(FieldError("/scopes", "a key needs at least one scope"))
    if not 0 < len(wanted.name) <= MAX_NAME:
        problems.append(FieldError("/name", f"a name has 1 to {MAX_NAME} characters"))
    if wanted.expires_at is not None and wanted.expires_at <= now:
        problems.append(FieldError("/expires_at", "this time is over"))
    if problems:
        raise Problem("invalid_request", "the key cannot be created", errors=problems)
    if not is_within(frozenset(wanted.scopes), principal.scopes):
        missing = sorted(frozenset(wanted.scopes) - principal.scopes)
        raise Problem("forbidden", f"a key cannot be wider than your own, which lacks {', '.join(missing)}")
    project_id = wanted.project_id
    if principal.project_id is not None and project_id != principal.project_id:
        raise Problem("forbidden", f"your key opens only the project {principal.project_id}")
    key_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    key = NewApiKey(
        key_id=key_id,
        org_id=principal.org_id,
        project_id=project_id,
        name=wanted.name,
        scopes=tuple(sorted(set(wanted.scopes))),
        is_operator=is_operator,
        created_at=now,
        created_by=f"{principal.kind}:{principal.id}",
        expires_at=wanted.expires_at,
        revoked_at=None,
        last_used_at=None,
        key=f"{PREFIX}{key_id}_{secret}",
    )
    yield INSERT(
        key_id=key_id,
        org_id=key.org_id,
        project_id=project_id or "",
        name=key.name,
        digest=_digest(secret),
        scopes=msgspec.json.encode(key.scopes).decode(),
        is_operator=is_operator,
        created_at=now,
        created_by=key.created_by,
        expires_at=key.expires_at,
    )
    return key


def revoke(principal: Principal, key_id: str, now: float) -> Steps[ApiKey]:
    """Revokes a key of the principal's organisation, or of its only project."""
    row = (yield FIND(key_id=key_id)).first()
    if row is None or not _is_visible(principal, row):
        raise not_found("key", key_id)
    if row["is_operator"] and row["revoked_at"] is None and (yield OPERATORS()).value() == 1:
        hint = "Create another such key first."
        raise Problem("conflict", "this is the last key that may make organisations", hint=hint)
    revoked = (yield REVOKE(key_id=key_id, org_id=principal.org_id, now=now)).first()
    assert revoked is not None
    return api_key(revoked)


def api_key(row: Row) -> ApiKey:
    """An API key from its row."""
    return ApiKey(
        key_id=row["key_id"],
        org_id=row["org_id"],
        project_id=row["project_id"] or None,
        name=row["name"],
        scopes=tuple(msgspec.json.decode(row["scopes"], type=list[str])),
        is_operator=bool(row["is_operator"]),
        created_at=row["created_at"],
        created_by=row["created_by"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        last_used_at=row["last_used_at"],
    )


def _is_visible(principal: Principal, row: Row) -> bool:
    return row["org_id"] == principal.org_id and principal.project_id in (None, row["project_id"])


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


class _Known(msgspec.Struct):
    """A key in memory."""

    key: ApiKey
    digest: bytes
    principal: Principal
    read_at: float
    noted_at: float = float("-inf")


class ApiKeys:
    """Verifies API keys. Those that were used lately are known in memory; a revoked one is forgotten within a
    second in every process."""

    def __init__(self, database: Database, clock: Clock, now: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        self._now = now
        self._known: dict[str, _Known] = {}
        self._used: dict[str, float] = {}
        """When keys were used last, as far as the database does not know it."""
        self._noting = BackgroundTask(
            self._note_use,
            clock,
            failure="the last use of API keys was not stored",
            retry_seconds=USED_SECONDS,
        )
        database.listen(CHANNEL, self._known.clear)

    async def verify(self, credential: str) -> Principal:
        """The principal of a credential; `unauthenticated` when it is wrong, expired or revoked."""
        match = _SHAPE.fullmatch(credential)
        if match is None:
            raise Problem("unauthenticated", "this is not an API key")
        known = self._known.get(match[1])
        if known is None or self._clock.time() - known.read_at > CACHE_SECONDS:
            known = await self._read(match[1], known)
        digest = _digest(match[2])
        if known is None or not hmac.compare_digest(known.digest, digest):
            raise Problem("unauthenticated", "there is no such API key")
        if known.key.revoked_at is not None:
            raise Problem("unauthenticated", "the API key was revoked")
        now = self._now()
        if known.key.expires_at is not None and known.key.expires_at <= now:
            raise Problem("unauthenticated", "the API key has expired")
        if now - known.noted_at >= USED_SECONDS:
            known.noted_at = self._used[match[1]] = now
            self._noting.wake_in(1.0)
        return known.principal

    def changed(self) -> None:
        """Tells all processes that keys were created or revoked."""
        self._known.clear()
        self._database.announce(CHANNEL)

    async def close(self) -> None:
        """Stores the last uses."""
        await self._noting.close()
        await self._note_use()

    async def _read(self, key_id: str, known: _Known | None) -> _Known | None:
        began = self._clock.time()
        row = (await self._database.read(FIND(key_id=key_id))).first()
        if row is None:
            self._known.pop(key_id, None)
            return None
        key = api_key(row)
        principal = Principal(
            kind="key",
            id=key.key_id,
            name=key.name,
            org_id=key.org_id,
            project_id=key.project_id,
            scopes=frozenset(key.scopes),
            is_operator=key.is_operator,
        )
        fresh = _Known(key, bytes(row["digest"]), principal, began)
        if known is not None:
            fresh.noted_at = known.noted_at
        if len(self._known) >= MAX_CACHED:
            self._known.clear()
        self._known[key_id] = fresh
        return fresh

    async def _note_use(self) -> None:
        used, self._used = self._used, {}
        if used:
            await self._database.write_unsynced(
                USED.each({"key_id": key_id, "at": at} for key_id, at in used.items())
            )
