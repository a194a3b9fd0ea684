"""Hosts of confined plugins, killed at any moment: after the next start nothing of them is left anywhere."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from plughost.sandbox.mechanisms.features import kernel_features
from plughost.sandbox.memory import cgroups
from plughost.sandbox.run_dir import PREFIX, RunDir
from tests.support import PLUGINS, ROOT, all_gone, token, until

HOST = f"""
import asyncio, os, sys
sys.path.insert(0, {str(ROOT)!r})
import plughost
from plughost.permissions.access import Access, Endpoint
mark, folder = sys.argv[1:3]

async def busy(plugin, number):
    await plugin.call("escape", {{"path": "/dev/null", "how": "double fork"}})
    print("busy", flush=True)
    while True:
        if number == 0:
            await plugin.reload()
        await plugin.call("echo", "x" * 1000)

async def main():
    async with plughost.Host() as host:
        async with asyncio.TaskGroup() as tasks:
            for n, how in enumerate(("strict", "strict", "landlock")):
                ways = (Endpoint("localhost", 1000 + n, private=True),) if n == 1 else ()
                command = ["/usr/bin/python3", "-I", "-S", folder + "/code/puppet.py", mark]
                spec = plughost.PluginSpec(contract="mcptest", name=str(n), command=command, sandbox=how,
                                           allow=Access(connect=ways))
                tasks.create_task(busy(await host.add(spec), n))

asyncio.run(main())
"""


@pytest.fixture
def base() -> Iterator[Path]:
    """Where these hosts have their folders, and the only place they have."""
    if (
        kernel_features().bubblewrap is None
        or kernel_features().namespaces
        or kernel_features().inner is None
    ):
        if os.environ.get("CI"):
            pytest.fail("nothing can be confined here")
        pytest.skip("nothing can be confined here")
    folder = Path(tempfile.mkdtemp(prefix="plughost-kills-"))
    folder.chmod(0o755)
    (folder / "code").mkdir(mode=0o755)
    shutil.copy(PLUGINS / "puppet.py", folder / "code")
    (folder / "base").mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
async def group() -> AsyncIterator[str | None]:
    """A control group to be below, where the machine lets us make one."""
    name = f"/{token()}"
    made = [f"/sys/fs/cgroup/{controller}{name}" for controller in ("memory", "pids")]
    try:
        for folder in made:
            os.mkdir(folder)
    except OSError:
        made = []
    yield name if made else None
    for path in (*groups(name if made else None), *made):
        await until(lambda path=path: removed(path))


def removed(path: str) -> bool:
    """Not while somebody is in it, who may have ended but not left yet."""
    try:
        os.rmdir(path)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True


def groups(name: str | None) -> list[str]:
    parents = (
        [Path(f"/sys/fs/cgroup/{controller}{name}") for controller in ("memory", "pids")] if name else []
    )
    return [str(child) for parent in parents for child in parent.iterdir() if child.is_dir()]


def kept_by_the_kernel(base: Path) -> list[str]:
    """Mounts and sockets that name the folder."""
    tables = (Path("/proc/self/mountinfo"), Path("/proc/net/unix"))
    return [line for table in tables for line in table.read_text().splitlines() if f"{base}/" in line]


async def one_killed(base: Path, group: str | None, source: random.Random) -> None:
    mark = token()
    env = {**os.environ, "TMPDIR": str(base / "base")} | ({"PLUGHOST_CGROUP": group} if group else {})
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, mark, str(base)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=env,
    )
    assert host.stdout is not None
    try:
        if source.random() < 0.5:
            assert await asyncio.to_thread(host.stdout.readline) == b"busy\n"
            await asyncio.sleep(source.random() * 0.05)
        else:
            await asyncio.sleep(0.15 + source.random() * 0.5)
    finally:
        host.kill()
        host.wait()
        host.stdout.close()
    await all_gone(mark, within=30)


async def killed(times: int, base: Path, group: str | None) -> None:
    source = random.Random()
    left_something = 0
    for _ in range(times // 3):
        await asyncio.gather(*(one_killed(base, group, source) for _ in range(3)))
        await until(lambda: not kept_by_the_kernel(base))
        left_something += len([*(base / "base").iterdir()]) + len(groups(group))
        with RunDir(str(base / "base")):  # as the next host does at its start
            if group:
                parent = cgroups.find(group)
                assert parent is not None
                await until(lambda parent=parent: parent.sweep() or not groups(group))  # once all have left
            assert len([*(base / "base").glob(f"{PREFIX}*")]) == 1, "its own alone"
        assert [*(base / "base").iterdir()] == []
        assert groups(group) == []
    assert left_something, "every host was killed before it had anything to leave"


@pytest.mark.timeout(120)
async def test_some_hosts_killed_at_random_moments_leave_nothing_behind_the_next_start(base, group):
    await killed(30, base, group)


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_a_thousand_hosts_killed_at_random_moments_leave_nothing(base, group):
    await killed(1000, base, group)
