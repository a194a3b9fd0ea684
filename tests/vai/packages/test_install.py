"""A package enters the store whole and trusted, or nothing of it does."""

from __future__ import annotations

import functools
import os
import random
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from plughost.contracts.vai import manifest
from plughost.errors import InvalidConfig, InvalidSpec, PluginError
from plughost.vai.packages import fetch as examining
from plughost.vai.packages import install as installing
from plughost.vai.packages import lockfile, sign
from plughost.vai.packages.archive.limits import PackageLimits
from plughost.vai.packages.errors import Altered, HoldsSecret, Unacceptable, Unpinned, Untrusted, VersionTaken
from plughost.vai.packages.install import install
from plughost.vai.packages.locate import PackageLocation, on_disk
from plughost.vai.packages.oci.content_store import MANIFEST, no_progress
from plughost.vai.packages.oci.copy_artifact import copy
from plughost.vai.packages.oci.digests import describe
from plughost.vai.packages.oci.layout import blob_copy, blob_writer, tar_file
from plughost.vai.packages.oci.layout.folder import LayoutFolder
from plughost.vai.packages.release import Release
from plughost.vai.packages.store.store import Store
from plughost.vai.packages.trust import publishers as trusted
from plughost.vai.packages.trust.keys import read_private
from plughost.vai.packages.trust.signature import FILE, SignatureVerdict
from plughost.vai.packages.verify import verify_package
from tests.support import sample_package as little

DEVELOPMENT = trusted.TrustedPublishers(mode="development")


@pytest.mark.clause("VAI-01", "VAI-84")
async def test_a_signed_package_is_installed_and_readable_for_everybody(signed, store, trust):
    entered = await install(little.place(signed), store, trust)
    assert (entered.verdict.posture, entered.installed.release.digest) == ("trusted", signed.digest)
    assert store.installed() == [entered.installed]
    assert entered.installed.damage() is None
    for below, _, names in os.walk(store.root / "releases"):
        assert stat.S_IMODE(os.stat(below).st_mode) == 0o755
        for name in names:
            program = name == "plugin"
            assert stat.S_IMODE(os.stat(Path(below, name)).st_mode) == (0o555 if program else 0o444)
    assert (entered.installed.package / "bin/plugin").read_text() == "#!/bin/sh\ncat\n"
    assert os.listdir(store.root / "staging") == []


async def test_whatever_the_umask_another_user_can_run_it(signed, trust, folder):
    """As a root host's confined plugins do."""
    folder.chmod(0o755)
    before = os.umask(0o077)
    try:
        entered = await install(little.place(signed), Store(folder / "var/packages").open(), trust)
    finally:
        os.umask(before)
    user = 65534 if os.geteuid() == 0 else None
    ran = subprocess.run(
        [entered.installed.package / "bin/plugin"], user=user, input=b"hi", capture_output=True
    )
    assert (ran.stdout, ran.returncode) == (b"hi", 0)


@pytest.mark.clause("VAI-84")
async def test_in_production_an_unsigned_or_untrusted_package_is_refused_and_nothing_kept(
    made, signer, store, trust
):
    with pytest.raises(Untrusted, match="it is not signed"):
        await install(little.place(made), store, trust)
    little.sign(made, signer[0])
    with pytest.raises(Untrusted, match="is unknown, and is not trusted for acme"):
        await install(little.place(made), store, trusted.TrustedPublishers())
    assert little.kept(store) == []


@pytest.mark.clause("VAI-84")
async def test_in_development_it_is_kept_with_its_posture_and_altered_is_still_refused(
    made, signer, store, folder
):
    entered = await install(little.place(made), store, DEVELOPMENT)
    assert entered.verdict.posture == "unsigned"
    store.remove(entered.installed, forget=True)
    beside = little.sign(little.packed(folder / "other", version="0.2.0"), signer[0])
    Path(made.file).with_name(FILE).write_bytes(beside.read_bytes())
    with pytest.raises(Altered, match="different contents of acme/little@0.2.0"):
        await install(little.place(made), store, DEVELOPMENT)
    assert little.kept(store) == []


