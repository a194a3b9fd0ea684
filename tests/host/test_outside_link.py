"""A plugin that is not a process, under a contract from outside: a connection per call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

import plughost
from plughost import config
from plughost.events import Dropped, Spawned


class Server:
    """An HTTP server of one plugin: it answers in lines, and can do what a plugin may do."""

    def __init__(self) -> None:
        self.notices: asyncio.Queue[dict] = asyncio.Queue()
        self.replies: asyncio.Queue[dict] = asyncio.Queue()
        self.closed_early = asyncio.Event()
        self.slow_calls = asyncio.Event()
        self._open: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            message = msgspec.json.decode(await reader.readexactly(size))
            await self._answer(message, reader, writer)
        except asyncio.IncompleteReadError:
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    async def _answer(self, message, reader, writer) -> None:
        def say(**line) -> None:
            writer.write(msgspec.json.encode({"jsonrpc": "2.0", **line}) + b"\n")

        if message.get("method") == "reset":
            writer.transport.abort()
            return
        if message.get("method") == "refuse":
            writer.write(b"HTTP/1.1 503 Busy\r\n\r\n")
            return
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        if "method" not in message:
            self.replies.put_nowait(message)
        elif "id" not in message:
            self.notices.put_nowait(message)
        elif message["method"] == "slow":
            self.slow_calls.set()
            assert await reader.read() == b""  # until the host closes the connection
            self.closed_early.set()
        elif message["method"] == "ask":
            say(id="r1", method=message["params"]["method"], params={})
            await writer.drain()
            say(id=message["id"], result=await self.replies.get())
        else:
            say(method="keep-alive")
            say(id=message["id"], result=message["params"])


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Server, str]]:
    plugin = Server()
    server = await asyncio.start_server(plugin.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield plugin, f"http://127.0.0.1:{port}/rpc"
    finally:
        server.close()


@pytest.fixture
async def remote(host):
    async with serving() as (server, url):
        plugin = await host.add(plughost.PluginSpec(contract="beacon", name="far", options={"url": url}))
        yield server, plugin


async def test_calls_go_over_a_channel_that_is_not_a_pipe(host, remote):
    _, plugin = remote
    with host.events(only=Spawned) as spawned:
        answers = await asyncio.gather(*(plugin.call("echo", {"n": n}) for n in range(50)))
        assert answers == [{"n": n} for n in range(50)]
        assert (plugin.state, plugin.inspect()["instances"][0]["pid"]) == ("Running", None)
        await host.remove("far")
        assert len(spawned) == 0


async def test_it_is_configured_in_plughost_toml_like_any_other(host, tmp_path):
    file = tmp_path / "plughost.toml"
    async with serving() as (_, url):
        file.write_text(f'[plugins.far]\ncontract = "beacon"\nurl = "{url}"\n')
        plugin = await host.add(config.load(file)["far"])
        assert await plugin.call("echo", {"n": 1}) == {"n": 1}
        await host.remove("far")
    file.write_text(
        '[plugins.near]\ncontract = "mcptest"\n[plugins.far]\ncontract = "beacon"\ncommand = ["x"]\nurl = ""\n'
    )
    with pytest.raises(plughost.InvalidConfig) as error:
        config.load(file)
    assert "plugins.near: `command` is missing" in str(error.value)
    assert "it has a command, but it is not a process of this host" in str(error.value)


@pytest.mark.parametrize(("method", "why"), [("reset", "its request failed"), ("refuse", "503 Busy")])
async def test_one_call_fails_by_itself(remote, method, why):
    _, plugin = remote
    lost, kept = await asyncio.gather(
        plugin.call(method, {}), plugin.call("echo", {"n": 1}), return_exceptions=True
    )
    assert isinstance(lost, plughost.Crashed)
    assert why in lost.message
    assert (lost.plugin, kept) == ("far", {"n": 1})
    assert (plugin.state, plugin.failure) == ("Running", None)


async def test_a_cancelled_call_closes_its_own_stream_and_is_never_answered(host, remote):
    server, plugin = remote
    with host.events(only=Dropped) as dropped:
        slow = asyncio.create_task(plugin.call("slow", {}))
        await server.slow_calls.wait()
        slow.cancel("user is gone")
        with pytest.raises(asyncio.CancelledError):
            await slow
        await asyncio.wait_for(server.closed_early.wait(), 10)
        assert await plugin.call("echo", {"still": "here"}) == {"still": "here"}
        assert plugin.accepting_calls
        assert len(dropped) == 0
    assert (await server.notices.get())["params"]["reason"] == "user is gone"


async def test_a_call_that_times_out_closes_its_own_stream(remote):
    server, plugin = remote
    with pytest.raises(plughost.Timeout):
        await plugin.call("slow", {}, timeout=0.05)
    await asyncio.wait_for(server.closed_early.wait(), 10)
    assert await plugin.call("echo", {}) == {}


async def test_the_contracts_own_service_answers(remote):
    _, plugin = remote
    answer = await plugin.call("ask", {"method": "places/list"})
    assert answer["result"] == ["far", "home"]
    answer = await plugin.call("ask", {"method": "places/burn"})
    assert answer["error"]["code"] == -32601


async def test_a_program_replaces_a_contracts_own_service(host, remote):
    _, plugin = remote

    class Mine:
        async def list(self, caller, params):
            return ["mine"]

    assert (await plugin.call("ask", {"method": "places/list"}))["result"] == ["far", "home"]
    host.provide("places", Mine())
    assert (await plugin.call("ask", {"method": "places/list"}))["result"] == ["mine"]


async def test_the_session_answers_a_ping_itself(remote):
    _, plugin = remote
    assert (await plugin.call("ask", {"method": "ping"}))["result"] == {}


async def test_where_nobody_listens_each_call_says_so(host):
    async with serving() as (_, url):
        pass
    plugin = await host.add(plughost.PluginSpec(contract="beacon", name="gone", options={"url": url}))
    for _ in range(2):
        with pytest.raises(plughost.Crashed, match="its request failed"):
            await plugin.call("echo", {})


async def test_a_link_has_no_command_and_no_sandbox(host):
    url = {"url": "http://127.0.0.1:1/"}
    for wrong in ({"command": ["/bin/true"]}, {"sandbox": "strict"}):
        with pytest.raises(plughost.InvalidSpec, match="not a process of this host"):
            await host.add(plughost.PluginSpec(contract="beacon", name="far", options=url, **wrong))


async def test_a_reload_moves_to_a_new_link(remote):
    _, plugin = remote
    await plugin.call("echo", {})
    await plugin.reload()
    assert (plugin.generation, await plugin.call("echo", {"n": 2})) == (2, {"n": 2})


async def test_a_host_that_closes_ends_calls_over_links(remote, host):
    server, plugin = remote
    slow = asyncio.create_task(plugin.call("slow", {}))
    await server.slow_calls.wait()
    await host.close()
    with pytest.raises(plughost.Stopped):
        await slow
    await asyncio.wait_for(server.closed_early.wait(), 10)
