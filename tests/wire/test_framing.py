"""Framings: any split gives the same frames, limits hold while reading, nothing is scanned twice."""

from __future__ import annotations

import io
import re
import time
import tracemalloc

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from plughost.wire.framing import ContentLength, FrameError, FrameTooLarge, Lines
from plughost_sdk.wire import BrokenWire, LspContentLength
from tests.support.strategies import fed, splits

LIMIT = 20
line_ish = st.lists(
    st.sampled_from([b"a", b"\n", b"\r", b"{}", b"\r\n", b"x" * 19, b"y" * 20, b"z" * 21, b"\x00", b"\xff"])
).map(b"".join)
header_ish = st.lists(
    st.sampled_from(
        [
            b"Content-Length: 3\r\n\r\nabc",
            b"content-length:0\r\n\r\n",
            b"Content-Length: 20\r\n\r\n" + b"b" * 20,
            b"Content-Length: 21\r\n\r\n",
            b"Content-Length: 2\r\nContent-Length: 1\r\n\r\nq",
            b"Content-Length",
            b": 5",
            b"\r\n",
            b"\n",
            b"\r",
            b"noise",
            b"\xff",
            b"Content-Type: x\r\n",
            b" " * 40,
        ]
    ),
    max_size=8,
).map(b"".join)


def lines_by_definition(data: bytes) -> list[bytes | FrameError]:
    """The slow, obvious reading of a stream of lines."""
    *lines, rest = data.split(b"\n")
    if rest:
        lines.append(rest)
    frames: list[bytes | FrameError] = []
    for line in lines:
        without_cr = line[:-1] if line.endswith(b"\r") else line
        if len(line) <= LIMIT or len(without_cr) <= LIMIT:
            frames.append(line)
        else:
            frames.append(FrameError(f"a line is longer than {LIMIT} bytes", line[:LIMIT], fatal=False))
    return frames


@given(st.data(), line_ish)
@example(None, b"z" * 22 + b"\n{}\n")
def test_lines_in_any_split_are_those_of_the_definition(data, stream):
    pieces = [stream] if data is None else data.draw(splits(stream))
    assert fed(Lines(LIMIT), pieces) == lines_by_definition(stream)
    assert fed(Lines(LIMIT), [bytes([byte]) for byte in stream]) == lines_by_definition(stream)


@given(st.data(), header_ish)
def test_content_length_in_any_split_gives_the_same_frames(data, stream):
    whole = fed(ContentLength(LIMIT, header_limit=64), [stream])
    assert fed(ContentLength(LIMIT, header_limit=64), data.draw(splits(stream))) == whole
    assert fed(ContentLength(LIMIT, header_limit=64), [bytes([byte]) for byte in stream]) == whole


@given(st.lists(st.binary(max_size=LIMIT), max_size=6), st.data())
def test_what_is_encoded_is_decoded(bodies, data):
    framing = ContentLength(LIMIT)
    stream = b"".join(framing.encode(body) for body in bodies)
    assert fed(framing, data.draw(splits(stream))) == bodies
    lines = [body.replace(b"\n", b" ") for body in bodies]
    stream = b"".join(Lines(LIMIT).encode(line) for line in lines)
    assert fed(Lines(LIMIT), data.draw(splits(stream))) == lines


@given(st.binary(max_size=200), st.data())
def test_no_bytes_whatever_make_a_framing_raise_or_lose_its_place_in_time(stream, data):
    for framing in (Lines(LIMIT), ContentLength(LIMIT)):
        frames = fed(framing, data.draw(splits(stream)))
        assert sum(len(frame) for frame in frames if isinstance(frame, bytes)) <= len(stream)


