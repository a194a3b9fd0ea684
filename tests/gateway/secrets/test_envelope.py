"""Rows that somebody moved: no value can stand in the place of another."""

from __future__ import annotations

import os

import msgspec
import pytest

from plughost.errors import HostFailed
from plughost.gateway.secrets.envelope import open_value, seal_value
from plughost.gateway.secrets.gateway_secrets import GatewaySecrets
from plughost.gateway.secrets.uri import SecretUri
from plughost.vai.bindings.binding import Scope
from plughost.vai.database.database import Database
from plughost.vai.database.sealing import Seal, WrongSeal
from plughost.vai.database.statements import statement
from tests.gateway.secrets.conftest import (
    ORG,
    OTHER_ORG,
    OTHER_PROJECT,
    PROJECT,
    VALUE,
    audit_lines,
    put,
    use,
)

TAKE = statement("take", {None: "SELECT data_key, sealed FROM secrets WHERE org_id = :org AND project_id = :project AND name = :name"})  # fmt: skip
PLACE = statement("place", {None: "UPDATE secrets SET data_key = :data_key, sealed = :sealed WHERE org_id = :org AND project_id = :project AND name = :name"})  # fmt: skip


def place(scope: Scope, name: str) -> dict[str, str]:
    return {"org": scope.org_id, "project": scope.project_id or "", "name": name}


@pytest.mark.clause("GW-31")
@pytest.mark.parametrize(
    ("scope", "name"),
    [
        (OTHER_ORG, "key"),
        (Scope("org_2", "proj_1"), "key"),
        (OTHER_PROJECT, "key"),
        (ORG, "key"),
        (PROJECT, "other"),
    ],
)
async def test_a_value_of_another_tenant_or_name_is_not_decrypted(
    database: Database, master: Seal, secrets: GatewaySecrets, scope: Scope, name: str
) -> None:
    await put(database, master, scope, name, "the-value-of-another")
    await put(database, master, PROJECT, "key")
    taken = dict((await database.read(TAKE(**place(scope, name)))).rows[0])
    await database.write(PLACE(**taken, **place(PROJECT, "key")))
    with pytest.raises(HostFailed, match="its row in the database was changed") as caught:
        await secrets.reveal("secret://org_1/proj_1/key", use())
    assert "the-value-of-another" not in caught.value.explain() + repr(caught.value)
    await secrets.close()
    assert [line["outcome"] for line in await audit_lines(database)] == ["internal_error"]


@pytest.mark.clause("GW-31")
@pytest.mark.parametrize("columns", [("data_key",), ("sealed",), ("data_key", "sealed")])
async def test_a_former_version_is_not_decrypted(
    database: Database, master: Seal, secrets: GatewaySecrets, columns: tuple[str, ...]
) -> None:
    where = place(PROJECT, "key")
    await put(database, master, PROJECT, "key", "the-former-value")
    former = dict((await database.read(TAKE(**where))).rows[0])
    await put(database, master, PROJECT, "key")
    current = dict((await database.read(TAKE(**where))).rows[0])
    await database.write(PLACE(**{**current, **{name: former[name] for name in columns}}, **where))
    with pytest.raises(HostFailed, match="was changed"):
        await secrets.reveal("secret://org_1/proj_1/key", use())
    await database.write(PLACE(**current, **where))
    assert await secrets.reveal("secret://org_1/proj_1/key", use()) == VALUE


def test_an_envelope_opens_only_with_its_master_key_place_and_version() -> None:
    master, other = Seal(os.urandom(32)), Seal(os.urandom(32))
    uri = SecretUri(PROJECT, "key")
    envelope = seal_value(VALUE, uri, 3, master)
    assert envelope.master_key_id == master.key_ids[0]
    assert open_value(envelope, uri, 3, master) == VALUE
    for wrong_uri, version, seal in (
        (uri, 3, other), (uri, 2, master), (SecretUri(ORG, "key"), 3, master), (SecretUri(PROJECT, "kez"), 3, master),
        (SecretUri(Scope("org_1", ""), "key"), 3, master),
    ):  # fmt: skip
        with pytest.raises(WrongSeal):
            open_value(envelope, wrong_uri, version, seal)


@pytest.mark.clause("GW-31")
def test_each_value_has_a_data_key_of_its_own() -> None:
    master, uri = Seal(os.urandom(32)), SecretUri(PROJECT, "key")
    first, second = seal_value(VALUE, uri, 1, master), seal_value(VALUE, uri, 1, master)
    with pytest.raises(WrongSeal):
        open_value(msgspec.structs.replace(first, sealed=second.sealed), uri, 1, master)


def test_a_seal_of_several_keys_encrypts_with_the_first_and_decrypts_with_all() -> None:
    old, new = os.urandom(32), os.urandom(32)
    both = Seal(new, old)
    assert both.key_ids == (*Seal(new).key_ids, *Seal(old).key_ids)
    assert both.unseal(Seal(old).seal(b"x", purpose="p", name="n"), purpose="p", name="n") == b"x"
    sealed = both.seal(b"x", purpose="p", name="n")
    assert Seal(new).unseal(sealed, purpose="p", name="n") == b"x"
    with pytest.raises(WrongSeal):
        Seal(old).unseal(sealed, purpose="p", name="n")
    assert old.hex()[:8] not in repr(both) + "".join(both.key_ids)
