"""Clients that send nonsense, or do not read what they get, on the control socket of a host."""

from __future__ import annotations

import asyncio
import json
import select
import socket

import pytest

import plughost
from plughost.control import Control, ControlClient, HostLost
from tests.support import puppet, until

DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.fixture
async def door(host, tmp_path):
    async with Control(host, tmp_path / "s", lambda: None) as door:
        yield door


@pytest.mark.parametrize("number", [b"", b'"id":1,'])
async def test_a_request_that_is_nested_too_deeply_is_refused(door, number):
    reader, writer = await asyncio.open_unix_connection(str(door.path))
    writer.write(b"{" + number + b'"do":"ps","params":' + DEEP + b"}\n")
    assert "nested too deeply" in json.loads(await reader.read())["error"]["message"]
    writer.close()


async def test_an_answer_that_is_nested_too_deeply_leaves_no_request_waiting(tmp_path):
    async def answer(reader, writer):
        await reader.readline()
        writer.write(b'{"id":1,"result":' + DEEP + b"}\n")

    server = await asyncio.start_unix_server(answer, tmp_path / "x.sock")
    async with ControlClient(tmp_path / "x.sock") as client:
        with pytest.raises(HostLost, match="nested too deeply"):
            await asyncio.wait_for(client.ps(), 20)
    server.close()


async def test_a_word_that_cannot_be_sent_is_the_fault_of_its_own_call_only(host, door, mark):
    await host.add(puppet(mark))
    async with ControlClient(door.path) as client:
        for words in ({"method": "\udc80"}, {"method": "ping", "context": {"a": "\udc80"}}):
            with pytest.raises(plughost.InvalidSpec, match="cannot be sent"):
                await client.call("puppet", **words)
        assert not client._open
        assert await client.call("puppet", "ping") == "pong"


async def test_logs_of_a_host_whose_program_has_its_own_log_service_are_empty(host, door, mark):
    host.provide("logs", lambda caller, line: None)
    await host.add(puppet(mark))
    async with ControlClient(door.path) as client:
        assert [line async for line in client.logs()] == []


async def test_a_bug_of_the_host_is_told_to_a_client_with_one_request_too(host, door, monkeypatch):
    monkeypatch.setattr(type(host), "plugins", None)
    reader, writer = await asyncio.open_unix_connection(str(door.path))
    writer.write(b'{"do":"ps"}\n')
    assert json.loads(await reader.read())["error"]["code"] == plughost.HostFailed.code
    writer.close()
    monkeypatch.undo()


async def connect(door) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, str(door.path))
    return connection


async def test_a_client_that_asks_on_and_on_and_reads_nothing_fills_no_memory(door):
    with await connect(door) as connection:
        lines = b"".join(b'{"do":"fly","id":%d}\n' % number for number in range(100_000))
        sending = asyncio.create_task(asyncio.get_running_loop().sock_sendall(connection, lines))
        (served,) = await until(lambda: [*door._serving.values()])
        transport = served._writer.transport
        await until(lambda: transport.get_write_buffer_size() > 0)
        await asyncio.wait([sending], timeout=0.5)  # more than enough time for much more
        assert transport.get_write_buffer_size() < 1 << 20
        async with ControlClient(door.path) as client:
            assert (await client.ps())["plugins"] == []
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    await until(lambda: not door._serving)


async def test_a_storm_of_cancels_lets_others_have_their_turn(door):
    loop, turns, storm = asyncio.get_running_loop(), 0, 20_000

    def turn() -> None:
        nonlocal turns
        turns += 1
        loop.call_soon(turn)

    with await connect(door) as connection:
        turn()
        await loop.sock_sendall(connection, b'{"do":"cancel","id":1}\n' * storm + b'{"do":"ps","id":1}\n')
        assert b"pid" in await asyncio.wait_for(loop.sock_recv(connection, 1000), 30)
    assert turns >= storm


async def test_a_client_that_leaves_by_half_and_reads_nothing_is_disconnected(host, door, mark, monkeypatch):
    monkeypatch.setattr("plughost.control.connection.READ_TIMEOUT", 0.05)
    plugin = await host.add(puppet(mark))
    hangup = select.poll()
    with await connect(door) as connection:
        hangup.register(connection, select.POLLHUP)
        request = {"id": 1, "do": "call", "plugin": "puppet", "method": "echo", "params": "x" * (1 << 20)}
        await asyncio.get_running_loop().sock_sendall(connection, json.dumps(request).encode() + b"\n")
        await until(lambda: plugin.metrics.calls)
        connection.shutdown(socket.SHUT_WR)
        await until(lambda: hangup.poll(0), 10)
