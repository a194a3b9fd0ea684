"""The store is right whoever installs, however many at once, and however they end."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from plughost.errors import InvalidSpec, PluginError
from plughost.vai.packages.errors import NotInstalled
from plughost.vai.packages.install import install
from plughost.vai.packages.store.store import Store, default_root
from plughost.vai.packages.trust.publishers import TrustedPublishers, now
from plughost.vai.packages.trust.signature import verify
from tests.support import ROOT
from tests.support import sample_package as little
from tests.support.installer_processes import CALLS, TAKEN


def forks(what, store, signer, *words):
    command = [
        sys.executable,
        "-m",
        "tests.support.installer_processes",
        what,
        store.root,
        signer[1].text,
        *map(str, words),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.clause("VAI-01")
def test_many_processes_install_the_same_bytes_at_once(signed, signer, store):
    codes = forks("race", store, signer, *[signed.file] * 6)["codes"]
    assert codes == [0] * 6
    (one,) = store.installed()
    assert (one.release.digest, one.damage()) == (signed.digest, None)
    assert os.listdir(store.root / "staging") == []


@pytest.mark.clause("VAI-01")
def test_of_different_bytes_under_one_version_exactly_one_wins(signer, store, folder):
    made = [little.packed(folder / str(number), README_md=f"{number}\n") for number in range(3)]
    for one in made:
        little.sign(one, signer[0])
    codes = forks("race", store, signer, *[one.file for one in made * 2])["codes"]
    (winner,) = store.installed()
    assert codes == [0 if one.digest == winner.release.digest else TAKEN for one in made * 2]
    assert winner.damage() is None
    assert [path.name for path in (store.root / "releases").iterdir()] == [winner.folder.name]


@pytest.mark.clause("VAI-01")
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.soak)])
def test_killed_before_any_of_its_system_calls_it_leaves_all_or_nothing(signed, signer, store, step):
    outcomes = forks("kills", store, signer, signed.file, step)["outcomes"]
    assert len(outcomes) > 50 // step
    assert outcomes[0] is False
    assert outcomes[-1] is True
    assert outcomes == sorted(outcomes)  # once it is installed, it stays installed


def test_killed_at_random_moments_it_leaves_all_or_nothing(signed, signer, store):
    assert len(forks("moments", store, signer, signed.file, 10)["outcomes"]) == 10


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_killed_very_often_at_random_moments(signed, signer, store):
    outcomes = forks("moments", store, signer, signed.file, 1000)["outcomes"]
    assert {True, False} == set(outcomes)


async def test_whatever_system_call_fails_nothing_is_left(signed, store, trust, monkeypatch):
    """A full disk, a broken one: each call in turn."""
    number = 0
    while await _fails(number, signed, store, trust, monkeypatch):
        number += 1
    assert number > 50
    (one,) = store.installed()
    assert one.damage() is None


async def _fails(number, signed, store, trust, monkeypatch):
    """Whether an installation failed whose call of that number did; it has left nothing then."""
    left = number
    lock = threading.Lock()

    def wrapped(real):
        def call(*args, **more):
            nonlocal left
            with lock:
                left -= 1
                now = left == -1
            if now:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*args, **more)

        return call

    message = ""
    with monkeypatch.context() as patched:
        for name in CALLS:
            if name not in ("rmdir", "unlink"):  # those need no room
                patched.setattr(os, name, wrapped(getattr(os, name)))
        try:
            await install(little.place(signed), store, trust)
        except PluginError as error:
            message = error.message
    if message:
        assert "No space left" in message
        assert os.listdir(store.root / "staging") == os.listdir(store.root / "releases") == []
        assert store.installed() == []
    return bool(message)


async def test_whoever_changes_the_store_has_it_alone(signed, store, trust, monkeypatch):
    alone = {}

    def watched(name, real):
        def call(*args):
            fd = os.open(store.root / "lock", os.O_RDWR)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                alone[name] = False
            except BlockingIOError:
                alone[name] = True
            finally:
                os.close(fd)
            return real(*args)

        return call

    for name in ("_record_version", "_remove_unrecorded"):
        monkeypatch.setattr(store, name, watched(name, getattr(store, name)))
    monkeypatch.setattr(os, "rename", watched("rename", os.rename))
    store.open()
    entered = await install(little.place(signed), store, trust)
    assert alone == {"_record_version": True, "_remove_unrecorded": True, "rename": True}
    alone.clear()
    store.remove(entered.installed)
    assert alone == {"rename": True}


async def test_a_live_installer_keeps_its_staging_and_a_dead_one_does_not(store):
    with store.staging() as mine:
        (mine / "half").write_text("x")
        dead = store.root / "staging" / "dead"
        dead.mkdir()
        (dead / "half").write_text("x")
        (store.root / "releases" / ("0" * 64)).mkdir()
        Store(store.root).open()
        assert os.listdir(store.root / "staging") == [mine.name]
        assert (mine / "half").exists()
        assert os.listdir(store.root / "releases") == []
    assert os.listdir(store.root / "staging") == []


@pytest.mark.parametrize("how", ["changed", "added", "removed", "mode", "manifest", "link"])
async def test_a_damaged_package_is_seen_and_installing_it_again_mends_it(how, signed, store, trust):
    (one,) = [(await install(little.place(signed), store, trust)).installed]
    plugin = one.package / "bin/plugin"
    plugin.chmod(0o755)
    if how == "changed":
        plugin.write_text("#!/bin/sh\nrm\n")
    elif how == "added":
        (one.package / "bin/more").write_text("")
    elif how == "removed":
        plugin.unlink()
    elif how == "mode":
        plugin.chmod(0o644)
    elif how == "manifest":
        (one.folder / "manifest.json").chmod(0o644)
        (one.folder / "manifest.json").write_text("{}")
    else:
        plugin.unlink()
        plugin.symlink_to("/bin/sh")
    assert one.damage() is not None
    assert (await install(little.place(signed), store, trust)).installed == one
    assert one.damage() is None
    assert os.listdir(store.root / "staging") == []


async def test_a_new_trusted_signature_for_the_same_bytes_takes_the_place_of_the_old(
    signed, store, trust, folder
):
    await install(little.place(signed), store, trust)
    path, public = little.key(folder, "newer")
    little.sign(signed, path)
    entered = await install(little.place(signed), store, little.trusting(public))
    assert public.id.encode() in entered.installed.envelope
    assert entered.installed.damage() is None
    nobody = TrustedPublishers(mode="development")
    little.sign(signed, little.key(folder, "stranger")[0])
    entered = await install(little.place(signed), store, nobody)
    assert public.id.encode() in entered.installed.envelope  # a stranger's does not


async def test_packages_are_found_by_name_and_version(signer, store, trust, folder):
    for version in ("0.10.0", "0.2.0", "0.2.0-rc.1"):
        made = little.packed(folder / version, version=version)
        little.sign(made, signer[0])
        await install(little.place(made), store, trust)
    assert [str(one.release) for one in store.installed()] == [
        "acme/little@0.2.0-rc.1", "acme/little@0.2.0", "acme/little@0.10.0",
    ]  # fmt: skip
    assert store.find("acme/little", "0.2.0").release.version == "0.2.0"
    with pytest.raises(NotInstalled, match="several versions"):
        store.find("acme/little")
    with pytest.raises(NotInstalled, match="little@9.0.0 is not installed"):
        store.find("acme/little", "9.0.0")
    with pytest.raises(NotInstalled, match="is not installed"):
        store.find("../..", "x")


def test_a_store_that_others_may_write_to_is_refused(folder):
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    with pytest.raises(InvalidSpec, match="only this user can write to"):
        Store(folder / "open").open()
    (folder / "link").symlink_to(folder / "open")
    with pytest.raises(InvalidSpec, match="only this user can write to"):
        Store(folder / "link").open()
    (folder / "file").write_text("")
    with pytest.raises(InvalidSpec, match="cannot be used|only this user"):
        Store(folder / "file" / "store").open()


RECORD = ["versions/acme", "versions/acme/little", "versions/acme/little/0.1.0"]


@pytest.mark.parametrize("name", RECORD)
@pytest.mark.parametrize("how", ["writable", "of the group", "another's", "a symlink", "another kind"])
async def test_a_record_that_others_may_have_written_is_refused(name, how, signed, store, trust):
    one = (await install(little.place(signed), store, trust)).installed
    path = store.root / name
    assert path.exists()
    if how in ("writable", "of the group"):
        path.chmod(path.stat().st_mode | (0o002 if how == "writable" else 0o020))
    elif how == "another's":
        if os.geteuid() != 0:
            pytest.skip("only root can give a file away")
        os.chown(path, 2002, -1)
    else:
        path.rename(store.root.parent / "aside")
        if how == "a symlink":
            path.symlink_to(store.root.parent / "aside")
        else:
            os.mkfifo(path)
    reads = (
        store.installed,
        lambda: store.find("acme/little"),
        lambda: store.refuse_other(one.release),
        lambda: Store(store.root).open(),
    )
    for read in reads:
        with pytest.raises(InvalidSpec, match="that only this user can write to") as caught:
            read()
        assert str(path) in caught.value.message
        assert caught.value.hint
    assert one.folder.exists()


@pytest.mark.parametrize("how", ["a copy", "another version", "another package", "another digest"])
async def test_a_record_that_is_not_about_its_own_version_is_refused(how, signed, store, trust):
    one = (await install(little.place(signed), store, trust)).installed
    path = store.root / RECORD[-1]
    text = path.read_text()
    if how == "a copy":
        path = path.with_name("0.1.0.bak")
    elif how == "another version":
        text = text.replace("0.1.0", "0.2.0")
    elif how == "another package":
        text = text.replace("acme/little", "acme/../../other")
    else:
        text = text.replace("sha256:", "sha256:/")
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(0o444)
    for read in (store.installed, lambda: Store(store.root).open()):
        with pytest.raises(InvalidSpec, match="is damaged") as caught:
            read()
        assert str(path) in caught.value.message
        assert "remove it" in (caught.value.hint or "")
    assert one.folder.exists()
    path.unlink()
    await install(little.place(signed), Store(store.root).open(), trust)
    assert [each.release for each in store.installed()] == [one.release]


@pytest.mark.parametrize("where", ["releases", "staging"])
@pytest.mark.parametrize("kind", ["file", "symlink"])
def test_what_does_not_belong_in_a_store_is_named(where, kind, store):
    odd = store.root / where / "odd"
    if kind == "file":
        odd.touch()
    else:
        odd.symlink_to("odd")
    with pytest.raises(InvalidSpec, match="odd"):
        Store(store.root).open()


@pytest.mark.parametrize("what", ["folder", "pipe", "large", "a device"])
async def test_a_signature_that_is_no_small_file_is_damage_and_mended(what, signed, store, trust):
    one = (await install(little.place(signed), store, trust)).installed
    path = one.folder / "signature.json"
    path.unlink()
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "a device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)
        path.chmod(0o444)
    assert what == "large" or one.envelope == b""
    assert verify(one.envelope, one.release, trust, now()).posture == "invalid"
    assert "signature.json" in (store.damage(one) or "")
    await install(little.place(signed), store, trust)
    assert store.damage(one) is None
    assert verify(one.envelope, one.release, trust, now()).posture == "trusted"


async def test_records_that_are_removed_while_they_are_listed_are_passed_over(
    signed, store, trust, monkeypatch
):
    one = (await install(little.place(signed), store, trust)).installed
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda *where: [*listed(*where), "0.0.0-gone"])
    assert store.installed() == [one]


def test_where_packages_are_kept(monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_root() == Path("/data/plughost/packages")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_root() == Path("/var/lib/plughost/packages")


def test_folders_on_the_way_to_a_store_are_not_for_others_to_change(folder):
    before = os.umask(0)
    try:
        Store(folder / "a/b/c/store").open()
    finally:
        os.umask(before)
    assert [path for path in folder.rglob("*") if path.stat().st_mode & 0o022] == []
