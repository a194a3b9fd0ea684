"""It claims to speak whatever it is asked for."""

import json
import sys

sys.path.insert(0, "../../../rune")
import plain

asked = json.loads(sys.stdin.buffer.readline())
manifest = {**plain.MANIFEST, "protocol_version": asked["protocol_version"]}
plain.send({"type": "handshake", "manifest": manifest})
plain.answer()
