"""One call of a model, as it is published; and what may be believed of a line that tells of one."""

from __future__ import annotations

import functools
import re
from datetime import UTC, datetime
from sys import intern
from typing import Annotated

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, le=10**12)]
"""Tokens. Nobody has used a trillion in one call."""
Name = Annotated[str, msgspec.Meta(max_length=200)]
Place = Annotated[str, msgspec.Meta(max_length=4096)]

YEARS = range(2020, 2100)


class Unusable(Exception):
    """A line that should tell of usage, and does not."""


class Call(msgspec.Struct, gc=False):
    """The members are those of the contract's ProviderCall. The five kinds of tokens do not overlap."""

    id: int
    provider: str
    model: str
    session_id: str
    project: str
    project_path: str
    timestamp: str
    input_tokens: int
    cache_creation_tokens: int
    cache_read_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost_usd: float | None = None
    tools: tuple[str, ...] = ()
    bash_commands: tuple[str, ...] = ()
    user_message: str = ""
    branch: str | None = None

    def tokens(self) -> tuple[int, int, int, int, int]:
        return (
            self.input_tokens,
            self.cache_creation_tokens,
            self.cache_read_tokens,
            self.output_tokens,
            self.reasoning_tokens,
        )


_usual = re.compile(
    r"20[2-9]\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z", re.ASCII
)


def moment(text: str | None) -> str:
    """A time as RFC 3339 in UTC with milliseconds, so that texts compare as times do."""
    if text is not None and _usual.fullmatch(text):
        return text  # as it is written by those whose logs these are
    try:
        time = datetime.fromisoformat(text or "")
        if time.tzinfo is not UTC:
            time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Unusable(f"no time: {text!r:.60}") from None
    if time.year not in YEARS:
        raise Unusable(f"a time out of its mind: {text!r:.60}")
    return f"{time.isoformat(timespec='milliseconds')[:23]}Z"


@functools.lru_cache(4096)
def project_of(path: str, otherwise: str) -> str:
    """What people call a project: the last name of its folder."""
    return intern(path.rstrip("/").rpartition("/")[2] or otherwise)


class _Kind(msgspec.Struct, gc=False):
    type: str = ""


_kinds = msgspec.json.Decoder(_Kind)


def kind_of(line: bytes) -> str:
    """A line's type, whatever else is wrong with it; empty if it has none."""
    try:
        return _kinds.decode(line).type
    except (ValueError, RecursionError):
        return ""
