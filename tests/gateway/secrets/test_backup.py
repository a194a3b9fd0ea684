"""Backups of secrets: useless without the master key, complete with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from plughost.errors import HostFailed
from plughost.gateway.secrets.gateway_secrets import GatewaySecrets
from plughost.testing import VirtualClock
from plughost.vai.database.master_key import MasterKey
from plughost.vai.database.open_database import open_database
from plughost.vai.database.sealing import Seal
from plughost.vai.maintenance.backup import backup, restore
from tests.gateway.secrets.conftest import PROJECT, VALUE, put, use


async def reveal(folder: Path, master: Seal) -> str:
    database = open_database(str(folder))
    secrets = GatewaySecrets(database, master, VirtualClock())
    try:
        return await secrets.reveal("secret://org_1/proj_1/key", use())
    finally:
        await secrets.close()
        await database.close()


@pytest.mark.clause("GW-31")
async def test_a_backup_holds_no_master_key_and_is_used_with_it(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    master = await MasterKey(str(first)).seal(create=True)
    assert master is not None
    key = (first / "master.key").read_bytes()
    database = open_database(str(first))
    await put(database, master, PROJECT, "key")
    await database.close()
    await backup(str(first), str(tmp_path / "copy"))
    content = (tmp_path / "copy").read_bytes()
    assert not [each for each in (key, key.hex().encode(), VALUE.encode()) if each in content]
    await restore(str(tmp_path / "copy"), str(second))
    assert not (second / "master.key").exists()
    another = await MasterKey(str(second)).seal(create=True)
    assert another is not None
    with pytest.raises(HostFailed, match=f"is encrypted with the master key {master.key_ids[0]}"):
        await reveal(second, another)
    assert await reveal(second, master) == VALUE
