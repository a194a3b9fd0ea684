"""OperatorAccess: private addresses and private files, which only the operator can grant.

Where a contract accepts its manifest as a grant, such a grant never includes private addresses, or files that
other users of the machine cannot read. Those need a grant by the operator, by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from plughost.permissions.access import Access, Endpoint
from plughost.permissions.addresses import canonical_host
from plughost.permissions.capability import Capability
from plughost.permissions.intersection import covers


class OperatorAccess(msgspec.Struct, frozen=True):
    """What the operator granted by name. The default is nothing."""

    capabilities: frozenset[str] = frozenset()
    """Capabilities granted by name: they include private files."""
    hosts: tuple[Endpoint, ...] = ()
    """Endpoints granted by name: they may have private addresses."""
    folders: tuple[str, ...] = ()
    """Folders granted by name: all files in them may be read."""

    def reaches(self, host: str, port: int) -> bool:
        """Whether a canonical host may have a private address on this port; 0 means any port."""
        return any(
            covers(each.host, host) and (0 in (each.port, port) or each.port == port) for each in self.hosts
        )


def operator_access(named: Iterable[Capability], allow: Access) -> OperatorAccess:
    """The OperatorAccess from the capabilities that the operator named, and the access allowed beside
    them."""
    given = list(named)
    hosts = [host for each in given if each.name == "network" for host in each.scope or ()]
    return OperatorAccess(
        frozenset(each.name for each in given),
        (*_endpoints(hosts), *(each for each in allow.connect if each.private)),
        (*allow.read, *allow.write),
    )


def _endpoints(hosts: Iterable[str]) -> Iterator[Endpoint]:
    for host in hosts:
        try:
            yield Endpoint(canonical_host(host), 0, True)
        except ValueError:
            continue  # not a host
