"""The messages of the hand-written contenders: the same bytes as plughost's."""

from __future__ import annotations

from typing import Any

import msgspec


class Request(msgspec.Struct):
    method: str
    id: int
    params: Any


class Answer(msgspec.Struct):
    id: int
    result: msgspec.Raw


encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Answer).decode
