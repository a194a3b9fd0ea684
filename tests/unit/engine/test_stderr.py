"""Last words: bounded, and harmless to a terminal."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plughost._util.redaction.redactor import Redactor
from plughost.engine.io.stderr import BYTES_PER_SECOND, MAX_LINE, StderrTail


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


@pytest.mark.parametrize(
    "secret", ["0123456789abcdefghij" * 5, "süß-" + "".join(map(chr, range(0xC0, 0x100)))]
)
@pytest.mark.parametrize("end", ["", " ", "\n"])
def test_no_part_of_a_secret_is_left_where_something_was_cut_off(secret, end):
    hidden = Redactor()
    hidden.add([secret])
    tail = StderrTail(redactor=hidden)
    said = (secret + end).encode() * 3000
    told = [line for at in range(0, len(said), 5003) for line in tail.feed(said[at : at + 5003])]
    told += [tail.rest(), tail.text()]
    pieces = {secret[at : at + 8] for at in range(len(secret) - 7)}
    assert not [piece for piece in pieces for each in told if piece in each]


def test_the_end_of_a_token_is_not_shown_either():
    hidden = Redactor()
    hidden.add_pattern("tok_[a-z]+")
    tail = StderrTail(limit=20, redactor=hidden)
    tail.feed(b"the token is tok_abcdefghijkl, and")
    assert tail.text() == "*** and"


def test_the_rest_of_a_long_line_is_left_out_of_the_log():
    tail = StderrTail()
    assert [len(line) for line in tail.feed(b"x" * 10_000)] == [MAX_LINE]
    assert tail.feed(b"x" * 10_000) == []
    assert tail.feed(b"x\nnext\n") == ["next"]


def test_of_a_flood_only_so_much_a_second_is_looked_at():
    """Lines that are dropped cost nothing: hiding secrets in all of them would hold everybody up."""
    now = [0.0]
    hidden = Redactor()
    hidden.add(["the-secret"])
    tail = StderrTail(redactor=hidden, now=lambda: now[0])
    line = b"%74%68e-secret " * 500 + b"\n"
    told = [each for _ in range(1000) for each in tail.feed(line)]
    assert sum(map(len, told)) <= BYTES_PER_SECOND
    assert not [each for each in told if "secret" in each]
    now[0] += 1.0
    left_out, *more = tail.feed(line)
    assert left_out == f"({1000 - len(told)} lines left out)"
    assert more == ["*** " * 500]
    assert "secret" not in tail.text(), "its last words are kept whatever was dropped"


@given(st.lists(st.binary(max_size=50), max_size=20))
def test_any_bytes_in_any_pieces_are_lines(pieces):
    tail = StderrTail()
    told = [line for piece in pieces for line in tail.feed(piece)]
    assert len(told) == b"".join(pieces).count(b"\n")
