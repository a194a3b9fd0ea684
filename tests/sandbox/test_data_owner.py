"""Data that is kept under a plugin's name belongs to the plugin folder that made it."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

import plughost
from plughost import config
from plughost._util import data_owner
from plughost.cli.main import plughost as cli
from plughost.contracts.base import DataFolder
from plughost.contracts.registry import get_contract
from plughost.sandbox import data_dir
from plughost.sandbox.untrusted_temp_dir import READABLE, temporary_folder
from plughost.sandbox.users import User
from plughost.services.storage.service import Storage
from tests.support import ROOT, data_root
from tests.support import kaged as kaged_support
from tests.support.storage_client import Client

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def vaults(tmp_path):
    """Two folders with a plugin of the same name, and one place for the data of both."""
    first, second = (kaged_support.folder(tmp_path / where) for where in ("first", "second"))
    root = data_root(tmp_path)
    return [
        msgspec.structs.replace(kaged_support.spec(folder), options={"data_root": root, "init_timeout": 60})
        for folder in (first, second)
    ]


async def added(spec):
    async with plughost.Host() as host:
        return await host.add(spec, start=False)


@pytest.mark.clause("KAGED-12")
async def test_another_plugin_of_the_same_name_does_not_get_its_data_folder(vaults, tmp_path):
    for _ in range(2):
        await added(vaults[0])
    (tmp_path / "data/puppet/diary").write_text("private")
    with pytest.raises(plughost.LaunchFailed) as caught:
        await added(vaults[1])
    assert str(vaults[0].cwd) in caught.value.message
    assert "plughost data adopt" in caught.value.hint
    await added(vaults[0])


async def test_data_that_nobody_is_known_to_have_made_is_given_to_nobody(vaults, tmp_path):
    data = tmp_path / "data/puppet"
    data.mkdir(mode=0o700)
    await added(vaults[0])  # it was empty
    os.unlink(data_owner.record_path(str(data)))
    (data / "diary").write_text("private")
    for spec in vaults:
        with pytest.raises(plughost.LaunchFailed, match="its owner is unknown"):
            await added(spec)


async def test_a_plugin_that_was_moved_adopts_its_data(vaults, tmp_path):
    await added(vaults[0])
    (tmp_path / "data/puppet/diary").write_text("private")
    moved = tmp_path / "moved/puppet"
    shutil.move(vaults[0].cwd, moved)
    file = tmp_path / "mine.toml"
    command = [sys.executable, "main.py"]
    file.write_text(
        f'[plugins.puppet]\ncontract = "kaged"\nsandbox = "none"\ncwd = "{moved}"\ncommand = {json.dumps(command)}\n'
        f'data_root = "{tmp_path / "data"}"\n'
    )
    spec = config.load(file)["puppet"]
    with pytest.raises(plughost.LaunchFailed, match="belongs to the plugin in"):
        await added(spec)
    ran = CliRunner().invoke(cli, ["data", "adopt", "-c", str(file), "puppet", "--json"])
    assert ran.exit_code == 0, ran.output
    await added(spec)
    ran = CliRunner().invoke(cli, ["data", "show", "-c", str(file), "puppet", "--json"])
    assert json.loads(ran.stdout)[0] == {"path": str(tmp_path / "data/puppet"), "owner": str(moved)}


async def test_an_empty_data_folder_is_free_once_its_plugin_is_gone(vaults):
    await added(vaults[0])
    with pytest.raises(plughost.LaunchFailed):
        await added(vaults[1])
    shutil.rmtree(vaults[0].cwd)
    await added(vaults[1])


def test_adopting_where_nothing_is_kept_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    ran = CliRunner().invoke(cli, ["data", "adopt", str(ROOT / "plugins/echo-kaged")])
    assert isinstance(ran.exception, plughost.InvalidSpec)
    assert "no data is kept under the name" in ran.exception.message


def test_of_many_that_claim_at_once_one_is_the_owner(tmp_path):
    path, won = data_root(tmp_path) + "/p", []
    owners = [tmp_path / f"plugin-{number}" for number in range(16)]

    def claim(owner):
        try:
            data_owner.claim(path, owner)
            won.append(owner)
        except data_owner.NotOwner:
            pass

    threads = [threading.Thread(target=claim, args=(str(owner),)) for owner in owners]
    for owner in owners:
        owner.mkdir()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [data_owner.owner_of(path)] == won
    assert os.listdir(tmp_path / "data") == [".p.owner"]


def test_no_parent_is_made_where_the_operator_points(tmp_path):
    with pytest.raises(plughost.LaunchFailed, match="does not exist") as caught:
        data_dir.create_data_dir(DataFolder(str(tmp_path / "a/b/data"), owner="/x"), "p", None)
    assert "mkdir -p" in caught.value.hint
    assert os.listdir(tmp_path) == []
    data_dir.create_data_dir(DataFolder(str(tmp_path / "a/b/data"), owner="/x", make_parents=True), "p", None)
    assert (tmp_path / "a/b/data").stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_folder_that_exists_already_is_given_to_no_plugin(tmp_path):
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (private / "authorized_keys").write_text("mine")
    for folder in (DataFolder(str(private)), DataFolder(str(private), owner="/plugins/p")):
        with pytest.raises(plughost.LaunchFailed):
            data_dir.create_data_dir(folder, "p", User(61200, 61200))
    assert {path.stat().st_uid for path in (private, private / "authorized_keys")} == {0}


async def test_another_plugin_of_the_same_name_does_not_get_its_keys_and_values(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    places = [tmp_path / where / "notes" for where in ("first", "second")]
    for place in places:
        shutil.copytree(ROOT / "plugins/notes", place)
    specs = [
        msgspec.structs.replace(
            config.load_folder(place),
            grants=["declared"],
            sandbox="none",
            options={"data_root": data_root(place.parent)},
        )
        for place in places
    ]
    async with plughost.Host() as host:
        notes = await host.add(specs[0])
        await notes.call("notes.retain", {"content": "the launch code", "tags": []})
    async with plughost.Host() as host:
        notes = await host.add(specs[1])
        with pytest.raises(plughost.PluginError):
            await notes.call("notes.recall", {"query": "launch"})
    async with plughost.Host() as host:
        notes = await host.add(specs[0])
        assert "launch code" in str(await notes.call("notes.recall", {"query": "launch"}))


def test_a_record_is_never_read_through_a_symlink(tmp_path):
    path = str(tmp_path / "data")
    Path(data_owner.record_path(path)).symlink_to("/etc/hostname")
    with pytest.raises(OSError, match="symbolic links"):
        data_owner.claim(path, "/x")


def test_a_folder_that_becomes_a_symlink_to_another_does_not_pass_for_it():
    """An ainb plugin's folder, replaced after it was found and put back before the plugin is confined."""
    with temporary_folder("plughost-test-", READABLE) as place:
        first, second = (Path(place, where, "echo-ainb") for where in ("first", "second"))
        for folder in (first, second):
            shutil.copytree(ROOT / "plugins/echo-ainb", folder)
            for each in (folder.parent, folder, *folder.iterdir()):
                each.chmod(0o755)  # a plugin that everybody may read, as most are
            manifest = folder / "manifest.toml"
            manifest.write_text(
                manifest.read_text().replace("event_bus", "write_plugin_data = true\nevent_bus")
            )
        spec = config.load_folder(first)
        first.rename(first.with_name("kept"))
        first.symlink_to(second)
        resolved = get_contract("ainb").resolve(spec)
        assert resolved.sandbox.data is not None
        assert (resolved.folder, resolved.sandbox.data.owner) == (str(first), str(first))


class Owning:
    """A plugin, as far as the storage asks."""

    def __init__(self, folder: str) -> None:
        self.folder = folder


async def test_nor_while_the_first_still_uses_them(tmp_path):
    """Hosts of one program may share a storage, and a file is open for a while after its plugin is gone."""

    def client(owner: str) -> Client:
        asking = Client(store, "vault")
        plugins.append(Owning(owner))
        asking.caller.belongs_to(plugins[-1])
        return asking

    plugins: list[Owning] = []
    store = Storage(tmp_path)
    first, second = client("/first/vault"), client("/second/vault")
    await first.set("code", b'"the launch code"')
    with pytest.raises(plughost.PluginError, match="belongs to the plugin in /first/vault"):
        await second.get("code")
    assert await client("/first/vault").get("code") == b'"the launch code"'
    await store.close()
