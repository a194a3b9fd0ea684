"""A confined plugin's pipes are its alone: what stands beside it in the sandbox holds no copy of them."""

from __future__ import annotations

import shutil

import pytest

import plughost
from tests.support import PLUGINS, all_gone

pytestmark = pytest.mark.usefixtures("strict")


@pytest.mark.parametrize("sandbox", ["strict", "landlock"])
async def test_closing_its_stdout_or_stdin_is_noticed_at_once(folder, launcher, sandbox, mark):
    path = shutil.copy(PLUGINS / "puppet.py", folder)
    spec = plughost.PluginSpec(
        contract="mcptest", name="p", command=["/usr/bin/python3", "-I", "-S", path, mark], sandbox=sandbox
    )
    async with plughost.Host(launcher=launcher) as host:
        plugin = await host.add(spec)
        with pytest.raises(plughost.Crashed, match="closed its stdout"):
            await plugin.call("close_stdout", timeout=20)
        await plugin.reload()
        assert await plugin.call("close_stdin", timeout=20) is None
        with pytest.raises(plughost.Crashed):
            await plugin.call("echo", "x" * 200_000, timeout=20)
        plugin.kill()
    await all_gone(mark)
