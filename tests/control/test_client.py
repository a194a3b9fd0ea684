"""The client of a running host: calls, progress, cancellation, errors, and what a host is told to do."""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal

import msgspec
import pytest

import plughost
from plughost.control import Control, ControlClient, HostLost, ManagedPlugins
from tests.support import ainb, plugin_process, puppet, until
from tests.support.vai import package, spec, tool


@pytest.fixture
async def door(host, tmp_path):
    async with Control(host, tmp_path / "s", lambda: None) as door:
        yield door


@pytest.fixture
async def client(door):
    async with ControlClient(door.path) as client:
        yield client


async def test_a_call_has_the_result_and_the_errors_of_a_direct_call(host, client, mark):
    await host.add(puppet(mark))
    assert await client.call("puppet", "echo", {"text": "é\n"}) == {"text": "é\n"}
    assert await client.call("puppet", "echo", None) is None
    assert await client.call("puppet", "echo", [1], type=list[int], timeout=math.inf) == [1]
    assert await client.call("puppet", "echo", msgspec.Raw(b'{\n"a":\n1}')) == {"a": 1}
    assert bytes(await client.plugin("puppet").call("ping", type=msgspec.Raw)) == b'"pong"'
    with pytest.raises(plughost.CallFailed) as failed:
        await client.call("puppet", "error", {"code": 7, "message": "not today"})
    with pytest.raises(plughost.CallFailed) as directly:
        await host.plugins["puppet"].call("error", {"code": 7, "message": "not today"})
    assert failed.value.report() == directly.value.report()
    assert failed.value.error == directly.value.error
    with pytest.raises(plughost.Timeout) as timeout:
        await client.call("puppet", "silent", timeout=0.05)
    assert timeout.value.plugin == "puppet"
    with pytest.raises(plughost.InvalidSpec, match="no plugin 'nobody'"):
        await client.call("nobody", "ping")
    with pytest.raises(plughost.InvalidSpec, match="cannot be sent"):
        await client.call("puppet", "echo", object())


async def test_a_large_result_arrives_whole(host, client, mark):
    await host.add(puppet(mark))
    text = "x" * (4 << 20)
    assert await client.call("puppet", "echo", text) == text


async def test_events_of_a_call_come_in_order_before_its_result(host, client, tmp_path, mark):
    plugin = await host.add(spec(package(tmp_path, mark)))
    heard: list[msgspec.Raw] = []
    result = await client.call(plugin.name, "tool.invoke", tool(do="say", times=300), on_event=heard.append)
    assert [json.loads(bytes(event))["number"] for event in heard] == list(range(300))
    assert result["status"] == "succeeded"


@pytest.mark.parametrize("how", ["cancel", "leave", "callback"])
async def test_a_cancelled_call_reaches_the_plugin_as_a_cancel_and_leaves_it_alive(
    host, door, tmp_path, mark, how
):
    plugin = await host.add(spec(package(tmp_path, mark)))
    begun = asyncio.Event()

    def on_event(event):
        begun.set()
        if how == "callback":
            raise KeyError("a bug of the caller")

    client = ControlClient(door.path)
    async with client:
        calling = asyncio.create_task(
            client.call(plugin.name, "tool.invoke", tool(do="wait"), on_event=on_event)
        )
        await asyncio.wait_for(begun.wait(), 20)
        pid = plugin.inspect()["instances"][0]["pid"]
        if how == "cancel":
            calling.cancel()
        if how == "leave":
            await client.close()
        (outcome,) = await asyncio.gather(calling, return_exceptions=True)
    expected = {"cancel": asyncio.CancelledError, "leave": HostLost, "callback": KeyError}
    assert isinstance(outcome, expected[how])
    await until(lambda: plugin.metrics.cancelled == 1)
    await until(lambda: plugin.accepting_calls)
    answer = await plugin.call("tool.invoke", tool())
    told = answer["result"]["structured_output"]["told"]
    assert [frame["type"] for frame in told if isinstance(frame, dict)] == ["cancel"]
    assert (plugin.inspect()["instances"][0]["pid"], plugin.metrics.restarts) == (pid, 0)


