"""ainb: what a plugin may ask of the host."""

from __future__ import annotations

import asyncio
import base64
import stat

import pytest

import plughost
from plughost.contract import BaseService
from plughost.events import Dropped, Logged
from plughost.services.files.service import FileService
from plughost.services.network.service import NetworkService
from tests.support import seen, until, web
from tests.support.ainb import ask, b64, events, folder, spec


@pytest.fixture
async def host(mark):
    """Services are the asynchronous host's; the synchronous one runs the same."""
    async with plughost.Host() as host:
        yield host
        for plugin in host.plugins.values():
            plugin.kill()


async def three(host, tmp_path, mark, **sections):
    """A publisher and two subscribers."""
    plugins = []
    for name in ("publisher", "one", "two"):
        plugin = await host.add(spec(folder(tmp_path / mark, name, **sections)))
        await plugin.call("echo", {})
        plugins.append(plugin)
    return plugins


async def publish(plugin, topic, *texts):
    await plugin.call("publish", {"topic": topic, "texts": list(texts)})


# Snapshots


@pytest.mark.clause("AINB-30", "AINB-31")
async def test_the_store_keeps_the_latest_of_each_topic_with_a_rising_version(host, tmp_path, mark):
    publisher, one, _ = await three(host, tmp_path, mark)
    assert await ask(one, "host/snapshot/get", {"topic": "t"}) == {"payload": None, "version": 0}
    await publish(publisher, "t", "a", "b")
    await publish(publisher, "u", "c")
    assert await ask(one, "host/snapshot/get", {"topic": "t"}) == {"payload": b64("b"), "version": 2}
    assert await ask(publisher, "host/snapshot/get", {"topic": "u"}) == {"payload": b64("c"), "version": 3}
    assert host.service("snapshots").latest("t").payload == b"b"


@pytest.mark.clause("AINB-31")
async def test_every_publish_reaches_every_subscriber_in_order_and_never_its_publisher(host, tmp_path, mark):
    publisher, one, two = await three(host, tmp_path, mark)
    for plugin in (publisher, one, two):
        assert await ask(plugin, "host/snapshot/subscribe", {"topic": "t"}) == {}
    texts = [str(n) for n in range(500)]
    await publish(publisher, "t", *texts)
    for plugin in (one, two):
        assert await events(plugin) == [("t", text) for text in texts]
    assert await events(publisher) == []
    host.service("snapshots").put("t", b"from the host")
    assert [(await events(plugin))[-1] for plugin in (publisher, one)] == [("t", "from the host")] * 2


@pytest.mark.clause("AINB-31")
async def test_events_never_start_a_plugin_and_are_not_replayed(host, tmp_path, mark):
    publisher = await host.add(spec(folder(tmp_path / mark, "publisher")))
    lazy = await host.add(spec(folder(tmp_path / mark, "lazy", subscribes={"snapshots": ["t"]})))
    await publish(publisher, "t", "missed")
    assert (lazy.state, lazy.inspect()["instances"]) == ("Idle", [])
    assert await events(lazy) == []
    await publish(publisher, "t", "heard")
    assert await events(lazy) == [("t", "heard")]


@pytest.mark.clause("AINB-32")
async def test_declared_topics_are_armed_at_every_start_and_merge_with_others(host, tmp_path, mark):
    publisher = await host.add(spec(folder(tmp_path / mark, "publisher")))
    place = folder(tmp_path / mark, "one", subscribes={"snapshots": ["t"]})
    one = await host.add(spec(place, backoff=(0.0,)))
    await one.call("echo", {})
    await ask(one, "host/snapshot/subscribe", {"topic": "t"})
    await ask(one, "host/snapshot/subscribe", {"topic": "only while it runs"})
    await publish(publisher, "t", "once")
    assert await events(one) == [("t", "once")]
    with pytest.raises(plughost.Crashed):
        await one.call("exit", {"code": 1})
    await one.call("echo", {})
    await publish(publisher, "t", "again")
    await publish(publisher, "only while it runs", "no more")
    assert await events(one) == [("t", "again")]
    assert host.service("snapshots").subscribers("t") == ["one"]  # the process before it is forgotten
    assert host.service("snapshots").subscribers("only while it runs") == []


@pytest.mark.clause("AINB-32")
async def test_without_the_event_bus_a_declaration_is_linted_and_not_armed(host, tmp_path, mark):
    publisher = await host.add(spec(folder(tmp_path / mark, "publisher")))
    place = folder(tmp_path / mark, "one", capabilities={}, subscribes={"snapshots": ["t"]})
    one = await host.add(spec(place))
    assert any("subscribes.snapshots" in lint for lint in one.inspect()["lints"])
    await one.call("echo", {})
    await publish(publisher, "t", "a")
    assert await events(one) == []


