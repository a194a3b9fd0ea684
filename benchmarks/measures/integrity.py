"""The check of an installed package before a process start: 10 MiB in 500 files."""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
import time
from pathlib import Path
from time import perf_counter

from benchmarks.effort import Effort
from benchmarks.measures.pull import MANIFEST
from benchmarks.sheet import Sheet
from benchmarks.turns import turns
from plughost.vai.packages import locate
from plughost.vai.packages.install import install
from plughost.vai.packages.pack import pack
from plughost.vai.packages.store.installed import InstalledRelease
from plughost.vai.packages.store.integrity import TIMESTAMP_MARGIN, IntegrityCache
from plughost.vai.packages.store.store import Store
from plughost.vai.packages.trust.publishers import TrustedPublishers

NAME = "integrity"
BARE = "sha256 of the bytes, in memory"
WARM = "check, unchanged since the last"
COLD = "check, for the first time"
CONTENDERS = (BARE, WARM, COLD)
FILES, TOTAL = 500, 10 << 20


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    note = f"an installed package of {TOTAL >> 20} MiB in {FILES} files, in the page cache"
    sheet = Sheet(NAME, note, {"time": "ms"}, CONTENDERS, base=BARE)
    with tempfile.TemporaryDirectory(prefix="plughost-bench-") as made:
        installed = asyncio.run(_installed(Path(made)))
        content, warm = os.urandom(TOTAL), _cache()
        _check(warm, installed)
        for name in turns(sheet.name, CONTENDERS, effort.spawns):
            cold = _cache()
            began = perf_counter()
            if name == BARE:
                hashlib.sha256(content)
            else:
                _check(warm if name == WARM else cold, installed)
            sheet.add(name, time=(perf_counter() - began) * 1e3)
        assert warm.reads == 1
    return [sheet]


def _cache() -> IntegrityCache:
    """By its clock everything was installed long ago."""
    return IntegrityCache(now=lambda: time.time_ns() + 2 * TIMESTAMP_MARGIN)


def _check(cache: IntegrityCache, installed: InstalledRelease) -> None:
    damage = cache.damage(installed.folder, installed.release.digest)
    assert damage is None, damage


async def _installed(folder: Path) -> InstalledRelease:
    source = folder / "source"
    for name in ("bin", "schemas"):
        (source / name).mkdir(parents=True)
    (source / "vai-plugin.toml").write_text(MANIFEST)
    (source / "bin/plugin").write_text("#!/bin/sh\n")
    (source / "bin/plugin").chmod(0o755)
    (source / "schemas/input.json").write_text("{}")
    for number in range(FILES - 3):
        path = source / f"lib/part{number % 20}/{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(TOTAL // (FILES - 3)))
    packed = pack(source, folder)
    async with locate.open_package(packed.file) as place:
        entered = await install(place, Store(folder / "store").open(), TrustedPublishers(mode="development"))
    return entered.installed
