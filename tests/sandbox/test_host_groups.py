"""Confined plugins of a host that has a control group to put them below."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

import plughost
from plughost.permissions.access import ResourceLimits
from plughost.sandbox.manager import HELPER_PROCESSES
from tests.sandbox.test_memory_and_groups import parent
from tests.support.confinable import PUBLIC_PYTHON
from tests.support.sandbox import group_folders

__all__ = ["parent"]

HUNGRY = """
import json, mmap, os, sys
kept = []
for line in sys.stdin:
    request = json.loads(line)
    size = request.get("params") or 0
    if size:
        fd = os.open(f"/tmp/{len(kept)}", os.O_RDWR | os.O_CREAT)
        os.truncate(fd, size)
        kept.append(mmap.mmap(fd, size))
    else:
        kept.append(None)
    for at in range(0, size, 4096):
        kept[-1][at] = 1
    print(json.dumps({"id": request["id"], "result": len(kept)}), flush=True)
"""


def groups_below(parent: str) -> list[list[Path]]:
    return [list(Path(folder).glob("plughost-*")) for folder in group_folders(parent)]


def hungry(folder: Path, name: str = "hungry") -> plughost.PluginSpec:
    (folder / "hungry.py").write_text(HUNGRY)
    return plughost.PluginSpec(
        contract="mcptest",
        name=name,
        command=[PUBLIC_PYTHON, "-ISE", str(folder / "hungry.py")],
        cwd=str(folder),
        sandbox="strict",
        limits=ResourceLimits(memory=64 << 20, processes=20, scratch=512 << 20),
    )


@pytest.mark.skipif(not os.path.exists(PUBLIC_PYTHON), reason="no /usr/bin/python3")
async def test_a_control_group_holds_what_the_host_cannot_see(parent, folder, strict):
    """Shared memory that is mapped, touched and never private: only the kernel counts it for all."""
    # Were the interpreter's own pages the group's, the kernel would rather read them again and again.
    subprocess.run([PUBLIC_PYTHON, "-ISE", "-c", "import json, mmap"], check=True)
    async with plughost.Host(cgroup=parent) as host:
        plugin = await host.add(hungry(folder))
        held = {holding.what: holding.by for holding in plugin.confinement.enforcement}
        assert held[f"memory {64 << 20}"].startswith("control group")
        assert plugin.confinement.metered_memory is None
        assert await plugin.call("eat", 8 << 20) == 1
        assert all(len(groups) == 1 for groups in groups_below(parent))
        (pids,) = Path(group_folders(parent)[-1]).glob("plughost-*/pids.max")
        assert int(pids.read_text()) == 20 + HELPER_PROCESSES
        with pytest.raises(plughost.Crashed, match="reached the memory limit of 64 MiB") as caught:
            await plugin.call("eat", 128 << 20, timeout=100)
        assert caught.value.code == "budget_exceeded"
        assert "limits.memory" in caught.value.hint
    assert not any(groups_below(parent))


async def test_a_parent_that_is_not_there_is_told_before_anything_starts(folder, strict):
    async with plughost.Host(cgroup="/no-such-group") as host:
        with pytest.raises(plughost.InvalidSpec, match="no-such-group"):
            await host.add(hungry(folder))


async def test_the_parent_may_be_named_by_a_variable(parent, folder, strict, monkeypatch):
    monkeypatch.setenv("PLUGHOST_CGROUP", parent)
    async with plughost.Host() as host:
        plugin = await host.add(hungry(folder))
        assert await plugin.call("eat", 0) == 1
        assert plugin.confinement.metered_memory is None


async def test_without_a_group_the_host_ends_what_is_past_its_limit(folder, strict):
    async with plughost.Host() as host:
        plugin = await host.add(hungry(folder))
        with pytest.raises(plughost.Crashed, match="more than the limit of 64") as caught:
            for _ in range(2000):
                await plugin.call("eat", 1 << 20)
                await asyncio.sleep(0.005)  # the host looks a few times a second
        assert "limits.memory" in caught.value.hint
