"""TLS ports: decides by the port whether a connection to a granted name has to begin with TLS.

| granted | port | begins with | later |
|---|---|---|---|
| an address | any | anything | anything |
| a name | one of TLS_PORTS | a ClientHello that names it | what TLS encrypts |
| a name | any other, or granted as `plain` | anything | anything, but each ClientHello names it |

So bytes before TLS (STARTTLS, PostgreSQL's SSLRequest, a PROXY header) cannot be used to reach another name
behind the same address: on a port that is for TLS alone they are refused, and on other ports the ClientHello
is found wherever it is (`late_sni.py`).
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
"""Ports on which TLS comes first, with the services that IANA has registered them for (8443: common use)."""


def expected_opening(endpoint: Endpoint, host: str, port: int) -> Beginning:
    """How a connection to a canonical host has to begin that the grant `endpoint` allows."""
    if literal(host) is not None:
        return "anything"
    return "TLS" if port in TLS_PORTS and not endpoint.plain else "plain or TLS"
