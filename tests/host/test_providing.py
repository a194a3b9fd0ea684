"""A service that was replaced works on for those who are at it, and is closed with its host."""

from __future__ import annotations

import asyncio
import threading

import plughost
from plughost.services.storage.service import Storage
from tests.support import until
from tests.support.kaged import folder, spec


class Closing:
    """Tells when it is closed."""

    def __init__(self, name, told):
        self._name = name
        self._told = told

    async def close(self):
        self._told.append(self._name)


async def test_what_was_replaced_is_closed_with_the_host_after_what_replaced_it():
    told = []
    async with plughost.Host() as host:
        for name in ("first", "second", "third"):
            host.provide("x", Closing(name, told))
        await asyncio.sleep(0)
        assert told == []
    assert told == ["third", "second", "first"]


async def test_every_service_is_closed_once_wherever_it_was_provided():
    told = []
    async with plughost.Host() as host:
        one, other = Closing("one", told), Closing("other", told)
        for service in (one, one, other, None, one):
            host.provide("x", service)
        host.provide("y", one)
    assert sorted(told) == ["one", "other"]


class Slowly:
    """In front of a storage: what is asked of it goes on when it may."""

    def __init__(self, storage):
        self._storage = storage
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def get(self, caller, params):
        self.asked.set()
        await self.go_on.wait()
        return await self._storage.get(caller, params)

    async def set(self, caller, params):
        return await self._storage.set(caller, params)


async def ask(plugin, method, **params):
    return await plugin.call("p.ask", {"method": f"kaged.storage.{method}", "params": params})


async def test_a_replacement_may_be_built_upon_what_it_replaces_and_requests_there_go_on(tmp_path, mark):
    before = set(threading.enumerate())
    place = folder(tmp_path / mark, capabilities=["kaged:storage:read", "kaged:storage:write"])
    async with plughost.Host() as host:
        host.provide("storage", Storage(tmp_path / "first"))
        slowly = Slowly(host.service("storage"))
        host.provide("storage", slowly)
        plugin = await host.add(spec(place, "declared"))
        assert "result" in await ask(plugin, "set", key="k", value=1)
        asking = asyncio.ensure_future(ask(plugin, "get", key="k"))
        await slowly.asked.wait()
        host.provide("storage", Storage(tmp_path / "second"))
        assert (await ask(plugin, "get", key="k"))["result"]["found"] is False
        slowly.go_on.set()
        assert (await asking)["result"]["value"] == 1
        plugin.kill()
    await until(lambda: {each for each in threading.enumerate() if not is_of_the_loop(each)} <= before)


def is_of_the_loop(thread):
    """asyncio keeps those of `to_thread` for as long as the loop."""
    return thread.name.startswith("asyncio_")
