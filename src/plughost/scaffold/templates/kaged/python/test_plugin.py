import unittest
from pathlib import Path

from plugin import plugin

from plughost import CallFailed
from plughost.testing import drive

FOLDER = Path(__file__).parent
GREET = "{{name}}.greet"


class Greeting(unittest.TestCase):
    def test_it_is_what_its_manifest_says_and_greets(self):
        with drive(plugin, FOLDER) as host:
            self.assertEqual(host.call(GREET, {"name": "Ada"}), {"greeting": "Hello, Ada!"})
            self.assertEqual(host.call("health.check"), {"status": "ok"})

    def test_wrong_params_are_refused_and_the_next_call_is_served(self):
        for params in ({}, {"name": 1}, ["Ada"], None):
            with self.subTest(params=params), drive(plugin, FOLDER) as host:
                with self.assertRaises(CallFailed) as refused:
                    host.call(GREET, params)
                self.assertEqual(refused.exception.error["code"], -32602)
                self.assertIn("greeting", host.call(GREET, {"name": "Ada"}))

    def test_a_method_that_it_does_not_have(self):
        with drive(plugin, FOLDER) as host:
            with self.assertRaises(CallFailed) as refused:
                host.call("{{name}}.sing", {})
            self.assertEqual(refused.exception.error["code"], -32601)