async def test_a_quarantined_plugin_says_so_and_is_started_again(host, client, mark):
    plugin = await host.add(puppet(mark))
    await client.call("puppet", "ping")
    os.kill(plugin_process(mark), signal.SIGKILL)
    await until(lambda: plugin.state == "Quarantined")
    with pytest.raises(plughost.PluginError, match="will not be restarted"):
        await client.call("puppet", "ping")
    (seen,) = (await client.ps())["plugins"]
    assert (seen["state"], seen["failure"]["exit_status"]) == ("Quarantined", -9)
    await client.start("puppet")
    assert (await client.inspect("puppet"))["state"] == "Running"
    assert await client.call("puppet", "ping") == "pong"


async def test_a_stopped_plugin_stays_known_and_is_started_restarted_and_reloaded(host, client, mark):
    await host.add(puppet(mark))
    for again in (client.start, client.restart, client.reload):
        await client.stop("puppet")
        assert (await client.inspect("puppet"))["state"] == "Stopped"
        with pytest.raises(plughost.InvalidSpec, match="it is stopped"):
            await client.call("puppet", "ping")
        await again("puppet")
        (seen,) = (await client.ps())["plugins"]
        assert (seen["name"], seen["state"]) == ("puppet", "Running")
        assert await client.call("puppet", "ping") == "pong"
    with pytest.raises(plughost.InvalidSpec, match="no plugin 'nobody'"):
        await client.start("nobody")


async def test_calls_that_come_during_a_restart_wait_for_it(host, client, mark):
    await host.add(puppet(mark))
    await client.call("puppet", "ping")
    for _ in range(3):
        restarting = asyncio.create_task(client.restart("puppet"))
        await until(lambda before=host.plugins["puppet"]: before.state == "Stopped")
        answers = await asyncio.gather(*(client.call("puppet", "echo", number) for number in range(20)))
        assert answers == list(range(20))
        await restarting


async def test_a_client_that_leaves_in_the_middle_of_a_restart_does_not_stop_it(host, door, mark):
    plugin = await host.add(puppet(mark))
    await plugin.start()
    async with ControlClient(door.path) as client:
        restarting = asyncio.create_task(client.restart("puppet"))
        await until(lambda: plugin.state == "Stopped")
    await asyncio.gather(restarting, return_exceptions=True)
    await until(lambda: "puppet" in host.plugins and host.plugins["puppet"].state == "Running")


async def test_only_what_changed_in_the_configuration_is_changed(host, tmp_path, mark):
    specs = {name: puppet(mark, name=name) for name in ("same", "changed", "removed", "stopped")}
    managed = ManagedPlugins(host, lambda: list(specs.values()))
    for each in specs.values():
        await (await managed.add(each)).start()
    same, changed = host.plugins["same"], host.plugins["changed"]
    async with (
        Control(host, tmp_path / "s", lambda: None, managed) as door,
        ControlClient(door.path) as client,
    ):
        await client.stop("stopped")
        assert (await client.reload())["changed"] == []
        del specs["removed"]
        specs["changed"] = msgspec.structs.replace(specs["changed"], env={"WORD": "new"})
        specs["stopped"] = msgspec.structs.replace(specs["stopped"], env={"WORD": "new"})
        specs["added"] = puppet(mark, name="added")
        specs["broken"] = msgspec.structs.replace(puppet(mark, name="broken"), command=["/nowhere/program"])
        did = await client.reload()
        assert (did["added"], did["removed"]) == (["added"], ["removed"])
        assert sorted(did["changed"]) == ["changed", "stopped"]
        assert "broken" in did["failed"]
        states = {each["name"]: each["state"] for each in (await client.ps())["plugins"]}
        assert states.pop("broken") != "Running"
        assert states == {"added": "Running", "changed": "Running", "same": "Running", "stopped": "Stopped"}
    assert host.plugins["same"] is same
    assert (same.generation, changed.generation, changed.spec.env) == (1, 2, {"WORD": "new"})


async def test_a_configuration_that_cannot_be_read_changes_nothing(host, tmp_path, mark):
    def load():
        raise plughost.InvalidSpec("the file is broken")

    managed = ManagedPlugins(host, load)
    plugin = await managed.add(puppet(mark))
    with pytest.raises(plughost.InvalidSpec, match="the file is broken"):
        await managed.reload_all()
    assert await plugin.call("ping") == "pong"


