from base64 import b64decode
from pathlib import Path

import pytest
from plugin import plugin

from plughost import CallFailed
from plughost.testkit import drive

FOLDER = Path(__file__).parent


def screen(host, width=40, height=5):
    """The lines of the screen."""
    answer = host.call("plugin/render", {"viewport": {"width": width, "height": height}})
    lines = [[" "] * width for _ in range(height)]
    for place, cell in answer["buffer"]["cells"]:
        lines[place["y"]][place["x"]] = cell["symbol"]
    return ["".join(line).rstrip() for line in lines]


def press(host, code):
    key = {"code": code, "mods": 0, "kind": "press"}
    host.notify("plugin/handle_key", {"screen_id": "{{name}}", "key": key})


def test_the_screen_greets_and_shows_the_last_key():
    with drive(plugin, FOLDER) as host:
        assert screen(host)[0] == "Hello, world!"
        press(host, {"type": "char", "ch": "x"})
        assert screen(host)[1] == "Last key: x"
        press(host, {"type": "esc"})
        assert screen(host)[1] == "Last key: esc"
        assert screen(host, 5, 1) == ["Hello"]


def test_the_command_line():
    with drive(plugin, FOLDER) as host:
        ran = host.call("plugin/cli_dispatch", {"namespace": "{{name}}", "argv": ["Ada"]})
        assert (b64decode(ran["stdout"]), ran["exit_code"]) == (b"Hello, Ada!\n", 0)


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [("sing", {}, -32601), ("plugin/render", {"viewport": {"width": "wide", "height": 1}}, -32602)],
)
def test_what_it_cannot_do_is_refused(method, params, code):
    with drive(plugin, FOLDER) as host:
        with pytest.raises(CallFailed) as refused:
            host.call(method, params)
        assert refused.value.error["code"] == code
