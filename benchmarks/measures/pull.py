"""A signed package of 200 MB installed from a registry, against the two programs that anybody would use on
its bytes. It is what `plughost install` does: signature, manifest, digests, secrets, unpacking.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from time import perf_counter

from benchmarks.effort import Effort
from benchmarks.paths import HERE
from benchmarks.registry import PROGRAM, serving
from benchmarks.sheet import Sheet
from benchmarks.turns import turns
from plughost.vai.packages import locate
from plughost.vai.packages.install import install
from plughost.vai.packages.oci.content_store import no_progress
from plughost.vai.packages.oci.manifests import read_manifest
from plughost.vai.packages.oci.open_reference import open_content
from plughost.vai.packages.oci.reference import parse_reference
from plughost.vai.packages.pack import pack
from plughost.vai.packages.push import push
from plughost.vai.packages.sign import sign
from plughost.vai.packages.store.store import Store
from plughost.vai.packages.trust import keys
from plughost.vai.packages.trust.publishers import Publisher, TrustedKey, TrustedPublishers, now

NAME = "pull"
BARE = "sha256sum, tar x"
SYNCED = "sha256sum, tar x, sync"
OURS = "plughost install, of a signed release"
CONTENDERS = (BARE, SYNCED, OURS)
FILES, FILE = 20, 10_000_000
MANIFEST = """
api_version = "vai.plugin.v1"
package_id = "bench/large"
version = "1.0.0"
name = "Large"
[runtime]
protocol = "vai.rpc.v1"
transport = "stdio"
entrypoint = ["./bin/plugin"]
os = ["linux"]
arch = ["amd64", "arm64"]
[[exports]]
id = "echo"
kind = "tool"
display_name = "Echo"
default_timeout_ms = 1000
[exports.tool]
effect_class = "read_only"
input_schema = "schemas/input.json"
"""


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    if not PROGRAM.exists():
        print("note: no docker-registry in .tools; pull is left out (make setup gets it)")
        return []
    note = "200 MB over loopback; ours is synced to the disk"
    sheet = Sheet(NAME, note, {"time": "ms"}, CONTENDERS, base=BARE)
    with tempfile.TemporaryDirectory(dir=HERE, prefix=".pull-") as name:  # /tmp may not be a disk
        folder = Path(name)
        with serving(folder) as address:
            asyncio.run(_measure(sheet, folder, f"{address}/bench/large", effort))
    return [sheet]


async def _measure(sheet: Sheet, folder: Path, repository: str, effort: Effort) -> None:
    same, trust = await _publish(folder, repository)
    for number, name in enumerate(turns(sheet.name, CONTENDERS, effort.opening_rounds)):
        into = folder / str(number)
        into.mkdir()
        os.sync()  # nobody pays for what others have left to be written
        began = perf_counter()
        if name in (BARE, SYNCED):
            _by_programs(same, into, synced=name == SYNCED)
        else:
            async with locate.open_package(f"{repository}:1.0.0") as place:
                await install(place, Store(into / "store").open(), trust)
        sheet.add(name, time=(perf_counter() - began) * 1e3)
        shutil.rmtree(into)


def _by_programs(file: Path, into: Path, *, synced: bool) -> None:
    subprocess.run(["sha256sum", file], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["tar", "xf", file, "-C", into], check=True)
    if synced:
        subprocess.run(["sync", *filter(Path.is_file, into.rglob("*"))], check=True)


async def _publish(folder: Path, repository: str) -> tuple[Path, TrustedPublishers]:
    """The bytes of its archive as a file, and whose signature it has."""
    source = folder / "source"
    for name in ("bin", "schemas", "assets"):
        (source / name).mkdir(parents=True)
    (source / "vai-plugin.toml").write_text(MANIFEST)
    (source / "bin/plugin").write_text("#!/bin/sh\n")
    (source / "bin/plugin").chmod(0o755)
    (source / "schemas/input.json").write_text("{}")
    for number in range(FILES):
        (source / f"assets/{number}").write_bytes(os.urandom(FILE))
    packed = pack(source, folder)
    public = keys.generate(folder / "key")
    async with locate.open_package(packed.file) as place:
        await sign(place, keys.read_private(folder / "key"), now())
    await push(packed.file, parse_reference(repository), lambda done, total: None)
    async with open_content(repository) as registry:
        _, body = await registry.manifest("1.0.0")
        (blob,) = read_manifest(body).layers
        await registry.fetch(blob, folder / "layer.tar", no_progress)
    return folder / "layer.tar", TrustedPublishers(
        publishers={"bench": Publisher(keys=[TrustedKey(key=public.text)])}
    )