@pytest.mark.parametrize(
    ("stream", "frames"),
    [
        (b"content-length: 2\r\n\r\nok", [b"ok"]),
        (b"Content-Length: 0\r\n\r\n", [b""]),
        (b"CONTENT-LENGTH:\t+007 \r\n\r\n1234567", [b"1234567"]),
        (b" Content-Length : 1\r\n\r\nx", [b"x"]),
        (b"Content-Length: 9\r\nContent-Length: 1\r\n\r\nx", [b"x"]),
        (b"", []),
    ],
)
def test_headers_that_are_taken(stream, frames):
    assert fed(ContentLength(16 << 20), [stream]) == frames


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (b"\r\n", "without Content-Length"),
        (b"Content-Length: -1\r\n\r\n", "not a number"),
        (b"Content-Length: abc\r\n\r\n", "not a number"),
        (b"Content-Length: \r\n\r\n", "not a number"),
        (b"Content-Length: 1_0\r\n\r\n", "not a number"),
        ("Content-Length: ١\r\n\r\n".encode(), "not a number"),
        (b"Content-Length: 99999999999999999999999\r\n\r\n", "not a number"),
        (b"Content-Type: application/json\r\nContent-Length: 0\r\n\r\n", "unsupported header"),
        (b"Content-Length: 0\n\n", "CRLF"),
        (b"Content-Length: 16777217\r\n\r\n", "over the limit"),
        (b"Content-Length: 0\r\n" * 2000, "larger than 8192"),
        (b"x" * 8193, "larger than 8192"),
        (b"hello\r\n", "without a colon"),
        (b"Content-L\xff: 0\r\n\r\n", "not UTF-8"),
        (b"Content-Length: 5\r\n\r\nabc", "ended after 3 of 5"),
        (b"Content-Le", "inside a header"),
        (b"Content-Length: 5\r\n", "inside a header"),
    ],
)
def test_headers_that_are_refused_for_good(stream, message):
    framing = ContentLength(16 << 20)
    frames = framing.feed(stream) + framing.end()
    assert len(frames) == 1
    assert isinstance(frames[0], FrameError)
    assert re.search(message, frames[0].message)
    assert frames[0].fatal
    assert frames[0].head in stream
    assert framing.feed(b"Content-Length: 2\r\n\r\nok") == []
    assert framing.end() == []


@pytest.mark.parametrize("second", [b"9", b"1"])
def test_with_the_headers_of_lsp_a_second_length_is_refused(second):
    framing = ContentLength(16 << 20, lsp=True)
    (error,) = framing.feed(b"Content-Length: 1\r\nContent-Length: " + second + b"\r\n\r\nx")
    assert isinstance(error, FrameError)
    assert (error.message, error.fatal) == ("a header block with two Content-Lengths", True)


def test_a_body_over_the_limit_is_refused_even_if_it_came_whole():
    (frame,) = ContentLength(3).feed(b"Content-Length: 4\r\n\r\nbody")
    assert isinstance(frame, FrameError)
    assert "over the limit of 3" in frame.message


def test_the_header_limit_counts_the_blank_line():
    padded = b"Content-Length: 1" + b" " * (8192 - 17 - 4) + b"\r\n\r\n"
    assert len(padded) == 8192
    assert ContentLength(10).feed(padded + b"x") == [b"x"]
    assert isinstance(ContentLength(10).feed(b" " + padded + b"x")[0], FrameError)


@pytest.mark.parametrize("framing", [Lines(10), ContentLength(10)])
def test_an_outgoing_message_past_the_limit_is_refused(framing):
    framing.encode(b"x" * 10)
    with pytest.raises(FrameTooLarge):
        framing.encode(b"x" * 11)


