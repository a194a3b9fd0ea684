"""Last words: bounded, and harmless to a terminal."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from plughost.runtime.stderr import StderrTail


@given(st.lists(st.binary(max_size=300), max_size=100))
def test_it_keeps_the_end_of_any_stream(pieces):
    tail = StderrTail(limit=100)
    for piece in pieces:
        tail.feed(piece)
    assert tail._joined() == b"".join(pieces)[-100:]


def test_a_gigabyte_never_grows_the_host():
    tail = StderrTail()
    block = b"e" * 65536
    tracemalloc.start()
    for _ in range(16384):
        tail.feed(block)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200_000


def test_control_characters_cannot_reach_a_terminal():
    tail = StderrTail()
    tail.feed(b"\x1b[31mred\x07\xff \xc3\xa9 \tok\n")
    assert tail.text() == "\\x1b[31mred\\x07\\xff é \tok"


def test_only_the_last_lines_are_told():
    tail = StderrTail()
    tail.feed(b"".join(b"%d\n" % n for n in range(100)))
    assert tail.text(lines=2) == "98\n99"
