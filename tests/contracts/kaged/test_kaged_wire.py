"""kaged: what goes over the wire."""

from __future__ import annotations

import asyncio
import json
from importlib.metadata import version

import msgspec
import pytest

import plughost
from plughost.contracts.kaged.contract import Kaged, KagedContext
from plughost.events import Dropped, Linted, Notified, StateChanged
from tests.support import all_gone, processes, seen, until
from tests.support.kaged import ABOUT, folder, spec


@pytest.fixture
def place(tmp_path, mark):
    return folder(tmp_path / mark)


def taken(told, kind):
    """The events of a kind that wait."""
    found = []
    while (event := told.take()) is not None:
        if isinstance(event, kind):
            found.append(event)
    return found


@pytest.mark.clause("KAGED-20", "KAGED-21", "KAGED-24")
async def test_initialize_initialized_calls_and_shutdown_come_in_this_order(host, place):
    plugin = await host.add(spec(place))
    assert await plugin.call("p.echo", {"a": 1}) == {"a": 1}
    received = await plugin.call("p.received")
    assert received == [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "daemon_version": version("plughost"),
                "api_version": 1,
                "plugin_name": "puppet",
                "storage_available": False,
                "projects": [],
            },
        },
        {"jsonrpc": "2.0", "method": "initialized", "params": {}},
        {"jsonrpc": "2.0", "id": 2, "method": "p.echo", "params": {"a": 1}},
        {"jsonrpc": "2.0", "id": 3, "method": "p.received", "params": {}},
    ]


@pytest.mark.clause("KAGED-08", "KAGED-22")
@pytest.mark.parametrize(
    ("init", "field"),
    [
        ({"api_version": 2}, "api_version"),
        ({"api_version": None}, "api_version"),
        ({"api_version": "1"}, "api_version"),
        ({"name": "somebody"}, "name"),
        ({"name": None}, "name"),
        ({"methods": ["p.echo"]}, "methods"),
        ({"methods": None}, "methods"),
        ({"capabilities_used": ["kaged:storage:write"]}, "capabilities_used"),
        ({"capabilities_used": ["read:fs:/etc"]}, "capabilities_used"),
        ({"capabilities_used": ["anything"]}, "capabilities_used"),
    ],
)
async def test_who_does_not_fit_is_refused_by_the_field_and_hears_no_initialized(
    slow_host, tmp_path, mark, init, field
):
    witness = tmp_path / "initialized"
    env = {"init": json.dumps(init), "witness": str(witness)}
    place = folder(tmp_path / mark, env=env, capabilities=["kaged:storage:write"])
    plugin = await slow_host.add(spec(place, "kaged:storage:read"))
    with pytest.raises(plughost.HandshakeFailed, match=field):
        await plugin.call("p.echo")
    await all_gone(mark)
    assert (plugin.state, witness.exists()) == ("Quarantined", False), "another try would end the same way"
    assert seen(plugin)["failures"] == 1


@pytest.mark.clause("KAGED-22")
@pytest.mark.parametrize(
    ("word", "hint"),
    [
        (
            "kaged:storage:write",
            'if the plugin should have it, grants = ["kaged:storage:write"] or --grant kaged:storage:write',
        ),
        (
            "read:fs:/a b",
            """if the plugin should have it, grants = ["read:fs:/a b"] or --grant 'read:fs:/a b'""",
        ),
        ("read:fs:/" + "a" * 500, "grant it, if the plugin should have it"),
        ("anything", "fix the plugin: that is not a capability"),
    ],
)
async def test_what_is_used_and_not_granted_is_told_with_the_grant_for_it(
    slow_host, tmp_path, mark, word, hint
):
    env = {"init": json.dumps({"capabilities_used": [word]})}
    plugin = await slow_host.add(spec(folder(tmp_path / mark, env=env)))
    with pytest.raises(plughost.HandshakeFailed, match="is not granted") as caught:
        await plugin.call("p.echo")
    assert caught.value.hint == hint


