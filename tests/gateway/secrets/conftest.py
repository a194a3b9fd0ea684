"""What tests of secrets share: tenants, a master key, an invocation that uses a secret."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from plughost.gateway.secrets.gateway_secrets import GatewaySecrets
from plughost.gateway.secrets.secret_store import SecretDocument, SecretStore
from plughost.testing import VirtualClock
from plughost.vai.bindings.binding import Scope
from plughost.vai.bindings.secret_source import SecretUse
from plughost.vai.database.database import Database, Steps
from plughost.vai.database.sealing import Seal
from plughost.vai.database.statements import statement

ORG, OTHER_ORG = Scope("org_1"), Scope("org_2")
PROJECT, OTHER_PROJECT = Scope("org_1", "proj_1"), Scope("org_1", "proj_2")
VALUE = "correct-horse-battery-staple"
AUDIT = statement("audit", {None: "SELECT * FROM audit ORDER BY number"})


def use(owner: Scope = PROJECT, package_id: str = "acme/tools", invocation_id: str = "inv_1") -> SecretUse:
    return SecretUse(
        binding_id="bind_1", package_id=package_id, owner=owner, tenant=owner, invocation_id=invocation_id
    )


def unused(uri: str) -> Steps[list[str]]:
    """No binding maps anything."""
    yield from ()
    return []


async def put(
    database: Database, master: Seal, scope: Scope, name: str, value: str = VALUE, **more
) -> SecretDocument:
    await database.open()  # so that readers find the tables without a write of their own
    return await database.write(SecretStore(master).put, scope, name, value, **more)


async def audit_lines(database: Database) -> list[dict[str, object]]:
    return [dict(row) for row in (await database.read(AUDIT())).rows]


@pytest.fixture
def master() -> Seal:
    return Seal(os.urandom(32))


@pytest.fixture
async def secrets(database: Database, master: Seal, clock: VirtualClock) -> AsyncIterator[GatewaySecrets]:
    source = GatewaySecrets(database, master, clock)
    yield source
    await source.close()
