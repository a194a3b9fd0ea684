"""The channel: order, priority, partial writes, joined writes, back-pressure."""

from __future__ import annotations

import asyncio
import fcntl
import os
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plughost.engine.io.channel import CHUNK, LARGE, WIDE_PIPE, PipeChannel
from tests.support import until


class Pair:
    """A channel with the test at the other end."""

    def __init__(self) -> None:
        self.data: list[bytes] = []
        self.writes: list[bytes] = []
        self.ended = 0
        self.broken: list[OSError] = []
        self.rooms = 0
        self.theirs_in, ours_out = os.pipe2(os.O_CLOEXEC)
        ours_in, self.theirs_out = os.pipe2(os.O_CLOEXEC)
        for fd in (ours_in, ours_out, self.theirs_in):
            os.set_blocking(fd, False)
        self.channel = PipeChannel(
            asyncio.get_running_loop(),
            ours_in,
            ours_out,
            on_data=self.data.append,
            on_end=self._end,
            on_broken=self.broken.append,
            on_room=self._room,
            send=self._send,
        )
        self.channel.resume()

    def _send(self, descriptor: int, data: bytes | memoryview) -> int:
        written = os.write(descriptor, data)
        self.writes.append(bytes(data[:written]))
        return written

    def _end(self) -> None:
        self.ended += 1

    def _room(self) -> None:
        self.rooms += 1

    def take(self, most: int = 1 << 20) -> bytes:
        try:
            return os.read(self.theirs_in, most)
        except BlockingIOError:
            return b""

    async def take_all(self) -> bytes:
        taken = b""
        while True:
            taken += self.take()
            if not self.channel.buffered:
                return taken + self.take()
            await asyncio.sleep(0)

    def close(self) -> None:
        self.channel.close()
        for fd in (self.theirs_in, self.theirs_out):
            try:
                os.close(fd)
            except OSError:
                pass


@pytest.fixture
async def pair():
    pair = Pair()
    yield pair
    pair.close()


async def test_with_nothing_waiting_a_frame_leaves_at_once(pair):
    pair.channel.send(1, "m", b"now", alone=True, priority=False)
    assert pair.take() == b"now"


async def test_frames_of_one_pass_leave_in_one_write(pair):
    for n in range(100):
        pair.channel.write(b"%02d" % n)
    assert pair.writes == []
    await asyncio.sleep(0)
    assert pair.writes == [b"".join(b"%02d" % n for n in range(100))]


async def test_an_urgent_frame_is_the_next_begun_and_nothing_is_cut_or_lost(pair):
    events = [b"<event %06d>" % n for n in range(10_000)]
    for event in events:
        pair.channel.write(event)
    await asyncio.sleep(0)  # the pipe is full now, with a frame cut in the middle
    already = pair.channel.buffered
    assert already
    for n in range(3):
        pair.channel.write(b"<KEY %d>" % n, urgent=True)
    stream = await pair.take_all()
    frames = [b"<" + part for part in stream.split(b"<")[1:]]
    keys = [frame for frame in frames if frame.startswith(b"<KEY")]
    assert keys == [b"<KEY 0>", b"<KEY 1>", b"<KEY 2>"]
    assert [frame for frame in frames if frame not in keys] == events
    sent_before = (len(b"".join(events)) - already + len(events[0]) - 1) // len(events[0])
    assert frames[sent_before : sent_before + 3] == keys, "something else was begun first"


async def test_an_urgent_frame_does_not_wait_for_the_rest_of_the_pass(pair):
    pair.channel.write(b"<event>")
    pair.channel.write(b"<KEY>", urgent=True)
    assert pair.take() == b"<KEY><event>"
    await asyncio.sleep(0)
    assert pair.take() == b""


def room(pair: Pair) -> int:
    return fcntl.fcntl(pair.theirs_in, fcntl.F_GETPIPE_SZ)


sized_pipes = pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="pipes have one size here")


