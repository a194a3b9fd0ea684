"""The catalogue of a host with real plugins: it starts none of them and waits for none."""

from __future__ import annotations

import json
import os
import time

import msgspec
import pytest

import plughost
from plughost.events import CatalogueChanged, Spawned
from plughost.handshake_store import MAX_FILES, HandshakeStore
from plughost.wire.method_description import MAX_METHODS, MethodDescription
from tests.support import kaged, rune_puppet, seen, until, vai

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}


def names(host, plugin=None):
    return [entry.name for entry in host.catalogue.entries(plugin)]


async def test_a_manifest_tells_without_a_start(host, tmp_path):
    tools = [{"name": "shout", "description": "Shouts.", "parameters_schema": SCHEMA}]
    place = kaged.folder(tmp_path, tools=tools, methods=None)
    with host.events(only=Spawned) as spawned:
        await host.add(kaged.spec(place), start=False)
        (entry,) = host.catalogue.entries()
        assert (entry.name, entry.plugin, entry.contract) == ("puppet.shout", "puppet", "kaged")
        assert (entry.description, entry.input_schema, entry.source) == ("Shouts.", SCHEMA, "manifest")
        assert len(spawned) == 0


async def test_a_package_tells_with_its_schemas(host, tmp_path, mark):
    folder = vai.package(tmp_path, mark)
    (folder / "schemas/any.json").write_text(json.dumps(SCHEMA))
    await host.add(vai.spec(folder), start=False)
    tools = [entry for entry in host.catalogue.entries() if entry.kind == "tool"]
    assert tools
    assert all(entry.input_schema == SCHEMA and entry.title for entry in tools)
    (folder / "schemas/any.json").write_text("not JSON")
    other = msgspec.structs.replace(vai.spec(folder), name="other")
    await host.add(other, start=False)
    assert {entry.input_schema for entry in host.catalogue.entries("other")} == {None}


async def test_a_handshake_is_kept_when_the_process_has_ended(host, mark):
    plugin = await host.add(rune_puppet(mark=mark))
    assert names(host) == []
    with host.events(only=CatalogueChanged) as changes:
        await plugin.call("echo", {})
        await plugin.call("echo", {})
        assert len(changes) == 1
    await until(lambda: not seen(plugin))
    (entry, *_) = host.catalogue.entries("puppet")
    assert (entry.name, entry.kind, entry.source) == ("echo", "tool", "handshake")


@pytest.mark.parametrize("secret", ["hunter2hunter2", "description"])
async def test_a_handshake_gives_no_secret_away(tmp_path, mark, secret):
    tools = ["echo", f"echo-{secret}"]
    async with plughost.Host(handshakes=tmp_path / "kept") as host:
        plugin = await host.add(rune_puppet({"handshake": {"exposed_tools": tools}}, mark=mark))
        plugin.redactor.add([secret])
        await plugin.call("echo", {})
        assert sorted(names(host)) == ["echo", "echo-***"]
    (kept,) = (tmp_path / "kept").iterdir()
    assert f"echo-{secret}" not in kept.read_text()


async def test_a_refused_handshake_tells_too(host, mark):
    plugin = await host.add(rune_puppet(mark=mark))
    with pytest.raises(plughost.PluginError, match="does not expose"):
        await plugin.call("nonsense", {})
    assert "echo" in names(host)


async def test_a_handshake_with_very_many_tools_tells_some_of_them(host, mark):
    tools = [f"tool-{number}" for number in range(50_000)]
    plugin = await host.add(rune_puppet({"handshake": {"exposed_tools": tools}}, mark=mark))
    with pytest.raises(plughost.PluginError, match="does not expose") as refused:
        await plugin.call("echo", {})
    assert len(refused.value.hint) < 2000
    assert len(names(host)) == MAX_METHODS
    assert len(plugin._handshake) == MAX_METHODS