@pytest.mark.clause("VAI-01", "VAI-84")
@pytest.mark.parametrize(
    ("what", "sample"),
    [("package", 1000), ("signature", None), pytest.param("package", None, marks=pytest.mark.soak)],
    ids=["package", "signature", "package-whole"],
)
async def test_every_byte_counts(what, sample, signed, store, trust, monkeypatch):
    """One bit of each byte flipped in turn, or of a sample of them: refused each time, and nothing kept."""
    _hurry(monkeypatch)
    path = Path(signed.file) if what == "package" else Path(signed.file).with_name(FILE)
    whole = path.read_bytes()
    place = little.place(signed)
    everywhere = range(len(whole))
    for number in everywhere if sample is None else random.Random(what).sample(everywhere, sample):
        flipped = bytearray(whole)
        flipped[number] ^= 1 << number % 8
        path.write_bytes(flipped)
        try:
            await install(little.place(signed), store, trust)
        except PluginError:
            pass
        else:
            pytest.fail(f"byte {number} made no difference: {whole[number - 20 : number + 20]!r}")
        assert os.listdir(store.root / "staging") == os.listdir(store.root / "releases") == []
    assert little.kept(store) == []
    path.write_bytes(whole)
    await install(place, store, trust)


def _hurry(monkeypatch):
    """The same steps, without threads, without waiting for the disk, and reading each manifest once."""

    async def at_once(work):
        return work()

    for module in (examining, installing, blob_copy, blob_writer, tar_file):
        monkeypatch.setattr(module, "in_thread", at_once)
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(manifest, "parse", functools.cache(manifest.parse))


@pytest.mark.parametrize("size", [0, 511, 512, 5000])
async def test_a_file_cut_short_or_with_more_at_its_end_is_refused(size, signed, store, trust):
    path = Path(signed.file)
    whole = path.read_bytes()
    for wrong in (whole[:size], whole + bytes(size + 1)):
        path.write_bytes(wrong)
        with pytest.raises(PluginError):
            await install(little.place(signed), store, trust)
    assert little.kept(store) == []


@pytest.mark.clause("VAI-01")
async def test_other_bytes_under_a_published_version_are_refused_even_after_it_was_removed(
    signed, signer, store, trust, folder
):
    first = await install(little.place(signed), store, trust)
    other = little.packed(folder / "other", README_md="hello\n")
    little.sign(other, signer[0])
    for _ in range(2):
        with pytest.raises(VersionTaken, match=f"{signed.digest}, not {other.digest}"):
            await install(little.place(other), store, trust)
        store.remove(first.installed)
    again = await install(little.place(signed), store, trust)
    assert again.installed == first.installed
    store.remove(first.installed, forget=True)
    entered = await install(little.place(other), store, trust)
    assert (
        [one.release.digest for one in store.installed()]
        == [other.digest]
        == [entered.installed.release.digest]
    )


@pytest.mark.clause("VAI-01", "VAI-90")
async def test_a_secret_that_slipped_past_its_author_is_found_at_the_import(
    signer, store, trust, folder, monkeypatch
):
    monkeypatch.setattr("plughost.vai.packages.validate._refuse_secrets", lambda layer, shown: None)
    token = "ghp_" + "a1B2" * 9
    made = little.packed(folder, assets__notes_txt=f"one\ntwo\nkey: {token}\n")
    little.sign(made, signer[0])
    monkeypatch.undo()
    with pytest.raises(HoldsSecret) as caught:
        await install(little.place(made), store, trust)
    assert "assets/notes.txt:3: GitHub token" in caught.value.message
    assert token not in caught.value.explain()
    assert little.kept(store) == []
    told = (await verify_package(little.place(made), trust)).verdict
    assert (told.posture, token in told.why) == ("invalid", False)


@pytest.mark.clause("VAI-22")
async def test_a_package_for_another_machine_is_refused(signer, store, folder):
    foreign = little.MANIFEST.replace('"amd64", "arm64"', '"s390x"')
    made = little.packed(folder, manifest=foreign)
    with pytest.raises(InvalidSpec, match="built for linux on s390x"):
        await install(little.place(made), store, DEVELOPMENT)
    assert little.kept(store) == []


async def test_what_is_too_large_is_refused_before_it_is_unpacked(made, store):
    for limits in (
        PackageLimits(total_bytes=2048),
        PackageLimits(file_bytes=10),
        PackageLimits(files=2),
        PackageLimits(path_bytes=8),
    ):
        with pytest.raises(Unacceptable):
            await install(little.place(made), store, DEVELOPMENT, limits=limits)
    assert little.kept(store) == []


