"""References: where content is, as people write it.

    registry.example/acme/devkit:0.1.0              a tag in a registry; oci:// may stand before it
    registry.example/acme/devkit@sha256:…           those bytes and no others
    oci-layout:PATH[:TAG] or oci-layout:PATH@sha256:…   a layout, folder or tar, on this machine

There is no default registry and no default tag: a reference says what it means.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from plughost.errors import InvalidSpec
from plughost.permissions.addresses import canonical_host, literal
from plughost.vai.packages.oci.digests import is_digest

MAX_REFERENCE = 4096
MAX_REPOSITORY = 255
TAGS = "a tag has up to 128 letters, digits, dots, dashes and underscores"
LAYOUT = "oci-layout:"
REGISTRY = "oci://"

_PART = re.compile(r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_PORT = re.compile(r"[0-9]{1,5}")


class InRegistry(msgspec.Struct, frozen=True):
    """A reference to a repository of a registry, with an optional tag or digest."""

    host: str
    """A name in lower case or an IP address, without brackets."""
    port: int | None
    repository: str
    tag: str = ""
    digest: str = ""

    @property
    def registry(self) -> str:
        """HOST[:PORT], as credentials are stored under it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def name(self) -> str:
        """The digest if there is one, else the tag: a tag beside a digest is only for people."""
        return self.digest or self.tag

    @property
    def is_loopback(self) -> bool:
        """Whether the registry is on this machine."""
        address = literal(self.host)
        return self.host == "localhost" or (address is not None and address.is_loopback)

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.registry}/{self.repository}{tag}" + (f"@{self.digest}" if self.digest else "")


class InLayout(msgspec.Struct, frozen=True):
    """A reference to a layout on this machine, with an optional tag or digest."""

    path: Path
    tag: str = ""
    digest: str = ""

    @property
    def name(self) -> str:
        """The digest if there is one, else the tag."""
        return self.digest or self.tag

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{LAYOUT}{self.path}{tag}" + (f"@{self.digest}" if self.digest else "")


Reference = InRegistry | InLayout


def parse_reference(text: str) -> Reference:
    """Parses a reference; InvalidSpec says what is wrong, and at which character."""
    if len(text) > MAX_REFERENCE:
        raise InvalidSpec(f"a reference of more than {MAX_REFERENCE} characters")
    for at, character in enumerate(text):
        if not character.isprintable() or (character.isspace() and not text.startswith(LAYOUT)):
            raise _syntax_error(text, at, "no spaces and no control characters")
    return _in_layout(text) if text.startswith(LAYOUT) else _in_registry(text)


def is_tag(text: str) -> bool:
    """Whether a text is a valid tag."""
    return _TAG.fullmatch(text) is not None


def _in_layout(text: str) -> InLayout:
    rest, digest = _digest(text)
    at = len(LAYOUT)
    path, colon, tag = rest[at:].rpartition(":")
    if not colon:
        path, tag = tag, ""
    elif not is_tag(tag):
        raise _syntax_error(text, at + len(path) + 1, TAGS)
    if not path:
        raise _syntax_error(text, at, "name the layout's folder or tar: oci-layout:PATH[:TAG]")
    return InLayout(Path(path), tag, digest)


def _in_registry(text: str) -> InRegistry:
    if text.startswith(("http://", "https://")):
        raise _syntax_error(text, 0, "write it without https:// or http://: HOST/REPOSITORY:TAG")
    at = len(REGISTRY) if text.startswith(REGISTRY) else 0
    if "@" in text[at:].partition("/")[0]:
        raise InvalidSpec(
            "a reference cannot contain a user name or a password",
            hint="they are read from PLUGHOST_REGISTRY_USER and PLUGHOST_REGISTRY_PASSWORD, or docker's file",
        )
    rest, digest = _digest(text)
    authority, slash, named = rest[at:].partition("/")
    if not slash:
        raise _syntax_error(text, len(rest), "name a registry and a repository: HOST/REPOSITORY:TAG")
    host, port = _authority(text, at, authority)
    at += len(authority) + 1
    repository, colon, tag = named.partition(":")
    if colon and not is_tag(tag):
        raise _syntax_error(text, at + len(repository) + 1, TAGS)
    if len(repository) > MAX_REPOSITORY:
        raise _syntax_error(text, at, f"a repository's name has at most {MAX_REPOSITORY} characters")
    for part in repository.split("/"):
        if not _PART.fullmatch(part):
            raise _syntax_error(
                text, at, "a repository's name has lowercase letters and digits, separated by . _ - or /"
            )
        at += len(part) + 1
    return InRegistry(host, port, repository, tag, digest)


def _digest(text: str) -> tuple[str, str]:
    if text.startswith(LAYOUT) and "@sha256:" not in text:  # any @ belongs to the path
        return text, ""
    rest, at, digest = text.rpartition("@")
    if at and not is_digest(digest):
        raise _syntax_error(text, len(rest) + 1, "a digest is sha256: and 64 lower-case hexadecimal digits")
    return (rest, digest) if at else (text, "")


def _authority(text: str, at: int, authority: str) -> tuple[str, int | None]:
    bracket = authority.rfind("]")
    colon = authority.find(":", bracket + 1)
    host, port = (authority, None) if colon < 0 else (authority[:colon], authority[colon + 1 :])
    if port is not None and not (_PORT.fullmatch(port) and 0 < int(port) < 65536):
        raise _syntax_error(text, at + colon + 1, "a port is a number from 1 to 65535")
    if port is None and bracket < 0 and "." not in host and host.lower() != "localhost":
        raise _syntax_error(text, at, f"{host!a} is not a registry's host: write HOST/REPOSITORY:TAG")
    try:
        return canonical_host(host), int(port) if port else None
    except ValueError as error:
        raise _syntax_error(text, at, str(error)) from None


def _syntax_error(text: str, at: int, what: str) -> InvalidSpec:
    return InvalidSpec(f"reference {ascii(text)[1:-1][:200]}, character {at + 1}: {what}")
