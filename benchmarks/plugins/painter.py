"""`painter.py KIND`: an ainb plugin with a screen, which shows that picture. `heard` tells when keys came."""

import json
import sys
import time
import tomllib

from pictures import encoded


def send(number, result):
    text = b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (number, result)
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%b" % (len(text), text))
    sys.stdout.buffer.flush()


turn = 0
keys = []
while line := sys.stdin.buffer.readline():
    length = int(line.split(b":")[1])
    sys.stdin.buffer.readline()
    text = sys.stdin.buffer.read(length)
    if b'"plugin/handle_event"' in text[:100]:
        continue  # what is in it costs the plugin, not the host
    message = json.loads(text)
    method, number = message.get("method"), message.get("id")
    if method == "plugin/init":
        with open(message["params"]["manifest_path"], "rb") as file:
            manifest = tomllib.load(file)
        told = {**manifest["plugin"], "manifest": manifest}
        send(number, json.dumps(told).encode())
    elif method == "plugin/render":
        turn += 1
        view = message["params"]["viewport"]
        send(number, encoded(sys.argv[1], view["width"], view["height"], turn))
    elif method == "plugin/handle_key":
        keys.append(time.perf_counter_ns())
    elif method == "heard":
        send(number, json.dumps({"keys": keys}).encode())
    elif number is not None:
        send(number, b"{}")
