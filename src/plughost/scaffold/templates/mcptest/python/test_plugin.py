import unittest

from plugin import plugin

from plughost import CallFailed
from plughost.testing import drive


class Greeting(unittest.TestCase):
    def test_it_greets(self):
        with drive(plugin) as host:
            self.assertEqual(host.call("greet", {"name": "Ada"}), {"greeting": "Hello, Ada!"})

    def test_wrong_params_are_refused_and_the_next_call_is_served(self):
        for params in ({}, {"name": 1}, ["Ada"], None):
            with self.subTest(params=params), drive(plugin) as host:
                with self.assertRaises(CallFailed) as refused:
                    host.call("greet", params)
                self.assertEqual(refused.exception.error["code"], -32602)
                self.assertIn("greeting", host.call("greet", {"name": "Ada"}))

    def test_a_method_that_it_does_not_have(self):
        with drive(plugin) as host:
            with self.assertRaises(CallFailed) as refused:
                host.call("sing", {})
            self.assertEqual(refused.exception.error["code"], -32601)
