"""kaged plugins written with the SDK: by the golden vectors, under the real host, and driven in-process."""

from __future__ import annotations

import subprocess

import msgspec
import pytest

import plughost
from plughost.contracts.kaged.contract import Kaged, KagedContext
from plughost.errors import Denied
from plughost.events import Notified
from plughost.services.storage.service import Storage
from plughost.testing import drive
from plughost_sdk import kaged
from tests.support import kaged as kaged_support
from tests.support import until
from tests.support.sdk import lines, program
from tests.support.vectors import load, replay_plugin

ECHO = """
from plughost_sdk import kaged
plugin = kaged.Plugin("echo-kaged", "1.0.0", notifications=["echo.said"])

@plugin.method("echo.back")
def back(params, context):
    return {**params, "_context": context} if context else params

@plugin.method("echo.fail")
def fail(params):
    raise kaged.Error(-32000, "you asked for it", params)

@plugin.method("echo.announce")
async def announce(params):
    plugin.notify("echo.said", params)
    return {}

@plugin.method("echo.keep")
def keep(params):
    if "key" not in params:
        raise kaged.Error(kaged.INVALID_PARAMS, "keep needs a key and a value")
    plugin.storage.set(params["key"], params["value"])
    return plugin.storage.get(params["key"])

@plugin.hook("on_session_start")
def begin():
    return {"inject": "echo is here"}

plugin.run()
"""


def folder(root, source="", name="made", **told):
    """The folder of a plugin with one program, which is its command."""
    place = kaged_support.folder(root, name=name, **{"methods": ["made.call"], "notifications": [], **told})
    (place / "main.py").unlink()
    return place, program(place / "plugin", source)


def spec(place, command, *grants, **options):
    return msgspec.structs.replace(kaged_support.spec(place, *grants, **options), command=[str(command)])


def test_it_replays_the_golden_vectors(tmp_path):
    vectors = load("kaged")
    for name, text in vectors.spec.folder.items():
        (tmp_path / name).write_text(text)
    told = vectors.for_a_plugin("echo")
    assert len(told) > 10
    place = spec(tmp_path, program(tmp_path / "echo.py", ECHO))
    for conversation in told:
        replay_plugin(conversation, vectors.spec.name, place)


STORING = """
import os, subprocess
from plughost_sdk import kaged
plugin = kaged.Plugin("made", "1.2.3", notifications=["made.kept"], capabilities_used=["kaged:storage:write"])
seen = []

@plugin.on_init
def start():
    plugin.storage.set("started", plugin.config)
    seen.append([plugin.projects, plugin.storage_available])

@plugin.method
def retain(params, context):
    print("a stray print")
    subprocess.run(["echo", "a child's output"])
    plugin.storage.set(params["key"], {"text": params["text"], "by": context.get("operator_id")})
    plugin.notify("made.kept", {"key": params["key"]})

@plugin.method("made.notes.all")
async def everything():
    found = {key: plugin.storage.get(key) for key in plugin.storage.list()}
    gone = [plugin.storage.delete(key) for key in ("a", "a")]
    return [found, gone, plugin.storage.get("a", "nothing"), seen]

plugin.run()
"""


@pytest.mark.clause("KAGED-27", "KAGED-29", "KAGED-30", "KAGED-31")
async def test_a_plugin_under_a_real_host(host, tmp_path, mark):
    methods = ["made.retain", "made.notes.all"]
    storage = ["kaged:storage:read", "kaged:storage:write"]
    place, command = folder(
        tmp_path / mark, STORING, methods=methods, notifications=["made.kept"], capabilities=storage
    )
    told = spec(place, command, "declared", config={"mood": "good"}, project_id="p1")
    host.provide("storage", Storage(tmp_path / "stored"))
    plugin = await host.add(told)
    with host.events() as events:
        ada = KagedContext(operator_id="ada")
        assert await Kaged(plugin).tool("retain", {"key": "a", "text": "é"}, context=ada) is None
        happened = [event for event in iter(events.take, None) if isinstance(event, Notified)]
    assert [(event.method, bytes(event.params)) for event in happened] == [("made.kept", b'{"key":"a"}')]
    assert await plugin.call("made.notes.all") == [
        {"a": {"text": "é", "by": "ada"}, "started": {"mood": "good"}},
        [True, False],
        "nothing",
        [[["p1"], True]],
    ]
    logs = host.service("logs")
    said = await until(lambda: len(got := [line.message for line in logs.recent("made")]) >= 2 and got)
    assert {*said} >= {"a stray print", "a child's output"}


