"""Clients that send nonsense, or do not read what they get, on the control socket of a host."""

from __future__ import annotations

import asyncio
import json

import pytest

from plughost.control import Control, ControlClient, HostLost

DEEP = b"[" * 5000 + b"]" * 5000


@pytest.fixture
async def door(host, tmp_path):
    async with Control(host, tmp_path / "sockets", lambda: None) as door:
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
