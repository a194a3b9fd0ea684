import unittest
from base64 import b64decode
from pathlib import Path

from plugin import plugin

from plughost import CallFailed
from plughost.testing import drive

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


class Plugin(unittest.TestCase):
    def test_the_screen_greets_and_shows_the_last_key(self):
        with drive(plugin, FOLDER) as host:
            self.assertEqual(screen(host)[0], "Hello, world!")
            press(host, {"type": "char", "ch": "x"})
            self.assertEqual(screen(host)[1], "Last key: x")
            press(host, {"type": "esc"})
            self.assertEqual(screen(host)[1], "Last key: esc")
            self.assertEqual(screen(host, 5, 1), ["Hello"])

    def test_the_command_line(self):
        with drive(plugin, FOLDER) as host:
            ran = host.call("plugin/cli_dispatch", {"namespace": "{{name}}", "argv": ["Ada"]})
            self.assertEqual((b64decode(ran["stdout"]), ran["exit_code"]), (b"Hello, Ada!\n", 0))

    def test_what_it_cannot_do_is_refused(self):
        wide = {"viewport": {"width": "wide", "height": 1}}
        for method, params, code in (("sing", {}, -32601), ("plugin/render", wide, -32602)):
            with self.subTest(method=method), drive(plugin, FOLDER) as host:
                with self.assertRaises(CallFailed) as refused:
                    host.call(method, params)
                self.assertEqual(refused.exception.error["code"], code)