async def test_a_manifest_beside_the_archive_must_be_the_one_in_it(made, store, folder):
    """A signature covers both, but a reader of only one must not be misled."""
    body, text, archive = _parts(made)
    layout = LayoutFolder(folder / "layout")
    other = text.replace(b"Little", b"Large!")
    body = body.replace(_digest(text), _digest(other))
    await _push(layout, body, other, archive)
    with pytest.raises(Unacceptable, match="differs from the one"):
        await install(PackageLocation(layout), store, DEVELOPMENT)
    assert little.kept(store) == []


@pytest.mark.clause("VAI-84")
async def test_a_layout_carries_package_and_signature_and_so_does_its_copy(
    made, signer, store, trust, folder
):
    layout, twin = LayoutFolder(folder / "layout"), LayoutFolder(folder / "twin")
    await _push(layout, *_parts(made))
    with pytest.raises(Untrusted):
        await install(PackageLocation(layout), store, trust)
    await sign.sign(PackageLocation(layout), read_private(signer[0]), trusted.now())
    for junk in (b"{}", b"junk"):  # others may add what they like
        await sign.attach(layout, describe(_parts(made)[0], MANIFEST), junk)
    await copy("0.1.0", layout, twin, "0.1.0")
    entered = await install(PackageLocation(twin, "0.1.0"), store, trust)
    assert (entered.verdict.posture, entered.verdict.key_id) == ("trusted", signer[1].id)
    assert entered.installed.release.digest == made.digest


async def test_what_others_attach_does_not_stand_in_the_way_of_a_signature(made, signer, store, folder):
    class Forgetful(LayoutFolder):
        """Lists what it has no more."""

        async def referrers(self, digest, artifact_type):
            gone = describe(b"gone", MANIFEST, artifact_type=artifact_type)
            return [gone, *await super().referrers(digest, artifact_type)]

    layout = Forgetful(folder / "layout")
    await _push(layout, *_parts(made))
    assert (await install(PackageLocation(layout), store, DEVELOPMENT)).verdict.posture == "unsigned"
    for junk in (b"junk", b" " * (2 << 20)):
        await sign.attach(layout, describe(_parts(made)[0], MANIFEST), junk)
    with pytest.raises(Untrusted, match="cannot be read"):
        await install(PackageLocation(layout), store, DEVELOPMENT)
    await sign.sign(PackageLocation(layout), read_private(signer[0]), trusted.now())
    verdict = (await install(PackageLocation(layout), store, DEVELOPMENT)).verdict
    assert (verdict.posture, verdict.key_id) == ("unknown_key", signer[1].id)


async def test_the_trusted_signature_is_found_behind_any_number_of_others(
    made, signer, store, trust, folder, monkeypatch
):
    fetched = []

    class Flooded(LayoutFolder):
        async def referrers(self, digest, artifact_type):
            gone = [describe(b"%d" % number, MANIFEST, artifact_type=artifact_type) for number in range(300)]
            return [*gone, *await super().referrers(digest, artifact_type)]

        async def fetch(self, blob, into, progress):
            fetched.append(into.name)
            await super().fetch(blob, into, progress)

    layout = Flooded(folder / "layout")
    await _push(layout, *_parts(made))
    for number in range(80):
        await sign.attach(layout, describe(_parts(made)[0], MANIFEST), b"junk %d" % number)
    await sign.sign(PackageLocation(layout), read_private(signer[0]), trusted.now())
    await sign.attach(layout, describe(_parts(made)[0], MANIFEST), b"more junk")
    fetched.clear()
    assert (await install(PackageLocation(layout), store, trust)).verdict.posture == "trusted"
    assert len(fetched) == 1 + 81 + 1  # its manifest, the signatures up to the one that counts, its archive


async def test_whoever_fetches_is_told_how_much_of_how_much(signed, signer, store, trust):
    size = len(_parts(signed)[2])
    for work in (
        lambda watch: install(little.place(signed), store, trust, watch=watch),
        lambda watch: verify_package(little.place(signed), trust, watch=watch),
        lambda watch: sign.sign(little.place(signed), read_private(signer[0]), trusted.now(), watch=watch),
    ):
        told = []
        await work(lambda done, total, told=told: told.append((done, total)))
        assert told[-1] == (size, size)


