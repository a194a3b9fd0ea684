"""What plugins log and what they write to stderr: kept for a while, and told to whoever listens."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from plughost.clock import Clock
from plughost.engine.caller import Caller
from plughost.errors import InvalidSpec
from plughost.events import EventHub, Logged

LEVELS = ("trace", "debug", "info", "warn", "error")
KEPT = 1000
"""Lines of each plugin."""
MOST = 1 << 20
"""Bytes of them, about: a thousand long lines would be many megabytes."""
LONGEST = 16 << 10
"""Characters of a message, and bytes of its fields; what is longer is cut, or left out."""


class LogLine(Protocol):
    level: str
    message: str
    fields: msgspec.Raw


class LogSource(Protocol):
    """Whose line it is."""

    @property
    def name(self) -> str: ...

    @property
    def generation(self) -> int: ...


class Connected(Protocol):
    """A connection, as the sandbox tells of it."""

    host: str
    port: int
    asked: str
    address: str
    verdict: Any
    why: str
    up: int
    down: int
    seconds: float


class Logs:
    """The last lines of each plugin. What is below a plugin's threshold is not kept at all."""

    def __init__(self, events: EventHub, clock: Clock, thresholds: Mapping[str, str] | None = None) -> None:
        self._events = events
        self._clock = clock
        self._thresholds = dict(thresholds or {})
        self._kept: dict[str, _Lines] = {}
        self._denied: dict[str, dict[str, int]] = {}
        """By plugin: what it was refused, and in which generation that was last told."""

    def set_threshold(self, plugin: str, level: str) -> None:
        """From now on `plugin` is heard from `level` up; the usual is info."""
        if level not in LEVELS:
            raise InvalidSpec(f"unknown log level {level!r}; known: {', '.join(LEVELS)}", plugin=plugin)
        self._thresholds[plugin] = level

    def recent(self, plugin: str) -> list[Logged]:
        """What is kept of one plugin, oldest first."""
        return list(self._kept[plugin].lines) if plugin in self._kept else []

    def log(self, caller: Caller, line: LogLine) -> None:
        """A plugin's own line."""
        if line.level not in LEVELS:
            raise InvalidSpec(f"unknown log level {line.level!r}")
        threshold = self._thresholds.get(caller.name, "info")
        if LEVELS.index(line.level) >= LEVELS.index(threshold):
            self._keep(self._line(caller, line.level, line.message, _fields(line.fields), "log"))

    def overheard(self, caller: Caller, lines: list[str]) -> None:
        """Lines of stderr: no level of their own, and never filtered."""
        for line in lines[-KEPT:]:
            self._keep(self._line(caller, "info", line, None, "stderr"))

    def noted(self, about: LogSource, what: str) -> None:
        """The host's own remark on a plugin."""
        self._keep(self._line(about, "warn", what, None, "host"))

    def denied(self, caller: LogSource, what: str, remedy: str) -> None:
        """Something it may not: told once a generation, however often it asks."""
        if self._is_first(caller, what):
            self._keep(self._line(caller, "warn", f"{what} ({remedy})", None, "denied"))

    def connected(self, caller: LogSource, connection: Connected, remedy: str = "") -> None:
        """A connection of its own, of a confined plugin, that is over or never was: an event each. Of those
        that were refused for one reason the first is kept, with the remedy."""
        host = f"[{connection.host}]" if ":" in connection.host else connection.host
        told = f"connect {f'{host}:{connection.port}' if host else connection.asked}: {connection.why}"
        traffic = {
            "address": connection.address,
            "up": connection.up,
            "down": connection.down,
            "seconds": round(connection.seconds, 3),
        }
        if connection.verdict != "refused":
            self._keep(self._line(caller, "info", told, traffic, "egress"))
        elif self._is_first(caller, told):
            self._keep(self._line(caller, "warn", f"{told} ({remedy})", traffic, "denied"))
        elif self._events:
            self._events.publish(self._line(caller, "warn", told, traffic, "denied"))

    def _is_first(self, caller: LogSource, what: str) -> bool:
        seen = self._denied.setdefault(caller.name, {})
        if len(seen) >= KEPT:
            seen.clear()
        told, seen[what] = seen.get(what), caller.generation
        return told != caller.generation

    def _line(self, caller: LogSource, level: str, message: str, fields: Any, source: str) -> Logged:
        return Logged(
            plugin=caller.name,
            generation=caller.generation,
            at=self._clock.time(),
            level=level,
            message=message[:LONGEST],
            fields=fields,
            source=source,
        )

    def _keep(self, line: Logged) -> None:
        self._kept.setdefault(line.plugin, _Lines()).add(line)
        if self._events:
            self._events.publish(line)


class _Lines:
    """The last ones, as many and as much as is kept."""

    def __init__(self) -> None:
        self.lines: deque[Logged] = deque()
        self._size = 0

    def add(self, line: Logged) -> None:
        self.lines.append(line)
        self._size += _size(line)
        while len(self.lines) > KEPT or self._size > MOST:
            self._size -= _size(self.lines.popleft())


def _size(line: Logged) -> int:
    return len(line.message) + (len(msgspec.json.encode(line.fields)) if line.fields else 0)


def _fields(raw: msgspec.Raw) -> Any:
    size = len(bytes(raw))
    if size > LONGEST:
        return {"left_out": f"{size} bytes"}
    try:
        return msgspec.json.decode(raw) if size else None
    except (ValueError, RecursionError) as error:
        raise InvalidSpec(f"wrong fields: {error}") from error
