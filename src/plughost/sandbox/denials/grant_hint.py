"""Grant hints: the text that grants something, in the contract's own words if it has any, or else as
plughost's `allow`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence

import msgspec

from plughost.permissions.access import Endpoint
from plughost.permissions.addresses import literal


class GrantHint(msgspec.Struct, frozen=True):
    """How to grant one thing, in plughost.toml and on the command line."""

    key: str
    """The key in plughost.toml: `grants`, or `allow.` and a kind."""
    word: str
    """The item to add to that list."""
    option: str
    """The same as a command-line option."""

    def toml(self, others: Sequence[str] = ()) -> str:
        """The line of plughost.toml, with the items (`others`) that the list has already."""
        return f"{self.key} = [{', '.join(map(_toml, dict.fromkeys((*others, self.word))))}]"

    def __str__(self) -> str:
        """For people. The option is left out when the text is not printable, because then it cannot be
        typed."""
        return f"to allow it, {self.toml()}" + (f" or {self.option}" if self.word.isprintable() else "")


def grant_hint(kind: str, item: str | Endpoint, granting: Mapping[str, str]) -> GrantHint:
    """The hint for one file, program or endpoint. `granting` are the contract's own words by kind. Contracts
    have no words for endpoints without TLS, nor for a name that resolves to a private address; an address
    itself shows that it is private."""
    what = format_endpoint(item)
    is_private_name = isinstance(item, Endpoint) and item.private and literal(item.host) is None
    is_plain = isinstance(item, Endpoint) and item.plain
    if kind not in granting or is_private_name or is_plain:
        return GrantHint(f"allow.{kind}", what, f"--allow {shlex.quote(f'{kind}={what}')}")
    what = "*" if item == Endpoint("*", 0) else what.removesuffix(" private")
    word = granting[kind].format(path=what, name=os.path.basename(what))
    return GrantHint("grants", word, f"--grant {shlex.quote(word)}")


def format_endpoint(item: str | Endpoint) -> str:
    """An endpoint as an operator writes it; a path unchanged."""
    if isinstance(item, str):
        return item
    return str(item).replace(" (", " ").removesuffix(")")


def _toml(text: str) -> str:
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return f"\\{letter}"
    if letter.isprintable():
        return letter
    return f"\\u{ord(letter):04x}" if ord(letter) < 1 << 16 else f"\\U{ord(letter):08x}"
