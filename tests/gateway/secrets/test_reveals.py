"""Reveals: the newest value for those who may have it, and a line in the audit log for each."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time

import pytest

from plughost.errors import Denied, HostFailed, InvalidSpec, Stopped
from plughost.gateway.secrets import reveal_log
from plughost.gateway.secrets.gateway_secrets import GatewaySecrets
from plughost.gateway.secrets.secret_store import SecretStore
from plughost.testing import VirtualClock
from plughost.vai.bindings.binding import Scope
from plughost.vai.bindings.secret_source import SecretUse
from plughost.vai.database.database import Database
from plughost.vai.database.errors import DatabaseUnavailable
from plughost.vai.database.open_database import open_database
from plughost.vai.database.sealing import Seal
from tests.gateway.secrets.conftest import (
    ORG,
    OTHER_ORG,
    OTHER_PROJECT,
    PROJECT,
    VALUE,
    audit_lines,
    put,
    unused,
    use,
)
from tests.support import until
from tests.support.postgres import Server

URI = "secret://org_1/proj_1/key"


async def stored_lines(database: Database, clock: VirtualClock, count: int) -> list[dict[str, object]]:
    """The lines of the audit log, once there are so many."""
    for _ in range(500):
        clock.advance(reveal_log.FLUSH_SECONDS)
        if len(lines := await audit_lines(database)) >= count:
            return lines
        await asyncio.sleep(0.01)
    raise AssertionError("the lines were not stored")


@pytest.mark.clause("GW-31", "VAI-65")
async def test_a_new_value_is_used_at_once(database: Database, master: Seal, secrets: GatewaySecrets) -> None:
    for number in range(5):
        await put(database, master, PROJECT, "key", f"value-{number}")
        assert await secrets.reveal(URI, use()) == f"value-{number}"
    await database.write(SecretStore(master).delete, PROJECT, "key", unused)
    with pytest.raises(InvalidSpec, match=f"there is no secret {URI}"):
        await secrets.reveal(URI, use())


@pytest.mark.clause("GW-31")
async def test_bindings_of_other_tenants_are_given_nothing(
    database: Database, master: Seal, secrets: GatewaySecrets
) -> None:
    await put(database, master, PROJECT, "key")
    await put(database, master, ORG, "key", "of-the-org")
    assert await secrets.reveal("secret://org_1/key", use(PROJECT)) == "of-the-org"
    assert await secrets.reveal("secret://org_1/key", use(ORG)) == "of-the-org"
    messages = set()
    for owner in (OTHER_ORG, OTHER_PROJECT, Scope("org_2", "proj_1"), ORG):
        with pytest.raises(InvalidSpec) as caught:
            await secrets.reveal(URI, use(owner))
        messages.add(caught.value.explain())
    with pytest.raises(InvalidSpec) as caught:
        await secrets.reveal(URI + "2", use(PROJECT))
    messages.add(caught.value.explain().replace("key2", "key"))
    assert len(messages) == 1, "nobody can tell whether there is one"
    with pytest.raises(InvalidSpec):
        await secrets.reveal("secret://org_1/../key", use(PROJECT))


@pytest.mark.clause("GW-31")
async def test_only_listed_packages_are_given_a_secret(
    database: Database, master: Seal, secrets: GatewaySecrets
) -> None:
    await put(database, master, PROJECT, "key", packages=["acme/others"])
    with pytest.raises(Denied, match="acme/tools is not among those") as caught:
        await secrets.reveal(URI, use())
    assert VALUE not in caught.value.explain()
    assert await secrets.reveal(URI, use(package_id="acme/others")) == VALUE
    await put(database, master, PROJECT, "key", packages=["acme/tools"])
    assert await secrets.reveal(URI, use()) == VALUE, "a new list counts at once"


@pytest.mark.clause("GW-31")
async def test_every_reveal_is_in_the_audit_log_refused_ones_too(
    database: Database, master: Seal, secrets: GatewaySecrets, clock: VirtualClock
) -> None:
    await put(database, master, ORG, "key", packages=["acme/tools"])
    uri, began = "secret://org_1/key", time.time()
    shared = SecretUse(
        binding_id="bind_9", package_id="acme/tools", owner=ORG, tenant=PROJECT, invocation_id="inv_9"
    )
    await secrets.reveal(uri, shared)
    with pytest.raises(Denied):
        await secrets.reveal(uri, use(package_id="acme/others"))
    with pytest.raises(InvalidSpec):
        await secrets.reveal(uri, use(OTHER_ORG))
    with pytest.raises(InvalidSpec):
        await secrets.reveal("secret://\ud800", use())
    first, second, third, fourth = await stored_lines(database, clock, 4)
    assert began <= first.pop("at") <= time.time()
    first.pop("number")
    assert first == {
        "org_id": "org_1", "project_id": "proj_1", "actor": "binding:bind_9", "action": "secrets.reveal",
        "target": uri, "outcome": "done", "address": "", "request_id": "inv_9",
    }  # fmt: skip
    assert (second["outcome"], second["request_id"]) == ("forbidden", "inv_1")
    assert (third["outcome"], third["org_id"]) == ("not_found", "org_2")
    assert (fourth["outcome"], fourth["target"]) == ("not_found", "secret://?")


@pytest.mark.clause("GW-31")
async def test_a_reveal_does_not_wait_for_a_commit_and_lines_are_written_together(
    database: Database,
    master: Seal,
    secrets: GatewaySecrets,
    clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await put(database, master, PROJECT, "key")
    commits, write = [], database.write

    async def counted(unit, *args, **kwargs):
        commits.append(unit)
        return await write(unit, *args, **kwargs)

    monkeypatch.setattr(database, "write", counted)
    for round in range(1, 4):
        for number in range(50):
            await secrets.reveal(URI, use(invocation_id=f"inv_{number}"))
        assert len(commits) == round - 1
        assert len(await stored_lines(database, clock, 50 * round)) == 50 * round
    assert len(commits) == 3


@pytest.mark.clause("GW-31")
async def test_a_clean_close_stores_every_line(database: Database, master: Seal, clock: VirtualClock) -> None:
    await put(database, master, PROJECT, "key")
    secrets = GatewaySecrets(database, master, clock)
    revealing = [asyncio.create_task(secrets.reveal(URI, use(invocation_id=f"inv_{n}"))) for n in range(100)]
    await until(lambda: any(task.done() for task in revealing))
    await secrets.close()
    results = await asyncio.gather(*revealing, return_exceptions=True)
    given = {f"inv_{n}" for n, result in enumerate(results) if result == VALUE}
    assert given
    assert {type(result) for result in results if result != VALUE} <= {Stopped}
    assert {line["request_id"] for line in await audit_lines(database)} == given
    with pytest.raises(Stopped):
        await secrets.reveal(URI, use())
    await secrets.close()


async def test_while_the_log_cannot_be_written_only_so_many_secrets_are_revealed(
    database: Database, master: Seal, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reveal_log, "MAX_WAITING", 5)
    await put(database, master, PROJECT, "key")
    secrets, write = GatewaySecrets(database, master, clock), database.write
    reports: list[dict] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(context))

    async def refuse(*args, **kwargs):
        raise DatabaseUnavailable("no room")

    monkeypatch.setattr(database, "write", refuse)
    for number in range(5):
        await secrets.reveal(URI, use(invocation_id=f"inv_{number}"))
    clock.advance(reveal_log.FLUSH_SECONDS)
    await until(lambda: reports)
    assert reports[0]["message"] == "revealed secrets are not in the audit log yet"
    for _ in range(3):
        with pytest.raises(DatabaseUnavailable):
            await secrets.reveal(URI, use(invocation_id="inv_5"))
    with pytest.raises(DatabaseUnavailable):
        await secrets.close()
    monkeypatch.setattr(database, "write", write)
    await secrets.close()
    assert [line["request_id"] for line in await audit_lines(database)] == [f"inv_{n}" for n in range(5)]


async def test_lines_are_stored_again_after_a_failure(
    database: Database,
    master: Seal,
    secrets: GatewaySecrets,
    clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await put(database, master, PROJECT, "key")
    write, failures = database.write, []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)

    async def refuse(*args, **kwargs):
        failures.append(1)
        raise DatabaseUnavailable("no room")

    monkeypatch.setattr(database, "write", refuse)
    await secrets.reveal(URI, use())
    clock.advance(reveal_log.FLUSH_SECONDS)
    await until(lambda: failures)
    monkeypatch.setattr(database, "write", write)
    await secrets.reveal(URI, use())
    assert len(await stored_lines(database, clock, 2)) == 2


async def test_a_line_that_is_added_while_the_log_comes_to_rest_is_stored(
    database: Database, master: Seal, secrets: GatewaySecrets, clock: VirtualClock
) -> None:
    """In the moment between the end of the background work and its done callback."""
    await put(database, master, PROJECT, "key")
    log, late = secrets._log, []
    flush = log.flush

    async def and_one_more() -> None:
        await flush()
        if not late:
            late.append(asyncio.create_task(secrets._record(URI, use(invocation_id="inv_2"), "done")))

    log.flush = and_one_more
    await secrets.reveal(URI, use())
    lines = await stored_lines(database, clock, 2)
    assert [line["request_id"] for line in lines] == ["inv_1", "inv_2"]


async def test_a_process_without_the_master_key_says_which_one_it_needs(
    database: Database, master: Seal, clock: VirtualClock
) -> None:
    await put(database, master, PROJECT, "key")
    other = Seal(os.urandom(32), os.urandom(32))
    secrets = GatewaySecrets(database, other, clock)
    with pytest.raises(
        HostFailed, match=rf"{master.key_ids[0]}; this process has {', '.join(other.key_ids)}"
    ):
        await secrets.reveal(URI, use())
    await secrets.close()


@pytest.mark.clause("GW-31", "VAI-90")
async def test_a_value_is_in_no_log_no_repr_and_no_audit_line(
    database: Database, master: Seal, secrets: GatewaySecrets, caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.get_running_loop().set_debug(True)
    with caplog.at_level(logging.DEBUG):
        store = SecretStore(master)
        query = store.put(PROJECT, "key", VALUE)
        shown = [repr(store), repr(query), repr(next(query))]
        await put(database, master, PROJECT, "key")
        await secrets.reveal(URI, use())
        await secrets.close()
    shown += [repr(secrets), repr(master), caplog.text, repr(await audit_lines(database))]
    shown += [repr(await database.read(store.page, PROJECT, 9))]
    assert VALUE not in "\n".join(shown)


@pytest.mark.serial
@pytest.mark.clause("GW-31", "VAI-65")
async def test_another_process_uses_a_new_value_within_a_second(postgres: Server) -> None:
    key, url = os.urandom(32), await postgres.create()
    database, master = open_database("unused", url), Seal(key)
    await put(database, master, PROJECT, "key", "value-0")
    reader = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.gateway.secrets.reader", url, URI,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "MASTER_KEY": key.hex()},
    )  # fmt: skip
    assert reader.stdin is not None
    assert reader.stdout is not None
    try:
        assert await asyncio.wait_for(reader.stdout.readline(), 30) == b"value-0\n"
        for number in range(1, 4):
            await put(database, master, PROJECT, "key", f"value-{number}")
            began = time.monotonic()
            assert await asyncio.wait_for(reader.stdout.readline(), 30) == b"value-%d\n" % number
            assert time.monotonic() - began < 1.0
        reader.stdin.close()
        assert await asyncio.wait_for(reader.wait(), 30) == 0
    finally:
        if reader.returncode is None:
            reader.kill()
            await reader.wait()
    lines = await audit_lines(database)
    assert len(lines) >= 4
    assert {line["outcome"] for line in lines} == {"done"}, "the other process stored its lines at its close"
    await database.close()