def endless(framing, piece, total):
    """Feed `total` bytes; the most memory held at any time."""
    tracemalloc.start()
    try:
        for _ in range(total // len(piece)):
            framing.feed(piece)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_line_of_a_gigabyte_costs_no_more_than_the_limit():
    assert endless(Lines(1 << 20), b"x" * 65536, 1 << 30) < 3 << 20


def test_a_header_of_a_gigabyte_costs_no_more_than_the_limit():
    assert endless(ContentLength(1 << 20), b"x" * 65536, 1 << 30) < 1 << 20


@pytest.mark.serial
@pytest.mark.parametrize("framing", [Lines, ContentLength])
def test_sixteen_mebibytes_in_pieces_are_read_in_linear_time(framing):
    """Eight times the bytes take about eight times as long; a decoder that re-scans takes sixty-four."""

    def seconds(size):
        stream = framing(size).encode(b"x" * size)
        pieces = [stream[at : at + 65536] for at in range(0, len(stream), 65536)]
        best = 1e9
        for _ in range(5):
            decoder = framing(size)
            start = time.process_time()
            frames = [frame for piece in pieces for frame in decoder.feed(piece)]
            best = min(best, time.process_time() - start)
            assert [len(frame) for frame in frames] == [size]
        return best

    assert seconds(16 << 20) < 30 * seconds(2 << 20)


def spelled(names: list[str]) -> st.SearchStrategy[bytes]:
    """One of these in any mixture of small and capital letters, with white space around it."""
    space = st.sampled_from(["", " ", "\t", "  "])
    return st.builds(
        lambda before, name, capitals, after: (
            before + "".join(c.upper() if capitals >> n & 1 else c for n, c in enumerate(name)) + after
        ).encode(),
        space, st.sampled_from(names), st.integers(0, (1 << 64) - 1), space,
    )  # fmt: skip


LENGTH = spelled(["content-length"]).map(lambda name: name + b": 2")
TYPE = st.tuples(
    spelled(["content-type"]),
    spelled(
        [
            "application/vscode-jsonrpc; charset=utf-8", "application/json",
            'application/json;charset="utf8"', "x; y=z; charset = utf-8", "",
        ]
    ),
).map(b":".join)  # fmt: skip


def by_host(data, block: bytes) -> list[bytes | FrameError]:
    return fed(ContentLength(LIMIT, lsp=True), data.draw(splits(block + b"\r\n\r\nok")))


def by_sdk(block: bytes) -> bytes:
    return bytes(LspContentLength(io.BytesIO(block + b"\r\n\r\nok").read, len).read() or b"")


@pytest.mark.clause("VAI-30")
@given(st.data(), st.lists(TYPE, max_size=1), LENGTH)
def test_lsps_content_type_stands_before_or_after_the_length(data, type, length):
    block = b"\r\n".join(data.draw(st.permutations([*type, length])))
    assert by_host(data, block) == [b"ok"]
    assert by_sdk(block) == b"ok"


@pytest.mark.clause("VAI-30")
@given(st.data(), st.lists(TYPE, max_size=2), st.lists(LENGTH, max_size=2))
def test_of_lsps_headers_neither_may_be_missing_or_doubled(data, types, lengths):
    assume(len(lengths) != 1 or len(types) == 2)
    assume(types or lengths)
    block = b"\r\n".join(data.draw(st.permutations([*types, *lengths])))
    error = by_host(data, block)[-1]
    assert isinstance(error, FrameError)
    wrong = {"two Content-Types"} if len(types) == 2 else set()
    wrong |= {0: {"without Content-Length"}, 2: {"two Content-Lengths"}}.get(len(lengths), set())
    assert any(each in error.message for each in wrong), error.message
    with pytest.raises(BrokenWire, match="two headers|without Content-Length"):
        by_sdk(block)


@pytest.mark.parametrize("charset", [b"utf-16", b"latin1", b'"ascii"', b""])
def test_a_content_type_in_another_charset_is_refused(charset):
    block = b"Content-Length: 2\r\nContent-Type: application/json; charset=" + charset
    (error,) = ContentLength(LIMIT, lsp=True).feed(block + b"\r\n\r\nok")
    assert isinstance(error, FrameError)
    assert "not utf-8" in error.message
    with pytest.raises(BrokenWire, match="not utf-8"):
        by_sdk(block)


def test_a_contract_with_one_header_names_the_other_one_as_unsupported():
    (error,) = ContentLength(LIMIT).feed(b"Content-Length: 2\r\nContent-Type: application/json\r\n\r\nok")
    assert isinstance(error, FrameError)
    assert error.message == "an unsupported header"