async def test_a_lock_file_lets_nothing_else_in(signed, signer, store, trust, folder):
    verdict = (await install(little.place(signed), store, trust)).verdict
    release = little.release_of(signed)
    file = folder / lockfile.FILE
    lockfile.write(file, lockfile.Lockfile().with_release(release, verdict))
    await install(little.place(signed), store, trust, pins=lockfile.read(file))
    newer = little.packed(folder / "other", version="0.2.0")
    little.sign(newer, signer[0])
    with pytest.raises(Unpinned, match=r"little@0.2.0 is not in the lock file; pinned versions: 0.1.0"):
        await install(little.place(newer), store, trust, pins=lockfile.read(file))
    second, public = little.key(folder, "second")
    little.sign(signed, second)
    with pytest.raises(
        Unpinned, match=f"is pinned with the key {signer[1].id}, but is signed by {public.id}"
    ):
        await install(little.place(signed), store, little.trusting(public), pins=lockfile.read(file))
    moved = lockfile.Lockfile([msgspec.structs.replace(lockfile.read(file).package[0], digest=newer.digest)])
    with pytest.raises(Unpinned, match="the lock file pins"):
        await install(little.place(signed), store, little.trusting(public), pins=moved)


async def test_a_second_signature_does_not_stand_in_the_way_of_the_pinned_one(made, store, folder):
    """A publisher changes keys and signs once more."""
    layout = LayoutFolder(folder / "layout")
    await _push(layout, *_parts(made))
    public = []
    for name in ("old", "new"):
        private, key = little.key(folder, name)
        public.append(key)
        await sign.sign(PackageLocation(layout), read_private(private), trusted.now())
    who = trusted.TrustedPublishers(
        publishers={"acme": trusted.Publisher(keys=[trusted.TrustedKey(key=key.text) for key in public])}
    )
    for key in public:
        pinned = lockfile.Lockfile(
            [lockfile.LockedPackage(made.package_id, made.version, made.digest, key.id)]
        )
        assert (await install(PackageLocation(layout), store, who, pins=pinned)).verdict.key_id == key.id


def test_whoever_pins_at_the_same_time_loses_nothing(folder):
    names = [f"acme/p{number}" for number in range(24)]

    def pin(name):
        release = Release(name, "1.0.0", "sha256:" + "a" * 64, "sha256:" + "b" * 64)
        lockfile.save(folder / lockfile.FILE, release, SignatureVerdict("trusted", "acme", "c" * 64))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(pin, names))
    assert [pin.package_id for pin in lockfile.read(folder / lockfile.FILE).package] == sorted(names)


def test_a_broken_lock_file_tells_every_problem_with_its_line(folder):
    file = folder / lockfile.FILE
    file.write_text('[[package]]\npackage_id = "a/b"\nversion = "1.0.0"\ndigest = "md5:1"\nkey = "x"\n')
    with pytest.raises(InvalidConfig) as caught:
        lockfile.read(file)
    assert [problem.line for problem in caught.value.problems] == [4, 5]


def _parts(made):
    import tarfile

    with tarfile.open(made.file) as tar:
        blobs = [tar.extractfile(member).read() for member in tar if member.name.startswith("blobs/")]
    body = next(blob for blob in blobs if _digest(blob) == made.digest.removeprefix("sha256:").encode())
    text = next(blob for blob in blobs if blob.startswith(b"api_version"))
    (archive,) = [blob for blob in blobs if blob not in (body, text)]
    return body, text, archive


def _digest(data):
    import hashlib

    return hashlib.sha256(data).hexdigest().encode()


async def _push(layout, body, text, archive):
    for blob in (text, archive):
        await layout.push_blob(describe(blob, "x"), blob, no_progress)
    await layout.push_manifest(body, MANIFEST, "0.1.0")


async def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(signed, folder):
    """An archive that somebody has unpacked may hold such a thing."""
    layout = LayoutFolder(folder / "layout")
    await _push(layout, *_parts(signed))
    blob = layout.root / "blobs/sha256" / signed.digest.removeprefix("sha256:")
    for pipe, what in (
        (Path(signed.file).with_name(FILE), signed.file),
        (blob, layout.root),
        (layout.root / "index.json", layout.root),
    ):
        pipe.unlink()
        os.mkfifo(pipe)
        # In a process of its own: a thread that waits for a pipe's other end cannot be ended.
        ran = subprocess.run(
            [sys.executable, "-m", "plughost.cli", "verify", what], capture_output=True, text=True, timeout=30
        )
        assert (ran.returncode != 0, "not a regular file" in ran.stderr) == (True, True), ran.stderr


def test_a_name_that_no_file_can_have_is_a_reference():
    assert on_disk(Path("x" * 300)) is None
