"""A real plugin stores something, is killed, and finds it again: what it may, and what it may not."""

from __future__ import annotations

from typing import Any

import msgspec
import parley

import plughost
from plughost.contracts.base import HostMethod
from plughost.services.storage.service import Storage
from tests.support import PLUGINS, PYTHON, until
from tests.support.storage_client import open_files


class Key(msgspec.Struct):
    key: str


class Entry(msgspec.Struct):
    key: str
    value: msgspec.Raw


class Listing(msgspec.Struct):
    prefix: str = ""
    after: str = ""
    limit: int = 1000


HOST_METHODS = {
    "storage/get": HostMethod("storage.get", "read", Key),
    "storage/list": HostMethod("storage.list", "read", Listing),
    "storage/set": HostMethod("storage.set", "write", Entry),
    "storage/delete": HostMethod("storage.delete", "write", Key),
}


async def ask(plugin: plughost.Plugin, method: str, **params: Any) -> Any:
    reply = await plugin.call("ask", {"method": f"storage/{method}", "params": params})
    return reply.get("result", reply.get("error"))


async def test_a_plugin_finds_again_what_it_stored_in_an_earlier_life(host, mark, tmp_path, monkeypatch):
    monkeypatch.setattr(parley.ParleyContract, "host_methods", HOST_METHODS)
    host.provide("storage", Storage(tmp_path))
    spec = plughost.PluginSpec(
        contract="parley",
        name="p",
        command=[*PYTHON, str(PLUGINS / "parley_puppet.py"), mark],
        grants=("read", "write"),
    )
    plugin = await host.add(spec)
    assert await ask(plugin, "get", key="a") == {"value": None, "found": False}
    assert await ask(plugin, "set", key="a\0é", value={"deep": [1, None]}) == {}
    assert await ask(plugin, "get", key="a\0é") == {"value": {"deep": [1, None]}, "found": True}
    plugin.kill()
    await until(lambda: not open_files(tmp_path))
    await host.remove("p")
    plugin = await host.add(msgspec.structs.replace(spec, grants=("read",)))
    assert await ask(plugin, "list") == {"keys": ["a\0é"], "more": False}
    denied = {"code": -32001, "message": "capability denied: write"}
    assert await ask(plugin, "set", key="a", value=1) == denied
    assert await ask(plugin, "delete", key="a\0é") == denied
    assert await ask(plugin, "get", key="a\0é") == {"value": {"deep": [1, None]}, "found": True}
    assert (await ask(plugin, "get", key=""))["message"] == "a key must not be empty"
    assert "wrong params" in (await ask(plugin, "get"))["message"]