@pytest.mark.clause("AINB-30")
async def test_an_ungranted_publish_is_dropped_with_a_warning(host, tmp_path, mark):
    plugin = await host.add(spec(folder(tmp_path / mark, capabilities={})))
    await plugin.call("echo", {})
    with host.events() as told:
        await publish(plugin, "t", "a")
        event = await told.get()
    assert isinstance(event, Dropped)
    assert event.what == "host/snapshot/publish: capability denied: event_bus"
    assert host.service("snapshots").latest("t").version == 0


@pytest.mark.clause("AINB-30")
async def test_wrong_params_of_a_publish_are_dropped_with_a_warning(host, tmp_path, mark):
    plugin = await host.add(spec(folder(tmp_path / mark)))
    await plugin.call("echo", {})
    for params in ({"topic": 1, "payload": ""}, {"topic": "t"}, {"topic": "t", "payload": "?"}, []):
        with host.events() as told:
            await plugin.call("tell", {"method": "host/snapshot/publish", "params": params})
            event = await told.get()
        assert "wrong params" in event.what


@pytest.mark.clause("AINB-06")
async def test_a_publish_on_a_topic_that_was_not_declared_is_accepted(host, tmp_path, mark):
    plugin = await host.add(spec(folder(tmp_path / mark, provides={"snapshots": ["declared"]})))
    await publish(plugin, "another", "a")
    assert host.service("snapshots").latest("another").payload == b"a"


@pytest.mark.clause("AINB-39")
async def test_a_subscriber_that_does_not_read_is_ended_and_nobody_else_is_affected(host, tmp_path, mark):
    publisher = await host.add(spec(folder(tmp_path / mark, "publisher")))
    good = await host.add(spec(folder(tmp_path / mark, "good", subscribes={"snapshots": ["t"]})))
    deaf = await host.add(
        spec(
            folder(tmp_path / mark, "deaf", subscribes={"snapshots": ["t"]}),
            max_unread=1 << 20,
            failure_limit=1,
        )
    )
    await good.call("echo", {})
    await deaf.call("deaf", {})
    text = "x" * 10_000
    for _ in range(30):
        await publish(publisher, "t", *[text] * 10)
    assert len(await events(good)) == 300
    await until(lambda: deaf.state == "Quarantined")
    with pytest.raises(plughost.Quarantined, match="unread"):
        await deaf.call("echo", {})


async def test_a_plugin_cannot_grow_the_store_without_end(host, tmp_path, mark, monkeypatch):
    monkeypatch.setattr("plughost.services.snapshots.MAX_TOPICS", 3)
    monkeypatch.setattr("plughost.services.snapshots.MAX_STORED", 1000)
    publisher, one, _ = await three(host, tmp_path, mark)
    store = host.service("snapshots")
    for n in range(5):
        await publish(publisher, f"t{n}", "a")
    assert [store.latest(f"t{n}").version for n in range(5)] == [1, 2, 3, 0, 0]
    await publish(publisher, "t0", "x" * 998, "x" * 999)
    assert len(store.latest("t0").payload) == 998
    await publish(one, "t0", "mine now")  # what it replaces no longer counts
    await publish(publisher, "t4", "x" * 998)
    assert (store.latest("t0").payload, len(store.latest("t4").payload)) == (b"mine now", 998)
    await publish(publisher, "t" * 1025, "a")
    assert store.latest("t" * 1025).version == 0
    for n in range(3):
        assert await ask(one, "host/snapshot/subscribe", {"topic": f"s{n}"}) == {}
    assert "subscribed to 3 topics" in (await ask(one, "host/snapshot/subscribe", {"topic": "s3"}))["message"]
    assert await ask(one, "host/snapshot/subscribe", {"topic": "s0"}) == {}
    assert (await ask(one, "host/snapshot/subscribe", {"topic": "t" * 1025}))["code"] == -32602


async def test_the_largest_payload_fits_into_a_frame(host, tmp_path, mark):
    from plughost.services.snapshots import MAX_PAYLOAD

    store = host.service("snapshots")
    one = await host.add(spec(folder(tmp_path / mark, subscribes={"snapshots": ["t"]})))
    await one.call("echo", {})
    store.put("t", b"x" * MAX_PAYLOAD)
    assert [len(text) for _, text in await events(one)] == [MAX_PAYLOAD]
    with pytest.raises(plughost.InvalidSpec, match="over the limit"):
        store.put("t", b"x" * (MAX_PAYLOAD + 1))


