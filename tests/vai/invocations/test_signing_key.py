"""One signing key for all processes of a database, which the database does not reveal."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import textwrap
from contextlib import ExitStack
from pathlib import Path

import pytest

from plughost.errors import HostFailed
from plughost.vai.bindings.bindings import FixedBindings
from plughost.vai.database.database import Database
from plughost.vai.database.master_key import MasterKey
from plughost.vai.database.sealing import Seal
from plughost.vai.database.statements import statement
from plughost.vai.invocations.options import InvokerOptions
from plughost.vai.invocations.signing_key import FIRST, INSERT, PURPOSE, SigningKey, SigningKeys
from plughost.vai.runtime import VaiRuntime
from tests.vai.invocations.conftest import Shelf, bound
from tests.vai.invocations.test_harness import ask, told, wanted, with_a_chain

ROWS = statement("rows", {None: "SELECT name, created_at, sealed FROM signing_keys"})
MASTER = os.urandom(32)


def spellings(secret: bytes) -> list[bytes]:
    return [
        secret,
        secret.hex().encode(),
        base64.b64encode(secret).rstrip(b"="),
        base64.urlsafe_b64encode(secret).rstrip(b"="),
    ]


@pytest.mark.clause("VAI-41")
async def test_the_key_is_created_once_and_found_again(database: Database, tmp_path: Path) -> None:
    keys = SigningKeys(database, MasterKey(str(tmp_path / "state")))
    assert not (tmp_path / "state").exists(), "nothing is created before the first token"
    assert not (await database.read(ROWS())).rows
    (made,) = await keys.load()
    (found,) = await SigningKeys(database, MasterKey(str(tmp_path / "state"))).load()
    assert found.name == made.name == FIRST
    assert found.sealable() == made.sealable()
    assert len((await database.read(ROWS())).rows) == 1


@pytest.mark.clause("VAI-41")
async def test_the_database_does_not_reveal_the_key(database: Database, tmp_path: Path) -> None:
    master = MasterKey(str(tmp_path))
    (key,) = await SigningKeys(database, master).load()
    (row,) = (await database.read(ROWS())).rows
    secrets = [*spellings(key.sealable()), *spellings((tmp_path / "master.key").read_bytes())]
    dump = repr(dict(row)).encode() + bytes(row["sealed"]) + bytes(row["sealed"]).hex().encode()
    assert not [each for each in secrets if each in dump]
    files = [file for file in tmp_path.glob("vai.db*") if file.is_file()]
    if database.dialect == "sqlite":
        assert files
        written = b"".join(file.read_bytes() for file in files)
        assert bytes(row["sealed"]) in written
        assert not [each for each in secrets if each in written]


@pytest.mark.clause("VAI-41")
async def test_another_master_key_is_refused_and_the_message_says_what_to_do(
    database: Database, tmp_path: Path
) -> None:
    (key,) = await SigningKeys(database, MasterKey(str(tmp_path), MASTER)).load()
    other = os.urandom(32)
    with pytest.raises(HostFailed, match=r"delegation-1 .* encrypted with another master key") as caught:
        await SigningKeys(database, MasterKey(str(tmp_path), other)).load()
    said = caught.value.explain() + repr(caught.value) + repr(caught.value.__context__)
    assert "VaiRuntime(master_key=…)" in said
    for secret in (MASTER, other, key.sealable()):
        assert not [each for each in spellings(secret) if repr(each)[2:-1] in said]
    assert len((await database.read(ROWS())).rows) == 1, "the key is not replaced"


async def test_a_folder_without_the_master_key_gets_none_that_cannot_fit(
    database: Database, tmp_path: Path
) -> None:
    await SigningKeys(database, MasterKey(str(tmp_path / "one"))).load()
    with pytest.raises(HostFailed, match="other/master.key does not exist") as caught:
        await SigningKeys(database, MasterKey(str(tmp_path / "other"))).load()
    assert "copy its master.key" in caught.value.hint
    assert not (tmp_path / "other").exists()


@pytest.mark.clause("VAI-41")
async def test_a_row_that_was_exchanged_is_refused(database: Database, tmp_path: Path) -> None:
    forged = SigningKey.generate(FIRST)
    for purpose, name in ((PURPOSE, "delegation-2"), ("another purpose", FIRST)):
        sealed = Seal(MASTER).seal(forged.sealable(), purpose=purpose, name=name)
        await database.write(INSERT(name=FIRST, created_at=1.0, sealed=sealed))
        with pytest.raises(HostFailed, match="or changed"):
            await SigningKeys(database, MasterKey(str(tmp_path), MASTER)).load()
        await database.write(statement("delete", {None: "DELETE FROM signing_keys"})())


async def test_a_second_key_is_first_and_the_old_one_is_known(database: Database, tmp_path: Path) -> None:
    keys = SigningKeys(database, MasterKey(str(tmp_path), MASTER))
    (old,) = await keys.load()
    new = SigningKey.generate("delegation-2")
    sealed = Seal(MASTER).seal(new.sealable(), purpose=PURPOSE, name=new.name)
    await database.write(INSERT(name=new.name, created_at=4e9, sealed=sealed))
    await database.write(INSERT(name="something else", created_at=5e9, sealed=b"of another purpose"))
    assert [each.sealable() for each in await keys.load()] == [new.sealable(), old.sealable()]


PROCESS = textwrap.dedent(
    """
    import asyncio, hashlib, sys
    from plughost.vai.database.master_key import MasterKey
    from plughost.vai.database.open_database import open_database
    from plughost.vai.invocations.signing_key import SigningKeys

    async def main(folder, url, master):
        database = open_database(folder, url or None)
        await database.open()
        print("ready", flush=True)
        sys.stdin.readline()
        (key,) = await SigningKeys(database, MasterKey(folder, bytes.fromhex(master) or None)).load()
        print(hashlib.sha256(key.sealable()).hexdigest(), flush=True)
        await database.close()

    asyncio.run(main(*sys.argv[1:]))
    """
)


@pytest.mark.clause("VAI-41")
@pytest.mark.parametrize("master", ["file", "given"])
async def test_processes_that_start_at_once_have_the_same_key(
    database_url: str | None, tmp_path: Path, master: str
) -> None:
    given = MASTER.hex() if master == "given" else ""
    command = [sys.executable, "-c", PROCESS, str(tmp_path), database_url or "", given]
    with ExitStack() as stack:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        processes = [stack.enter_context(subprocess.Popen(command, **pipes)) for _ in range(6)]
        for each in processes:
            stack.callback(each.kill)
        assert [each.stdout.readline() for each in processes] == ["ready\n"] * 6
        for each in processes:
            each.stdin.write("\n")
            each.stdin.flush()
        said = [each.communicate(timeout=60)[0] for each in processes]
        assert [each.returncode for each in processes] == [0] * 6
    assert len({*said}) == 1
    assert len(said[0]) == 65
    assert (tmp_path / "master.key").exists() == (master == "file")


@pytest.mark.usefixtures("strict")
async def test_a_runtime_creates_the_keys_with_its_first_token(runtime_of, ground: Path) -> None:
    runtime: VaiRuntime = await runtime_of(bound("triage"), bound("reads"), sandbox="strict")
    await with_a_chain(runtime)
    assert not (ground / "state/master.key").exists()
    assert not (await runtime.database.read(ROWS())).rows
    outcome = await runtime.invoke(wanted(ask("GET", "/v1/chains/ch_1")))
    assert told(outcome)[0][0] == 200, outcome
    assert (ground / "state/master.key").stat().st_mode & 0o7777 == 0o600
    assert len((await runtime.database.read(ROWS())).rows) == 1


@pytest.mark.usefixtures("strict")
@pytest.mark.clause("VAI-41")
async def test_hosts_with_one_master_key_share_the_key_and_another_host_issues_no_token(
    ground: Path, database_url: str | None
) -> None:
    def host(folder: str, master_key: bytes) -> VaiRuntime:
        return VaiRuntime(
            str(ground / (folder if database_url else "state")),
            Shelf(ground / "lab"),
            FixedBindings([bound("triage")]),
            database=database_url,
            master_key=master_key,
            options=InvokerOptions(scratch_base=str(ground), sandbox="strict"),
        )

    step = ask("GET", "/v1/chains/ch_1")
    loaded = []
    for number, folder in enumerate(("one", "two")):
        async with host(folder, MASTER) as runtime:
            if not number:
                await with_a_chain(runtime)
            outcome = await runtime.invoke(wanted(step))
            assert told(outcome)[0][0] == 200, outcome
            loaded += [key.sealable() for key in await runtime.signing_keys.load()]
    assert len(loaded) == 2
    assert len({*loaded}) == 1
    other = os.urandom(32)
    async with host("three", other) as runtime:
        outcome = await runtime.invoke(wanted(step))
        assert (outcome.status, outcome.reason) == ("failed", "host_failure")
        assert "another master key" in (outcome.message or "")
        assert not [
            each
            for secret in (MASTER, other, loaded[0])
            for each in spellings(secret)
            if repr(each)[2:-1] in repr(outcome)
        ]
    assert not [*ground.glob("*/master.key")]
