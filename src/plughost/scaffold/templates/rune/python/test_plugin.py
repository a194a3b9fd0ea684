import unittest
from pathlib import Path

from plugin import plugin

from plughost import CallFailed
from plughost.testing import drive

FOLDER = Path(__file__).parent


def call(given):
    with drive(plugin, FOLDER, grants=["tool.execute"], first="greet") as host:
        return host.call("greet", given)


class Greeting(unittest.TestCase):
    def test_it_greets(self):
        self.assertEqual(call({"name": "Ada"}), {"greeting": "Hello, Ada!"})

    def test_wrong_input_is_refused(self):
        for given in ({}, {"name": 1}, ["Ada"]):
            with self.subTest(given=given):
                with self.assertRaises(CallFailed) as refused:
                    call(given)
                self.assertEqual(refused.exception.error["code"], "invalid_input")
