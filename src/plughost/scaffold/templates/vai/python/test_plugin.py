import json
import subprocess
import sys
import unittest
from pathlib import Path

FOLDER = Path(__file__).parent
HELLO = {"type": "hello", "role": "host", "host": {"name": "test", "version": "1"}}


def request(number, given, export="greet", op="tool.invoke"):
    body = {"export_id": export, "context": {"invocation_id": "inv_1"}, "input": given}
    return {"type": "request", "id": number, "op": op, "body": body}


def ask(*messages):
    """What the plugin says to these messages, and that it ends well after them."""
    frames = b""
    for message in (HELLO, *messages, {"type": "shutdown"}):
        body = json.dumps({"protocol": "vai.rpc.v1", **message}).encode()
        frames += b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    program = [sys.executable, FOLDER / "bin/plugin"]
    ran = subprocess.run(program, input=frames, capture_output=True, timeout=30, check=True)
    said, rest = [], ran.stdout
    while rest:
        header, _, rest = rest.partition(b"\r\n\r\n")
        size = int(header.removeprefix(b"Content-Length: "))
        said.append(json.loads(rest[:size]))
        rest = rest[size:]
    return said


def greeted(message):
    return message["body"]["result"]["structured_output"]


class Package(unittest.TestCase):
    def test_it_is_what_its_manifest_says(self):
        self.assertEqual(ask()[0]["plugin"], {"package_id": "example/{{name}}", "version": "0.1.0"})

    def test_it_greets(self):
        _, event, answer = ask(request("a", {"name": "Ada"}))
        self.assertEqual((event["request_id"], event["event"]["message"]), ("a", "greeting Ada"))
        self.assertEqual((answer["id"], answer["ok"], answer["body"]["status"]), ("a", True, "succeeded"))
        self.assertEqual(greeted(answer), {"greeting": "Hello, Ada!"})

    def test_wrong_input_is_a_failed_result(self):
        for given in ({}, {"name": 1}, ["Ada"], None):
            with self.subTest(given=given):
                _, answer = ask(request("a", given))
                self.assertEqual((answer["ok"], answer["body"]["status"]), (True, "failed"))
                self.assertTrue(answer["body"]["result"]["is_error"])

    def test_what_it_cannot_do_is_refused(self):
        _, unknown, wrong = ask(request("a", {}, export="sing"), request("b", {}, op="tool.sing"))
        self.assertEqual(unknown["body"]["error"]["code"], "export.unknown")
        self.assertEqual((wrong["ok"], wrong["error"]["code"]), (False, "protocol.invalid_frame"))
