"""An mcptest plugin that goes to the network as it is told. Standard library only."""

import json
import os
import socket
import ssl
import sys
import urllib.request


def get(url):
    context = ssl.create_default_context(cafile=os.environ.get("SSL_CERT_FILE"))
    with urllib.request.urlopen(url, timeout=10, context=context) as answer:
        return answer.read().decode()


def talk(host, port, text):
    """Over a plain socket, to whoever says the same back."""
    with socket.create_connection((host, port), timeout=10) as wire:
        wire.sendall(text.encode())
        return wire.recv(1000).decode()


def names(host, port):
    """The names it knows, once that server has said something."""
    talk(host, port, "?")
    with open("/etc/hosts") as file:
        return file.read()


for line in sys.stdin:
    request = json.loads(line)
    deed = {"get": get, "talk": talk, "names": names, "ping": lambda: "pong"}[request["method"]]
    try:
        result = deed(*request.get("params") or ())
    except OSError as error:
        result = f"failed: {error}"
    print(json.dumps({"id": request["id"], "result": result}), flush=True)
