"""{{name}}: greets people."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "lib"))

from plughost_sdk import kaged

plugin = kaged.Plugin("{{name}}", "0.1.0")  # as in manifest.yaml, like the names of its methods


def greeting(name):
    return f"Hello, {name}!"


@plugin.method
def greet(params):
    """{"name": "Ada"} -> {"greeting": "Hello, Ada!"}"""
    name = params.get("name") if isinstance(params, dict) else None
    if not isinstance(name, str):
        raise kaged.Error(kaged.INVALID_PARAMS, "greet needs a name, as text")
    return {"greeting": greeting(name)}


if __name__ == "__main__":
    plugin.run()