@sized_pipes
async def test_a_pipe_is_wide_while_a_large_frame_goes_through_it_and_not_longer(pair):
    """Else a key waits for as many passes of the loop as the frame has pieces of a pipe's size."""
    frame = b"x" * (7 * WIDE_PIPE // 2)
    pair.channel.write(frame)
    await asyncio.sleep(0)
    assert room(pair) == WIDE_PIPE
    pair.channel.write(b"<KEY>", urgent=True)
    passes = 0
    stream = b""
    while pair.channel.buffered:
        stream += pair.take()
        await asyncio.sleep(0)
        passes += 1
    assert passes < 10
    assert room(pair) == WIDE_PIPE, "there is more in it than fits into a smaller one"
    stream += pair.take()
    assert stream == frame + b"<KEY>"
    pair.channel.write(b"<event>")
    await asyncio.sleep(0)
    assert room(pair) == CHUNK


@sized_pipes
async def test_many_small_frames_make_no_pipe_wide(pair):
    """What is in a pipe cannot be overtaken."""
    for _ in range(1000):
        pair.channel.write(b"x" * 1000)
    await asyncio.sleep(0)
    assert pair.channel.buffered
    assert room(pair) == CHUNK


async def test_a_frame_that_is_ahead_passes_what_waits_but_not_what_is_urgent(pair):
    events = [b"<event %06d>" % n for n in range(10_000)]
    for event in events:
        pair.channel.write(event)
    await asyncio.sleep(0)
    pair.channel.send(1, "m", b"<AHEAD>", alone=False, priority=True)
    pair.channel.write(b"<KEY>", urgent=True)
    frames = [b"<" + part for part in (await pair.take_all()).split(b"<")[1:]]
    at = frames.index(b"<AHEAD>")
    assert frames[at - 1] == b"<KEY>"
    assert at < len(frames) - 1000
    assert [frame for frame in frames if frame.startswith(b"<event")] == events


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["write", "now", "urgent", "take", "pass"]),
            st.integers(1, 200_000) | st.integers(LARGE, 2 * WIDE_PIPE),
        ),
        max_size=30,
    )
)
def test_every_frame_arrives_whole_and_in_the_order_of_its_lane(steps):
    async def scenario():
        pair = Pair()
        lanes: dict[bool, list[bytes]] = {True: [], False: []}
        received = b""
        for number, (what, size) in enumerate(steps):
            if what == "take":
                received += pair.take(size)
            elif what == "pass":
                await asyncio.sleep(0)
            else:
                frame = b"%s%d:%s;" % (b"u" if what == "urgent" else b"f", number, b"x" * size)
                lanes[what == "urgent"].append(frame)
                if what == "now":
                    pair.channel.send(1, "m", frame, alone=True, priority=False)
                else:
                    pair.channel.write(frame, urgent=what == "urgent")
        received += await pair.take_all()
        pair.close()
        frames = [part + b";" for part in received.split(b";")[:-1]]
        assert [frame for frame in frames if frame.startswith(b"u")] == lanes[True]
        assert [frame for frame in frames if frame.startswith(b"f")] == lanes[False]

    asyncio.run(scenario())


async def test_a_large_frame_is_not_copied_for_every_piece_the_pipe_takes(pair):
    frame = b"x" * (16 << 20)
    pair.channel.send(1, "m", frame, alone=True, priority=False)
    total = 0
    start = time.process_time()
    while total < len(frame):
        total += len(pair.take())
        await asyncio.sleep(0)
    assert time.process_time() - start < 2.0  # copying the rest each time would move 2 GiB
    assert pair.channel.buffered == 0


async def test_reading_stops_while_paused_and_goes_on_after(pair):
    pair.channel.pause()
    os.write(pair.theirs_out, b"a")
    for _ in range(5):
        await asyncio.sleep(0)
    assert pair.data == []
    pair.channel.resume()
    await until(lambda: pair.data)
    assert pair.data == [b"a"]


async def test_the_end_is_told_once_after_all_data(pair):
    os.write(pair.theirs_out, b"last")
    os.close(pair.theirs_out)
    await until(lambda: pair.ended)
    assert (pair.data, pair.ended) == ([b"last"], 1)
    pair.channel.drain()
    assert pair.ended == 1


async def test_a_reader_that_went_away_is_told_once(pair):
    os.close(pair.theirs_in)
    pair.channel.send(1, "m", b"x", alone=True, priority=False)
    assert len(pair.broken) == 1
    assert pair.channel.buffered == 0


async def test_the_stream_is_closed_after_what_is_still_to_be_sent(pair):
    frame = b"y" * 300_000
    pair.channel.send(1, "m", frame, alone=True, priority=False)
    pair.channel.close_write()
    taken = b""
    while len(taken) < len(frame):
        taken += pair.take()
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert os.read(pair.theirs_in, 1) == b""
    assert taken == frame


async def test_what_is_left_in_the_pipe_is_read_to_its_end():
    """The plugin has gone, and nobody has read its last words yet."""
    pair = Pair()
    pair.channel.pause()
    said = b"last words" * 1000
    os.write(pair.theirs_out, said)
    os.close(pair.theirs_out)
    pair.channel.drain()
    assert b"".join(pair.data) == said
    assert pair.ended == 1
    os.close(pair.theirs_in)
    pair.channel.close()
