"""The capability grammar of kaged: `read:fs:/srv/notes`, `net:api.example.com:443`, `kaged:storage:read`.

A manifest declares and the operator grants with these strings. Each is parsed to a value: a capability, for
requests to the host over the wire, or access (files, programs, network), which the kernel enforces on the
process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

import msgspec

from plughost.errors import InvalidSpec
from plughost.permissions.access import NONE, Access, Endpoint, endpoint
from plughost.permissions.addresses import is_private_host
from plughost.permissions.capability import Capability
from plughost.permissions.intersection import covers, narrower
from plughost.permissions.parse import union

NO_NETWORK = "net:[]"
ALL_NETWORK = "net:*"
STORAGE = ("kaged:storage:read", "kaged:storage:write")
FORMS = (
    "read:fs:<absolute path>, write:fs:<absolute path>, exec:<binary>:<absolute path>, net:<host>:<port>, "
    f"net:<host>:*, {ALL_NETWORK}, {NO_NETWORK}, {', '.join(STORAGE)}"
)

GRANTING = {
    "read": "read:fs:{path}",
    "write": "write:fs:{path}",
    "execute": "exec:{name}:{path}",
    "connect": "net:{path}",
}


class HeldCapabilities(msgspec.Struct, frozen=True):
    """The capabilities and the access that a set of capability strings gives."""

    capabilities: frozenset[Capability] = frozenset()
    access: Access = NONE
    resolved: Mapping[str, str] = {}
    """The real paths of a manifest's paths at the time they were checked."""

    def __or__(self, other: HeldCapabilities) -> HeldCapabilities:
        return HeldCapabilities(
            self.capabilities | other.capabilities,
            union(self.access, other.access),
            {**self.resolved, **other.resolved},
        )

    def covers(self, other: HeldCapabilities) -> bool:
        """Whether all of `other` is included in this."""
        files = (*self.access.read, *self.access.write)
        return (
            other.capabilities <= self.capabilities
            and all(_beneath(path, files) for path in other.access.read)
            and all(_beneath(path, self.access.write) for path in other.access.write)
            and set(other.access.execute) <= set(self.access.execute)
            and all(
                any(_reaches(given, wanted) for given in self.access.connect)
                for wanted in other.access.connect
            )
        )


def parse(word: str) -> HeldCapabilities:
    """Parses one capability string. Raises ValueError that says what is wrong with it."""
    if word in STORAGE:
        return HeldCapabilities(frozenset({Capability(word)}))
    verb, _, rest = word.partition(":")
    if verb in ("read", "write") and rest.startswith("fs:"):
        path = _path(rest.removeprefix("fs:"))
        return HeldCapabilities(access=Access(read=(path,)) if verb == "read" else Access(write=(path,)))
    if verb == "exec":
        binary, colon, path = rest.partition(":")
        if not colon or not binary or "/" in binary:
            raise ValueError("expected exec:<binary>:<absolute path>, such as exec:git:/usr/bin/git")
        return HeldCapabilities(access=Access(execute=(_path(path),)))
    if verb == "net":
        return HeldCapabilities(access=Access(connect=_endpoints(word, rest)))
    raise ValueError(f"no such capability; known: {FORMS}")


def together(words: Iterable[str]) -> HeldCapabilities:
    """The union of capability strings that are known to be valid."""
    held = HeldCapabilities()
    for word in words:
        held |= parse(word)
    return held


def contradicts(words: Iterable[str]) -> bool:
    """Whether the capability strings ask for no network and for network too."""
    network = {word for word in words if word.startswith("net:")}
    return NO_NETWORK in network and len(network) > 1


def by_name(word: str) -> HeldCapabilities:
    """Parses a grant of the operator. A named host that cannot be public is meant to be private, and is
    allowed."""
    held = parse(word)
    if "/" in (*held.access.read, *held.access.write):
        raise ValueError("name a folder or a file, not the whole machine")
    meant = tuple(
        msgspec.structs.replace(each, private=each.port != 0 and is_private_host(each.host))
        for each in held.access.connect
    )
    return HeldCapabilities(held.capabilities, msgspec.structs.replace(held.access, connect=meant))


def _path(path: str) -> str:
    """A validated, normalised absolute path."""
    if not path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise ValueError(f"{path!r} is not an absolute path: it must start with `/` and contain no `..`")
    return "/" + os.path.normpath(path).lstrip("/")


def _endpoints(word: str, rest: str) -> tuple[Endpoint, ...]:
    """The endpoints of a `net:` capability."""
    if word == NO_NETWORK:
        return ()
    if word == ALL_NETWORK:
        return (Endpoint("*", 0),)
    if " " in rest or rest.startswith("*"):
        raise ValueError("expected net:<host>:<port>, net:<host>:* or net:*")
    try:
        return (endpoint(rest),)
    except InvalidSpec as error:
        raise ValueError(error.message) from None


def _beneath(path: str, folders: Iterable[str]) -> bool:
    return any(narrower(path, folder) == path for folder in folders)


def _reaches(given: Endpoint, wanted: Endpoint) -> bool:
    return covers(given.host, wanted.host) and given.port in (0, wanted.port)
