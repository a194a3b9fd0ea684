"""{{name}}: greets people."""

import sys

try:
    from plughost_sdk import mcptest
except ModuleNotFoundError as error:
    raise ImportError(f"{error}: {sys.executable} -m pip install plughost-sdk") from None

plugin = mcptest.Plugin()


def greeting(name):
    return f"Hello, {name}!"


@plugin.method
def greet(params):
    """{"name": "Ada"} -> {"greeting": "Hello, Ada!"}

    Return {} rather than None: mcptest's own host takes a result of null for a missing one.
    """
    name = params.get("name") if isinstance(params, dict) else None
    if not isinstance(name, str):
        raise mcptest.Error(mcptest.INVALID_PARAMS, "greet needs a name, as text")
    return {"greeting": greeting(name)}


if __name__ == "__main__":
    plugin.run()
