"""A handshake with members that nobody knows, on a line that ends with CRLF."""

import json
import sys

sys.path.insert(0, "..")
import plain

sys.stdin.buffer.readline()
handshake = {"since": 2024, "manifest": {"author": "a canary", **plain.MANIFEST}, "type": "handshake"}
sys.stdout.write(json.dumps(handshake) + "\r\n")
sys.stdout.flush()
plain.answer()
