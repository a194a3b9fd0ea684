"""Write a plugin as a few functions; the wire is taken care of.

from plughost_sdk import mcptest

plugin = mcptest.Plugin()

@plugin.method
def echo(params):
    return params

plugin.run()

One module per contract: `mcptest`, `rune`, `ainb`, `kaged`, `vai`. Nothing but the standard library is
needed, and nothing of it is imported before it is used: a plugin starts about as fast as a bare script.
`claim()` takes stdin and stdout for the host before `run` does.
"""

from plughost_sdk.pipes import claim
from plughost_sdk.wire import Wire

__all__ = ["Wire", "claim"]