@pytest.mark.clause("KAGED-22")
async def test_looseness_of_the_answer_to_initialize_is_told(slow_host, tmp_path, mark):
    init = {
        "version": "0.0.9",
        "methods": [*ABOUT["methods"], "p.more"],
        "notifications": ["p.happened", "p.other"],
        "capabilities_used": ["kaged:storage:read", "net:[]", f"write:fs:{tmp_path}/{mark}/data/puppet/x"],
    }
    plugin = await slow_host.add(
        spec(folder(tmp_path / mark, env={"init": json.dumps(init)}), "kaged:storage:read")
    )
    with slow_host.events() as told:
        await plugin.call("p.echo")
        lints = [event.what for event in taken(told, Linted)]
    assert [word in lint for word, lint in zip(("0.0.9", "p.more", "p.other"), lints, strict=True)] == [
        True
    ] * 3
    with pytest.raises(plughost.UnknownMethod):
        await plugin.call("p.more")


@pytest.mark.clause("KAGED-08")
async def test_an_error_to_initialize_is_a_failure_with_its_words(slow_host, tmp_path, mark):
    plugin = await slow_host.add(spec(folder(tmp_path / mark, env={"init": "refuse"}), failure_limit=1))
    with pytest.raises(plughost.HandshakeFailed, match="-32000 not today"):
        await plugin.call("p.echo")


async def test_a_refusal_of_megabytes_is_told_in_a_few_kilobytes(slow_host, tmp_path, mark):
    place = folder(tmp_path / mark, env={"init": "refuse", "marks": "3000000"})
    plugin = await slow_host.add(spec(place, failure_limit=1))
    with slow_host.events() as told:
        with pytest.raises(plughost.HandshakeFailed, match=r"not today!!!.*characters in all") as caught:
            await plugin.call("p.echo")
        whys = [event.why for event in taken(told, StateChanged)]
    assert max(map(len, [str(caught.value), *whys])) < 5000


@pytest.mark.clause("KAGED-27")
async def test_only_declared_methods_are_called(host, place):
    plugin = await host.add(spec(place))
    for method in ("p.other", "shutdown", "initialize", "health.check", "kaged.hook.pre_compact", "kaged.x"):
        with pytest.raises(plughost.UnknownMethod):
            await plugin.call(method)
    assert (plugin.state, processes(str(place))) == ("Idle", [])


@pytest.mark.clause("KAGED-27")
async def test_the_context_of_a_call_travels_in_its_params(host, place):
    plugin = await host.add(spec(place))
    context = {
        "operator_id": "o",
        "project_id": "p",
        "agent_path": "primary",
        "session_id": "s",
        "request_id": "r",
    }
    assert await plugin.call("p.echo", {"a": [1.0, None]}, context=context) == {
        "a": [1.0, None],
        "_context": context,
    }
    assert await plugin.call("p.echo", context=context) == {"_context": context}
    big = msgspec.Raw(b'{"n":12345678901234567890123}')
    answer = await plugin.call("p.echo", big, context=context)
    assert answer == {"n": 12345678901234567890123, "_context": context}
    for wrong in ([1], "x", {"_context": {}}):
        with pytest.raises(plughost.InvalidSpec, match="context"):
            await plugin.call("p.echo", wrong, context=context)


@pytest.mark.clause("KAGED-27", "KAGED-07")
async def test_a_typed_view_calls_methods_and_tools(slow_host, tmp_path, mark):
    place = folder(tmp_path / mark, methods=[], tools=[{"name": "retain"}])
    view = Kaged(await slow_host.add(spec(place)))
    assert await view.tool("retain", {"content": "x"}) == {"status": "ok"}
    context = KagedContext(project_id="p", request_id="r")
    assert await view.call("puppet.retain", context=context, type=dict[str, str]) == {"status": "ok"}
    assert view.manifest.tools[0].name == "retain"


