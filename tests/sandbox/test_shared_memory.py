"""Memory that no process need have mapped is counted by a control group, or not to be had."""

from __future__ import annotations

import shutil
import subprocess

import pytest

import plughost
from plughost.permissions.access import ResourceLimits
from plughost.spec import PluginSpec
from tests.sandbox.test_memory_and_groups import parent  # noqa: F401
from tests.support.confinable import PATH, needs, open_folder

MIB = 1 << 20
LIMIT = 256 * MIB
SHARES = 1200 // 50
"""Of 50 MiB each: far more than the limit."""

HOARDER = """
import array, json, mmap, os, socket, sys
MIB, CHUNK = 1 << 20, 50 << 20
kept = []

def memfds(shares):
    for number in range(shares):
        fd = os.memfd_create(f"hoard{number}")
        for _ in range(CHUNK // MIB):
            os.write(fd, bytes(MIB))
        kept.append(fd)

def in_flight(shares):
    for number in range(shares):
        fd = os.memfd_create("hoard")
        os.truncate(fd, CHUNK)
        os.posix_fallocate(fd, 0, CHUNK)
        left, right = socket.socketpair()
        left.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
        os.close(fd)
        kept.append((left, right))

def touched(shared, size):
    for at in range(0, size, 4096):
        shared[at]

def forgotten(shares):
    for number in range(shares):
        shared = mmap.mmap(-1, CHUNK)
        touched(shared, CHUNK)
        shared.madvise(mmap.MADV_DONTNEED)
        kept.append(shared)

def of_zero(shares):
    fd = os.open("/dev/zero", os.O_RDONLY)
    for number in range(shares):
        shared = mmap.mmap(fd, CHUNK, mmap.MAP_SHARED, mmap.PROT_READ)
        touched(shared, CHUNK)
        shared.madvise(mmap.MADV_DONTNEED)
        kept.append(shared)

def in_tmp(shares):
    for number in range(shares):
        fd = os.open(f"/dev/shm/hoard{number}", os.O_RDWR | os.O_CREAT)
        os.unlink(f"/dev/shm/hoard{number}")
        kept.append(fd)
        for _ in range(CHUNK // MIB):
            os.write(fd, bytes(MIB))

for line in sys.stdin:
    asked = json.loads(line)
    try:
        globals()[asked["method"]](asked["params"]["shares"])
        said = "done"
    except OSError as error:
        said = error.strerror
    print(json.dumps({"id": asked["id"], "result": {"said": said, "kept": len(kept)}}), flush=True)
"""
REFUSED = {
    "memfds": "Function not implemented",
    "in_flight": "Function not implemented",
    "forgotten": "Operation not permitted",
    "of_zero": "Permission denied",
    "in_tmp": "No space left on device",
}


def hoarder(sandbox: str, memory: int | None = LIMIT) -> PluginSpec:
    return PluginSpec(
        contract="mcptest",
        name="hoarder",
        command=["/usr/bin/python3", "-I", "-S", "-c", HOARDER],
        sandbox=sandbox,
        limits=ResourceLimits(memory=memory),
    )


@pytest.mark.parametrize("sandbox", ["strict", "landlock"])
@pytest.mark.parametrize("way", REFUSED)
async def test_what_nobody_counts_cannot_be_had(host, sandbox, way):
    needs(sandbox)
    if sandbox == "landlock" and way == "in_tmp":
        pytest.skip("there is no /dev/shm in class landlock")
    plugin = await host.add(hoarder(sandbox))
    told = await plugin.call(way, {"shares": SHARES}, timeout=60)
    assert told["said"] == REFUSED[way]
    assert told["kept"] <= 1


async def test_a_plugin_without_a_limit_has_all_of_it(host):
    needs("strict")
    plugin = await host.add(hoarder("strict", memory=None))
    for way in ("memfds", "forgotten", "of_zero"):
        assert (await plugin.call(way, {"shares": 1}, timeout=60))["said"] == "done", way


async def test_a_control_group_counts_it_and_so_it_can_be_had(parent):  # noqa: F811
    needs("strict")
    async with plughost.Host(cgroup=parent) as host:
        plugin = await host.add(hoarder("strict"))
        for way in ("memfds", "forgotten", "of_zero"):
            assert (await plugin.call(way, {"shares": 1}, timeout=60))["said"] == "done", way
        with pytest.raises(plughost.PluginError):
            await plugin.call("memfds", {"shares": SHARES}, timeout=60)


PROGRAMS = {
    "python3": ["-c", "import mmap, subprocess, threading, sqlite3; print('ok')"],
    "node": ["-e", "new SharedArrayBuffer(1 << 20); new WebAssembly.Memory({initial: 1}); console.log('ok')"],
    "java": ["-Xmx64m", "-XX:+UseSerialGC", "-version"],
    "perl": ["-e", "print 'ok'"],
}


@pytest.mark.parametrize("program", PROGRAMS)
async def test_programs_start_without_it(program):
    """As `plughost-inner` alone applies the filter."""
    from plughost.engine.launcher.launch import INNER

    found = shutil.which(program, path=PATH)
    if found is None:
        pytest.skip(f"{program} is not installed")
    needs("landlock")
    with open_folder() as place:
        ran = subprocess.run(
            [INNER, "seccomp", "uncounted", "--", found, program, *PROGRAMS[program]],
            capture_output=True,
            timeout=60,
            cwd=place,
            env={"PATH": PATH},
            pass_fds=(),
        )
    assert ran.returncode == 0, ran.stderr
