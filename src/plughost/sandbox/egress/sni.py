"""Checks the TLS server name (SNI) in a ClientHello: a tunnel may open TLS only to the granted name.

One address may serve many names, and the SNI chooses among them. What is encrypted stays so: behind one
address, names inside TLS (a Host header, the inner name of an encrypted ClientHello) cannot be told apart
without interception, and neither can those of a server that is used without TLS. `tls_ports.py` decides where
TLS has to come first; `late_sni.py` finds a hello after a plain beginning.

Whatever a TLS server might accept as the beginning of TLS is parsed as such and has to be well-formed: no
name, two names or a broken hello are refused, never guessed at. A server may ask for a second hello
(HelloRetryRequest), and some take the name from that: it is checked in the same way.
"""

from __future__ import annotations

from plughost.permissions.addresses import canonical_host

MAX_HELLO = 16 << 10
"""Bytes of a ClientHello; those with post-quantum keys have two or three thousand."""
MAX_RECORDS = 64
"""TLS records that one ClientHello may be spread over."""

ACCESS_DENIED = bytes((21, 3, 3, 0, 2, 2, 49))
"""A fatal TLS alert, which a TLS client reports as access denied."""

_CONTENT_TYPES = range(20, 25)
"""Content types of TLS records; some servers ignore an alert before the hello."""
_LAST_VERSION = 15
"""The highest major version; some servers ignore an odd version."""
_CHANGE_CIPHER_SPEC = 20
_HANDSHAKE = 22
_CLIENT_HELLO = 1
_SERVER_HELLO = 2
_SSL2_LENGTHS = range(0x80, 0xC0)
"""The first byte of an SSL 2 hello; its third byte is the type, its fourth the TLS version."""
_RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
"""The random of a ServerHello that is a HelloRetryRequest."""
_SERVER_NAME = 0
_HOST_NAME = 0


class SniMismatch(Exception):
    """The plugin opens TLS to another name than the granted one."""


class NotTLS(SniMismatch):
    """The plugin or the server begins with something else, where TLS has to come first."""


class SniFilter:
    """Holds back the bytes of a plugin until they are known not to be TLS, or to be TLS to `name`.

    `is_second` is for the second hello of a connection: it is TLS, and an empty record may come before it.
    With `tls_only`, anything but TLS is refused.
    """

    def __init__(self, name: str, *, is_second: bool = False, tls_only: bool = False) -> None:
        self.hello_ends = 0
        """Where the hello ends in the bytes that may pass; 0 when they are not TLS."""
        self.name = name
        self.tls_only = tls_only
        self._is_second = is_second
        self._held = bytearray()
        self.needed = 1
        """How many bytes must be there before the next step."""

    def feed(self, data: bytes) -> bytes | None:
        """Returns all bytes so far once they may pass; None while more are needed. Raises SniMismatch when
        they never may."""
        self._held += data
        while len(self._held) >= self.needed:
            if not self._is_second and (is_none := self._is_no_tls()) is not False:
                if is_none and self.tls_only:
                    raise NotTLS("the connection does not start with TLS, but the port is for TLS only")
                return bytes(self._held) if is_none else None
            hello = self._hello()
            if hello is not None:
                self._check(hello)
                return bytes(self._held)
        return None

    def _is_no_tls(self) -> bool | None:
        """Whether the bytes are not TLS; None while more bytes are `needed`."""
        held = self._held
        if held[0] in _SSL2_LENGTHS:
            self.needed = 4
            if not bytes((_CLIENT_HELLO, 3)).startswith(held[2:4]):
                return True
            if len(held) >= self.needed:
                raise SniMismatch(f"its ClientHello names no host; it must name {self.name}")
            return None
        return held[0] not in _CONTENT_TYPES or (len(held) > 1 and held[1] > _LAST_VERSION)

    def second_hello(self) -> SniFilter:
        """A filter for the hello that the server asks for after this one."""
        return SniFilter(self.name, is_second=True)

    def end(self) -> bytes:
        """The plugin sends no more: SniMismatch when a hello was incomplete."""
        if self._held:
            raise SniMismatch("its ClientHello is incomplete")
        return bytes(self._held)

    def _hello(self) -> bytes | None:
        """The ClientHello assembled from its records; None while more bytes are `needed`."""
        held, hello, at = self._held, bytearray(), 0
        for _ in range(MAX_RECORDS):
            if len(held) < at + 5:
                self.needed = at + (5 if len(held) > 1 else 2)
                return None
            size = int.from_bytes(held[at + 3 : at + 5], "big")
            if self._is_second and held[at] == _CHANGE_CIPHER_SPEC and size == 1 and not hello:
                at += 5 + size
                continue
            if held[at] != _HANDSHAKE or not size:
                raise SniMismatch("its TLS does not start with a ClientHello")
            if size > MAX_HELLO:
                raise SniMismatch("its ClientHello is too long")
            if len(held) < at + 5 + size:
                self.needed = at + 5 + size
                return None
            hello += held[at + 5 : at + 5 + size]
            at += 5 + size
            if hello[0] != _CLIENT_HELLO:
                raise SniMismatch("its TLS does not start with a ClientHello")
            whole = 4 + int.from_bytes(hello[1:4], "big") if len(hello) >= 4 else 0
            if whole > MAX_HELLO:
                raise SniMismatch("its ClientHello is too long")
            if whole and len(hello) > whole:
                raise SniMismatch("there is other data in the last record of its ClientHello")
            if whole and len(hello) == whole:
                self.hello_ends = at
                return bytes(hello[4:whole])
        raise SniMismatch("its ClientHello is in too many pieces")

    def _check(self, hello: bytes) -> None:
        try:
            name = server_name(hello)
            same = name is not None and canonical_host(name) == self.name
        except ValueError:
            raise SniMismatch("its ClientHello cannot be read") from None
        if name is None:
            raise SniMismatch(f"its ClientHello names no host; it must name {self.name}")
        if not same:
            raise SniMismatch(f"its ClientHello names {name[:253]!a}, not {self.name}")


