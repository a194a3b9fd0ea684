"""SecretSet: the secrets that are searched in texts, in all their forms."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from plughost._util.redaction.spellings import SHORTEST, forms, hex_forms, lower_hex
from plughost._util.redaction.text_set import Probes, Span, TextSet
from plughost._util.redaction.unescape import TRIGGER, unescape

HIDDEN = "***"
"""Stands for a secret."""
MAX_IGNORED = 1
"""Texts of so few characters are not taken as secrets: they would be found everywhere."""
MOST_SECRETS = 10_000
"""With more secrets than this, every text is hidden."""
_NO_PATTERNS: Mapping[str, re.Pattern[str]] = {}


class SecretSet:
    """The secrets to be hidden: the forms in which a text may hold them, and patterns."""

    __slots__ = ("_secrets", "forms", "hex_forms", "patterns")

    def __init__(self) -> None:
        self._secrets: dict[str, None] = {}
        self.forms = TextSet()
        self.hex_forms = TextSet()
        """Forms that are searched in a text with its hex digits in lower case."""
        self.patterns: Mapping[str, re.Pattern[str]] = _NO_PATTERNS

    def __len__(self) -> int:
        return len(self._secrets) + len(self.patterns)

    @property
    def is_empty(self) -> bool:
        return not self.forms and not self.patterns

    @property
    def hides_all(self) -> bool:
        return len(self._secrets) > MOST_SECRETS

    @property
    def longest(self) -> int:
        """Characters of the longest form of a secret."""
        return max(self.forms.longest, self.hex_forms.longest)

    def add(self, secrets: Iterable[str]) -> None:
        """Add secrets."""
        new = {secret for secret in secrets if len(secret) > MAX_IGNORED} - self._secrets.keys()
        for secret in new:
            if self.hides_all:
                return
            self._secrets[secret] = None
            if len(secret) < SHORTEST:
                self.add_pattern(rf"(?<!\w){re.escape(secret)}(?!\w)")
            else:
                self.forms.add(forms(secret))
                self.hex_forms.add(hex_forms(secret))

    def add_pattern(self, pattern: str) -> None:
        """Add a regular expression."""
        if pattern not in self.patterns:
            self.patterns = {**self.patterns, pattern: re.compile(pattern)}

    def update(self, other: SecretSet) -> None:
        """Add all secrets and patterns of another set."""
        if not other._secrets.keys() <= self._secrets.keys():
            self._secrets |= other._secrets
            self.forms.add(other.forms.texts)
            self.hex_forms.add(other.hex_forms.texts)
        if not other.patterns.keys() <= self.patterns.keys():
            self.patterns = {**self.patterns, **other.patterns}

    def contained_in(self, text: str, passes: int, probes: Probes) -> bool:
        """Whether there is a form of a secret in a text: that is quicker to find than where it is."""
        for _ in range(passes + 1):
            if self.forms.is_in(text, probes) or self.hex_forms.is_in(lower_hex(text), probes):
                return True
            if TRIGGER.search(text) is None:
                return False
            before, text = text, unescape(text)
            if len(before) == len(text):
                return False
        return False

    def spans(self, text: str, probes: Probes | None = None) -> Iterator[Span]:
        """The positions of secrets in a text whose escapes are undone; they may overlap."""
        yield from self.forms.spans(text, probes)
        yield from self.hex_forms.spans(lower_hex(text), probes)
