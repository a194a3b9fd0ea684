"""Installers as processes of their own: many at once, and killed. Prints one JSON line.

    python -m tests.support.installer_processes race ROOT KEY FILE…        all at once
    python -m tests.support.installer_processes kills ROOT KEY FILE STEP   one killed before each of its system calls in turn, or before every third
    python -m tests.support.installer_processes moments ROOT KEY FILE N    N killed at random moments

It has a single thread, so that it may fork: a child that has everything imported starts in a millisecond.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from plughost.vai.packages.errors import VersionTaken
from plughost.vai.packages.install import install
from plughost.vai.packages.locate import on_disk
from plughost.vai.packages.store.store import Store
from plughost.vai.packages.trust.keys import parse_public
from plughost.vai.packages.trust.publishers import TrustedPublishers
from tests.support import sample_package as little

CALLS = ("mkdir", "open", "write", "fsync", "rename", "replace", "unlink", "rmdir")
TAKEN = 4


def installer(root: Path, trust: TrustedPublishers, file: str) -> int:
    place = on_disk(Path(file))
    assert place is not None
    try:
        asyncio.run(install(place, Store(root).open(), trust))
    except VersionTaken:
        return TAKEN
    return 0


def child(work: Callable[[], int]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(work())
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
    return pid


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def race(root: Path, trust: TrustedPublishers, *files: str) -> dict[str, object]:
    ready, go = os.pipe()

    def waits(file: str) -> Callable[[], int]:
        def work() -> int:
            os.close(go)
            os.read(ready, 1)
            return installer(root, trust, file)

        return work

    pids = [child(waits(file)) for file in files]
    os.close(go)
    return {"codes": [ended(pid) for pid in pids]}


def kills(root: Path, trust: TrustedPublishers, file: str, step: str) -> dict[str, object]:
    """Until one gets through: then there are no more calls to die before."""
    outcomes: list[bool] = []
    for number in range(0, 10_000, int(step)):
        status = ended(child(lambda at=number: dying(at) or installer(root, trust, file)))  # type: ignore[misc]
        outcomes.append(right(root))
        if status == 0:
            return {"outcomes": outcomes}
        assert status == -signal.SIGKILL, status
        if number % 10 == 0:
            renewed(root, trust, file)
        elif outcomes[-1]:
            forget(root)
    raise AssertionError("it never got through")


def moments(root: Path, trust: TrustedPublishers, file: str, count: str) -> dict[str, object]:
    source = random.Random(count)
    outcomes: list[bool] = []
    started = time.perf_counter()
    assert ended(child(lambda: installer(root, trust, file))) == 0
    usual = time.perf_counter() - started
    for _ in range(int(count)):
        forget(root)
        pid = child(lambda: installer(root, trust, file))
        time.sleep(source.uniform(0, usual * 1.2))
        os.kill(pid, signal.SIGKILL)
        ended(pid)
        outcomes.append(right(root))
    renewed(root, trust, file)
    return {"outcomes": outcomes}


def dying(at: int) -> int:
    """From now on, die before the system call of that number."""
    left = at

    def wrapped(real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **more: object) -> object:
            nonlocal left
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
            return real(*args, **more)

        return call

    for name in CALLS:
        setattr(os, name, wrapped(getattr(os, name)))
    return 0


def right(root: Path) -> bool:
    """Whether it is installed; either way the next to open the store finds it clean and whole."""
    store = Store(root).open()
    assert os.listdir(root / "staging") == [], "staging was not swept"
    found = store.installed()
    assert [path.name for path in (root / "releases").iterdir()] == [one.folder.name for one in found]
    for one in found:
        assert one.damage() is None, one.damage()
    return bool(found)


def renewed(root: Path, trust: TrustedPublishers, file: str) -> None:
    """It can be installed after all; then it is removed, for the next round."""
    assert ended(child(lambda: installer(root, trust, file))) == 0
    assert right(root)
    forget(root)


def forget(root: Path) -> None:
    store = Store(root)
    for one in store.open().installed():
        store.remove(one, forget=True)


if __name__ == "__main__":
    what, folder, key, *rest = sys.argv[1:]
    who = little.trusting(parse_public(key))
    print(json.dumps({"race": race, "kills": kills, "moments": moments}[what](Path(folder), who, *rest)))