@pytest.mark.clause("KAGED-28")
async def test_hooks_reach_the_plugins_that_list_them_and_never_fail(slow_host, clock, tmp_path, mark):
    hooks = ["on_session_start", "on_session_idle", "pre_compact"]
    place = folder(tmp_path / mark, hooks=hooks, hook_timeout_sec=7, env={"silent": "kaged.hook.pre_compact"})
    plugin = await slow_host.add(spec(place))
    view = Kaged(plugin)
    context = KagedContext(session_id="s")
    assert await view.hook("on_session_start", {"x": 1}, context=context) == {"status": "ok"}
    assert await view.hook("post_compact") is None
    assert await view.hook("on_session_idle", {"transcript": "…"}) is None
    slow = asyncio.create_task(view.hook("pre_compact"))
    await asyncio.sleep(0)
    clock.advance(6.9)
    await asyncio.sleep(0)
    assert not slow.done()
    clock.advance(0.2)
    assert await slow is None
    received = await plugin.call("p.received")
    told = [(message["method"], message["params"]) for message in received if "hook" in message["method"]]
    assert told == [
        ("kaged.hook.on_session_start", {"x": 1, "_context": {"session_id": "s"}}),
        ("kaged.hook.on_session_idle", {"transcript": "…"}),
        ("kaged.hook.pre_compact", {}),
    ]
    assert [line.message for line in slow_host.service("logs").recent("puppet")] == [
        "the hook on_session_idle failed: it answered 'kaged.hook.on_session_idle' with error -32000: no memory of that",
        "the hook pre_compact failed: no answer to 'kaged.hook.pre_compact' within 7 s",
    ]
    assert plugin.state == "Running"


@pytest.mark.clause("KAGED-31", "KAGED-26")
async def test_declared_notifications_are_heard_once_and_in_order(slow_host, place):
    plugin = await slow_host.add(spec(place))
    with slow_host.events() as told:
        tells = [["p.happened", {"n": number}] for number in range(50)]
        await plugin.call("p.tell", {"tells": [*tells, ["p.other", {}], ["kaged.storage.set", {"key": "x"}]]})
        heard = taken(told, Notified | Dropped)
    assert [(event.plugin, event.method, json.loads(bytes(event.params))) for event in heard[:50]] == [
        ("puppet", "p.happened", {"n": number}) for number in range(50)
    ]
    assert [type(event) for event in heard[50:]] == [Dropped, Dropped]
    assert seen(plugin)["dropped"] == 2


@pytest.mark.clause("KAGED-26")
async def test_notifications_beyond_a_hundred_a_second_are_dropped_with_one_warning_a_burst(
    slow_host, clock, place
):
    plugin = await slow_host.add(spec(place))
    flood = {"tells": [["p.happened", number] for number in range(250)]}
    with slow_host.events() as told:
        for dropped in (150, 300):
            await plugin.call("p.tell", flood)
            heard = taken(told, Notified | Dropped)
            assert sum(isinstance(event, Notified) for event in heard) == 100
            assert [event.what for event in heard if isinstance(event, Dropped)] == [
                "notifications beyond 100 a second"
            ]
            assert seen(plugin)["dropped"] == dropped
            clock.advance(1)
        await plugin.call("p.tell", flood)
        clock.advance(0.5)
        taken(told, Notified)
        await plugin.call("p.tell", flood)  # the same burst goes on
        heard = taken(told, Notified | Dropped)
        assert [type(event) for event in heard] == [Notified] * 50
    assert await plugin.call("p.echo", {"a": 1}) == {"a": 1}


