"""Lines of Codex's logs: counters that rise through a session, and the model and folder they are for."""

from __future__ import annotations

import msgspec

from session_reader.call import Call, Count, Name, Place, Unusable, kind_of, moment, project_of

WORDS = (b'"token_count"', b'"turn_context"', b'"session_meta"')
OURS = ("event_msg", "turn_context", "session_meta", "")


class Counters(msgspec.Struct, frozen=True, gc=False):
    """What is cached is part of the input, what is reasoned part of the output."""

    input_tokens: Count = 0
    cached_input_tokens: Count = 0
    output_tokens: Count = 0
    reasoning_output_tokens: Count = 0

    def since(self, before: Counters) -> Counters:
        return Counters(*(getattr(self, name) - getattr(before, name) for name in self.__struct_fields__))

    def is_below(self, other: Counters) -> bool:
        return any(getattr(self, name) < getattr(other, name) for name in self.__struct_fields__)


class Info(msgspec.Struct, gc=False):
    total_token_usage: Counters | None = None
    last_token_usage: Counters | None = None


class Payload(msgspec.Struct, gc=False):
    type: str | None = None
    id: Name | None = None
    cwd: Place | None = None
    model: Name | None = None
    info: Info | None = None


class Line(msgspec.Struct, gc=False):
    type: str = ""
    timestamp: str | None = None
    payload: Payload | None = None


_lines = msgspec.json.Decoder(Line)


class Log:
    """What one file says: its lines build on those before them."""

    words = WORDS

    def __init__(self, folder: str, name: str) -> None:
        self._session = name
        self._path = ""
        self._model = "unknown"
        self._total = Counters()

    def read(self, line: bytes, number: int) -> tuple[object, Call] | None:
        """A call and its key; None if the line is of something else."""
        try:
            told = _lines.decode(line)
        except (ValueError, RecursionError):
            if kind_of(line) not in OURS:
                return None
            raise Unusable("no line of a session log") from None
        payload = told.payload
        if payload is None:
            return None
        if told.type in ("session_meta", "turn_context"):
            self._session = payload.id or self._session if told.type == "session_meta" else self._session
            self._path = payload.cwd or self._path
            self._model = payload.model or self._model
            return None
        if told.type != "event_msg" or payload.type != "token_count" or payload.info is None:
            return None  # limits alone, without counters
        time = moment(told.timestamp)
        used = self._used(payload.info)
        return None if used is None else ((self._session, time, self._total), self._call(number, time, used))

    def _used(self, info: Info) -> Counters | None:
        """What came on top since the line before. Counters that fall have begun anew."""
        total = info.total_token_usage
        if total is None:
            raise Unusable("counters without a total")
        before, self._total = self._total, total
        if total.is_below(before):
            return info.last_token_usage or total
        return total.since(before) if total != before else None  # the same told twice

    def _call(self, number: int, time: str, used: Counters) -> Call:
        cached = min(used.cached_input_tokens, used.input_tokens)
        reasoned = min(used.reasoning_output_tokens, used.output_tokens)
        return Call(
            number,
            "codex",
            self._model,
            self._session,
            project_of(self._path, "unknown"),
            self._path,
            time,
            used.input_tokens - cached,
            0,
            cached,
            used.output_tokens - reasoned,
            reasoned,
        )
