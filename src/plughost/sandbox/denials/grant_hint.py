"""The words that grant a power: the contract's own where it has some, or else plughost's `allow`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence

import msgspec

from plughost.permissions.access import Endpoint
from plughost.permissions.addresses import literal


class GrantHint(msgspec.Struct, frozen=True):
    key: str
    """In plughost.toml: `grants`, or `allow.` and a kind."""
    word: str
    """What its list has to hold."""
    option: str
    """The same on the command line."""

    def toml(self, others: Sequence[str] = ()) -> str:
        """The line of plughost.toml, beside what stands there already."""
        return f"{self.key} = [{', '.join(map(_toml, dict.fromkeys((*others, self.word))))}]"

    def __str__(self) -> str:
        """For people; what cannot be printed cannot be typed either."""
        return f"to allow it, {self.toml()}" + (f" or {self.option}" if self.word.isprintable() else "")


def grant_hint(kind: str, item: str | Endpoint, granting: Mapping[str, str]) -> GrantHint:
    """`granting` are the contract's own words by kind. They have none for what is not TLS, nor for a name
    that leads to a private address; an address says by itself that it is one."""
    what = format_endpoint(item)
    is_private_name = isinstance(item, Endpoint) and item.private and literal(item.host) is None
    is_plain = isinstance(item, Endpoint) and item.plain
    if kind not in granting or is_private_name or is_plain:
        return GrantHint(f"allow.{kind}", what, f"--allow {shlex.quote(f'{kind}={what}')}")
    what = "*" if item == Endpoint("*", 0) else what.removesuffix(" private")
    word = granting[kind].format(path=what, name=os.path.basename(what))
    return GrantHint("grants", word, f"--grant {shlex.quote(word)}")


def format_endpoint(item: str | Endpoint) -> str:
    """As an operator writes it."""
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
