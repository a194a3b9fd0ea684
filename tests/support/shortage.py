"""A host on a machine that runs out of something at every step of a plugin's preparation in turn.

Run as a program, as root: `python -m tests.support.shortage inodes|pages|descriptors FOLDER`. It makes a mount
namespace of its own, and prints a line of JSON for every attempt.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

import plughost
from plughost import config
from plughost.sandbox.users import RECORDS
from tests.support import ROOT, puppet

CLONE_NEWNS, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 32, 4096, 16384, 1 << 18
AMPLE = "size=64m,nr_inodes=10000,mode=0755"
PAGE = 4096

INIT = (
    '{"name":"victim","version":"1.0.0","api_version":1,"methods":["victim.hi"],"notifications":[],'
    '"capabilities_used":[]}'
)
PROGRAM = f"""#!/bin/sh
while IFS= read -r line; do
  case $line in *'"id":'*) ;; *) continue ;; esac
  id=${{line#*'"id":'}}
  id=${{id%%[,\\}}]*}}
  result='"hi"'
  [ "$id" = 1 ] && result='{INIT}'
  printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\\n' "$id" "$result"
done
"""


def write_victim(place: Path) -> Path:
    """A kaged plugin that needs everything there is: a data folder, a user, a proxy, an /etc of its own."""
    place.mkdir(parents=True)
    (place / "main.sh").write_text(PROGRAM)
    (place / "main.sh").chmod(0o755)
    told = {
        "name": "victim", "version": "1.0.0", "kaged_api": 1, "description": "needs much",
        "methods": ["victim.hi"], "command": ["/bin/sh", "./main.sh"], "capabilities": ["net:api.example.com:443"],
    }  # fmt: skip
    (place / "manifest.yaml").write_text(json.dumps(told))
    return place


def victim(place: Path, data: Path) -> plughost.PluginSpec:
    return msgspec.structs.replace(
        config.load_folder(place),
        grants=("net:api.example.com:443",),
        sandbox="strict",
        options={"data_root": str(data), "failure_limit": 1, "init_timeout": 60.0},
    )


_libc = ctypes.CDLL(None, use_errno=True)


def _done(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    _done(_libc.mount(source.encode(), target.encode(), kind and kind.encode(), flags, data.encode()))


def unmount(target: str) -> None:
    _done(_libc.umount2(target.encode(), 2))


@contextmanager
def small_disk(disk: str, options: str) -> Iterator[Callable[[], None]]:
    """All that a host writes for plugins is on one small disk; what is yielded makes it large."""
    mount("tmpfs", disk, "tmpfs", 0, AMPLE)
    mount("tmpfs", os.path.dirname(RECORDS), "tmpfs", 0, AMPLE)
    for name in ("host", "data"):
        os.mkdir(f"{disk}/{name}")
    for place in (disk, os.path.dirname(RECORDS)):
        mount("tmpfs", place, None, MS_REMOUNT, options)

    def enlarge() -> None:
        for place in (disk, os.path.dirname(RECORDS)):
            mount("tmpfs", place, None, MS_REMOUNT, AMPLE)

    try:
        yield enlarge
    finally:
        unmount(os.path.dirname(RECORDS))
        unmount(disk)


@contextmanager
def few_descriptors(spare: int) -> Iterator[Callable[[], None]]:
    """So many more can be opened, until what is yielded is called."""
    taken: list[int] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def ease() -> None:
        while taken:
            os.close(taken.pop())
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    highest = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 20, hard))
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        for _ in range(spare):
            os.close(taken.pop())
    try:
        yield ease
    finally:
        ease()


def _open_descriptors() -> dict[str, str]:
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue  # the listing's own
    return found


def _children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


async def attempt(spec: plughost.PluginSpec, disk: str, shortage: Any) -> dict[str, Any]:
    """One host: a good plugin runs, the victim meets the shortage, which then passes."""
    told: dict[str, Any] = {}
    before = _open_descriptors()
    async with plughost.Host() as host:
        good = await host.add(puppet(name="good"))
        told["good_before"] = await good.call("echo", 1)
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.update(loop=str(context)))
        running, children = _open_descriptors(), _children()
        with shortage as ease:
            try:
                plugin = await host.add(spec, keep=True)
                await plugin.start()
            except plughost.PluginError as error:
                told["error"] = error.message
                told["kind"] = type(error).__name__
            else:
                told["error"] = None
            told["good"] = await good.call("echo", 2)
            shown = host.plugins["victim"].inspect() if "victim" in host.plugins else {}
            told["shown"] = (shown.get("failure") or {}).get("message")
            ease()
            if told["error"] is not None:
                told["children"] = [each for each in _children() if each not in children]
            if "victim" in host.plugins:
                await host.plugins["victim"].reload()
            else:
                await host.add(spec)
            told["after"] = await host.plugins["victim"].call("victim.hi")
            await host.remove("victim")
            # A uid is its plugin's, and a host's own folder its own, until the host ends.
            told["descriptors"] = [
                name
                for fd, name in _open_descriptors().items()
                if fd not in running and RECORDS not in name and "plughost-host" not in name
            ]
            await host.close()
            told["folders"] = os.listdir(f"{disk}/host")
    told["left"] = [name for fd, name in _open_descriptors().items() if fd not in before]
    return told


async def sweep(kind: str, folder: Path) -> None:
    disk = str(folder / "disk")
    os.makedirs(disk, exist_ok=True)
    os.makedirs(os.path.dirname(RECORDS), exist_ok=True)
    os.environ["TMPDIR"] = f"{disk}/host"
    spec = victim(write_victim(folder / "victim"), Path(disk, "data"))
    async with plughost.Host() as host:  # everything is imported, and the machine is known
        with small_disk(disk, AMPLE):
            await (await host.add(spec)).start()
            await host.close()
    for amount in _amounts():
        if kind == "descriptors":
            with small_disk(disk, AMPLE):
                told = await attempt(spec, disk, few_descriptors(amount))
        else:
            options = (
                f"nr_inodes={3 + amount},size=64m" if kind == "inodes" else f"size={(1 + amount) * PAGE}"
            )
            with small_disk(disk, f"{options},mode=0755") as enlarge:
                told = await attempt(spec, disk, _given(enlarge))
        print(json.dumps({"amount": amount, **told}), flush=True)
        if told["error"] is None:
            return


def _amounts() -> Iterator[int]:
    """One by one, and then by leaps: from a private folder, a program of ours is copied for the plugin's user."""
    yield from range(32)
    yield from (32 << doubled for doubled in range(10))


@contextmanager
def _given(ease: Callable[[], None]) -> Iterator[Callable[[], None]]:
    yield ease


if __name__ == "__main__":
    _done(_libc.unshare(CLONE_NEWNS))
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    os.chdir(ROOT)
    asyncio.run(sweep(sys.argv[1], Path(sys.argv[2])))
