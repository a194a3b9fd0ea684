"""Blobs from a registry that fails: the right file or none, and never the same bytes twice without need."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from plughost.testing import VirtualClock
from plughost.vai.packages.oci.content_store import no_progress
from plughost.vai.packages.oci.digests import describe
from plughost.vai.packages.oci.errors import BadContent, TransferFailed
from plughost.vai.packages.oci.open_reference import open_content
from plughost.vai.packages.oci.registry.retry import RetryPolicy
from tests.support import until
from tests.support.oci_artifacts import LAYER
from tests.support.registry_faults import HASTY, answer, problem, relay

DATA = os.urandom(5_000_000)
BLOB = describe(DATA, LAYER)
PATH = f"/v2/acme/devkit/blobs/{BLOB.digest}"
GET = f"GET {PATH}"


async def fetch(faulty, folder, progress=no_progress, **options):
    async with faulty.open(**options) as registry:
        await registry.fetch(BLOB, folder / "out", progress)
    assert (folder / "out").read_bytes() == DATA


async def test_a_cut_blob_goes_on_where_it_was_cut(faulty, tmp_path):
    faulty.on(GET, faulty.blob(DATA, cut=3_000_000), faulty.blob(DATA, cut=1_000_000), faulty.blob(DATA))
    moved = []
    await fetch(faulty, tmp_path, moved.append)
    assert [exchange.start for exchange in faulty.seen] == [None, 3_000_000, 4_000_000]
    assert (faulty.served, sum(moved)) == (len(DATA), len(DATA))
    assert os.listdir(tmp_path) == ["out"]


async def test_a_server_that_knows_no_ranges_starts_over(faulty, tmp_path):
    faulty.on(GET, faulty.blob(DATA, cut=3_000_000), faulty.blob(DATA, ranges=False))
    moved = []
    await fetch(faulty, tmp_path, moved.append)
    assert (faulty.served, sum(moved)) == (len(DATA) + 3_000_000, len(DATA))


async def test_what_came_is_kept_for_the_next_process(faulty, tmp_path):
    faulty.on(GET, faulty.blob(DATA, cut=3_000_000), problem(500, "no more today"))
    with pytest.raises(TransferFailed, match="500 Reason, no more today"):
        await fetch(faulty, tmp_path)
    assert os.listdir(tmp_path) == ["out.partial"]
    faulty.on(GET, faulty.blob(DATA))
    await fetch(faulty, tmp_path)
    assert faulty.served == len(DATA)


async def test_each_byte_of_gain_is_worth_another_try_but_dribbles_are_not(faulty, tmp_path):
    """1 MiB at a time is progress however often it is cut; 10 kB at a time is not."""
    faulty.on(GET, faulty.blob(DATA, cut=1 << 20))
    await fetch(faulty, tmp_path, policy=RetryPolicy(retries=1, first=0.001))
    (tmp_path / "out").unlink()
    faulty.on(GET, faulty.blob(DATA, cut=10_000))
    with pytest.raises(TransferFailed):
        await fetch(faulty, tmp_path)
    assert (tmp_path / "out.partial").stat().st_size == 10_000 * (HASTY.retries + 1)


@pytest.mark.parametrize("ranges", [True, False])
async def test_the_same_bytes_again_and_again_are_no_progress(faulty, tmp_path, ranges):
    """Without ranges each try ends where the last one did; with them the registry may have no more."""
    short = DATA[:4_000_000]
    missing = answer(b"", 416)

    async def cut(exchange):
        await (missing if ranges and exchange.start else faulty.blob(short, ranges=False))(exchange)

    faulty.on(GET, cut)
    with pytest.raises(TransferFailed, match="cut off after|cannot continue from byte"):
        await fetch(faulty, tmp_path)
    assert len(faulty.seen) == HASTY.retries + 1


async def test_other_bytes_are_refused_and_nothing_is_left(faulty, tmp_path):
    faulty.on(GET, faulty.blob(bytes(len(DATA))))
    with pytest.raises(BadContent, match=BLOB.digest):
        await fetch(faulty, tmp_path)
    assert os.listdir(tmp_path) == []
    assert len(faulty.seen) == 1, "wrong bytes are not asked for again"


async def test_a_beginning_that_somebody_left_wrong_is_given_up(faulty, tmp_path):
    (tmp_path / "out.partial").write_bytes(bytes(1_000_000))
    faulty.on(GET, faulty.blob(DATA))
    moved = []
    await fetch(faulty, tmp_path, moved.append)
    assert sum(moved) == len(DATA)


async def test_more_bytes_than_said_are_not_taken(faulty, tmp_path):
    faulty.on(GET, faulty.blob(DATA + b"x"))
    with pytest.raises(BadContent, match="more than"):
        await fetch(faulty, tmp_path)

    async def endless(exchange):
        exchange.writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            exchange.writer.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")
            await exchange.writer.drain()

    faulty.on(GET, endless)
    with pytest.raises(BadContent, match="more than"):
        await fetch(faulty, tmp_path)
    assert os.listdir(tmp_path) == []


async def test_a_range_that_was_not_asked_for_is_refused(faulty, tmp_path):
    shifted = answer(DATA[2_000_000:], 206, f"Content-Range: bytes 2000000-4999999/{len(DATA)}")
    faulty.on(GET, faulty.blob(DATA, cut=3_000_000), shifted)
    with pytest.raises(BadContent, match="but received others"):
        await fetch(faulty, tmp_path)


async def test_an_encoded_answer_is_refused(faulty, tmp_path):
    faulty.on(GET, answer(DATA, 200, "Content-Encoding: gzip"))
    with pytest.raises(BadContent, match="encoding"):
        await fetch(faulty, tmp_path)


async def test_a_drip_is_given_up_and_continued(faulty, tmp_path):
    clock = VirtualClock()
    moved = []

    async def drip(exchange):
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(DATA)}\r\n\r\n"
        exchange.writer.write(head.encode() + DATA[:3_000_000])
        for at in range(3_000_000, len(DATA)):
            await dropping.wait()
            dropping.clear()
            exchange.writer.write(DATA[at : at + 1])

    dropping = asyncio.Event()
    faulty.on(GET, drip, faulty.blob(DATA))
    fetching = asyncio.ensure_future(fetch(faulty, tmp_path, moved.append, clock=clock))
    await until(lambda: sum(moved))
    while len(faulty.seen) < 2:  # a byte every second keeps a connection alive, but not a transfer
        await until(lambda: clock.pending)
        dropping.set()
        clock.advance(1)
        await asyncio.sleep(0)
    await fetching
    assert 2 << 20 <= faulty.seen[1].start < 3_000_100
    assert clock.time() < 1000 + 30 * 5


async def test_no_answer_at_all_is_an_error_that_says_so(faulty, tmp_path):
    clock = VirtualClock()

    async def silence(exchange):
        await asyncio.Event().wait()

    faulty.on(GET, silence)
    fetching = asyncio.ensure_future(fetch(faulty, tmp_path, clock=clock, policy=RetryPolicy(retries=0)))
    await until(lambda: faulty.seen)
    clock.advance(60)
    with pytest.raises(TransferFailed, match="no answer within 60 s"):
        await fetching
    assert os.listdir(tmp_path) == []


async def test_a_full_disk_ends_it_and_what_came_is_kept(faulty, tmp_path, monkeypatch):
    real = os.write

    def full(fd, data):
        if os.lseek(fd, 0, os.SEEK_CUR) >= 1_000_000:
            raise OSError(28, "No space left on device")
        return real(fd, data)

    faulty.on(GET, faulty.blob(DATA))
    monkeypatch.setattr("plughost.vai.packages.oci.layout.blob_writer.os.write", full)
    with pytest.raises(TransferFailed, match="No space left on device"):
        await fetch(faulty, tmp_path)
    monkeypatch.undo()
    kept = (tmp_path / "out.partial").stat().st_size
    assert kept >= 1_000_000
    await fetch(faulty, tmp_path)
    assert faulty.seen[-1].start == kept


async def test_a_cancelled_fetch_keeps_what_came(faulty, tmp_path):
    sent = asyncio.Event()

    async def half(exchange):
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(DATA)}\r\n\r\n"
        exchange.writer.write(head.encode() + DATA[:3_000_000])
        await exchange.writer.drain()
        sent.set()
        await asyncio.Event().wait()

    faulty.on(GET, half, faulty.blob(DATA))
    fetching = asyncio.ensure_future(fetch(faulty, tmp_path))
    await sent.wait()
    await until(lambda: (tmp_path / "out.partial").stat().st_size)
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    await fetch(faulty, tmp_path)
    assert faulty.seen[1].start >= 2 << 20


async def test_the_event_loop_neither_hashes_nor_writes(faulty, tmp_path, monkeypatch):
    from plughost.vai.packages.oci.layout.blob_writer import BlobWriter

    threads = set()
    real = BlobWriter.write

    def write(self, data):
        threads.add(threading.get_ident())
        real(self, data)

    monkeypatch.setattr(BlobWriter, "write", write)
    faulty.on(GET, faulty.blob(DATA))
    await fetch(faulty, tmp_path)
    assert threads
    assert threading.get_ident() not in threads


async def test_a_cut_line_to_a_real_registry_costs_no_byte_twice(registry, tmp_path):
    async with open_content(f"{registry}/tests/relayed") as direct:
        await direct.push_blob(BLOB, DATA, no_progress)
    async with (
        relay(registry, down=2_000_000, times=2) as line,
        open_content(f"{line.address}/tests/relayed") as cut,
    ):
        await cut.fetch(BLOB, tmp_path / "out", no_progress)
    assert (tmp_path / "out").read_bytes() == DATA
    assert line.cuts == 2
    assert line.down < len(DATA) + 10_000, "the heads of three answers"
