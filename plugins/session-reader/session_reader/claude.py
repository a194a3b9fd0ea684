"""Lines of Claude Code's logs: an assistant's message tells what it used, in each line that it takes."""

from __future__ import annotations

from sys import intern
from zlib import crc32

import msgspec

from session_reader.call import Call, Count, Name, Place, Unusable, kind_of, moment, project_of

WORDS = (b'"output_tokens"',)
"""Part of every usage. Long words are found faster than short ones."""
OURS = ("assistant", "")


class Usage(msgspec.Struct, gc=False):
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None


class Message(msgspec.Struct, gc=False):
    id: Name | None = None
    model: Name | None = None
    usage: Usage | None = None


class Line(msgspec.Struct, gc=False):
    type: str = ""
    timestamp: str | None = None
    sessionId: Name | None = None
    requestId: Name | None = None
    cwd: Place | None = None
    gitBranch: Name | None = None
    message: Message | None = None


_lines = msgspec.json.Decoder(Line)


class Log:
    """What one file says. Nothing is remembered from line to line."""

    words = WORDS

    def __init__(self, folder: str, name: str) -> None:
        self._folder = folder
        self._name = name

    def read(self, line: bytes, number: int) -> tuple[object, Call] | None:
        """A call and the key that all its lines share; None if the line is of something else."""
        try:
            told = _lines.decode(line)
        except (ValueError, RecursionError):
            if kind_of(line) not in OURS:
                return None
            raise Unusable("no line of a session log") from None
        message = told.message
        if told.type != "assistant" or message is None or message.usage is None:
            return None
        usage = message.usage
        counts = (
            usage.input_tokens or 0,
            usage.cache_creation_input_tokens or 0,
            usage.cache_read_input_tokens or 0,
            usage.output_tokens or 0,
            0,
        )
        if not any(counts):
            return None  # an error that Claude Code words as a message
        if not message.id:  # known by its place, and by what it says: another file may come to stand there
            number ^= crc32(line) << 32
        path = intern(told.cwd or "")  # the same in thousands of lines
        call = Call(
            number,
            "claude",
            intern(message.model or "unknown"),
            intern(told.sessionId or self._name),
            project_of(path, self._folder),
            path,
            moment(told.timestamp),
            *counts,
            branch=told.gitBranch or None,
        )
        return ((message.id, told.requestId) if message.id else number), call
