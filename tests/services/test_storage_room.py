"""A disk without room: what was stored stays, what was not is told, and with room it goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.support import ROOT

FILL = """
import asyncio, os, resource, sys
from plughost.errors import Overloaded, PluginError
from plughost.services.storage.service import Storage
from tests.support.storage_client import Client

folder = sys.argv[1]
BIG = b'"' + b"x" * 20_000 + b'"'

async def fill(client, kind, words):
    stored = []
    while len(stored) < 1000:
        key = f"key{len(stored)}"
        try:
            await client.set(key, BIG)
        except PluginError as error:
            assert type(error) is kind and words in error.message and client.caller.name in error.message, error
            break
        stored.append(key)
    assert 2 < len(stored) < 1000, len(stored)
    return stored

async def check(client, stored):
    for key in stored:
        assert await client.get(key) == BIG
    assert (await client.list())[0] == sorted(stored)

async def beside(client, stored):
    "Of those that share a commit, only the one without room is told so."
    *small, large = await asyncio.gather(
        *(client.set(stored[0], BIG) for _ in range(3)), client.set("large", b"1" * (1 << 20)), return_exceptions=True)
    assert isinstance(large, PluginError), large
    return small
"""

FULL = (
    FILL
    + """
async def main():
    ballast = os.path.join(folder, "ballast")
    with open(ballast, "wb") as file:
        file.write(b"x" * 150_000)
    store = Storage(folder)
    client = Client(store, "notes")
    await client.set("key0", BIG)
    assert await beside(client, ["key0"]) == [None, None, None]
    stored = await fill(client, Overloaded, "cannot grow: the disk is full")
    await check(client, stored)
    os.unlink(ballast)
    await client.set("key0", BIG)
    await client.delete(stored.pop())
    await check(client, stored)
    await store.close()

asyncio.run(main())
"""
)

FAILING = (
    FILL
    + """
async def main():
    store = Storage(folder)
    client, other = Client(store, "notes"), Client(store, "other")
    await client.set("key0", BIG)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    stored = await fill(client, PluginError, "disk I/O error")
    await check(client, stored)
    await other.set("key", b"1")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await client.set("key0", BIG)
    await check(client, stored)
    await store.close()

asyncio.run(main())
"""
)


def test_a_full_disk(tmp_path):
    unshare = [shutil.which("unshare") or "unshare", *(() if os.getuid() == 0 else ("-r",)), "-m"]
    mounted = f"mount -t tmpfs -o size=512k none {tmp_path}"
    if subprocess.run([*unshare, "sh", "-c", mounted], capture_output=True).returncode != 0:
        if os.environ.get("CI"):
            pytest.fail("a filesystem cannot be mounted in a namespace")
        pytest.skip("a filesystem cannot be mounted in a namespace")
    program = [
        *unshare,
        "sh",
        "-c",
        f'{mounted} && exec "$@"',
        "sh",
        sys.executable,
        "-c",
        FULL,
        str(tmp_path),
    ]
    subprocess.run(program, check=True, cwd=ROOT, timeout=60)


def test_a_disk_that_fails(tmp_path):
    subprocess.run([sys.executable, "-c", FAILING, str(tmp_path)], check=True, cwd=ROOT, timeout=60)
