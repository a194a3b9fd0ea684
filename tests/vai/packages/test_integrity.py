"""An installed release is what was signed: every difference is found, and an unchanged one is read only once."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from plughost.vai.packages.errors import Damaged
from plughost.vai.packages.install import install
from plughost.vai.packages.store.installed import InstalledRelease
from plughost.vai.packages.store.integrity import TIMESTAMP_MARGIN, IntegrityCache
from plughost.vai.packages.store.store import Store
from tests.support import sample_package as little


def later() -> int:
    """A clock by which everything in the test was written long ago."""
    return time.time_ns() + 10 * TIMESTAMP_MARGIN


@pytest.fixture
async def installed(signed, store, trust) -> InstalledRelease:
    return (await install(little.place(signed), store, trust)).installed


@pytest.fixture
def cache(store: Store) -> IntegrityCache:
    store.integrity = IntegrityCache(now=later)
    return store.integrity


def rewrite(path: Path, content: bytes) -> None:
    """The same inode, size, mode and mtime as before: only the ctime tells."""
    before = path.stat()
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.write(content)
    path.chmod(before.st_mode)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def swapped(path: Path) -> Path:
    """The path, once what was there has got another name beside the store."""
    away = path.parents[3] / "away"
    path.rename(away)
    return away


def moved_behind_a_symlink(one: InstalledRelease) -> None:
    schemas = one.package / "schemas"
    schemas.symlink_to(swapped(schemas))


def release_behind_a_symlink(one: InstalledRelease) -> None:
    one.folder.symlink_to(swapped(one.folder))


def bytecode_added(one: InstalledRelease) -> None:
    (one.package / "bin/__pycache__").mkdir(mode=0o755)
    (one.package / "bin/__pycache__/plugin.cpython-311.pyc").touch(mode=0o444)


DAMAGES = {
    "content, with size, mode and mtime kept": (
        lambda one: rewrite(one.package / "bin/plugin", b"#!/bin/sh\nXXX\n"), "do not match the signed digest"
    ),
    "a file added": (
        lambda one: (one.package / "sitecustomize.py").touch(0o444), "do not match the signed digest"
    ),
    "bytecode added": (bytecode_added, "do not match the signed digest"),
    "an empty directory added": (
        lambda one: (one.package / "json").mkdir(mode=0o755), "package/json is an empty directory"
    ),
    "a symlink added": (lambda one: (one.package / "x").symlink_to("bin/plugin"), "package/x is a symlink"),
    "a pipe added": (lambda one: os.mkfifo(one.package / "x"), "package/x is neither a file nor a directory"),
    "a name that is not UTF-8": (
        lambda one: Path(os.fsdecode(os.fsencode(one.package) + b"/\xff")).touch(0o444), "not UTF-8"
    ),
    "a file removed": (lambda one: (one.package / "schemas/input.json").unlink(), "package/schemas"),
    "a file renamed": (
        lambda one: (one.package / "bin/plugin").rename(one.package / "bin/plugim"), "do not match the signed digest"
    ),
    "a program that is none": (lambda one: (one.package / "bin/plugin").chmod(0o444), "do not match the signed digest"),
    "a file that others may write": (
        lambda one: (one.package / "bin/plugin").chmod(0o577), "package/bin/plugin has mode 0577"
    ),
    "a set-user-id program": (
        lambda one: (one.package / "bin/plugin").chmod(0o4555), "package/bin/plugin has mode 4555"
    ),
    "a directory that others may write": (
        lambda one: (one.package / "bin").chmod(0o777), "package/bin has mode 0777"
    ),
    "a release that others may write": (lambda one: one.folder.chmod(0o775), ". has mode 0775"),
    "a directory behind a symlink": (moved_behind_a_symlink, "package/schemas is a symlink"),
    "a release behind a symlink": (release_behind_a_symlink, "a symlink"),
    "the OCI manifest": (
        lambda one: rewrite(one.folder / "manifest.json", b"["), "manifest.json was changed"
    ),
    "no OCI manifest": (lambda one: (one.folder / "manifest.json").unlink(), "manifest.json is missing"),
    "a file beside the package": (
        lambda one: (one.folder / "more").touch(0o444), "more is not part of a release"
    ),
    "no package": (lambda one: swapped(one.package), "package is missing"),
    "nothing": (lambda one: swapped(one.folder), "No such file"),
}  # fmt: skip


@pytest.mark.clause("VAI-84")
@pytest.mark.parametrize("what", DAMAGES)
def test_every_difference_is_found_also_after_the_release_was_found_undamaged(what, installed, store, cache):
    damage, told = DAMAGES[what]
    store.check(installed)
    store.check(installed)
    assert cache.reads == 1
    damage(installed)
    with pytest.raises(Damaged) as refused:
        store.check(installed)
    assert told in refused.value.message
    assert "plughost install PACKAGE" in refused.value.hint
    assert installed.release.digest in refused.value.hint
    assert told in (installed.damage() or ""), "a host that sees it for the first time says the same"
    with pytest.raises(Damaged):
        store.check(installed)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("path", [".", "package", "package/bin", "package/bin/plugin"])
def test_what_belongs_to_another_user_is_not_part_of_a_release(path, installed, store):
    os.chown(installed.folder / path, 65534, -1)
    with pytest.raises(Damaged, match="belongs to user 65534"):
        store.check(installed)


def test_an_unchanged_release_is_read_once_and_one_whose_ctime_changed_again(installed, store, cache):
    for _ in range(3):
        store.check(installed)
    assert cache.reads == 1
    os.utime(installed.package / "bin/plugin")
    for _ in range(3):
        store.check(installed)
    assert cache.reads == 2


def test_what_was_written_just_before_is_read_again_because_its_timestamps_may_not_change(installed, store):
    # The folder itself was changed last: it was renamed to its place.
    written = max(path.stat().st_ctime_ns for path in (installed.folder, *installed.folder.rglob("*")))
    now = written
    store.integrity = IntegrityCache(now=lambda: now)
    for wait, reads in ((0, 1), (TIMESTAMP_MARGIN, 2), (TIMESTAMP_MARGIN + 1, 3), (TIMESTAMP_MARGIN + 1, 3)):
        now = written + wait
        store.check(installed)
        assert store.integrity.reads == reads


def test_a_manifest_that_was_changed_is_never_parsed(installed):
    manifest = installed.package / "vai-plugin.toml"
    assert installed.manifest.name == "Little"
    rewrite(manifest, b"#")
    with pytest.raises(Damaged, match=r"vai-plugin.toml was changed after the installation"):
        _ = installed.manifest
    manifest.unlink()
    with pytest.raises(Damaged, match="No such file"):
        _ = installed.manifest


async def test_a_repaired_release_is_undamaged_for_a_host_that_saw_the_damage(
    installed, signed, store, trust, cache
):
    rewrite(installed.package / "bin/plugin", b"#!/bin/sh\nXXX\n")
    with pytest.raises(Damaged):
        store.check(installed)
    await install(little.place(signed), Store(store.root).open(), trust)
    store.check(installed)


def test_no_more_of_a_file_that_grew_is_read_than_was_installed(installed, store):
    plugin = installed.package / "bin/plugin"
    plugin.chmod(0o644)
    os.truncate(plugin, 1 << 40)
    plugin.chmod(0o555)
    with pytest.raises(Damaged, match="do not match the signed digest"):
        store.check(installed)
