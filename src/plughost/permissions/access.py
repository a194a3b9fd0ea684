"""Access and ResourceLimits: the files, programs and hosts that a plugin's process may use, and how much.

A request of a plugin to the host over the wire needs a `Capability`. What its own code does without asking
the host needs access, which the kernel enforces. Nothing is accessible that was not allowed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

import msgspec

from plughost.errors import InvalidSpec

_HOST = re.compile(r"(?:\*\.)?(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
_PORT = re.compile(r"[0-9]{1,5}")
_ALL_NUMBERS = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)")


ENDPOINT_WORDS = ("private", "plain")


class Endpoint(msgspec.Struct, frozen=True, order=True):
    """A host and a port that a plugin may connect to."""

    host: str
    """A host name, `*.` and a name for all subdomains, or an IP address, in canonical form; `*` is every
    public host."""
    port: int
    """The port; 0 is every port."""
    private: bool = False
    """Whether the host may have an address that is not public: of this machine or of a private network."""
    socket: str = ""
    """A unix socket of the host that answers under this name; then the name is not resolved."""
    plain: bool = False
    """Whether the connection need not be TLS, on a port that is otherwise for TLS only."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        words = [word for word in ENDPOINT_WORDS if getattr(self, word)]
        return f"{host}:{self.port or '*'}" + (f" ({' '.join(words)})" if words else "")


class ResourceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Resource limits of one plugin with all its processes. None means that plughost sets no limit."""

    memory: int | None = 1 << 30
    """Bytes of private memory."""
    processes: int | None = 128
    """Processes and threads."""
    open_files: int | None = 1024
    file_size: int | None = 1 << 30
    """Bytes of one file."""
    cpu_seconds: int | None = None
    """CPU time of one process; a plugin that runs for long adds up much of it."""
    scratch: int | None = 64 << 20
    """Bytes of files in its private /tmp."""

    @classmethod
    def parse(cls, words: Mapping[str, int | str | None]) -> ResourceLimits:
        """Parse limits in the syntax of plughost.toml: `ResourceLimits.parse({"memory": "256M"})`."""
        from plughost.permissions.parse import parse_limits

        return parse_limits(words)


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The files, programs and hosts that a process may use beyond its own code and scratch folder."""

    read: tuple[str, ...] = ()
    """Absolute paths that may be read: files, and folders with all below them."""
    write: tuple[str, ...] = ()
    """Absolute paths that may be read and changed."""
    execute: tuple[str, ...] = ()
    """Absolute paths of programs that it may run beside its own command."""
    connect: tuple[Endpoint, ...] = ()
    """Hosts and ports that it may connect to."""

    @classmethod
    def parse(cls, words: Mapping[str, Sequence[str]], base: str = "") -> Access:
        """Parse access in the syntax of plughost.toml: `Access.parse({"read": ["~/notes"]})`. Relative paths
        are taken from `base`, or else from the working directory."""
        from plughost.permissions.parse import parse_access

        return parse_access(words, base or os.getcwd())


NONE = Access()
"""No access beyond the plugin's own code and scratch folder."""


def endpoint(text: str) -> Endpoint:
    """Parse an endpoint: `host:port`, followed by ` private` if private addresses are allowed, and by `
    plain` if it need not be TLS. Raises InvalidSpec.

    `host:*` is every port of a host, `*:*` every public host.
    """
    import ipaddress

    words = text.split(" ")
    private, plain = (word in words[1:] for word in ENDPOINT_WORDS)
    if len(words) > 1 + private + plain:
        raise InvalidSpec(
            f"{text!r} is not an endpoint: after host:port only `private` and `plain` may follow"
        )
    if text == "*:*":
        return Endpoint("*", 0)
    host, colon, digits = words[0].rpartition(":")
    if not colon or not (digits == "*" or (_PORT.fullmatch(digits) and 1 <= int(digits) <= 65535)):
        raise InvalidSpec(f"{text!r} is not an endpoint: write host:port, such as api.example.com:443")
    port = 0 if digits == "*" else int(digits)
    if host.startswith("[") and host.endswith("]"):
        try:
            address = ipaddress.IPv6Address(host[1:-1])
        except ValueError as error:
            raise InvalidSpec(f"{text!r} is not an endpoint: {error}") from error
        if address.ipv4_mapped is not None or address.scope_id is not None:
            raise InvalidSpec(f"{text!r} is not an endpoint: write the address as IPv4, or without its zone")
        return Endpoint(str(address), port, private, plain=plain)
    host = host.lower()
    if _ALL_NUMBERS.fullmatch(host.rpartition(".")[2]):
        try:
            return Endpoint(str(ipaddress.IPv4Address(host)), port, private, plain=plain)
        except ValueError as error:
            raise InvalidSpec(f"{text!r} is not an endpoint: {error}") from error
    if not _HOST.fullmatch(host) or len(host) > 253:
        raise InvalidSpec(f"{text!r} is not an endpoint: {host!r} is not a host name in ASCII")
    return Endpoint(host, port, private, plain=plain)
