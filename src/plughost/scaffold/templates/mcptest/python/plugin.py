"""{{name}}: greets people."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "lib"))

from plughost_sdk import mcptest

plugin = mcptest.Plugin()


def greeting(name):
    return f"Hello, {name}!"


@plugin.method
def greet(params):
    """{"name": "Ada"} -> {"greeting": "Hello, Ada!"}

    Return {} rather than None: mcptest's own host treats a null result as a missing one.
    """
    name = params.get("name") if isinstance(params, dict) else None
    if not isinstance(name, str):
        raise mcptest.Error(mcptest.INVALID_PARAMS, "greet needs a name, as text")
    return {"greeting": greeting(name)}


if __name__ == "__main__":
    plugin.run()
