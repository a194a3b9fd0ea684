"""{{name}}: greets people."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "lib"))

from plughost_sdk import rune

plugin = rune.Plugin("{{name}}", "0.1.0", capabilities=["tool.execute"])


def greeting(name):
    return f"Hello, {name}!"


@plugin.tool
def greet(input):
    """{"name": "Ada"} -> {"greeting": "Hello, Ada!"}"""
    name = input.get("name") if isinstance(input, dict) else None
    if not isinstance(name, str):
        raise rune.Error("greet needs a name, as text", "invalid_input")
    return {"greeting": greeting(name)}


if __name__ == "__main__":
    plugin.run()