@pytest.mark.clause("KAGED-26", "KAGED-35")
@pytest.mark.parametrize("line", ['{"jsonrpc":"2.0","method":"p.other","params":{}}', "garbage"])
async def test_a_flood_of_what_is_dropped_is_counted_whole_and_told_in_a_few_words(
    slow_host, clock, place, line
):
    plugin = await slow_host.add(spec(place))
    await plugin.call("p.echo")
    flood = {"text": f"{line}\n" * 5000 + '{"jsonrpc":"2.0","id":$ID,"result":1}\n'}
    with slow_host.events() as told:
        await plugin.call("p.raw", flood)
        whats = [event.what for event in taken(told, Dropped)]
        assert len(whats) == 21, "single ones are told, a burst once"
        assert whats[-1].endswith("(there are too many to list; from now on they are only counted)")
        assert seen(plugin)["dropped"] == 5000
        clock.advance(0.5)
        await plugin.call("p.raw", flood)  # the same burst goes on
        assert taken(told, Dropped) == []
        clock.advance(1)
        await plugin.call("p.tell", {"tells": [["p.other", {}]]})
        assert next(event.what for event in taken(told, Dropped)) == "9979 more that were not listed"
        await plugin.call("p.raw", flood)
        taken(told, Dropped)
        await slow_host.remove("puppet")
        assert [event.what for event in taken(told, Dropped)] == ["4980 more that were not listed"]


@pytest.mark.clause("KAGED-25")
async def test_a_message_over_four_megabytes_is_not_sent(host, place):
    plugin = await host.add(spec(place))
    room = 4_000_000 - len('{"id":2,"method":"p.echo","params":{"x":""},"jsonrpc":"2.0"}')
    assert await plugin.call("p.echo", {"x": "x" * room}) == {"x": "x" * room}
    with pytest.raises(plughost.InvalidSpec, match="over the limit of 4000000"):
        await plugin.call("p.echo", {"x": "x" * (room + 1)})
    assert await plugin.call("p.echo", {"a": 1}) == {"a": 1}


@pytest.mark.clause("KAGED-25")
async def test_a_message_over_four_mebibytes_ends_the_plugin_with_a_clear_reason(slow_host, place, mark):
    plugin = await slow_host.add(spec(place, failure_limit=1))
    assert len(await plugin.call("p.fill", {"bytes": 4 << 20})) > 4_000_000
    with pytest.raises(plughost.Malformed, match="longer than 4194304 bytes"):
        await plugin.call("p.fill", {"bytes": (4 << 20) + 1})
    await all_gone(mark)
    assert plugin.state == "Quarantined"


@pytest.mark.clause("KAGED-35")
async def test_what_is_no_message_is_logged_with_its_head_dropped_and_counted(slow_host, place):
    plugin = await slow_host.add(spec(place))
    await plugin.call("p.echo")
    wrong = [
        "hello there",
        '{"jsonrpc":"2.0","id":99,"result":1}',
        '{"jsonrpc":"2.0","id":0,"error":{"code":-32700,"message":"?"}}',
        '{"jsonrpc":"2.0","id":"3","result":1}',
        '{"jsonrpc":"2.0","id":$ID}',
        '{"jsonrpc":"2.0","id":$ID,"error":"no"}',
        '{"jsonrpc":"1.0","id":$ID,"result":1}',
        '{"id":$ID,"result":1}',
        '[{"jsonrpc":"2.0","id":$ID,"result":1}]',
        '{"jsonrpc":"2.0","id":$ID.5,"result":1}',
        "Content-Length: 3",
        '{"jsonrpc":"2.0","id":$ID,"result":"\xff"}',
    ]
    text = "\n".join(["", "  ", "\r", *wrong, '{"jsonrpc":"2.0","id":$ID,"result":"at last"}\r', ""])
    with slow_host.events() as told:
        assert await plugin.call("p.raw", {"text": text}) == "at last"
        dropped = taken(told, Dropped)
    assert len(dropped) == len(wrong) == seen(plugin)["dropped"]
    assert dropped[0].head == "hello there"
    assert all(event.head for event in dropped)


