"""{{name}}: greets people."""

from dataclasses import dataclass
from typing import Annotated

from plughost_sdk import vai

plugin = vai.Plugin()


@dataclass
class Greeting:
    greeting: str


def greeting(name):
    return f"Hello, {name}!"


@plugin.tool(effect_class="read_only")
def greet(name: Annotated[str, "who is greeted"], context: vai.Context) -> Greeting:
    """Greets somebody by name"""
    context.progress(f"greeting {name}")
    return Greeting(greeting(name))