class ServerHelloReader:
    """Parses the first bytes of a server: is it TLS, and does it want a second hello (HelloRetryRequest)?"""

    def __init__(self) -> None:
        self.asks_again = False
        self.is_tls = True
        """As far as it is known: its first byte tells."""
        self._held = bytearray()

    def feed(self, data: bytes) -> bool:
        """Returns whether the answer is known by now."""
        self._held += data
        held, hello, at = self._held, bytearray(), 0
        self.is_tls = not held or held[0] in _CONTENT_TYPES
        while len(held) >= at + 5:
            size = int.from_bytes(held[at + 3 : at + 5], "big")
            if held[at] not in _CONTENT_TYPES or size > MAX_HELLO or len(held) > MAX_HELLO:
                return True
            if held[at] == _HANDSHAKE:
                hello += held[at + 5 : at + 5 + size]
            if len(hello) >= 4 + 2 + 32:
                self.asks_again = hello[0] == _SERVER_HELLO and hello[6:38] == _RETRY
                return True
            at += 5 + size
        return not self.is_tls


def server_name(hello: bytes) -> str | None:
    """The server name in the body of a ClientHello, if any; ValueError when it is malformed."""
    body = _Cursor(hello)
    body.take(2 + 32)  # version, random
    body.vector(1)  # session
    body.vector(2)  # cipher suites
    body.vector(1)  # compressions
    if body.at_end:
        return None
    extensions = _Cursor(body.vector(2))
    body.finish()
    name: str | None = None
    seen = set()
    while not extensions.at_end:
        kind, content = extensions.number(2), extensions.vector(2)
        if kind in seen:
            raise ValueError("an extension comes twice")
        seen.add(kind)
        if kind == _SERVER_NAME:
            name = _only_name(content)
    return name


def _only_name(content: bytes) -> str:
    extension = _Cursor(content)
    names = _Cursor(extension.vector(2))
    extension.finish()
    if names.number(1) != _HOST_NAME:
        raise ValueError("a name that is not a host name")
    name = names.vector(2).decode("ascii")
    names.finish()
    return name


class _Cursor:
    """Reads integers and vectors from bytes; ValueError at the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._data)

    def take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) != count:
            raise ValueError("it is too short")
        self._at += count
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> bytes:
        return self.take(self.number(size))

    def finish(self) -> None:
        if not self.at_end:
            raise ValueError("there is data after its end")