# Actions


@pytest.mark.clause("AINB-33")
async def test_an_action_of_the_host_and_one_of_another_plugin(host, tmp_path, mark):
    async def shout(caller, payload):
        return caller.name.encode() + b":" + payload.upper()

    host.service("actions").register("shout", shout)
    plugin = await host.add(spec(folder(tmp_path / mark, "asker", provides={"cli_namespaces": ["mine"]})))
    await host.add(spec(folder(tmp_path / mark, "helper", provides={"cli_namespaces": ["helps"]})))
    params = {"payload": b64("hi")}
    assert await ask(plugin, "host/action/invoke", {"action": "shout", **params}) == {
        "payload": b64("asker:HI")
    }
    assert await ask(plugin, "host/action/invoke", {"action": "helps", **params}) == {"payload": b64("hi")}
    error = await ask(plugin, "host/action/invoke", {"action": "mine", **params})
    assert (error["code"], "its own" in error["message"]) == (-32602, True)


@pytest.mark.clause("AINB-33", "AINB-16")
@pytest.mark.parametrize("whose", ["the host's", "slow"])
async def test_an_action_ends_at_its_callers_timeout_and_its_late_result_is_nobodys(
    slow_host, clock, tmp_path, mark, whose
):
    started, ended = asyncio.Event(), []

    async def endless(caller, payload):
        started.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(True)
        return b""

    slow_host.service("actions").register("the host's", endless)
    plugin = await slow_host.add(spec(folder(tmp_path / mark, "asker")))
    helper = await slow_host.add(
        spec(folder(tmp_path / mark, "helper", provides={"cli_namespaces": ["slow"]}))
    )
    await plugin.call("echo", {})
    await helper.call("echo", {})
    asking = asyncio.create_task(
        ask(plugin, "host/action/invoke", {"action": whose, "payload": "", "timeout_ms": 5000})
    )
    await (started.wait() if whose != "slow" else until(lambda: seen(helper)["in_flight"]))
    clock.advance(4.9)
    await asyncio.sleep(0.01)
    assert not asking.done()
    clock.advance(0.2)
    assert await asking == {"code": -32002, "message": f"action timed out: {whose}"}
    if whose == "slow":
        helper.notify("release")
        await until(lambda: seen(helper)["dropped"] == 1)
    else:
        assert ended == [True]
    assert await plugin.call("echo", {"still": 1}) == {"still": 1}


@pytest.mark.clause("AINB-33")
async def test_without_a_timeout_an_action_may_take_its_time(slow_host, clock, tmp_path, mark):
    plugin = await slow_host.add(spec(folder(tmp_path / mark, "asker")))
    helper = await slow_host.add(
        spec(folder(tmp_path / mark, "helper", provides={"cli_namespaces": ["slow"]}))
    )
    await plugin.call("echo", {})
    await helper.call("echo", {})
    asking = asyncio.create_task(
        plugin.call(
            "ask",
            {"method": "host/action/invoke", "params": {"action": "slow", "payload": b64("x")}},
            timeout=1e6,
        )
    )
    await until(lambda: seen(helper)["in_flight"])
    clock.advance(100_000)
    helper.notify("release")
    assert (await asking)["result"] == {"payload": b64("x")}


@pytest.mark.clause("AINB-33")
@pytest.mark.parametrize("granted", [True, False, ["git"]])
async def test_an_action_that_runs_a_child_needs_spawn_subprocess(host, tmp_path, mark, granted):
    async def run(caller, payload):
        return b"ran"

    host.service("actions").register("run", run, spawns=True)
    plugin = await host.add(spec(folder(tmp_path / mark, capabilities={"spawn_subprocess": granted})))
    answer = await ask(plugin, "host/action/invoke", {"action": "run", "payload": ""})
    denied = {"code": -32001, "message": "capability denied: spawn_subprocess"}
    assert answer == ({"payload": b64("ran")} if granted else denied)


async def test_an_embedding_program_replaces_a_service_by_name(host, tmp_path, mark):
    class Mine(BaseService):
        async def invoke(self, caller, params):
            return f"{caller.name} wants {params.action}".encode()

    host.provide("actions", Mine())
    plugin = await host.add(spec(folder(tmp_path / mark)))
    answer = await ask(plugin, "host/action/invoke", {"action": "anything", "payload": ""})
    assert answer == {"payload": b64("puppet wants anything")}


# Log


