"""The operator's own words, where they reach further than a manifest's.

Where a contract takes its manifest's word for a grant, that word never includes private addresses or files
that other users of the machine cannot read. Those are the operator's to name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from plughost.permissions.access import Access, Endpoint
from plughost.permissions.addresses import canonical_host
from plughost.permissions.capability import Capability
from plughost.permissions.intersection import covers


class OperatorAccess(msgspec.Struct, frozen=True):
    """What the operator has named himself. The default is an operator who has said nothing."""

    capabilities: frozenset[str] = frozenset()
    """Their files may be private ones."""
    hosts: tuple[Endpoint, ...] = ()
    """They may have private addresses."""
    folders: tuple[str, ...] = ()
    """What lies in them may be read, whoever else may."""

    def reaches(self, host: str, port: int) -> bool:
        """Whether a canonical host may have a private address; port 0 asks for any port."""
        return any(
            covers(each.host, host) and (0 in (each.port, port) or each.port == port) for each in self.hosts
        )


def operators_word(named: Iterable[Capability], allow: Access) -> OperatorAccess:
    """`named` are capabilities that the operator has named, and `allow` is what he allows beside them."""
    given = list(named)
    words = [word for each in given if each.name == "network" for word in each.scope or ()]
    return OperatorAccess(
        frozenset(each.name for each in given),
        (*_endpoints(words), *(each for each in allow.connect if each.private)),
        (*allow.read, *allow.write),
    )


def _endpoints(hosts: Iterable[str]) -> Iterator[Endpoint]:
    for host in hosts:
        try:
            yield Endpoint(canonical_host(host), 0, True)
        except ValueError:
            continue  # it names no host
