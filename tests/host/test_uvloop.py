"""The host on another event loop: calls, deadlines, deaths and ends work the same."""

from __future__ import annotations

import asyncio

import pytest

import plughost
from plughost.contracts.mcptest.contract import PluginCrashed, TimedOut
from tests.support import all_gone, processes, puppet, rune_puppet

uvloop = pytest.importorskip("uvloop")
uvloop.run(asyncio.sleep(0))  # it keeps a pipe for signals for as long as the process lives


def test_the_host_works_on_uvloop(mark):
    async def main():
        async with plughost.Host() as host:
            plugin = await host.add(puppet(mark, max_in_flight=8))
            assert await asyncio.gather(*(plugin.call("echo", n) for n in range(50))) == list(range(50))
            with pytest.raises(TimedOut):
                await plugin.call("silent", timeout=0.05)
            await plugin.reload()
            assert await plugin.call("big", 1 << 20) == "x" * (1 << 20)
            with pytest.raises(PluginCrashed):
                await plugin.call("exit", 3)
            await host.remove("puppet")
            tool = await host.add(rune_puppet(mark=mark))
            assert await tool.call("echo", 1) == 1
        assert processes(mark) == []
        await all_gone(mark)

    uvloop.run(main())
