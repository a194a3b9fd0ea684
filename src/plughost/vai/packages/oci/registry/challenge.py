"""Parser of the `WWW-Authenticate` header: the authentication schemes that a server offers."""

from __future__ import annotations

import re

import msgspec

MAX_HEADER = 8 << 10
MAX_CHALLENGES = 8

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_SCHEME = re.compile(rf"({_TOKEN})(?:[ \t]+|(?=,|$))")
_PARAM = re.compile(rf'({_TOKEN})[ \t]*=[ \t]*(?:({_TOKEN})|"((?:[^"\\]|\\.)*)")(?=[ \t]*(?:,|$))')
_TOKEN68 = re.compile(r"[A-Za-z0-9._~+/-]+=*(?=[ \t]*(?:,|$))")
_GAP = re.compile(r"[ \t,]*")


class Challenge(msgspec.Struct, frozen=True):
    """One scheme and its parameters, both with lower-case names."""

    scheme: str
    parameters: dict[str, str] = {}


def read_challenges(header: str) -> list[Challenge]:
    """Parses the challenges of a header. The first syntax error ends the parsing; what came before it
    counts."""
    found: list[Challenge] = []
    at = _gap(header, 0)
    while at < len(header) and len(header) <= MAX_HEADER and len(found) < MAX_CHALLENGES:
        scheme = _SCHEME.match(header, at)
        if scheme is None:
            break
        parameters: dict[str, str] = {}
        at = _gap(header, scheme.end())
        while parameter := _PARAM.match(header, at):
            name, plain, quoted = parameter.groups()
            value = plain if plain is not None else re.sub(r"\\(.)", r"\1", quoted)
            if parameters.setdefault(name.lower(), value) != value:  # a contradicting duplicate
                return found
            at = _gap(header, parameter.end())
        if not parameters and (token := _TOKEN68.match(header, at)) and not _SCHEME.match(header, at):
            at = _gap(header, token.end())
        found.append(Challenge(scheme[1].lower(), parameters))
    return found


def _gap(header: str, at: int) -> int:
    found = _GAP.match(header, at)
    return found.end() if found else at
