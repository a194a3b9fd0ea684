"""A group that systemd has delegated, on machines whose kernel counts with control groups v2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from plughost.sandbox.memory import cgroups
from tests.sandbox.test_host_groups import HUNGRY
from tests.support import ROOT, token
from tests.support.confinable import PUBLIC_PYTHON
from tests.support.sandbox import group_folders

HOST = f"""
import asyncio, hashlib, importlib, json, os, pkgutil, sys
sys.path.insert(0, {str(ROOT)!r})
folder, group, user = sys.argv[1], sys.argv[2], int(sys.argv[3])
open(sys.argv[4] + "/cgroup.procs", "w").write("0")
import plughost, plughost.contracts.mcptest.contract, plughost.engine, plughost.sandbox
from plughost.permissions.access import ResourceLimits
for package in (plughost.engine, plughost.sandbox):  # who is not root may not be able to read them
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
plughost.contracts.registry.get_contract("mcptest")
plughost.sandbox.mechanisms.features.kernel_features()
plughost.sandbox.mechanisms.features.kernel_features.cache_clear()
os.setgroups([]); os.setgid(user); os.setuid(user)

async def main():
    async with plughost.Host() as host:
        spec = plughost.PluginSpec(contract="mcptest", name="hungry", cwd=folder, sandbox="strict",
            command=["{PUBLIC_PYTHON}", "-ISE", folder + "/hungry.py"], limits=ResourceLimits(memory=64 << 20, processes=20))
        plugin = await host.add(spec)
        held = {{holding.what: holding.by for holding in plugin.confinement.enforcement}}
        eaten = await plugin.call("eat", 8 << 20)
        below = sorted(name for name in os.listdir(group) if name.startswith("plughost-"))
        try:
            await plugin.call("eat", 128 << 20, timeout=90)
        except plughost.Crashed:
            eaten = -eaten
    left = [name for name in os.listdir(group) if name.startswith("plughost-")]
    print(json.dumps([held[f"memory {{64 << 20}}"], eaten, len(below), left]))

asyncio.run(main())
"""


@pytest.fixture
def delegated() -> Iterator[Path]:
    """As systemd makes it of `Delegate=yes`, for nobody."""
    name = f"/{token()}"
    folder = Path(group_folders(name)[0])
    if len(group_folders(name)) > 1:
        pytest.skip("the kernel counts with v1 here")
    try:
        folder.mkdir()
        os.setxattr(folder, "user.delegate", b"1")
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    for each in (folder, *(folder / file for file in ("cgroup.procs", "cgroup.subtree_control"))):
        os.chown(each, 65534, 65534)
    yield folder
    for group in (*folder.glob("*/"), folder):
        group.rmdir()


@pytest.mark.parametrize("user", [0, 65534], ids=["root", "nobody"])
def test_a_delegated_group_is_divided_and_holds_plugins(delegated, folder, strict, user):
    """The host moves out of the way, into a group of its own; the next one finds what it has left."""
    (folder / "hungry.py").write_text(HUNGRY)
    for group in (delegated, delegated / cgroups.HOSTS):
        words = [sys.executable, "-c", HOST, str(folder), str(delegated), str(user), str(group)]
        ran = subprocess.run(words, capture_output=True, text=True, timeout=100)
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout) == [
            "control group, for all processes together; RLIMIT_DATA, for each process", -1, 2, [cgroups.HOSTS],
        ]  # fmt: skip


def test_a_group_that_nobody_has_marked_is_left_alone(delegated):
    os.removexattr(delegated, "user.delegate")
    look = "from plughost.sandbox.memory import cgroups; print(cgroups.find())"
    join = f"open('{delegated}/cgroup.procs', 'w').write('0'); {look}"
    ran = subprocess.run([sys.executable, "-c", join], capture_output=True, text=True, timeout=60)
    assert ran.stdout == "None\n", ran.stderr
