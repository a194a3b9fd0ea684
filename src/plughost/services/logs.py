"""The logs service: log lines and stderr of plugins, kept in memory and published as events."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from plughost.clock import Clock
from plughost.engine.caller import Caller
from plughost.errors import InvalidSpec, PluginError
from plughost.events import EventHub, Logged
from plughost.services.base import EgressConnection, LogService, LogSource

LEVELS = ("trace", "debug", "info", "warn", "error")
MAX_LINES = 1000
"""Lines that are kept of each plugin."""
MAX_BYTES = 1 << 20
"""Approximate bytes that are kept of each plugin: a thousand long lines would be many megabytes."""
MAX_MESSAGE = 16 << 10
"""Characters of a message, which is cut, and bytes of its fields, which are left out if they are larger."""


class LogLine(Protocol):
    """A log line as a plugin sends it."""

    level: str
    message: str
    fields: msgspec.Raw


class Logs(LogService):
    """The logs service: keeps the last lines of each plugin. Lines below a plugin's threshold are dropped."""

    def __init__(self, events: EventHub, clock: Clock, thresholds: Mapping[str, str] | None = None) -> None:
        self._events = events
        self._clock = clock
        self._thresholds = dict(thresholds or {})
        self._lines: dict[str, _RecentLines] = {}
        self._denied: dict[str, dict[str, int]] = {}
        """By plugin: messages of denials, and the generation for which each was last logged."""

    def set_threshold(self, plugin: str, level: str) -> None:
        """Log lines of `plugin` from `level` upwards; default: info."""
        if level not in LEVELS:
            raise InvalidSpec(f"unknown log level {level!r}; known: {', '.join(LEVELS)}", plugin=plugin)
        self._thresholds[plugin] = level

    def recent(self, plugin: str) -> list[Logged]:
        """The lines that are kept of a plugin, oldest first."""
        return list(self._lines[plugin].lines) if plugin in self._lines else []

    def log(self, caller: Caller, line: LogLine) -> None:
        """Log a line of a plugin."""
        if line.level not in LEVELS:
            raise InvalidSpec(f"unknown log level {line.level!r}")
        threshold = self._thresholds.get(caller.name, "info")
        if LEVELS.index(line.level) >= LEVELS.index(threshold):
            self._keep(self._line(caller, line.level, line.message, _fields(line.fields), "log"))

    def on_stderr(self, caller: Caller, lines: list[str]) -> None:
        """Log lines of stderr. They have no level of their own, and are never filtered."""
        for line in lines[-MAX_LINES:]:
            self._keep(self._line(caller, "info", line, None, "stderr"))

    def note(self, source: LogSource, what: str) -> None:
        """Log a remark of the host on a plugin."""
        self._keep(self._line(source, "warn", what, None, "host"))

    def on_failed(self, source: LogSource, error: PluginError) -> None:
        """Log that a process has crashed or could not be started."""
        self._keep(self._line(source, "error", f"{error.code}: {error.message}", None, "failed"))

    def on_denied(self, source: LogSource, what: str, remedy: str) -> None:
        """Log a denial with the remedy, once per generation however often the plugin asks."""
        if self._is_first(source, what):
            self._keep(self._line(source, "warn", f"{what} ({remedy})", None, "denied"))

    def on_connected(self, source: LogSource, connection: EgressConnection, remedy: str) -> None:
        """Log a connection of a sandboxed plugin that has ended or was refused. Each is an event; of refused
        ones with the same reason only the first is kept, with the remedy."""
        host = f"[{connection.host}]" if ":" in connection.host else connection.host
        message = f"connect {f'{host}:{connection.port}' if host else connection.asked}: {connection.why}"
        traffic = {
            "address": connection.address,
            "up": connection.up,
            "down": connection.down,
            "seconds": round(connection.seconds, 3),
        }
        if connection.verdict != "refused":
            self._keep(self._line(source, "info", message, traffic, "egress"))
        elif self._is_first(source, message):
            self._keep(self._line(source, "warn", f"{message} ({remedy})", traffic, "denied"))
        elif self._events:
            self._events.publish(self._line(source, "warn", message, traffic, "denied"))

    def _is_first(self, source: LogSource, what: str) -> bool:
        denied = self._denied.setdefault(source.name, {})
        if len(denied) >= MAX_LINES:
            denied.clear()
        last, denied[what] = denied.get(what), source.generation
        return last != source.generation

    def _line(self, about: LogSource, level: str, message: str, fields: Any, source: str) -> Logged:
        return Logged(
            plugin=about.name,
            generation=about.generation,
            at=self._clock.time(),
            level=level,
            message=message[:MAX_MESSAGE],
            fields=fields,
            source=source,
        )

    def _keep(self, line: Logged) -> None:
        self._lines.setdefault(line.plugin, _RecentLines()).add(line)
        if self._events:
            self._events.publish(line)


class _RecentLines:
    """The last lines of one plugin, bounded by number and bytes."""

    def __init__(self) -> None:
        self.lines: deque[Logged] = deque()
        self._size = 0

    def add(self, line: Logged) -> None:
        self.lines.append(line)
        self._size += _size(line)
        while len(self.lines) > MAX_LINES or self._size > MAX_BYTES:
            self._size -= _size(self.lines.popleft())


def _size(line: Logged) -> int:
    return len(line.message) + (len(msgspec.json.encode(line.fields)) if line.fields else 0)


def _fields(raw: msgspec.Raw) -> Any:
    size = len(bytes(raw))
    if size > MAX_MESSAGE:
        return {"left_out": f"{size} bytes"}
    try:
        return msgspec.json.decode(raw) if size else None
    except (ValueError, RecursionError) as error:
        raise InvalidSpec(f"wrong fields: {error}") from error
