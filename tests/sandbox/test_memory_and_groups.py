"""Limits: what keeps each, and that it does."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from plughost.engine.io.process import Process
from plughost.engine.launcher.launch import Launch
from plughost.errors import InvalidSpec
from plughost.sandbox.memory import cgroups, process_tree
from plughost.sandbox.memory.meter import BREATH, LONGEST, PIECE, SHORTEST, MemoryMeter, MeteredTree
from plughost.testing import VirtualClock
from tests.support import LAUNCHERS
from tests.support.sandbox import group_folders

MiB = 1 << 20


# Trees

HUNGRY = """
import os, sys
sizes = [int(word) for word in sys.argv[1].split(",")]
for size in sizes[1:]:
    if os.fork() == 0:
        sizes = [size]
        break
held = bytearray(os.urandom(1 << 12)) * (sizes[0] >> 12)
print(flush=True)
sys.stdin.read()
"""


def test_memory_is_summed_over_all_descendants():
    words = [sys.executable, "-I", "-S", "-c", HUNGRY, f"{8 * MiB},{16 * MiB},{32 * MiB}"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(3):
            process.stdout.readline()
        assert len([*process_tree.tree([process.pid])]) == 3
        used = sum(process_tree.memory_of([process.pid]))
        process.stdin.close()
    assert 56 * MiB <= used <= 56 * MiB + 3 * 30 * MiB


SPARSE = """
import mmap, sys
held = mmap.mmap(-1, 8 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
held.madvise(15)  # MADV_NOHUGEPAGE
for place in range(0, 8 << 30, 2 << 20): held[place]
print(flush=True)
sys.stdin.read()
"""


def test_the_kernels_tables_for_it_are_its_memory_too():
    words = [sys.executable, "-I", "-S", "-c", SPARSE]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        used = sum(process_tree.memory_of([process.pid]))
        process.stdin.close()
    assert used >= 16 * MiB


def test_a_process_that_is_gone_uses_nothing():
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert sum(process_tree.memory_of([process.pid])) == 0


RENAMED = """
import ctypes, sys
ctypes.CDLL(None).prctl(15, sys.argv[1].encode(), 0, 0, 0)
held = bytearray(b"x" * 4096) * (32 << 8)
print(flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("name", ["\rVmSwap: -99999", "\rRssAnon: x", "\rVmSwap: 9 kB", "VmSwap: 1 kB"])
def test_a_process_cannot_talk_itself_small_by_its_name(name):
    words = [sys.executable, "-I", "-S", "-c", RENAMED, name]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        used = sum(process_tree.memory_of([process.pid]))
        process.stdin.close()
    assert 32 * MiB <= used <= 64 * MiB


# The meter


class Usage:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes: dict[int, int] = {}
        self.looks = 0
        monkeypatch.setattr("plughost.sandbox.memory.meter.memory_of", lambda roots: self.look(roots))

    def look(self, roots: list[int]) -> Iterator[int]:
        self.looks += 1
        return (self.bytes[pid] for pid in roots)


@pytest.fixture
def usage(monkeypatch):
    return Usage(monkeypatch)


async def test_who_is_past_the_limit_is_told_with_the_sum(usage):
    clock = VirtualClock()
    meter, told = MemoryMeter(clock), []
    usage.bytes = {1: 60, 2: 30}
    meter.started(MeteredTree(100, lambda: usage.bytes, told.append))
    clock.advance(LONGEST)
    assert told == []
    usage.bytes[2] = 41
    clock.advance(LONGEST)
    assert told[0] == 101


async def test_a_plugin_that_uses_little_is_seldom_looked_at(usage):
    clock = VirtualClock()
    meter = MemoryMeter(clock)
    usage.bytes = {1: 1}
    meter.started(MeteredTree(1000, lambda: usage.bytes, lambda used: None))
    clock.advance(10 * LONGEST)
    assert 5 <= usage.looks <= 12
    usage.looks, usage.bytes = 0, {1: 900}
    clock.advance(LONGEST)
    clock.advance(10 * SHORTEST)
    assert usage.looks >= 8


async def test_a_look_at_many_processes_is_cut_into_pieces(usage):
    clock = VirtualClock()
    meter, told, roots = MemoryMeter(clock), [], dict.fromkeys(range(100), 1)
    usage.bytes = roots
    seen = []
    usage.look = lambda pids: (seen.append(pid) or roots[pid] for pid in pids)
    meter.started(MeteredTree(99, lambda: roots, told.append))
    for pieces in range(1, 7):
        clock.advance(SHORTEST if pieces == 1 else BREATH)
        assert len(seen) == PIECE * pieces
    clock.advance(BREATH)
    assert told == [100]


async def test_who_cannot_be_told_does_not_end_the_looks_at_others(usage):
    clock = VirtualClock()
    meter, told = MemoryMeter(clock), []
    usage.bytes = {1: 200}
    meter.started(MeteredTree(100, lambda: usage.bytes, lambda used: 1 / 0))
    meter.started(MeteredTree(100, lambda: usage.bytes, told.append))
    for _ in range(3):
        try:
            clock.advance(LONGEST)
        except ZeroDivisionError:
            pass
    assert told


async def test_nothing_is_looked_at_once_nothing_runs(usage):
    clock = VirtualClock()
    meter = MemoryMeter(clock)
    usage.bytes = {1: 1}
    watched = MeteredTree(100, lambda: usage.bytes, lambda used: None)
    meter.started(watched)
    clock.advance(LONGEST)
    usage.bytes, usage.looks = {}, 0
    clock.advance(10 * LONGEST)
    assert usage.looks == 0
    assert meter._timer is None
    usage.bytes = {1: 1}
    meter.started(watched)
    clock.advance(SHORTEST)
    assert usage.looks == 1


# Control groups


@pytest.fixture
def parent():
    """A parent of this test's own, where the machine lets us make one."""
    name = f"/plughost-test-{uuid.uuid4().hex[:8]}"
    folders = group_folders(name)
    try:
        for folder in folders:
            os.mkdir(folder)
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    yield name
    for folder in folders:
        os.rmdir(folder)


def removed(group: cgroups.Cgroup) -> None:
    """Removed: what was killed in it may take the kernel a moment to bury."""
    for _ in range(1000):
        group.remove()
        if not any(map(os.path.exists, group.folders)):
            return
        time.sleep(0.005)
    pytest.fail(f"still there: {group.folders}")


EATER = """
import os, sys
for door in sys.argv[1:]:
    open(door, "w").write("0")
held = []
while True:
    held.append(bytearray(os.urandom(1 << 12)) * 256)
"""


def test_a_group_holds_memory_over_all_processes(parent):
    found = cgroups.find(parent)
    assert found is not None
    assert list(found.folders.values())[-len(group_folders(parent)) :] == group_folders(parent)
    group = found.make(64 * MiB, 10)
    done = subprocess.run([sys.executable, "-I", "-S", "-c", EATER, *group.procs_files], timeout=30)
    assert done.returncode == -signal.SIGKILL
    removed(group)
    assert not any(map(os.path.exists, group.folders))


FORKER = """
import os, sys, time
for door in sys.argv[1:]:
    open(door, "w").write("0")
made = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(60)
        made += 1
except BlockingIOError:
    print(made, flush=True)
os.killpg(0, 9)
"""


def test_a_group_holds_the_number_of_processes(parent):
    found = cgroups.find(parent)
    assert found is not None
    group = found.make(None, 10)
    words = [sys.executable, "-I", "-S", "-c", FORKER, *group.procs_files]
    done = subprocess.run(words, timeout=30, stdout=subprocess.PIPE, start_new_session=True)
    assert int(done.stdout) == 9
    removed(group)


def test_groups_of_hosts_that_are_gone_are_swept_and_those_of_live_ones_are_not(parent):
    found = cgroups.find(parent)
    assert found is not None
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    dead = Path(f"{group_folders(parent)[0]}/plughost-{gone.pid}-1")
    dead.mkdir()
    group = found.make(MiB, None)
    found.sweep()
    assert not dead.exists()
    assert os.path.exists(group.folders[0])
    removed(group)


def test_a_parent_that_cannot_be_used_is_refused_with_its_folder(tmp_path):
    with pytest.raises(InvalidSpec, match="/nowhere"):
        cgroups.find("/nowhere", str(tmp_path))


def test_without_delegation_there_is_no_group(tmp_path):
    assert cgroups.find(None, str(tmp_path)) is None


def v2(folder: Path, controllers: str) -> None:
    (folder / "box").mkdir()
    (folder / "cgroup.controllers").write_text("cpu memory pids\n")
    for name in ("cgroup.controllers", "cgroup.subtree_control", "cgroup.procs"):
        (folder / "box" / name).write_text(controllers if name == "cgroup.controllers" else "")


def test_a_named_v2_group_has_both_controllers(tmp_path):
    v2(tmp_path, "cpu memory pids\n")
    found = cgroups.find("/box", str(tmp_path))
    assert found is not None
    assert (found.version, set(found.folders.values())) == (2, {str(tmp_path / "box")})


def test_a_v2_group_without_the_controllers_is_refused_with_its_folder(tmp_path):
    v2(tmp_path, "cpu\n")
    with pytest.raises(InvalidSpec, match=f"{tmp_path}/box must exist"):
        cgroups.find("/box", str(tmp_path))


@pytest.mark.parametrize("launcher", list(LAUNCHERS.values()), ids=list(LAUNCHERS))
async def test_a_launched_plugin_is_in_its_group_with_all_its_children(parent, launcher):
    found = cgroups.find(parent)
    assert found is not None
    group = found.make(64 * MiB, 50)
    loop = asyncio.get_running_loop()
    executed, exited = loop.create_future(), loop.create_future()
    command = ("/bin/sh", "-c", "sh -c 'cat /proc/self/cgroup'; read line")
    launch = Launch(command, {"PATH": os.defpath}, launcher=launcher, groups=group.procs_files)
    process = Process(launch, loop, executed.set_result, lambda: exited.set_result(None))
    try:
        assert await executed is None
        name = os.path.basename(group.folders[0])
        os.set_blocking(process.stdout, True)
        said = b""
        while said.count(name.encode()) < len(group.folders):
            said += os.read(process.stdout, 65536)
        controllers = ("memory", "pids") if found.version == 1 else ("",)
        assert all(f"{controller}:{parent}/{name}" in said.decode() for controller in controllers)
    finally:
        process.kill()
        await exited
        os.close(process.stdin)
        os.close(process.stdout)
        process.release()
    removed(group)
    assert not any(map(os.path.exists, group.folders))


async def test_a_group_that_is_not_there_starts_nothing():
    loop = asyncio.get_running_loop()
    executed, exited = loop.create_future(), loop.create_future()
    launch = Launch(("/bin/true",), {}, groups=("/sys/fs/cgroup/nowhere/cgroup.procs",))
    process = Process(launch, loop, executed.set_result, lambda: exited.set_result(None))
    failure = await executed
    assert failure is not None
    assert "control group" in failure.message
    await exited
    os.close(process.stdin)
    os.close(process.stdout)
    process.release()