async def test_logs_have_times_and_failures_and_are_followed(host, client, mark):
    plugin = await host.add(puppet(mark))
    await client.call("puppet", "stderr", "hello\n")
    await until(lambda: host.service("logs").recent("puppet"))
    lines = [line async for line in client.logs("puppet")]
    assert [(line["message"], line["source"]) for line in lines] == [("hello", "stderr")]
    assert lines[0]["time"].endswith("Z")
    assert [line async for line in client.logs("puppet", since=0.0)] == []
    following = client.logs(follow=True)
    assert (await anext(following))["message"] == "hello"
    os.kill(plugin_process(mark), signal.SIGKILL)
    failed = await asyncio.wait_for(anext(following), 20)
    assert (failed["source"], failed["level"]) == ("failed", "error")
    assert "SIGKILL" in failed["message"]
    await following.aclose()
    assert plugin.metrics.cancelled == 0
    assert (await client.ps())["plugins"]


async def test_a_host_that_ends_tells_every_request_and_every_later_one(host, tmp_path, mark):
    plugin = await host.add(puppet(mark))
    async with Control(host, tmp_path / "s", lambda: None) as door:
        client = await ControlClient(door.path).__aenter__()
        calls = [asyncio.create_task(client.call("puppet", "silent")) for _ in range(5)]
        await until(lambda: plugin.inspect()["instances"] and plugin.inspect()["instances"][0]["in_flight"])
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {plughost.Stopped}
    with pytest.raises(HostLost, match="has ended"):
        await client.call("puppet", "ping")
    await client.close()
    with pytest.raises(HostLost, match="no host answers"):
        await ControlClient(door.path).__aenter__()


async def test_a_host_that_ends_tells_requests_that_it_has_not_begun_or_not_read(host, tmp_path, mark):
    """At each of many moments between a request's first byte and its call."""
    plugin = await host.add(puppet(mark))
    await plugin.start()
    for turns in range(1, 30):
        async with Control(host, tmp_path / "s", lambda: None) as door:
            client = await ControlClient(door.path).__aenter__()
            await client.ps()
            calls = [asyncio.create_task(client.call("puppet", "silent")) for _ in range(3)]
            for _ in range(turns):
                await asyncio.sleep(0)
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {plughost.Stopped}, turns
        with pytest.raises(HostLost, match="has ended"):
            await client.ps()
        await client.close()


async def test_a_host_that_ends_tells_the_only_request_of_a_connection(host, tmp_path, mark):
    plugin = await host.add(puppet(mark))
    async with Control(host, tmp_path / "s", lambda: None) as door:
        reader, writer = await asyncio.open_unix_connection(str(door.path))
        writer.write(b'{"do":"call","plugin":"puppet","method":"silent"}\n')
        await until(lambda: plugin.inspect()["instances"] and plugin.inspect()["instances"][0]["in_flight"])
    [answer] = (await reader.read()).splitlines()
    writer.close()
    assert json.loads(answer)["error"]["code"] == "stopped"


async def test_too_many_requests_of_one_client_are_refused_and_the_others_go_on(
    host, client, mark, monkeypatch
):
    monkeypatch.setattr("plughost.control.connection.MAX_REQUESTS", 3)
    plugin = await host.add(puppet(mark))
    calls = [asyncio.create_task(client.call("puppet", "silent")) for _ in range(3)]
    await until(lambda: plugin.inspect()["instances"])
    with pytest.raises(plughost.Overloaded, match="3 open requests"):
        await client.ps()
    calls[0].cancel()
    await asyncio.gather(calls[0], return_exceptions=True)
    assert (await client.ps())["plugins"]
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_a_client_that_does_not_read_fails_its_own_call_only(host, door, tmp_path, mark, monkeypatch):
    monkeypatch.setattr("plughost.control.connection.MAX_UNREAD", 1 << 16)
    plugin = await host.add(spec(package(tmp_path, mark)))
    reader, writer = await asyncio.open_unix_connection(str(door.path))
    writer.transport.pause_reading()
    request = {"id": 1, "do": "call", "plugin": plugin.name, "method": "tool.invoke", "progress": True}
    body = msgspec.to_builtins(tool(do="say", times=2000, text="x" * 1000))
    writer.write(json.dumps({**request, "params": body}).encode() + b"\n")
    await until(lambda: plugin.metrics.failures + plugin.metrics.calls)
    writer.transport.resume_reading()
    while "error" not in (answer := json.loads(await asyncio.wait_for(reader.readline(), 20))):
        assert answer["id"] == 1
    assert answer["error"]["code"] == plughost.Overloaded.code
    writer.close()
    async with ControlClient(door.path) as client:
        assert (await client.call(plugin.name, "tool.invoke", tool()))["status"] == "succeeded"


