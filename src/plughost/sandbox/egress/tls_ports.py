"""How a connection to a granted name may begin: one table, by its port.

| granted | port | begins with | later |
|---|---|---|---|
| an address | any | anything | anything |
| a name | one of TLS_PORTS | a ClientHello that names it | what TLS encrypts |
| a name | any other, or granted as `plain` | anything | anything, but each ClientHello names it |

So a byte before TLS (STARTTLS, PostgreSQL's SSLRequest, a PROXY header) is no way to another name behind the
same address: on a port that is for TLS alone it is refused, and elsewhere the hello is found wherever it is.
"""

from __future__ import annotations

from typing import Literal

from plughost.permissions.access import Endpoint
from plughost.permissions.addresses import literal

Beginning = Literal["anything", "TLS", "plain or TLS"]

TLS_PORTS = {
    443: "https", 465: "submissions", 563: "nntps", 636: "ldaps", 853: "domain-s", 989: "ftps-data",
    990: "ftps", 992: "telnets", 993: "imaps", 995: "pop3s", 2083: "radsec", 3269: "msft-gc-ssl",
    5061: "sips", 5349: "stuns", 5671: "amqps", 6514: "syslog-tls", 6697: "ircs-u", 8443: "https-alt",
    8883: "secure-mqtt",
}  # fmt: skip
"""Ports on which TLS comes first, and the services that IANA, or for 8443 everybody, has them for."""


def expected_opening(endpoint: Endpoint, host: str, port: int) -> Beginning:
    """How a plugin has to begin that connects to a canonical host by the grant of `endpoint`."""
    if literal(host) is not None:
        return "anything"
    return "TLS" if port in TLS_PORTS and not endpoint.plain else "plain or TLS"