@pytest.mark.clause("AINB-34")
async def test_log_lines_are_kept_with_level_and_fields_from_the_threshold_up(host, tmp_path, mark):
    plugin = await host.add(spec(folder(tmp_path / mark)))
    logs = host.service("logs")
    await plugin.call("echo", {})

    async def say(level, message, **more):
        await plugin.call(
            "tell", {"method": "host/log", "params": {"level": level, "message": message, **more}}
        )

    with host.events() as told:
        for level in ("trace", "debug", "info", "warn", "error"):
            await say(level, f"{level}-msg", fields={"n": 1})
        await say("loud", "?")
        await say("info", 5)
        dropped = [event for event in [await told.get() for _ in range(5)] if isinstance(event, Dropped)]
    assert [(line.plugin, line.level, line.message, line.fields) for line in logs.recent("puppet")] == [
        ("puppet", level, f"{level}-msg", {"n": 1}) for level in ("info", "warn", "error")
    ]
    assert dropped[0].what == "host/log: unknown log level 'loud'"
    logs.set_threshold("puppet", "trace")
    await say("trace", "now heard")
    assert logs.recent("puppet")[-1].message == "now heard"
    with pytest.raises(plughost.InvalidSpec):
        logs.set_threshold("puppet", "loud")


@pytest.mark.clause("AINB-34")
async def test_the_threshold_is_the_operators(host, tmp_path, mark):
    plugin = await host.add(spec(folder(tmp_path / mark), log_level="error"))
    for level in ("warn", "error"):
        await plugin.call("tell", {"method": "host/log", "params": {"level": level, "message": level}})
    assert [line.message for line in host.service("logs").recent("puppet")] == ["error"]
    with pytest.raises(plughost.InvalidSpec):
        await host.add(spec(folder(tmp_path / mark, "other"), log_level="loud"))


@pytest.mark.clause("AINB-34")
async def test_stderr_lines_become_log_lines(host, tmp_path, mark):
    plugin = await host.add(spec(folder(tmp_path / mark)))
    await plugin.call("stderr", {"text": "one\ntwo\r\nhalf"})
    lines = await until(lambda: len(got := host.service("logs").recent("puppet")) == 2 and got)
    assert [(line.message, line.source, line.level) for line in lines] == [
        ("one", "stderr", "info"),
        ("two", "stderr", "info"),
    ]
    plugin.kill()
    await plugin.stop()
    assert [line.message for line in host.service("logs").recent("puppet")] == ["one", "two", "half"]
    assert all(isinstance(line, Logged) for line in lines)


async def test_a_flood_of_log_lines_is_bounded(host, tmp_path, mark):
    plugin = await host.add(spec(folder(tmp_path / mark)))
    for _ in range(20):
        await plugin.call("stderr", {"text": "line\n" * 20_000})
    await until(lambda: len(host.service("logs").recent("puppet")) == 1000)
    assert any("lines left out" in line.message for line in host.service("logs").recent("puppet"))


# Files


@pytest.mark.clause("AINB-35")
async def test_files_are_read_beneath_the_roots_of_granted_capabilities(host, tmp_path, mark):
    roots = {name: tmp_path / name for name in ("read_sessions", "read_claude_logs", "read_codex_logs")}
    for root in roots.values():
        (root / "inner").mkdir(parents=True)
        (root / "inner/a.jsonl").write_bytes(b"\xff{}")
    (tmp_path / "secret").write_text("no")
    (roots["read_sessions"] / "out").symlink_to(tmp_path / "secret")
    host.provide("fs", FileService(roots))
    plugin = await host.add(spec(folder(tmp_path / mark, capabilities={"read_sessions": True})))
    mine, other = str(roots["read_sessions"]), str(roots["read_claude_logs"])

    async def read(path):
        return await ask(plugin, "host/fs/read_file", {"path": path})

    whole = {"bytes": base64.b64encode(b"\xff{}").decode(), "offset": 0, "size": 3}
    assert await read(f"{mine}/inner/a.jsonl") == whole
    listed = await ask(plugin, "host/fs/read_dir", {"path": f"{mine}/inner"})
    changed = (roots["read_sessions"] / "inner/a.jsonl").stat().st_mtime_ns
    assert listed == {"entries": [{"name": "a.jsonl", "is_dir": False, "size": 3, "modified_ns": changed}]}
    assert await read(f"{other}/inner/a.jsonl") == {
        "code": -32001,
        "message": "capability denied: read_claude_logs",
    }
    for path in ("inner/a.jsonl", "/etc/passwd", f"{mine}X/a", f"{mine}/../secret"):
        assert await read(path) == {"code": -32001, "message": "capability denied: fs"}, path
    assert await read(f"{mine}/out") == {"code": -32001, "message": "capability denied: read_sessions"}
    missing = await read(f"{mine}/nothing")
    assert (missing["code"], "No such file" in missing["message"]) == (-32602, True)
    with (roots["read_sessions"] / "big").open("wb") as big:
        big.truncate(13 << 20)
    assert (await read(f"{mine}/big"))["code"] == -32602
    part = await ask(
        plugin, "host/fs/read_file", {"path": f"{mine}/big", "offset": 13 << 20 - 2, "length": 9}
    )
    assert part == {"bytes": base64.b64encode(bytes(9)).decode(), "offset": 13 << 20 - 2, "size": 13 << 20}
    for wrong in ({"offset": -1}, {"length": -1}, {"offset": 2**63}, {"length": "1"}):
        asked = {"path": f"{mine}/big", **wrong}
        assert (await ask(plugin, "host/fs/read_file", asked))["code"] == -32602, wrong


