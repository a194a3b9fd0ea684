"""The reference plugins in C answer as those in Python do."""

from __future__ import annotations

import os

import pytest

import plughost
from tests.support import ROOT

MESSAGES = [
    {},
    [],
    "text",
    'quote " and \\ backslash',
    {"id": 7, "params": {"method": "x"}},
    [[], {"a": None}],
    1.5,
    None,
    "é\n",
]


def folder(name: str):
    path = ROOT / "plugins" / name
    if not (path / "bin/echo").exists():
        if os.environ.get("CI"):
            pytest.fail("the C plugins were not built")
        pytest.skip("the C plugins were not built: no C compiler")
    return path


@pytest.mark.parametrize("message", MESSAGES)
async def test_the_mcptest_plugin_in_c(host, message):
    plugin = await host.add(folder("echo-mcptest-c"))
    assert await plugin.call("echo", message) == message
    assert await plugin.call("ping") == "pong"
    for method, code in (("echo", -32602), ("nonsense", -32601)):
        with pytest.raises(plughost.CallFailed) as caught:
            await plugin.call(method)
        assert caught.value.error["code"] == code


@pytest.mark.parametrize("message", MESSAGES)
async def test_the_rune_plugin_in_c(host, message):
    plugin = await host.add(folder("echo-rune-c"))
    assert await plugin.call("echo", message) == ({} if message is None else message)
    with pytest.raises(plughost.PluginError) as caught:
        await plugin.call("nonsense")
    assert caught.value.code == "tool_not_exposed"
