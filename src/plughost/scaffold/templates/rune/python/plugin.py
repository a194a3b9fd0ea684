"""{{name}}: greets people."""

import sys

try:
    from plughost_sdk import rune
except ModuleNotFoundError as error:
    raise ImportError(f"{error}: {sys.executable} -m pip install plughost-sdk") from None

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
