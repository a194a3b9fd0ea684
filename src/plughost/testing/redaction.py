"""Redaction of recorded frames: removes secrets, by the names of the members that hold them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from plughost._util.redaction.redactor import Redactor
from plughost._util.redaction.secret_set import HIDDEN
from plughost._util.redaction.spellings import SHORTEST
from plughost.testing.frame_splitter import UnreadableTraffic, value
from plughost.wire.framing import Frame, FrameError


class TrafficRedactor:
    """Redacts the values of the named members, and the same texts wherever else they occur: in a message, in
    a name, and in the spellings that `Redactor` knows."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = {name.casefold() for name in names}
        self._redactor = Redactor()
        self._found: set[str] = set()
        """Secrets found so far; they are added to the redactor all at once, before anything is redacted."""

    def learn(self, frame: Frame | FrameError) -> None:
        """Finds the secrets in a frame. All frames are learned before any is redacted: a secret may occur
        earlier."""
        if not isinstance(frame, FrameError):
            self._learn(value(frame), secret=False)

    def clean(self, frame: Frame | FrameError) -> bytes:
        """The frame, redacted. It is always encoded again, since of a duplicate member only the last was
        examined; an unreadable frame is redacted as a whole."""
        if not isinstance(frame, FrameError) and not frame.strip():
            return bytes(frame)
        self._redactor.add(self._found)
        self._found.clear()
        decoded = UnreadableTraffic if isinstance(frame, FrameError) else value(frame)
        return msgspec.json.encode(HIDDEN if decoded is UnreadableTraffic else self._clean(decoded))

    def _is_secret(self, name: str) -> bool:
        return name.casefold() in self._names

    def _learn(self, decoded: Any, *, secret: bool) -> None:
        if isinstance(decoded, dict):
            for name, inner in decoded.items():
                self._learn(inner, secret=secret or self._is_secret(name))
        elif isinstance(decoded, list):
            for place, inner in enumerate(decoded):
                self._learn(inner, secret=secret or (place == 1 and self._is_pair(decoded)))
        elif secret and isinstance(decoded, str) and len(decoded) >= SHORTEST and decoded != HIDDEN:
            self._found.add(decoded)

    def _is_pair(self, decoded: list[Any]) -> bool:
        """Whether a list is a secret name and its value, as headers often are."""
        return len(decoded) == 2 and isinstance(decoded[0], str) and self._is_secret(decoded[0])

    def _clean(self, decoded: Any) -> Any:
        if isinstance(decoded, dict):
            return {
                self._clean(name): HIDDEN if self._is_secret(name) else self._clean(inner)
                for name, inner in decoded.items()
            }
        if isinstance(decoded, list):
            if self._is_pair(decoded):
                return [decoded[0], HIDDEN]
            return [self._clean(inner) for inner in decoded]
        return self._redactor.redact_unbounded(decoded) if isinstance(decoded, str) else decoded
