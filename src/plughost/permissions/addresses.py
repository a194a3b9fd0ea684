"""Public and private IP addresses, canonical host names and strict URL parsing (against SSRF). Pure, without
I/O.

A URL is parsed in one strict way and written anew from its parts, so that no later parser can see another
host than the one that was checked.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

import msgspec

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_URL = 16 << 10

_PORTS = {"http": 80, "https": 443}
_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>[^#]*)(?:#.*)?", re.I)
_AUTHORITY = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]]*)(?::(?P<port>[0-9]{0,5}))?")
_NAME = re.compile(r"(?!.{254})[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")

# The special-purpose address registries of IANA. `is_global` knows most of them, but differs between releases
# of Python, and it lets multicast through.
_NOT_PUBLIC_V4 = [
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # behind a carrier's NAT
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local, with the metadata services of clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
]
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC_V6 = [
    ipaddress.IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "3fff::/20",  # documentation
    )
]
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class UrlTarget(msgspec.Struct, frozen=True):
    """A parsed URL, each part in canonical form."""

    scheme: str
    host: str
    """A name in lower case or an IP address, without brackets."""
    port: int
    path: str
    """The path with the query."""

    @property
    def origin(self) -> str:
        """Scheme, host and port, without the default port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"

    @property
    def url(self) -> str:
        return self.origin + self.path

    def __str__(self) -> str:
        """The URL without its query, for people and logs: a query may hold secrets."""
        return self.url.partition("?")[0]


def is_public(address: Address) -> bool:
    """Whether an address is a host on the public internet. An IPv4 address inside IPv6 counts as the IPv4
    address."""
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not any(address in network for network in _NOT_PUBLIC_V4)
    inner = address.ipv4_mapped or address.sixtofour
    if address in _NAT64:
        inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if inner is not None:
        return is_public(inner)
    if address not in _GLOBAL_UNICAST or address.scope_id is not None:
        return False
    return address.is_global and not any(address in network for network in _NOT_PUBLIC_V6)


def is_private_host(host: str) -> bool:
    """Whether the name of a canonical host alone shows that it is on this machine or a private network. For
    any other name, only resolving it tells."""
    address = literal(host)
    if address is not None:
        return not is_public(address)
    return "." not in host or host.endswith((".localhost", ".local", ".internal", ".home.arpa"))


def literal(host: str) -> Address | None:
    """The IP address of a canonical host that is written as one; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def canonical_host(host: str) -> str:
    """The canonical form of a host; ValueError says why it has none.

    International names are accepted in their ASCII form only, and anything like a number only as a plain IPv4
    address: 0x7f.1, 017700000001 and 2130706433 are all 127.0.0.1 to one resolver or another.
    """
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        if ":" not in host:
            raise ValueError("the host in brackets is not an IPv6 address")
    if ":" in host:
        if "%" in host:
            raise ValueError("an IPv6 address with a zone is not accepted: it is local to this machine")
        return str(_parse_address(ipaddress.IPv6Address, host))
    host = host.lower().removesuffix(".")
    if not host:
        raise ValueError("it names no host")
    if not _NAME.fullmatch(host):
        raise ValueError("the host is not a name in ASCII; write an international name as xn--…")
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        return str(_parse_address(ipaddress.IPv4Address, host))
    return host


def names(hosts: Iterable[str], host: str) -> bool:
    """Whether the canonical `host` is in a list of hosts; entries that are not hosts are ignored."""
    for entry in hosts:
        try:
            if canonical_host(entry) == host:
                return True
        except ValueError:
            continue
    return False


def parse_url(text: str) -> UrlTarget:
    """Parse an http or https URL; ValueError says what is wrong with it."""
    if len(text) > MAX_URL:
        raise ValueError(f"the URL is longer than {MAX_URL} characters")
    if not all("!" <= character <= "~" for character in text) or "\\" in text:
        raise ValueError("a URL has ASCII characters only, and no spaces, backslashes or control characters")
    match = _URL.fullmatch(text)
    scheme = match["scheme"].lower() if match else ""
    if match is None or scheme not in _PORTS:
        raise ValueError("only http:// and https:// URLs are fetched")
    if "@" in match["authority"]:
        raise ValueError("the URL has a user name or password; send an Authorization header instead")
    authority = _AUTHORITY.fullmatch(match["authority"])
    if authority is None:
        raise ValueError("the URL has no valid host or port")
    port = int(authority["port"] or _PORTS[scheme])
    if not 0 < port < 65536:
        raise ValueError(f"there is no port {port}")
    path = match["path"]
    return UrlTarget(scheme, canonical_host(authority["host"]), port, path if path[:1] == "/" else f"/{path}")


def shown(text: str) -> str:
    """A URL that could not be parsed, for error messages: without its query and anything like a password."""
    return ascii(re.split(r"[?#]", text.rpartition("@")[2])[0][:200])[1:-1]


def _parse_address(kind: type[Address], host: str) -> Address:
    try:
        return kind(host)
    except ValueError:
        raise ValueError("the host is an IP address in an unusual form, or not a valid host") from None
