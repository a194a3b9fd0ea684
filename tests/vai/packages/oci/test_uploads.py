"""Blobs into a registry that fails: continued where it was cut, if it says where that was."""

from __future__ import annotations

import os

import pytest

from plughost.vai.packages.oci.digests import describe
from plughost.vai.packages.oci.errors import BadContent, TransferFailed
from plughost.vai.packages.oci.open_reference import open_content
from tests.support.oci_artifacts import LAYER
from tests.support.registry_faults import HASTY, answer, problem, relay

DATA = os.urandom(6_000_000)
BLOB = describe(DATA, LAYER)
HERE = "/v2/acme/devkit/blobs"
UP = f"{HERE}/uploads"


class Store:
    """What a registry has of an upload; it hangs up after `cut` bytes of it, once."""

    def __init__(self, faulty, cut, told=True):
        self.kept = b""
        self.received = 0
        self.cut = cut
        faulty.on(f"POST {UP}/", answer(b"", 202, f"Location: {UP}/1?_state=a"))
        faulty.on(f"PUT {UP}/1", self.put)
        faulty.on(f"PATCH {UP}/2", self.patch)
        faulty.on(f"PUT {UP}/3", self.put)
        if told:
            faulty.on(f"GET {UP}/1", self.status)

    async def take(self, exchange, into):
        while len(into) < exchange.length:
            if not (data := await exchange.reader.read(65536)):
                raise ConnectionError("gone")
            into += data
            self.received += len(data)
            if self.cut is not None and len(into) >= self.cut:
                self.cut = None
                self.kept += into
                raise ConnectionError("cut, as told")
        self.kept += into
        exchange.headers["content-length"] = "0"  # it is read

    async def put(self, exchange):
        if exchange.path.startswith(f"{UP}/1"):
            self.kept = b""
        await self.take(exchange, bytearray())
        right = describe(self.kept, LAYER).digest == BLOB.digest and f"digest={BLOB.digest}" in exchange.path
        await (answer(b"", 201) if right else problem(400, "digest invalid"))(exchange)

    async def patch(self, exchange):
        assert exchange.headers["content-range"] == f"{len(self.kept)}-{len(DATA) - 1}"
        await self.take(exchange, bytearray())
        await answer(b"", 202, f"Location: {UP}/3?_state=c")(exchange)

    async def status(self, exchange):
        await answer(b"", 204, f"Range: 0-{len(self.kept) - 1}", f"Location: {UP}/2?_state=b")(exchange)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "blob"
    path.write_bytes(DATA)
    return path


async def push(faulty, source, progress=lambda moved: None):
    async with faulty.open() as registry:
        await registry.push_blob(BLOB, source, progress)


async def test_a_blob_is_sent_in_one_piece(faulty, source):
    store, moved = Store(faulty, None), []
    await push(faulty, source, moved.append)
    assert store.kept == DATA
    assert sum(moved) == len(DATA)
    assert [exchange.method for exchange in faulty.seen] == ["HEAD", "POST", "PUT"]


async def test_a_cut_upload_goes_on_where_the_registry_says(faulty, source):
    store, moved = Store(faulty, 4_000_000), []
    await push(faulty, source, moved.append)
    assert store.kept == DATA
    assert store.received == len(DATA), "no byte was taken twice"
    assert sum(moved) == len(DATA)
    assert [exchange.method for exchange in faulty.seen] == ["HEAD", "POST", "PUT", "GET", "PATCH", "PUT"]


async def test_where_the_registry_says_nothing_it_starts_over(faulty, source):
    store, moved = Store(faulty, 4_000_000, told=False), []
    await push(faulty, source, moved.append)
    assert store.kept == DATA
    assert store.received > len(DATA) + 3_900_000
    assert sum(moved) == len(DATA)
    assert faulty.requests("POST") == [f"{UP}/", f"{UP}/"]


async def test_a_registry_that_will_not_go_on_gets_it_anew(faulty, source):
    store = Store(faulty, 4_000_000)
    faulty.on(f"PATCH {UP}/2", problem(416, "not from there"))
    await push(faulty, source)
    assert store.kept == DATA
    assert faulty.requests("POST") == [f"{UP}/", f"{UP}/"]


async def test_an_upload_that_never_gets_further_comes_to_an_end(faulty, source):
    """It says each time that it has some, and then does not want the rest."""
    store = Store(faulty, 4_000_000)

    async def cut(exchange):
        store.cut = 4_000_000
        await Store.put(store, exchange)

    faulty.on(f"PUT {UP}/1", cut)
    faulty.on(f"PATCH {UP}/2", problem(416, "not from there"))
    with pytest.raises(TransferFailed):
        await push(faulty, source)
    assert len(faulty.requests("PUT")) <= HASTY.retries + 2


async def test_a_refused_upload_is_told_in_the_registrys_words(faulty, source):
    Store(faulty, None)
    faulty.on(f"PUT {UP}/1", problem(400, "provided digest did not match uploaded content"))
    with pytest.raises(TransferFailed, match="provided digest did not match"):
        await push(faulty, source)


async def test_a_file_that_became_shorter_is_told(faulty, source):
    Store(faulty, None)
    os.truncate(source, 1000)
    with pytest.raises(BadContent, match="fewer than"):
        await push(faulty, source)


async def test_a_cut_upload_to_a_real_registry_ends_right(registry, source, tmp_path):
    """Whether this one can go on depends on what it has written by then; the blob is right in any case."""
    moved = []
    async with (
        relay(registry, up=4_000_000) as line,
        open_content(f"{line.address}/tests/cut-upload") as cut,
    ):
        await cut.push_blob(BLOB, source, moved.append)
    assert line.cuts == 1
    assert sum(moved) == len(DATA)
    async with open_content(f"{registry}/tests/cut-upload") as direct:
        await direct.fetch(BLOB, tmp_path / "out", lambda moved: None)
    assert (tmp_path / "out").read_bytes() == DATA