def test_it_ends_with_its_stdin_and_not_with_shutdown(tmp_path):
    path = program(tmp_path / "plugin", ECHO)
    asked = [{"id": 1, "method": "shutdown"}, {"id": 2, "method": "ping"}, {"id": 3, "method": "echo.back"}]
    said = lines(path, *asked)
    results = [message["result"] for message in said.messages]
    assert (results, said.stderr, said.code) == ([{"status": "ok"}, {"status": "ok"}, {}], "", 0)
    ran = subprocess.run([path], stdin=subprocess.DEVNULL, capture_output=True, timeout=20)
    assert (ran.stdout, ran.stderr, ran.returncode) == (b"", b"", 0)


@pytest.fixture
def plugin():
    return kaged.Plugin("made", "1.2.3", notifications=["made.said"])


@pytest.fixture
def driven(tmp_path, plugin):
    """The plugin of the test, driven; its manifest has the methods that it has."""

    def start(**answers):
        declared = {"methods": [*plugin._methods()], "notifications": plugin._notifications}
        place, _ = folder(tmp_path, **declared, hooks=["pre_compact"])
        return drive(plugin, place, answers={f"kaged.storage.{name}": said for name, said in answers.items()})

    return start


def code(host, method, params=None):
    with pytest.raises(plughost.CallFailed) as caught:
        host.call(method, params if params is not None else {})
    return caught.value.error["code"], caught.value.error["message"]


def test_names_and_what_handlers_are_given(plugin, driven):
    plugin.method(greet := lambda params, context: [params, context])  # a lambda has no name to be called by
    with pytest.raises(ValueError, match=r"'made\.<lambda>'\) is not a valid method name"):
        plugin._methods()
    del plugin._handlers["method"]["<lambda>"]
    plugin.method("greet")(greet)
    plugin.method("other.deep.name")(lambda: "deep")
    plugin.hook("pre_compact")(lambda params, context: [params, context])
    assert [*plugin._methods()] == ["made.greet", "other.deep.name"]
    with driven() as host:
        assert host.call("made.greet", {"a": 1}) == [{"a": 1}, {}]
        assert host.call("made.greet", {"a": 1, "_context": {"project_id": "p"}}) == [
            {"a": 1},
            {"project_id": "p"},
        ]
        assert host.call("other.deep.name", {"x": 1}) == "deep"
        assert host.call("kaged.hook.pre_compact", {"_context": {"session_id": "s"}}) == [
            {},
            {"session_id": "s"},
        ]
        assert code(host, "made.greet", {"_context": 5})[0] == -32602
        assert code(host, "kaged.hook.post_compact")[0] == -32601
        assert host.call("health.check", {}) == host.call("ping", {}) == {"status": "ok"}


@pytest.mark.clause("KAGED-25")
def test_what_is_too_large_is_refused_at_the_author_and_the_plugin_lives_on(plugin, driven):
    def of_size(size):
        return "x" * (size - len(b'{"jsonrpc":"2.0","id":2,"result":""}'))

    plugin.method("fill")(lambda params: of_size(params["size"]))
    plugin.method("say")(lambda: plugin.notify("made.said", {"text": "x" * 4_000_000}))
    plugin.method("store")(lambda: plugin.storage.set("k", "x" * 4_000_000))

    @plugin.method("fail")
    def fail(params):
        raise kaged.Error(7, "no", "x" * 4_000_000) if params else RuntimeError("x" * 4_000_000)

    told = "bytes is over the limit of 4000000: send less at once"
    with driven() as host:
        assert len(host.call("made.fill", {"size": 4_000_000})) > 3_999_000
        for method, params, number in (
            ("made.fill", {"size": 4_000_001}, -32603),
            ("made.say", {}, -32603),
            ("made.store", {}, -32603),
            ("made.fail", {"own": 1}, 7),
            ("made.fail", {}, -32603),
        ):
            found, message = code(host, method, params)
            assert (found, told in message) == (number, True), message
        assert not host.notifications
        assert not host.requests


