"""Trusted publishers: the file trust.toml, with publishers and their keys.

    mode = "production"

    [publishers.acme]
    inline = false

    [[publishers.acme.keys]]
    key = "ed25519:…"
    valid_from = 2026-01-01T00:00:00Z
    valid_until = 2027-01-01T00:00:00Z

A key is trusted for what was signed while it was valid. The time of signing is only the signer's claim, so a
key that may have been stolen must be `revoked`: then nothing counts that it ever signed.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from plughost._util.located.toml import load_toml
from plughost.vai.packages.trust.keys import PublicKey, parse_public

FILE = "trust.toml"
REVOKED = "is revoked"
Mode = Literal["production", "development"]


class TrustedKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key of a publisher, and when it is valid."""

    key: str
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    revoked: bool = False
    comment: str = ""

    @property
    def public(self) -> PublicKey:
        """The parsed key."""
        return parse_public(self.key)

    def objection(self, signed_at: datetime) -> str | None:
        """Why a signature that this key made at that time does not count; None when it does."""
        if self.revoked:
            return REVOKED
        if self.valid_from is not None and signed_at < self.valid_from:
            return f"is valid from {self.valid_from:%Y-%m-%d} on, but was used on {signed_at:%Y-%m-%d}"
        if self.valid_until is not None and signed_at >= self.valid_until:
            return f"was valid until {self.valid_until:%Y-%m-%d}, but was used on {signed_at:%Y-%m-%d}"
        return None


class Publisher(msgspec.Struct, frozen=True, kw_only=True):
    """A trusted publisher and its keys."""

    keys: list[TrustedKey] = []
    inline: bool = False
    """Whether its exports may be executed in the class inline."""


class TrustedPublishers(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a trust file."""

    mode: Mode = "production"
    """In production mode only packages signed by a trusted key can be installed."""
    publishers: dict[str, Publisher] = {}

    def keys_of(self, publisher: str) -> dict[str, TrustedKey]:
        """The keys of a publisher, by id."""
        known = self.publishers.get(publisher, Publisher())
        return {key.public.id: key for key in known.keys}

    def owner_of(self, key_id: str) -> str | None:
        """The publisher who has a key of that id; None when there is none."""
        return next((name for name in self.publishers if key_id in self.keys_of(name)), None)


def default_file() -> Path:
    """The default trust file: `/etc/plughost/trust.toml` for root, else in XDG_CONFIG_HOME."""
    if os.geteuid() == 0 and not os.environ.get("XDG_CONFIG_HOME"):
        return Path("/etc/plughost", FILE)
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(home, "plughost", FILE)


def read(path: Path | None = None) -> TrustedPublishers:
    """Reads a trust file; by default the usual one, and if that is missing, nobody is trusted."""
    if path is None:
        path = default_file()
        if not path.exists():
            return TrustedPublishers()
    document = load_toml(path)
    trust = document.read(TrustedPublishers, (), document.data)
    for name, publisher in (trust.publishers if trust else {}).items():
        seen: set[str] = set()
        for number, key in enumerate(publisher.keys):
            field = ("publishers", name, "keys", number)
            try:
                found = key.public.id
            except ValueError as error:
                document.problem((*field, "key"), str(error))
                continue
            if found in seen:
                document.problem((*field, "key"), "it is listed twice")
            seen.add(found)
            for bound in ("valid_from", "valid_until"):
                if (moment := getattr(key, bound)) is not None and moment.tzinfo is None:
                    document.problem(
                        (*field, bound), "expected a time with a time zone, such as 2026-01-01T00:00:00Z"
                    )
    document.check()
    assert trust is not None
    return trust


def now() -> datetime:
    """The current time, in UTC."""
    return datetime.now(UTC)