async def test_the_next_host_knows_what_an_earlier_handshake_told(tmp_path, mark):
    spec = rune_puppet(mark=mark)
    async with plughost.Host(handshakes=tmp_path / "kept") as host:
        await (await host.add(spec)).call("echo", {})
    async with plughost.Host(handshakes=tmp_path / "kept") as host:
        await host.add(spec)
        assert "echo" in names(host)
        await host.add(msgspec.structs.replace(spec, name="another"))
        assert names(host, "another") == []
    assert {oct(file.stat().st_mode & 0o777) for file in (tmp_path / "kept").iterdir()} == {"0o600"}


async def test_a_host_that_ends_waits_until_a_handshake_is_kept(tmp_path, mark, monkeypatch):
    save = HandshakeStore.save
    monkeypatch.setattr(HandshakeStore, "save", lambda *told: (time.sleep(0.2), save(*told)))
    spec = rune_puppet(mark=mark)
    async with plughost.Host(handshakes=tmp_path / "kept") as host:
        await (await host.add(spec)).call("echo", {})
    assert HandshakeStore(tmp_path / "kept").load(spec)


async def test_what_is_kept_is_bounded_and_no_reason_to_fail(tmp_path):
    store, spec = HandshakeStore(tmp_path / "kept"), rune_puppet(mark="m")
    methods = [MethodDescription(name="a")]
    for number in range(MAX_FILES + 3):
        (tmp_path / "kept").mkdir(exist_ok=True)
        (tmp_path / f"kept/{number:064x}.json").touch()
        os.utime(tmp_path / f"kept/{number:064x}.json", (number, number))
    others = [tmp_path / "kept/folder", tmp_path / "kept/notes.txt"]
    others[0].mkdir()
    others[1].touch()
    for other in others:
        os.utime(other, (0, 0))
    store.save(spec, methods)
    assert len(list((tmp_path / "kept").iterdir())) == MAX_FILES + len(others)
    assert all(other.exists() for other in others)
    assert store.load(spec) == tuple(methods)
    store._file(spec).write_text('{"not": "methods"}')
    assert store.load(spec) == ()
    blocked = HandshakeStore(tmp_path / "kept/0.json/impossible")
    (tmp_path / "kept/0.json").touch()
    blocked.save(spec, methods)
    assert blocked.load(spec) == ()


async def test_changes_are_events(host, tmp_path):
    place = kaged.folder(tmp_path)
    with host.events(only=CatalogueChanged) as changes:
        plugin = await host.add(kaged.spec(place), start=False)
        assert changes.take().plugin == "puppet"
        manifest = place / "manifest.yaml"
        told = json.loads(manifest.read_text())
        manifest.write_text(json.dumps({**told, "methods": ["p.echo"]}))
        await plugin.reload()
        assert (changes.take().generation, names(host)) == (2, ["p.echo"])
        await host.remove("puppet")
        assert (changes.take().plugin, names(host)) == ("puppet", [])


async def test_the_operator_describes_what_nobody_else_does(host, tmp_path):
    (tmp_path / "plughost.toml").write_text(
        """
[plugins.echo]
contract = "mcptest"
command = ["/bin/cat"]

[plugins.echo.methods.say]
title = "Say it again"
description = "Answers with its params."
input_schema = { type = "object" }
"""
    )
    specs = plughost.config.load(tmp_path / "plughost.toml")
    await host.add(specs["echo"])
    (entry,) = host.catalogue.entries()
    assert (entry.name, entry.title, entry.input_schema) == ("say", "Say it again", {"type": "object"})
    assert entry.source == "operator"


async def test_an_unknown_method_names_the_nearest(host, tmp_path):
    plugin = await host.add(kaged.spec(kaged.folder(tmp_path)), start=False)
    with pytest.raises(plughost.UnknownMethod, match=r"no method 'p.eco'; did you mean 'p.echo'\?"):
        await plugin.call("p.eco", {})