@pytest.mark.clause("KAGED-35")
async def test_stderr_is_log_and_the_environment_is_small(slow_host, place, monkeypatch):
    monkeypatch.setenv("LANG", "C.UTF-8")
    plugin = await slow_host.add(spec(place))
    await plugin.call("p.stderr", {"text": "line\n" * 3 + "x" * 200_000 + "\n"})
    logs = slow_host.service("logs")
    await until(lambda: len(logs.recent("puppet")) >= 4)
    assert [line.message for line in logs.recent("puppet")[:3]] == ["line"] * 3
    env = (await plugin.call("p.about"))["env"]
    assert env.keys() - {"LC_CTYPE"} == {"PATH", "HOME", "LANG", "about", "KAGED_CONFIG_ROOT"}


@pytest.mark.clause("KAGED-34")
async def test_the_plugins_own_error_reaches_the_caller_unchanged(host, place):
    plugin = await host.add(spec(place))
    for error in (
        {"code": -32000, "message": "too large", "data": {"code": "content_too_large", "max_bytes": 102400}},
        {"code": 7, "message": "", "data": None},
        {"code": -32601, "message": "no such thing"},
    ):
        with pytest.raises(plughost.CallFailed) as caught:
            await plugin.call("p.fail", error)
        assert caught.value.error == error
    words = {"code": -32000, "message": "a" * 3_000_000}
    with pytest.raises(plughost.CallFailed) as caught:
        await plugin.call("p.fail", words)
    assert caught.value.error == words
    assert len(str(caught.value)) < 5000, "what is printed of it is bounded"


@pytest.mark.clause("KAGED-34")
async def test_calls_are_pipelined_have_deadlines_and_late_answers_are_dropped(slow_host, clock, place):
    plugin = await slow_host.add(spec(place))
    await plugin.call("p.echo")
    late = asyncio.create_task(plugin.call("p.hold", timeout=3))
    default = asyncio.create_task(plugin.call("p.hold"))
    assert await asyncio.gather(*(plugin.call("p.echo", {"n": n}) for n in range(20))) == [
        {"n": n} for n in range(20)
    ]
    clock.advance(3.1)
    with pytest.raises(plughost.Timeout):
        await late
    held = [message["id"] for message in await plugin.call("p.received") if message["method"] == "p.hold"]
    answer = '{"jsonrpc":"2.0","id":%d,"result":1}\n' % held[0]
    await plugin.call("p.raw", {"text": answer + '{"jsonrpc":"2.0","id":$ID,"result":1}\n'})
    assert seen(plugin)["dropped"] == 1
    clock.advance(27)
    with pytest.raises(plughost.Timeout, match="within 30 s"):
        await default


@pytest.mark.clause("KAGED-34")
async def test_a_dead_process_fails_all_calls_in_flight_at_once(host, place):
    plugin = await host.add(spec(place))
    await plugin.call("p.echo")
    calls = [asyncio.create_task(plugin.call("p.hold")) for _ in range(5)]
    calls.append(asyncio.create_task(plugin.call("p.exit", {"code": 3})))
    outcomes = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 10)
    assert {(type(outcome), outcome.exit_status) for outcome in outcomes} == {(plughost.Crashed, 3)}


class Shelf:
    """A storage service that shows what it was asked."""

    def __init__(self):
        self.kept = {}

    async def get(self, caller, params):
        return {"value": self.kept.get(params.key), "found": params.key in self.kept}

    async def set(self, caller, params):
        self.kept[params.key] = params.value
        return {}

    async def delete(self, caller, params):
        return {"deleted": self.kept.pop(params.key, None) is not None}

    async def list(self, caller, params):
        return {
            "keys": sorted(self.kept),
            "more": False,
            "asked": [params.prefix, params.after, params.limit],
        }


async def stored(plugin, method, params):
    reply = await plugin.call("p.ask", {"method": f"kaged.storage.{method}", "params": params})
    return reply.get("error") or reply["result"]


