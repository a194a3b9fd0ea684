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


def by_itself(address):
    """From one socket of its own to another."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as server, socket.socket(family, socket.SOCK_DGRAM) as wire:
        server.bind((address, 0))
        wire.connect(server.getsockname())
        wire.send(b"hello")
        return server.recv(1000).decode()


DEEDS = {"get": get, "talk": talk, "names": names, "by_itself": by_itself, "ping": lambda: "pong"}
for line in sys.stdin:
    request = json.loads(line)
    deed = DEEDS[request["method"]]
    try:
        result = deed(*request.get("params") or ())
    except OSError as error:
        result = f"failed: {error}"
    print(json.dumps({"id": request["id"], "result": result}), flush=True)
