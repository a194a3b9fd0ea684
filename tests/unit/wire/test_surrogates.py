"""Lone surrogate escapes in JSON text become U+FFFD; everything else stays as it is."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plughost.wire.surrogates import (
    MAX_REPLACED,
    MAX_SIZE,
    LoneSurrogates,
    decode_replacing,
    without_lone_surrogates,
)

PIECES = st.sampled_from(
    ["\\ud83d", "\\uD83D", "\\ude00", "\\uDE00", "\\\\", "\\n", "\\u0041", "\\\\ud83d", '\\"', "a", "u", "é"]
)
anything = msgspec.json.Decoder()


def replaced(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@given(st.lists(PIECES))
def test_any_string_of_json_s_grammar_is_decoded(pieces):
    text = '{"a": "' + "".join(pieces) + '"}'
    assert decode_replacing(anything, text.encode()) == {"a": replaced(json.loads(text)["a"])}


@pytest.mark.parametrize(
    "text", [rb'"\ud83d', rb'"\ud83d" x', rb'"\ud8"', b'"\\ud83d\0"', rb'{"\ud83d"}', b'"a"']
)
def test_text_that_is_not_json_stays_refused(text):
    try:
        expected = msgspec.json.decode(text)
    except msgspec.DecodeError:
        with pytest.raises(msgspec.DecodeError):
            decode_replacing(anything, text)
    else:
        assert (decode_replacing(anything, text), without_lone_surrogates(text)) == (expected, None)


def test_only_so_many_are_replaced_and_only_in_messages_of_some_size():
    assert without_lone_surrogates(b'"' + rb"\ud83d" * MAX_REPLACED + b'"') is not None
    for text in (b'"' + rb"\ud83d" * (MAX_REPLACED + 1) + b'"', b'"' + b"a" * (MAX_SIZE - 7) + rb'\ud83d"'):
        with pytest.raises(LoneSurrogates, match="lone surrogates"):
            without_lone_surrogates(text)
        with pytest.raises(LoneSurrogates):
            decode_replacing(anything, text)
    assert without_lone_surrogates(b'"' + b"a" * MAX_SIZE) is None


def test_a_key_and_a_buffer_are_repaired_too():
    assert decode_replacing(anything, bytearray(rb'{"\ud83d": 1}')) == {"\ufffd": 1}