@pytest.mark.clause("KAGED-29")
async def test_storage_is_asked_for_with_the_capability_and_told_of_truly(slow_host, place):
    slow_host.provide("storage", Shelf())
    plugin = await slow_host.add(spec(place, "kaged:storage:read", "kaged:storage:write"))
    assert await stored(plugin, "set", {"key": "a", "value": {"n": [1]}}) == {}
    assert await stored(plugin, "get", {"key": "a"}) == {"value": {"n": [1]}, "found": True}
    assert await stored(plugin, "list", {}) == {"keys": ["a"], "more": False, "asked": ["", "", 100]}
    assert await stored(plugin, "list", {"prefix": "p", "after": "q", "limit": 3}) == {
        "keys": ["a"], "more": False, "asked": ["p", "q", 3],
    }  # fmt: skip
    assert await stored(plugin, "delete", {"key": "a"}) == {"deleted": True}
    assert (await stored(plugin, "get", {}))["code"] == -32602
    assert (await stored(plugin, "list", {"limit": 0}))["code"] == -32602
    assert (await stored(plugin, "burn", {}))["code"] == -32601
    assert (await plugin.call("p.received"))[0]["params"]["storage_available"] is True


@pytest.mark.clause("KAGED-29")
@pytest.mark.parametrize(
    ("grants", "served"),
    [((), set()), (("kaged:storage:read",), {"get", "list"}), (("kaged:storage:write",), {"set", "delete"})],
)
async def test_without_the_capability_storage_is_denied_by_name(slow_host, tmp_path, mark, grants, served):
    slow_host.provide("storage", Shelf())
    place = folder(tmp_path / mark, capabilities=["kaged:storage:read", "kaged:storage:write"])
    plugin = await slow_host.add(spec(place, *grants))
    for method, need in (("get", "read"), ("list", "read"), ("set", "write"), ("delete", "write")):
        answer = await stored(plugin, method, {"key": "a", "value": 1})
        denied = {"code": -32001, "message": f"capability denied: kaged:storage:{need}"}
        assert (answer == denied) == (method not in served), method
    assert (await plugin.call("p.received"))[0]["params"]["storage_available"] == bool(grants)


@pytest.mark.clause("KAGED-29")
async def test_a_host_without_storage_says_so(slow_host, place):
    slow_host.provide("storage", None)
    plugin = await slow_host.add(spec(place, "kaged:storage:read"))
    assert (await plugin.call("p.received"))[0]["params"]["storage_available"] is False
    assert (await stored(plugin, "get", {"key": "a"}))["code"] == -32601


@pytest.mark.clause("KAGED-29")
async def test_the_hosts_own_storage_keeps_values_over_a_restart_of_the_host(tmp_path, place, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    plugin_spec = spec(place, "kaged:storage:read", "kaged:storage:write")
    async with plughost.Host() as host:
        plugin = await host.add(plugin_spec)
        assert await stored(plugin, "set", {"key": "a", "value": {"n": [1]}}) == {}
        assert (await stored(plugin, "set", {"key": "b", "value": "x" * (1 << 20)}))["code"] == -32602
    async with plughost.Host() as host:
        plugin = await host.add(plugin_spec)
        assert await stored(plugin, "get", {"key": "a"}) == {"value": {"n": [1]}, "found": True}
        assert await stored(plugin, "get", {"key": "b"}) == {"value": None, "found": False}
        assert await stored(plugin, "list", {}) == {"keys": ["a"], "more": False}
        assert await stored(plugin, "delete", {"key": "a"}) == {"deleted": True}


async def test_a_kaged_plugin_is_told_nothing_but_initialized(host, place):
    plugin = await host.add(spec(place))
    await plugin.call("p.echo")
    with pytest.raises(plughost.InvalidSpec, match="no notifications"):
        plugin.notify("p.anything", {})
