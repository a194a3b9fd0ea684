"""The SDK subscribes to what the handlers wait for: a host need not do that by the manifest, and one that does
delivers every event once all the same."""

from __future__ import annotations

import sys

import pytest

import plughost
from plughost import config
from plughost.conformance.ainb.stub_host import open_stub
from plughost.conformance.plugin_under_test import PluginUnderTest

PROGRAM = """#!{python}
from plughost_sdk import ainb

plugin = ainb.Plugin()
heard = []

@plugin.on("listed")
def listed(payload):
    heard.append(payload.decode())

@plugin.on("hooked")
def hooked(payload):
    heard.append(payload.decode())

@plugin.on_chunk("chunked")
def chunked(chunk): ...

@plugin.on_init
def start():
    plugin.host.snapshot.publish("began", b"")

@plugin.method
def told(params):
    return heard

plugin.run()
"""
MANIFEST = """[plugin]
name = "listener"
version = "1.0.0"
abi_version = 2
[capabilities]
event_bus = {granted}
[subscribes]
snapshots = ["listed", "only-listed"]
"""


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "listener"
    folder.mkdir()
    (folder / "manifest.toml").write_text(MANIFEST.format(granted="true"))
    (folder / "listener").write_text(PROGRAM.format(python=sys.executable))
    (folder / "listener").chmod(0o755)
    return folder


@pytest.mark.clause("AINB-31")
async def test_every_event_is_delivered_once(place):
    async with plughost.Host() as host:
        plugin = await host.add(place)
        await plugin.start()
        snapshots = host.service("snapshots")
        for topic in ("listed", "hooked", "listed"):
            snapshots.put(topic, topic.encode())
        assert await plugin.call("told") == ["listed", "hooked", "listed"]
        assert snapshots.subscribers("listed") == ["listener"]


async def test_a_host_that_arms_nothing_by_the_manifest_is_asked_before_on_init(place):
    async with open_stub(PluginUnderTest(config.load_folder(place))) as host:
        await host.init()
        asked = [message["params"]["topic"] for message in host.received("host/snapshot/subscribe")]
        assert asked == ["listed", "only-listed", "hooked", "chunked"]
        methods = [message["method"] for message in host.incoming]
        assert methods.index("host/snapshot/publish") > max(
            at for at, method in enumerate(methods) if method == "host/snapshot/subscribe"
        )


async def test_without_the_capability_nothing_is_asked(place):
    async with open_stub(PluginUnderTest(config.load_folder(place))) as host:
        await host.init(granted=[])
        assert host.received("host/snapshot/subscribe") == []
