"""Changes: one transaction for everything that a request changes.

The change, its line in the audit log and the answer to its Idempotency-Key are stored together, or none of
them is. So the same key gives the same answer after a crash, and in every process: a second request waits for
the first one in the database, and then finds its answer.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from plughost.gateway import audit
from plughost.gateway.audit import AuditEntry
from plughost.gateway.auth.principal import Principal
from plughost.gateway.problems import Problem, ProblemDocument
from plughost.vai.database.database import Database, Steps
from plughost.vai.database.sealing import Seal
from plughost.vai.database.statements import Query, load_statements

T = TypeVar("T", bound=msgspec.Struct)

_SQL = load_statements(__file__)
CLAIM, FIND, FORGET, ANSWER, PRUNE = (_SQL[name] for name in ("claim", "find", "forget", "answer", "prune"))

KEEP_SECONDS = 24 * 3600.0
"""How long the answer to an Idempotency-Key is kept."""
PURPOSE = "idempotent answer"
UNKEPT = frozenset({"unauthenticated", "forbidden", "too_many_requests", "key_reused", "stale"})
"""Problems that are not kept as the answer to a key: the same request may be allowed later."""
_encode = msgspec.json.Encoder().encode


class ChangeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request that causes a change: who sent it, from where, and its Idempotency-Key."""

    principal: Principal
    route: str
    """Method and path template, such as `POST /v1/keys`."""
    digest: bytes
    """Of the path, query and body."""
    key: str = ""
    """The Idempotency-Key; empty when there is none."""
    address: str = ""
    request_id: str = ""

    @property
    def slot(self) -> str:
        """The name of the key in the database: keys of two principals or routes never meet."""
        principal = self.principal
        parts = [principal.kind, principal.id, self.route, self.key]
        return hashlib.sha256(_encode(parts)).hexdigest()


class Answer(msgspec.Struct, Generic[T], frozen=True):
    """The answer to a change: a status and a document. `is_repeat`: stored by an earlier request."""

    status: int
    document: T
    is_repeat: bool = False


class Changes:
    """Executes the changes of requests."""

    def __init__(self, database: Database, seal: Seal, now: Callable[[], float] = time.time) -> None:
        self._database = database
        self._seal = seal
        self._now = now

    async def execute(
        self,
        request: ChangeRequest,
        action: str,
        unit: Callable[..., Steps[T]],
        /,
        *args: Any,
        answer: type[T],
        target: Callable[[T], str],
        status: int = 200,
        once: tuple[str, ...] = (),
        project_id: str | None = None,
        **kwargs: Any,
    ) -> Answer[T]:
        """Executes a transaction whose result is the answer's document, of type `answer`.

        `target` gives the id of the changed record for the audit log. The fields named in `once` are shown
        once: a repeated request gets null for them. `key_reused` when the key was used for another request.
        """
        entry = AuditEntry(
            org_id=request.principal.org_id,
            project_id=project_id or request.principal.project_id or "",
            actor=f"{request.principal.kind}:{request.principal.id}",
            action=action,
            address=request.address,
            request_id=request.request_id,
        )

        def change() -> Steps[Answer[T]]:
            if request.key:
                stored = yield from self._claim(request)
                if stored is not None:
                    return _repeated(stored, answer)
            document = yield from unit(*args, **kwargs)
            yield audit.insert(msgspec.structs.replace(entry, target=target(document)))
            if request.key:
                kept = msgspec.structs.replace(document, **dict.fromkeys(once)) if once else document
                yield self._keep(request, status, kept)
            return Answer(status, document)

        try:
            return await self._database.write(change)
        except Problem as problem:
            if request.key and problem.code not in UNKEPT and problem.status < 500:
                await self._database.write(self._keep_problem, request, problem)
            raise

    def _keep_problem(self, request: ChangeRequest, problem: Problem) -> Steps[None]:
        """The answer to a key is a problem, too. Nothing of the change is stored: this is its own
        transaction."""
        if (yield from self._claim(request)) is None:
            yield self._keep(request, problem.status, problem.document)

    def _claim(self, request: ChangeRequest) -> Steps[_Stored | None]:
        """Claims the key for this request; returns the stored answer when an earlier request has one."""
        now = self._now()
        yield FORGET(slot=request.slot, before=now - KEEP_SECONDS)
        if (yield CLAIM(slot=request.slot, nothing=b"", created_at=now)).rows:
            return None
        row = (yield FIND(slot=request.slot)).rows[0]
        plain = self._seal.unseal(bytes(row["sealed"]), purpose=PURPOSE, name=request.slot)
        stored = msgspec.json.decode(plain, type=_Stored)
        if stored.digest != request.digest:
            raise Problem("key_reused", "another request was sent with this Idempotency-Key before")
        return stored

    def _keep(self, request: ChangeRequest, status: int, document: msgspec.Struct) -> Query:
        stored = _Stored(request.digest, status, msgspec.Raw(_encode(document)))
        sealed = self._seal.seal(_encode(stored), purpose=PURPOSE, name=request.slot)
        return ANSWER(slot=request.slot, status=status, sealed=sealed)


class _Stored(msgspec.Struct, frozen=True):
    """The answer to a key, as it is encrypted. The digest of the request is inside: a body may hold a secret,
    which nobody must find by trying digests of a stolen database."""

    digest: bytes
    status: int
    document: msgspec.Raw


def _repeated(stored: _Stored, answer: type[T]) -> Answer[T]:
    if stored.status >= 400:
        kept = msgspec.json.decode(stored.document, type=ProblemDocument)
        raise Problem(kept.code, kept.detail, errors=kept.errors, hint=kept.hint)
    return Answer(stored.status, msgspec.json.decode(stored.document, type=answer), is_repeat=True)