@pytest.mark.clause("AINB-35")
async def test_the_sessions_are_in_ainbs_home_wherever_that_is(host, tmp_path, mark, monkeypatch):
    monkeypatch.setenv("AINB_HOME", str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere/sessions").mkdir(parents=True)
    (tmp_path / "elsewhere/sessions/f").write_text("here")
    plugin = await host.add(spec(folder(tmp_path / mark), grants=("read_sessions",)))
    answer = await ask(plugin, "host/fs/read_file", {"path": f"{tmp_path}/elsewhere/sessions/f"})
    assert base64.b64decode(answer["bytes"]) == b"here"


@pytest.mark.clause("AINB-35")
async def test_the_roots_are_the_contracts_own(host, tmp_path, mark, monkeypatch):
    monkeypatch.delenv("AINB_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    for place in (".agents-in-a-box/sessions", ".claude/projects", ".codex/sessions"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "f").write_text(place)
    named = ("read_sessions", "read_claude_logs", "read_codex_logs")
    plugin = await host.add(spec(folder(tmp_path / mark), grants=named))
    for place in (".agents-in-a-box/sessions", ".claude/projects", ".codex/sessions"):
        answer = await ask(plugin, "host/fs/read_file", {"path": str(tmp_path / place / "f")})
        assert answer["bytes"] == b64(place)


@pytest.mark.clause("AINB-37")
@pytest.mark.parametrize("granted", [True, False])
async def test_a_data_folder_is_made_only_for_those_who_may_write_there(host, tmp_path, mark, granted):
    plugin = await host.add(spec(folder(tmp_path / mark, capabilities={"write_plugin_data": granted})))
    data = tmp_path / mark / "data/puppet"
    await plugin.call("echo", {})
    assert data.exists() == granted
    if granted:
        assert stat.S_IMODE(data.stat().st_mode) == 0o700


# Network


@pytest.mark.clause("AINB-36")
async def test_fetch_is_held_to_the_hosts_that_were_granted(host, tmp_path, mark):
    net = web.Web()
    await net.start()
    net.names = {"a.test": ["127.0.0.1"], "b.test": ["127.0.0.1"]}
    net.pages["/"] = web.answer(b"hello")
    host.provide("network", NetworkService(net.network()))
    place = folder(tmp_path / mark, "listed", capabilities={"network": ["a.test"]})
    listed = await host.add(spec(place, grants=("network=a.test",)))
    public = await host.add(spec(folder(tmp_path / mark, "public", capabilities={"network": True})))
    answer = await ask(listed, "host/network/fetch", {"url": "http://a.test/", "headers": [["X-A", "1"]]})
    assert (answer["status"], answer["body"]) == (200, b64("hello"))
    assert ["content-length", "5"] in answer["headers"]
    assert net.seen[-1].headers["x-a"] == "1"
    posted = {"url": "http://a.test/", "method": "POST", "body": [104, 105]}
    assert (await ask(listed, "host/network/fetch", posted))["status"] == 200
    assert (net.seen[-1].method, net.seen[-1].body) == ("POST", b"hi")
    dialled = len(net.dialled)
    for plugin, url in (
        (listed, "http://b.test/"),
        (public, "http://a.test/"),
        (public, f"http://127.0.0.1:{net.port}/"),
    ):
        error = await ask(plugin, "host/network/fetch", {"url": url})
        assert error == {"code": -32001, "message": "capability denied: network"}
    assert (await ask(listed, "host/network/fetch", {"url": "file:///etc/passwd"}))["code"] == -32602
    assert len(net.dialled) == dialled
    await net.stop()
