"""{{name}}: greets people."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "lib"))

from plughost_sdk import ainb

plugin = ainb.Plugin()
last_key = "none yet"


def greeting(name):
    return f"Hello, {name}!"


@plugin.screen
def draw(width, height):
    buffer = ainb.Buffer(width, height)
    buffer.put(0, 0, greeting("world"), style=ainb.BOLD)
    buffer.put(0, 1, f"Last key: {last_key}")
    return buffer


@plugin.on_key
def key(key):
    global last_key
    last_key = key.ch or key.code


@plugin.cli("{{name}}")
def command(argv):
    """`{{name}} Ada` prints a greeting."""
    print(greeting(argv[0] if argv else "world"))
