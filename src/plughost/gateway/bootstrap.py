"""The first start of a gateway: an organisation, a project, and the key of the administrator.

The key is written to `admin.key` before it is stored in the database. So a start that is killed in between
leaves a file that the next start replaces, never a gateway without a key.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from plughost._util.fsync import sync, write_new
from plughost.errors import HostFailed
from plughost.gateway import audit
from plughost.gateway.audit import AuditEntry
from plughost.gateway.auth import api_keys
from plughost.gateway.auth.api_keys import KeyRequest, NewApiKey
from plughost.gateway.auth.principal import Principal
from plughost.gateway.auth.scopes import ADMIN
from plughost.gateway.tenants import FIND_PROJECT, create_org, create_project
from plughost.vai.database.database import Database, Steps
from plughost.vai.database.statements import load_statements

_SQL = load_statements(__file__)
CLAIM, FIRST = _SQL["claim"], _SQL["first"]

FILE = "admin.key"
ACTOR = "operator:start"


async def bootstrap(database: Database, folder: str) -> str | None:
    """Makes the first organisation, project and key of a new gateway; returns the path of the key's file.
    None when another start, of this or another process, has done that before."""
    path = os.path.join(folder, FILE)

    def first_start() -> Steps[str | None]:
        now = time.time()
        if (yield FIRST()).rows:
            return None
        org = yield from create_org("first", now)
        project = yield from create_project(org.org_id, "first", now)
        if not (yield CLAIM(project_id=project.project_id)).rows:
            raise _TooLate
        key = yield from _operator_key(org.org_id, now)
        yield audit.insert(
            AuditEntry(org_id=org.org_id, actor=ACTOR, action="gateway.start", target=key.key_id)
        )
        _write_key(path, key)
        return path

    try:
        return await database.write(first_start)
    except _TooLate:
        return None


async def recover_key(database: Database, folder: str) -> str:
    """Makes another administrator's key, for the owner of the folder who has lost the first; returns the path
    of its file."""
    path = os.path.join(folder, FILE)

    def recover() -> Steps[str]:
        row = (yield FIRST()).first()
        project = (yield FIND_PROJECT(project_id=row["value"])).first() if row is not None else None
        if project is None:
            raise HostFailed(f"{folder} has no gateway yet", hint="start one: plughost serve")
        key = yield from _operator_key(project["org_id"], time.time())
        yield audit.insert(
            AuditEntry(org_id=project["org_id"], actor=ACTOR, action="keys.recover", target=key.key_id)
        )
        _write_key(path, key)
        return path

    return await database.write(recover)


class _TooLate(Exception):
    """Another process has made the first organisation meanwhile; this transaction is undone."""


def _operator_key(org_id: str, now: float) -> Steps[NewApiKey]:
    operator = Principal(
        kind="key", id="start", name="start", org_id=org_id, scopes=frozenset({ADMIN}), is_operator=True
    )
    wanted = KeyRequest(name="administrator", scopes=(ADMIN,))
    return (yield from api_keys.create(operator, wanted, now, is_operator=True))


def _write_key(path: str, key: NewApiKey) -> None:
    """Replaces the file at once with its content; only its owner can read it."""
    assert key.key is not None
    temporary = Path(f"{path}.{key.key_id}")
    try:
        write_new(temporary, key.key.encode() + b"\n", 0o600)
        os.replace(temporary, path)
        sync(temporary.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise HostFailed(
            f"the administrator's key cannot be written to {path}: {error.strerror}",
            hint="check the owner of the folder, and its disk",
        ) from None
