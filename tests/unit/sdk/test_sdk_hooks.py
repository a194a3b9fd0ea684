"""Plugins as functions or as classes, and what authors are told when a decorator is used wrongly."""

from __future__ import annotations

import functools

import pytest

from plughost.testing import drive
from plughost_sdk import ainb, mcptest, rune
from tests.support.sdk import ainb_folder


class Counter(mcptest.Plugin):
    def __init__(self, start):
        super().__init__()
        self.count = start

    @mcptest.Plugin.method
    def up(self, params=1):
        self.count += params
        return self.count

    @mcptest.Plugin.method("peek")
    @mcptest.Plugin.method("look")
    async def value(self):
        return self.count

    @mcptest.Plugin.method
    @staticmethod
    def same(params):
        return params

    def helper(self):
        raise AssertionError("not a method of the plugin")


def test_a_class_shares_its_state_among_its_methods():
    one, other = Counter(0), Counter(10)
    with drive(one) as host, drive(other) as second:
        assert [host.call("up"), host.call("up", 5), host.call("peek"), host.call("look")] == [1, 6, 6, 6]
        assert (second.call("peek"), second.call("same", [1])) == (10, [1])
    assert one._names("method") == ["look", "peek", "same", "up"]


def test_a_class_may_override_and_add():
    class Down(Counter):
        @mcptest.Plugin.method
        def up(self):
            return "never"

        def value(self):
            raise AssertionError("not marked any more")

        @mcptest.Plugin.method
        def down(self):
            return "down"

    assert Down(0)._names("method") == ["down", "same", "up"]
    with drive(Down(0)) as host:
        assert [host.call("up"), host.call("down")] == ["never", "down"]


def test_an_ainb_plugin_as_a_class(tmp_path):
    class Notes(ainb.Plugin):
        text = ""

        @ainb.Plugin.on_init
        def start(self):
            self.host.log.info("here")

        @ainb.Plugin.on("t")
        def told(self, payload):
            self.text = payload.decode()

        @ainb.Plugin.screen
        def draw(self, width, height):
            buffer = ainb.Buffer(width, height)
            buffer.put(0, 0, self.text)
            return buffer

    place = ainb_folder(tmp_path, "", subscribes={"snapshots": ["t"]})
    with drive(Notes(str(place / "manifest.toml")), place) as host:
        host.event("t", b"ab")
        frame = host.call("plugin/render", {"viewport": {"width": 9, "height": 1}})["buffer"]
        assert "".join(cell["symbol"] for _, cell in frame["cells"]) == "ab"
        assert [method for method, _ in host.notifications] == ["host/log"]


class Callable:
    def __call__(self, params):
        return ["called", params]


def test_whatever_can_be_called_is_a_handler():
    plugin = mcptest.Plugin()
    plugin.method("object")(Callable())
    plugin.method("part")(functools.partial(lambda first, params: [first, params], "first"))
    plugin.method("builtin")(len)
    plugin.method("all")(lambda *given: [*given])
    plugin.method("bound")([3, 1].count)

    async def later(params):
        return params

    plugin.method("wrapped")(functools.partial(later))
    with drive(plugin) as host:
        assert host.call("object", 1) == ["called", 1]
        assert host.call("part", 2) == ["first", 2]
        assert host.call("builtin", [1, 2]) == 2
        assert (host.call("all", 3), host.call("all")) == ([3], [])
        assert (host.call("bound", 3), host.call("wrapped", 5)) == (1, 5)


def plain(): ...
def three(a, b, c): ...
def by_name(*, wanted): ...
def by_name_if_at_all(*, wanted=1): ...


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: ainb.Plugin().screen(), "write @plugin.screen above a function, without parentheses"),
        (lambda: ainb.Plugin().screen("main"), "@plugin.screen goes above a function, not 'main'"),
        (lambda: ainb.Plugin().on(plain), '@plugin.on needs a name: write @plugin.on("name") above the function'),
        (lambda: ainb.Plugin().cli(" "), "@plugin.cli needs a name"),
        (lambda: ainb.Plugin().cli("x")(5), "@plugin.cli('x') goes above a function, not 5"),
        (lambda: mcptest.Plugin().method(), '@plugin.method needs a name: write @plugin.method("name")'),
        (lambda: mcptest.Plugin().method(Callable()), "@plugin.method needs a name"),
        (lambda: mcptest.Plugin().method(three), "@plugin.method('three') calls three(params), but three needs a and b and c"),
        (lambda: ainb.Plugin().screen(three), "@plugin.screen calls three(width, height), but three needs a and b and c"),
        (lambda: ainb.Plugin().on_init(Callable()), "@plugin.on_init calls Callable(), but Callable needs params"),
        (lambda: rune.Plugin("a", "1").tool(by_name), "by_name has the keyword-only parameter `wanted`, but handlers get their arguments by position"),
        (lambda: mcptest.Plugin.method(plain), "@Plugin.method is for methods of a Plugin subclass: outside a class"),
        (lambda: rune.Plugin("a", "1", capabilities="tool.execute"), "capabilities is a list: capabilities=['tool.execute']"),
        (lambda: rune.Output(1, "x"), "metadata is a dict, not 'x'"),
        (lambda: mcptest.Error("no", "x"), "an error's code is a number, not 'no'"),
        (lambda: mcptest.Error(1, "x", {1, 2}), "Object of type set is not JSON serializable; messages can hold dicts"),
    ],
)  # fmt: skip
def test_wrong_use_is_told_at_once_and_how_to_do_it_right(wrong, told):
    with pytest.raises(TypeError) as caught:
        wrong()
    assert told in str(caught.value)


def test_a_method_without_self_is_told():
    class Wrong(mcptest.Plugin):
        @mcptest.Plugin.method
        def echo(): ...

    with pytest.raises(TypeError, match=r"Wrong\.echo is a method: its first parameter is `self`"):
        Wrong()


def test_two_handlers_where_one_can_be():
    for plugin, hook in (
        (ainb.Plugin(), lambda plugin: plugin.cli("x")),
        (ainb.Plugin(), lambda plugin: plugin.action("x")),
        (ainb.Plugin(), lambda plugin: plugin.method("x")),
        (ainb.Plugin(), lambda plugin: plugin.screen),
        (mcptest.Plugin(), lambda plugin: plugin.method("x")),
        (rune.Plugin("a", "1"), lambda plugin: plugin.tool("x")),
    ):
        hook(plugin)(plain)
        with pytest.raises(
            ValueError, match=r"two functions for @plugin\.\w+.*, plain and by_name_if_at_all: only one"
        ):
            hook(plugin)(by_name_if_at_all)
    several = ainb.Plugin()
    for hook in (several.on_init, several.on("t"), several.on_event, several.on_key, several.on_batch("t")):
        assert hook(plain) is hook(plain) is plain


def test_what_cannot_run_says_why_before_it_touches_the_wire():
    with pytest.raises(ValueError, match="plugin_id is text, not ''"):
        rune.Plugin("", "1")
    with pytest.raises(RuntimeError, match="at least one tool: write @plugin.tool above"):
        rune.Plugin("a", "1").run()
    plugin = ainb.Plugin()
    plugin.method("plugin/render")(plain)
    with pytest.raises(ValueError, match="'plugin/render'.* would never be called"):
        plugin.run()
