"""The control socket of a running host, a unix socket: call its plugins, list them, show logs, reload, stop.

`Control` is the server of a host, `ControlClient` the client of another program of the same user. A
connection carries lines of JSON: requests (`ControlRequest`) with an `id`, and answers with the same `id`,
in any order. A request without an `id` is the only one of its connection.
"""

from plughost.control.client import ControlClient
from plughost.control.errors import ControlRefused, HostLost
from plughost.control.managed import Changes, ManagedPlugins
from plughost.control.remote_plugin import RemotePlugin
from plughost.control.server import Control
from plughost.control.sockets import default_folder, hosts

__all__ = [
    "Changes",
    "Control",
    "ControlClient",
    "ControlRefused",
    "HostLost",
    "ManagedPlugins",
    "RemotePlugin",
    "default_folder",
    "hosts",
]