async def test_a_single_request_without_an_id_is_a_connection_of_its_own(host, door, mark):
    await host.add(puppet(mark))
    reader, writer = await asyncio.open_unix_connection(str(door.path))
    writer.write(b'{"do":"call","plugin":"puppet","method":"echo","params":[1, 2]}\n')
    assert json.loads(await reader.read()) == {"result": [1, 2]}
    writer.close()


async def test_more_clients_than_allowed_are_told_so_and_get_in_when_others_have_left(
    host, door, monkeypatch
):
    monkeypatch.setattr("plughost.control.server.MAX_CLIENTS", 2)
    async with ControlClient(door.path) as client:
        async with ControlClient(door.path) as other, ControlClient(door.path) as third:
            assert await client.ps() == await other.ps()
            with pytest.raises(plughost.Overloaded, match="2 clients"):
                await third.ps()
        while True:
            async with ControlClient(door.path) as again:
                try:
                    assert await again.ps()
                    break
                except plughost.Overloaded:
                    continue  # the host has not yet seen that the other has left


async def test_a_client_that_reads_no_results_is_disconnected(host, door, mark, monkeypatch):
    monkeypatch.setattr("plughost.control.connection.READ_TIMEOUT", 0.05)
    plugin = await host.add(puppet(mark))
    _, writer = await asyncio.open_unix_connection(str(door.path))
    writer.transport.pause_reading()
    request = {"do": "call", "plugin": "puppet", "method": "echo", "params": "x" * (2 << 20)}
    for number in range(3):
        writer.write(json.dumps({"id": number, **request}).encode() + b"\n")
    await until(lambda: plugin.metrics.calls and not door._serving)
    writer.transport.abort()
    async with ControlClient(door.path) as client:
        assert await client.call("puppet", "ping") == "pong"


async def test_a_line_that_is_not_an_answer_is_the_end_of_the_connection(tmp_path):
    async def nonsense(reader, writer):
        await reader.readline()
        writer.write(b"nonsense\n")
        writer.close()

    server = await asyncio.start_unix_server(nonsense, tmp_path / "x.sock")
    async with ControlClient(tmp_path / "x.sock") as client:
        with pytest.raises(HostLost, match="not an answer"):
            await client.ps()
    server.close()


async def test_an_unknown_verb_and_an_id_that_is_taken_are_refused(host, door, mark):
    await host.add(puppet(mark))
    reader, writer = await asyncio.open_unix_connection(str(door.path))
    writer.write(b'{"id":1,"do":"fly"}\n')
    answer = json.loads(await reader.readline())
    assert (answer["id"], answer["error"]["code"]) == (1, "invalid_spec")
    for _ in range(2):
        writer.write(b'{"id":2,"do":"call","plugin":"puppet","method":"silent"}\n')
    assert "still open" in json.loads(await reader.readline())["error"]["message"]
    assert await reader.read() == b""
    writer.close()


async def test_a_host_that_closes_the_connection_at_once_may_have_ended_or_refuse_this_process(tmp_path):
    """A host does not answer a confined process: the message names both causes."""
    server = await asyncio.start_unix_server(lambda _, writer: writer.close(), tmp_path / "s")
    async with server, ControlClient(tmp_path / "s") as client:
        with pytest.raises(HostLost, match="closed the connection without an answer") as lost:
            await client.ps()
    assert "more seccomp filters than the host" in lost.value.hint


async def test_a_host_that_ends_before_its_first_answer_has_ended(tmp_path):
    """It does not refuse this process: it is not there any more."""
    ended = asyncio.Event()

    async def end(reader, writer):
        await ended.wait()
        writer.close()

    server = await asyncio.start_unix_server(end, tmp_path / "s")
    async with ControlClient(tmp_path / "s") as client:
        asking = asyncio.create_task(client.ps())
        await asyncio.sleep(0)
        server.close()
        (tmp_path / "s").unlink(missing_ok=True)
        ended.set()
        with pytest.raises(HostLost, match="has ended$"):
            await asking


