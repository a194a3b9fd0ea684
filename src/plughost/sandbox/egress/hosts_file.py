"""The /etc/hosts and the proxy variables by which programs in a sandbox reach the egress proxy.

Each granted host has a loopback address of its own in the plugin's /etc/hosts. The forwarder listens there on
the granted ports and asks the proxy for that host, so any TCP client can connect. A wildcard cannot stand in
/etc/hosts, and neither every port nor an address outside the loopback network can be listened on: those need
a client that supports proxies.

Only HTTPS_PROXY is set. A client with a proxy for plain http would send whole requests to the proxy, which
does not answer them; without one it connects to the host by name, and that works.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator

import msgspec

from plughost.errors import InvalidSpec
from plughost.permissions.access import Endpoint
from plughost.permissions.addresses import literal

MAX_LISTENERS = 256
"""The forwarder's own limit."""

_LOOPBACK = ipaddress.IPv4Network("127.0.0.0/8")
_FIRST = ipaddress.IPv4Address("127.83.0.1")
_PROXY_PORTS = range(3128, 65536)


class ProxyEnvironment(msgspec.Struct, frozen=True):
    """The files and variables that connect the inside of a sandbox to the egress proxy."""

    hosts: str
    """The contents of /etc/hosts."""
    listing: str
    """The forwarder's listeners; see launcher/forwarder.h."""
    env: dict[str, str]


def proxy_environment(endpoints: Iterable[Endpoint]) -> ProxyEnvironment:
    """Assign listeners to the endpoints; deterministic."""
    wanted = sorted({(endpoint.host, endpoint.port) for endpoint in endpoints if endpoint.port})
    loopbacks = dict(_loopbacks([host for host, _ in wanted]))
    listeners = {(loopbacks[host], port): host for host, port in wanted if host in loopbacks}
    proxy = next(port for port in _PROXY_PORTS if ("127.0.0.1", port) not in listeners)
    if len(listeners) >= MAX_LISTENERS:
        raise InvalidSpec(
            f"{len(listeners)} endpoints are granted to one plugin; at most {MAX_LISTENERS - 1} are possible"
        )
    named = [
        f"{loopback} {host}\n"
        for host, loopback in loopbacks.items()
        if literal(host) is None and host != "localhost"
    ]
    lines = [f"host {loopback} {port} {host}\n" for (loopback, port), host in listeners.items()]
    url = f"http://127.0.0.1:{proxy}"
    return ProxyEnvironment(
        hosts="".join(["127.0.0.1 localhost\n", *named]),
        listing="".join([f"proxy 127.0.0.1 {proxy}\n", *lines]),
        env={"HTTPS_PROXY": url, "https_proxy": url, "NO_PROXY": "", "no_proxy": ""},
    )


def _loopbacks(hosts: list[str]) -> Iterator[tuple[str, str]]:
    """Each host that can have one, with its loopback address."""
    following = _FIRST
    for host in dict.fromkeys(hosts):
        address = literal(host)
        if host == "localhost":
            yield host, "127.0.0.1"
        elif address is not None:
            if isinstance(address, ipaddress.IPv4Address) and address in _LOOPBACK:
                yield host, host
        elif not host.startswith("*."):
            while str(following) in hosts:
                following += 1
            yield host, str(following)
            following += 1
