"""The master key is replaced while others read and write, whenever the one that replaces it is killed."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from plughost.errors import HostFailed
from plughost.gateway.secrets import rotation
from plughost.gateway.secrets.gateway_secrets import GatewaySecrets
from plughost.gateway.secrets.rotation import Rotation, rotate
from plughost.gateway.secrets.secret_store import SecretStore
from plughost.testing import VirtualClock
from plughost.vai.bindings.binding import Scope
from plughost.vai.database.database import Database, Steps
from plughost.vai.database.master_key import MasterKey
from plughost.vai.database.sealing import Seal
from plughost.vai.database.statements import Result, statement
from plughost.vai.invocations.signing_key import SigningKeys
from tests.gateway.secrets.conftest import ORG, PROJECT, VALUE, put, unused, use

KEYS = statement("keys", {None: "SELECT master_key_id FROM secrets"})
ROWS = statement("rows", {None: "SELECT name, master_key_id, data_key, sealed FROM secrets ORDER BY name"})
SPOIL = statement("spoil", {None: "UPDATE secrets SET data_key = :data_key WHERE name = :name"})
OLD, NEW = os.urandom(32), os.urandom(32)


async def fill(database: Database, master: Seal, count: int, scope: Scope = PROJECT) -> None:
    def put_all() -> Steps[None]:
        for number in range(count):
            yield from SecretStore(master).put(scope, f"key-{number}", f"{VALUE}-{number}")

    await database.write(put_all)


async def keys(database: Database) -> Counter[str]:
    return Counter(row["master_key_id"] for row in (await database.read(KEYS())).rows)


async def check_all(database: Database, master: Seal, count: int) -> None:
    secrets = GatewaySecrets(database, master, VirtualClock())
    for number in range(count):
        assert await secrets.reveal(f"secret://org_1/proj_1/key-{number}", use()) == f"{VALUE}-{number}"
    await secrets.close()


@pytest.mark.clause("GW-31")
async def test_only_data_keys_are_encrypted_anew(database: Database) -> None:
    old, new = Seal(OLD), Seal(NEW)
    await fill(database, old, 7)
    await fill(database, new, 3, ORG)
    before = {
        row["name"]: row
        for row in (await database.read(ROWS())).rows
        if row["master_key_id"] == old.key_ids[0]
    }
    done: list[int] = []
    assert await rotate(database, old, new, batch_size=3, progress=done.append) == Rotation(resealed=7)
    assert done == [3, 6, 7]
    assert await keys(database) == {new.key_ids[0]: 10}
    await check_all(database, new, 7)
    with pytest.raises(HostFailed, match=f"is encrypted with the master key {new.key_ids[0]}"):
        await check_all(database, old, 7)
    after = [row for row in (await database.read(ROWS())).rows if bytes(row["sealed"]) in map(bytes, (each["sealed"] for each in before.values()))]  # fmt: skip
    assert len(after) == 7, "values stay as they are"
    assert await rotate(database, old, new) == Rotation()


@pytest.mark.clause("GW-31")
async def test_a_rotation_that_is_killed_is_continued(
    database: Database, database_url: str | None, tmp_path: Path
) -> None:
    old, new, count = Seal(OLD), Seal(NEW), 600
    await fill(database, old, count)
    environment = {"OLD_KEY": OLD.hex(), "NEW_KEY": NEW.hex(), "PYTHONPATH": os.pathsep.join(sys.path)}
    left = count
    for kill_after in (20, 50, 90):
        rotator = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.gateway.secrets.rotator", str(tmp_path), database_url or "",
            stdout=asyncio.subprocess.PIPE, env={**os.environ, **environment},
        )  # fmt: skip
        assert rotator.stdout is not None
        try:
            while (line := await asyncio.wait_for(rotator.stdout.readline(), 30)) and int(line) < kill_after:
                pass
        finally:
            rotator.kill()
            await rotator.wait()
        while line:  # the acknowledged ones
            line, last = await rotator.stdout.readline(), line
        found = await keys(database)
        assert found.keys() == {old.key_ids[0], new.key_ids[0]}, "killed in the middle"
        assert found[old.key_ids[0]] <= left - int(last)
        left = found[old.key_ids[0]]
        await check_all(database, Seal(NEW, OLD), count)
        await check_all(database, Seal(OLD, NEW), count)
    assert await rotate(database, old, new) == Rotation(resealed=left)
    await check_all(database, new, count)


@pytest.mark.clause("GW-31")
async def test_others_read_and_write_during_a_rotation(database: Database) -> None:
    old, new = Seal(OLD), Seal(NEW)
    await fill(database, old, 60)
    rotating = asyncio.create_task(rotate(database, old, new, batch_size=2))
    secrets = GatewaySecrets(database, Seal(NEW, OLD), VirtualClock())
    early, late = SecretStore(Seal(OLD, NEW)), SecretStore(Seal(NEW, OLD))
    expected = {f"key-{number}": f"{VALUE}-{number}" for number in range(60)}
    number = 0
    while not rotating.done() or number < 60:
        name, store = f"key-{(number * 7) % 60}", late if number % 3 else early
        if number % 5 == 0:  # its version is 1 again, and its data key another one
            await database.write(store.delete, PROJECT, name, unused)
        expected[name] = f"new-value-{number}"
        await database.write(store.put, PROJECT, name, expected[name])
        assert await secrets.reveal(f"secret://org_1/proj_1/{name}", use()) == expected[name]
        number += 1
    assert (await rotating).damaged == ()
    await secrets.close()
    await rotate(database, old, new)  # after all processes encrypt with the new one
    alone = GatewaySecrets(database, new, VirtualClock())
    for name, value in expected.items():
        assert await alone.reveal(f"secret://org_1/proj_1/{name}", use()) == value
    await alone.close()


@pytest.mark.clause("GW-31")
async def test_a_value_that_is_stored_between_look_and_change_is_kept(database: Database) -> None:
    """The rotation has read the data key of a secret, which is then deleted and stored again."""
    old, new = Seal(OLD), Seal(NEW)
    await put(database, old, PROJECT, "key", "first-value")
    (read,) = (await database.read(ROWS())).rows
    steps = rotation._reseal_batch(old, new, rotation._START, 10)
    next(steps)
    row = {
        "org_id": "org_1",
        "project_id": "proj_1",
        "name": "key",
        "version": 1,
        "data_key": bytes(read["data_key"]),
    }
    change = steps.send(Result([row], 1))
    await database.write(SecretStore(old).delete, PROJECT, "key", unused)
    await put(database, old, PROJECT, "key", "second-value")
    assert (await database.write(change)).changed == 0
    secrets = GatewaySecrets(database, old, VirtualClock())
    assert await secrets.reveal("secret://org_1/proj_1/key", use()) == "second-value"
    await secrets.close()


@pytest.mark.clause("GW-31")
async def test_a_secret_that_a_late_process_stores_behind_the_rotation_is_found(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = Seal(OLD), Seal(NEW)
    await fill(database, old, 4)
    write, late = database.write, SecretStore(old)

    async def then_store(unit, *args, **kwargs):
        result = await write(unit, *args, **kwargs)
        if result is None:  # the last batch was empty
            monkeypatch.setattr(database, "write", write)
            await write(late.put, PROJECT, "a-key", VALUE)
        return result

    monkeypatch.setattr(database, "write", then_store)
    assert await rotate(database, old, new) == Rotation(resealed=5)
    assert await keys(database) == {new.key_ids[0]: 5}


async def test_a_damaged_secret_is_named_and_holds_up_no_other(database: Database) -> None:
    old, new = Seal(OLD), Seal(NEW)
    await fill(database, old, 5)
    await database.write(SPOIL(name="key-2", data_key=b"spoilt"))
    assert await rotate(database, old, new, batch_size=2) == Rotation(4, ("secret://org_1/proj_1/key-2",))
    assert await keys(database) == {old.key_ids[0]: 1, new.key_ids[0]: 4}
    await put(database, new, PROJECT, "key-2")
    assert await rotate(database, old, new) == Rotation()


@pytest.mark.clause("GW-31")
async def test_signing_keys_are_encrypted_anew_too(database: Database, tmp_path: Path) -> None:
    (made,) = await SigningKeys(database, MasterKey(str(tmp_path), OLD)).load()
    (during,) = await SigningKeys(database, MasterKey(str(tmp_path), [NEW, OLD])).load()
    await rotate(database, Seal(OLD), Seal(NEW))
    (after,) = await SigningKeys(database, MasterKey(str(tmp_path), NEW)).load()
    assert made.sealable() == during.sealable() == after.sealable()
    await rotate(database, Seal(OLD), Seal(NEW))
    assert len(await SigningKeys(database, MasterKey(str(tmp_path), [NEW])).load()) == 1
