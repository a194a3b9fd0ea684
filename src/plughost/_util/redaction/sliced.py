"""SlicedRedactor: redacts a text that comes in slices."""

from __future__ import annotations

from plughost._util.redaction.secret_set import HIDDEN, SecretSet
from plughost._util.redaction.spellings import PASSES
from plughost._util.redaction.text_set import Span
from plughost._util.redaction.unescape import TRIGGER, Unescaped

MAX_MATCH = 8192
"""Characters of a match of a pattern; of a longer match the beginning is hidden."""


class SlicedRedactor:
    """Redacts a text that comes in slices, wherever it is cut: all that it returns, joined, is what
    `Redactor.redact` returns for the whole text."""

    def __init__(self, secrets: SecretSet) -> None:
        self._secrets = secrets
        self._passes: list[Unescaped] = []
        self._text = ""
        """The text that is not returned yet; it begins at position `_at`."""
        self._at = 0
        self._before = ""
        self._end = 0
        """The end of the last hidden part."""
        self._found: list[Span] = []
        self._looked = 0
        """Up to where the text was searched, less the length of a secret that may continue in the next
        slice."""

    def feed(self, text: str, *, final: bool = False) -> str:
        """Take the next slice; returns the redacted text that is final by now."""
        if self._secrets.hides_all:
            return HIDDEN if final else ""
        self._text += text
        sure = self._search_patterns(final=final)
        sure = min(sure, self._search_unescaped(text, final=final))
        kept = 0 if final else max(self._secrets.longest - 1, 0)
        first = max(self._looked - self._at, 0)
        self._found += [
            (self._at + first + start, self._at + first + stop)
            for start, stop in self._secrets.spans(self._text[first:])
        ]
        self._looked = max(self._at + len(self._text) - kept, self._looked)
        return self._redacted_until(max(min(sure, self._looked), self._at))

    def _search_unescaped(self, text: str, *, final: bool) -> int:
        """Search the text with its escapes undone; returns up to where the search is complete."""
        if not self._passes and not TRIGGER.search(text):
            return self._at + len(self._text)
        if not self._passes:
            self._passes = [Unescaped() for _ in range(PASSES)]
            self._passes[0].begin(self._at)
            text = self._text
        kept = 0 if final else max(self._secrets.longest - 1, 0)
        for number, each in enumerate(self._passes):
            text = each.feed(text, final=final)
            for start, stop in self._secrets.spans(each.text):
                span = self._original_span(number, each.at + start, each.at + stop)
                self._found.append(span)
            each.drop(each.at + max(len(each.text) - kept, 0))
        needed = self._passes[-1].at
        for each in reversed(self._passes):
            needed = min(needed, each.at)
            each.forget(needed)
            needed = each.start(needed)
        return needed

    def _original_span(self, number: int, start: int, stop: int) -> Span:
        for each in reversed(self._passes[: number + 1]):
            start, stop = each.start(start), each.stop(stop)
        return start, stop

    def _search_patterns(self, *, final: bool) -> int:
        """Search for patterns; returns up to where the search is complete."""
        end = sure = self._at + len(self._text)
        if not self._secrets.patterns:
            return end
        sure = end if final else end - MAX_MATCH
        for pattern in self._secrets.patterns.values():
            # With the character before it: some patterns look behind.
            for match in pattern.finditer(self._before + self._text, len(self._before)):
                start, stop = (self._at - len(self._before) + each for each in match.span())
                if start < sure:
                    self._found.append((start, stop))
        return sure

    def _redacted_until(self, sure: int) -> str:
        """The redacted text before a position up to which all secrets are found."""
        shown: list[str] = []
        done = self._at
        for start, stop in sorted({span for span in self._found if span[0] < sure}):
            if start >= self._end:
                shown += [self._text[max(done, self._end) - self._at : start - self._at], HIDDEN]
                done = start
            self._end = max(self._end, stop)
        if sure > self._end:
            shown.append(self._text[max(done, self._end) - self._at : sure - self._at])
        self._found = [span for span in self._found if span[0] >= sure]
        self._before = self._text[: sure - self._at][-1:] or self._before
        self._text = self._text[sure - self._at :]
        self._at = sure
        return "".join(shown)