@pytest.mark.parametrize("how", ["restart", "reload", "stop and start"])
async def test_what_is_measured_of_a_plugin_survives_its_restart(host, client, mark, how):
    await host.add(puppet(mark))
    for number in range(3):
        await client.call("puppet", "echo", number)
    with pytest.raises(plughost.CallFailed):
        await client.call("puppet", "error", {"code": 7, "message": "not today"})
    before = (await client.inspect("puppet"))["metrics"]
    if how == "stop and start":
        await client.stop("puppet")
        await client.start("puppet")
    else:
        await getattr(client, how)("puppet")
    after = (await client.inspect("puppet"))["metrics"]
    for name in ("calls", "failures", "restarts", "cancelled", "p50", "p99"):
        assert after[name] == before[name], name
    assert (after["calls"], after["failures"]) == (4, 1)
    assert "not today" in after["last_error"]["message"]
    await client.call("puppet", "ping")
    assert (await client.inspect("puppet"))["metrics"]["calls"] == 5


async def test_two_reloads_of_the_configuration_happen_one_after_the_other(host, mark):
    specs = {"one": puppet(mark, name="one")}
    managed = ManagedPlugins(host, lambda: list(specs.values()))
    await (await managed.add(specs["one"])).start()
    async with managed._lock("one"):  # as while it is restarted
        specs["one"] = puppet(mark, name="one", env={"WORD": "new"})
        first = asyncio.create_task(managed.reload_all())
        await until(lambda: managed._specs["one"].env)
        del specs["one"]
        second = asyncio.create_task(managed.reload_all())
        await asyncio.wait([second], timeout=0.1)  # if it did not wait, it would get far enough
    assert (await first).changed == ["one"]
    assert (await second).removed == ["one"]
    assert not host.plugins


async def test_a_change_that_failed_is_tried_again_by_the_next_reload(host, mark, tmp_path):
    program = tmp_path / "program"
    specs = {"one": puppet(mark, name="one")}
    managed = ManagedPlugins(host, lambda: list(specs.values()))
    plugin = await managed.add(specs["one"])
    await plugin.start()
    specs["one"] = msgspec.structs.replace(specs["one"], command=[str(program), *specs["one"].command])
    assert "one" in (await managed.reload_all()).failed
    assert plugin.state == "Running"
    program.write_text('#!/bin/sh\nexec "$@"\n')
    program.chmod(0o755)
    assert (await managed.reload_all()).changed == ["one"]
    assert plugin.spec == specs["one"]


async def test_a_start_or_restart_that_hangs_is_ended_by_a_stop_and_holds_up_no_call(host, client, tmp_path):
    plugin = await host.add(ainb.spec(ainb.folder(tmp_path), env={"init": "never"}), start=False)
    for again in (client.start, client.restart):
        starting = asyncio.create_task(again(plugin.name))
        await until(lambda: plugin.name in host.plugins and host.plugins[plugin.name].state == "Spawning")
        with pytest.raises(plughost.Timeout):
            await asyncio.wait_for(client.call(plugin.name, "echo", {}, timeout=0.05), 10)
        await asyncio.wait_for(client.stop(plugin.name), 10)
        with pytest.raises(plughost.Stopped):
            await starting
        assert (await client.inspect(plugin.name))["state"] == "Stopped"


async def test_a_plugin_that_could_not_be_added_is_tried_again_by_the_next_reload(host, tmp_path):
    folder = ainb.folder(tmp_path)
    spec, manifest = ainb.spec(folder), folder / "manifest.toml"
    manifest.rename(folder / "away")
    managed = ManagedPlugins(host, lambda: [spec])
    assert spec.name in (await managed.reload_all()).failed
    (folder / "away").rename(manifest)
    assert (await managed.reload_all()).changed == [spec.name]
    assert host.plugins[spec.name].state == "Running"


async def test_what_was_measured_of_a_stopped_plugin_is_still_shown(host, client, mark):
    await host.add(puppet(mark))
    await client.call("puppet", "echo", 1)
    await client.stop("puppet")
    (stopped,) = (await client.ps())["plugins"]
    assert (stopped["state"], stopped["metrics"]["calls"], stopped["metrics"]["uptime"]) == (
        "Stopped",
        1,
        None,
    )


async def test_a_context_that_is_not_text_fails_its_own_call_only(host, client, mark):
    await host.add(puppet(mark))
    with pytest.raises(plughost.InvalidSpec, match="must be text"):
        await client.call("puppet", "echo", 1, context={"user": 7})
    assert await client.call("puppet", "echo", 1) == 1
