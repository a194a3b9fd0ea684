"""The corpus on every run; mutations of it for a while in the soak. What a fuzzer finds goes into the corpus."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fuzz_targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
SPICE = [
    b"\n", b"\r\n", b"\r", b"\x00", b"\xff", b"\xef\xbb\xbf", b"{", b"}", b"[", b'"', b"\\", b"\\ud800", b"NaN", b"1e999",
    b"null", b"true", b"-0", b"9" * 40, b"Content-Length: ", b"+", b"id", b'"id":1', b'"error":', b'"result":', b"$ID", b"[" * 2000,
    b'"jsonrpc":"2.0",', b'"method":"host/log",', b'"params":', b"1.5", b"-1", b"aGk=",
]  # fmt: skip


def corpus(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_holds(name):
    files = corpus(name)
    assert files
    for data in files:
        TARGETS[name](data)


@pytest.mark.parametrize("name", TARGETS)
@given(data=st.binary(max_size=300))
def test_any_bytes_hold(name, data):
    TARGETS[name](data)


def mutated(random: random.Random, seeds: list[bytes]) -> bytes:
    data = bytearray(random.choice(seeds))
    for _ in range(random.randint(1, 6)):
        place = random.randint(0, len(data))
        kind = random.randrange(5)
        if kind == 0:
            data[place:place] = random.choice(SPICE)
        elif kind == 1:
            del data[place : place + random.randint(1, 8)]
        elif kind == 2 and place < len(data):
            data[place] = random.randrange(256)
        elif kind == 3:
            data[place:place] = random.choice(seeds)
        else:
            data[place:place] = data[place : place + random.randint(1, 64)]
    return bytes(data[:20_000])


@pytest.mark.soak
@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", TARGETS)
def test_mutations_of_the_corpus_hold(name):
    seed = random.randrange(1 << 32)
    source = random.Random(seed)
    seeds = corpus(name)
    end = time.monotonic() + 30
    tries = 0
    while time.monotonic() < end:
        data = mutated(source, seeds)
        try:
            TARGETS[name](data)
        except Exception as error:
            pytest.fail(f"seed {seed}, try {tries}: {error!r} for {data!r}; add it to {CORPUS / name}")
        tries += 1
    assert tries > 1000