def test_storage_by_its_pages_and_its_refusals(plugin, driven):
    keys = [f"k{number:04}" for number in range(2500)]

    def page(params):
        left = [key for key in keys if key.startswith(params["prefix"]) and key > params["after"]]
        return {"keys": left[: params["limit"]], "more": len(left) > params["limit"]}

    plugin.method("all")(lambda params: [*plugin.storage.list(**params)])
    plugin.method("first")(lambda: next(iter(plugin.storage.list())))
    plugin.method("get")(lambda: [plugin.storage.get("a"), plugin.storage.get("a", 5)])
    plugin.method("set")(lambda: plugin.storage.set("a", 1))
    denied = Denied("capability denied: kaged:storage:write")
    with driven(list=page, get={"value": None, "found": False}, set=denied) as host:
        assert host.call("made.all", {}) == keys
        assert len(host.requests) == 3
        assert host.call("made.all", {"prefix": "k24"}) == keys[2400:]
        assert host.call("made.first", {}) == "k0000"
        assert len(host.requests) == 5
        assert host.call("made.get", {}) == [None, 5]
        assert code(host, "made.set") == (kaged.CAPABILITY_DENIED, "capability denied: kaged:storage:write")


def test_as_a_class_with_a_farewell(tmp_path):
    class Counter(kaged.Plugin):
        count = 0
        ended = False

        @kaged.Plugin.method
        def call(self):
            self.count += 1
            return self.count

        @kaged.Plugin.on_shutdown
        def end(self):
            self.ended = True
            raise RuntimeError("and all the same")

    counter = Counter("made", "1.2.3")
    with drive(counter, folder(tmp_path)[0]) as host:
        assert [host.call("made.call", {}), host.call("made.call", {})] == [1, 2]
    assert counter.ended


def nothing(): ...


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda plugin: plugin.run(), "at least one method: write @plugin.method above"),
        (lambda plugin: (plugin.method("Made.Call")(nothing), plugin.run()), "is not a valid method name: expected 2 to 4 segments"),
        (lambda plugin: (plugin.method("a.b.c.d.e")(nothing), plugin.run()), "is not a valid method name"),
        (lambda plugin: (plugin.method("kaged.call")(nothing), plugin.run()), "would never be called: the host reserves that name"),
        (lambda plugin: (plugin.method("health.check")(nothing), plugin.run()), "would never be called"),
        (lambda plugin: (plugin.method("nothing")(nothing), plugin.method("made.nothing")(len), plugin.run()), "two functions for @plugin.method('made.nothing'), nothing and len: only one"),
        (lambda plugin: plugin.notify("made.other"), "'made.other' is not declared, so the host would drop it: Plugin(…, notifications=['made.other'])"),
        (lambda plugin: plugin.notify("made.said"), "plugin.notify is available only while the plugin runs: use it in a handler"),
        (lambda plugin: plugin.storage.get("a"), "plugin.storage is available only while the plugin runs"),
        (lambda plugin: kaged.Plugin("made", ""), "version is text, not ''"),
        (lambda plugin: kaged.Plugin("made", "1", notifications="made.said"), "notifications is a list: notifications=['made.said']"),
    ],
)  # fmt: skip
def test_wrong_use_is_told_before_anything_is_said(plugin, wrong, told):
    with pytest.raises((TypeError, ValueError, RuntimeError)) as caught:
        wrong(plugin)
    assert told in str(caught.value)
