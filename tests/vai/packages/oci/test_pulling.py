"""A pull that was cut goes on in the next command; one that was wrong leaves nothing."""

from __future__ import annotations

import asyncio
import os

import pytest

from plughost.errors import InvalidSpec
from plughost.vai.packages.oci.content_store import MANIFEST
from plughost.vai.packages.oci.errors import BadContent, TransferFailed
from plughost.vai.packages.oci.layout.tar_file import LayoutTar
from plughost.vai.packages.oci.manifests import read_manifest
from plughost.vai.packages.oci.reference import parse_reference
from plughost.vai.packages.oci.registry import repository
from plughost.vai.packages.oci.registry.retry import RetryPolicy
from plughost.vai.packages.pack import pack
from plughost.vai.packages.pull import pull
from tests.support.registry_faults import HASTY, document, problem
from tests.support.sample_package import write

HERE = "/v2/acme/little"


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr(repository, "RetryPolicy", lambda: HASTY)


@pytest.fixture
async def served(faulty, tmp_path):
    """A package of 3 MB in the faulty registry; its file, its archive and where that is asked for."""
    source = write(tmp_path / "source")
    (source / "assets").mkdir()
    (source / "assets/large").write_bytes(os.urandom(3_000_000))
    packed = pack(source, tmp_path)
    file = LayoutTar(tmp_path / "little-0.1.0.vai.tar")
    found, body = await file.manifest("")
    manifest = read_manifest(body)
    data = []
    for number, blob in enumerate(manifest.blobs):
        await file.fetch(blob, tmp_path / f"blob-{number}", lambda moved: None)
        data.append((tmp_path / f"blob-{number}").read_bytes())
    for name in ("0.1.0", found.digest):
        faulty.on(f"GET {HERE}/manifests/{name}", document(body, MANIFEST))
    faulty.on(f"GET {HERE}/blobs/{manifest.config.digest}", faulty.blob(data[0]))
    return packed.file, data[1], f"GET {HERE}/blobs/{manifest.layers[0].digest}"


async def pulled(faulty, folder):
    return await pull(
        parse_reference(f"{faulty.address}/acme/little:0.1.0"), str(folder), lambda done, total: None
    )


async def test_what_was_cut_goes_on_in_the_next_command(faulty, served, tmp_path, hasty):
    file, archive, asked = served
    faulty.on(asked, faulty.blob(archive, cut=2_000_000), problem(500, "gone"))
    (tmp_path / "got").mkdir()
    with pytest.raises(TransferFailed, match="gone"):
        await pulled(faulty, tmp_path / "got")
    (landing,) = os.listdir(tmp_path / "got")
    assert landing.startswith(".plughost-pull-")
    faulty.served = 0
    faulty.on(asked, faulty.blob(archive))
    told = await pulled(faulty, tmp_path / "got")
    assert faulty.served == len(archive) - 2_000_000
    assert os.listdir(tmp_path / "got") == ["little-0.1.0.vai.tar"]
    assert (tmp_path / "got/little-0.1.0.vai.tar").read_bytes() == open(file, "rb").read()
    assert told.signatures == []


async def test_two_at_once_do_not_take_each_other_apart(faulty, served, tmp_path, hasty):
    _, archive, asked = served
    asked_for = asyncio.Event()
    going_on = asyncio.Event()

    async def slowly(exchange):
        asked_for.set()
        await going_on.wait()
        await faulty.blob(archive)(exchange)

    faulty.on(asked, slowly)
    (tmp_path / "got").mkdir()
    first = asyncio.ensure_future(pulled(faulty, tmp_path / "got"))
    await asked_for.wait()
    with pytest.raises(InvalidSpec, match="another process is pulling it"):
        await pulled(faulty, tmp_path / "got")
    going_on.set()
    await first
    assert os.listdir(tmp_path / "got") == ["little-0.1.0.vai.tar"]
    assert (await pulled(faulty, tmp_path / "got")).file == str(tmp_path / "got/little-0.1.0.vai.tar")


async def test_a_folder_that_is_not_there_is_told(faulty, served, tmp_path):
    with pytest.raises(InvalidSpec, match="there is no folder"):
        await pulled(faulty, tmp_path / "nowhere/x.vai.tar")


async def test_wrong_bytes_leave_nothing(faulty, served, tmp_path, hasty):
    _, archive, asked = served
    faulty.on(asked, faulty.blob(bytes(len(archive))))
    (tmp_path / "got").mkdir()
    with pytest.raises(BadContent):
        await pulled(faulty, tmp_path / "got")
    assert os.listdir(tmp_path / "got") == []


async def test_nothing_that_came_leaves_nothing(faulty, served, tmp_path, hasty):
    faulty.scripts = {key: plays for key, plays in faulty.scripts.items() if "blobs" not in key}
    (tmp_path / "got").mkdir()
    with pytest.raises(TransferFailed):
        await pulled(faulty, tmp_path / "got")
    assert os.listdir(tmp_path / "got") == []


async def test_a_full_disk_leaves_only_what_can_be_continued(faulty, served, tmp_path, hasty, monkeypatch):
    file, archive, asked = served
    faulty.on(asked, faulty.blob(archive))
    (tmp_path / "got").mkdir()
    real = os.write

    def full(fd, data):
        if os.lseek(fd, 0, os.SEEK_CUR) >= 1_000_000:
            raise OSError(28, "No space left on device")
        return real(fd, data)

    monkeypatch.setattr("plughost.vai.packages.oci.layout.blob_writer.os.write", full)
    with pytest.raises(TransferFailed, match="No space left on device"):
        await pulled(faulty, tmp_path / "got")
    monkeypatch.undo()
    (landing,) = (tmp_path / "got").iterdir()
    assert [path.stat().st_size >= 1_000_000 for path in landing.rglob("*.partial")] == [True]
    await pulled(faulty, tmp_path / "got")
    assert (tmp_path / "got/little-0.1.0.vai.tar").read_bytes() == open(file, "rb").read()


async def test_a_disk_that_is_full_at_the_end_keeps_what_has_come(
    faulty, served, tmp_path, hasty, monkeypatch
):
    file, archive, asked = served
    faulty.on(asked, faulty.blob(archive))
    (tmp_path / "got").mkdir()

    def full(body, version, blobs, out):
        out.write(body)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("plughost.vai.packages.pull.write_file", full)
    with pytest.raises(TransferFailed, match="No space left on device") as caught:
        await pulled(faulty, tmp_path / "got")
    assert "free disk space" in caught.value.hint
    monkeypatch.undo()
    (landing,) = (tmp_path / "got").iterdir()
    assert not (landing / "whole").exists()
    faulty.served = 0
    monkeypatch.setattr(repository, "RetryPolicy", lambda: HASTY)
    await pulled(faulty, tmp_path / "got")
    assert faulty.served == 0
    assert (tmp_path / "got/little-0.1.0.vai.tar").read_bytes() == open(file, "rb").read()
    assert os.listdir(tmp_path / "got") == ["little-0.1.0.vai.tar"]


async def test_a_signature_of_another_package_is_not_taken_for_one_of_this(faulty, served, tmp_path, hasty):
    _, archive, asked = served
    faulty.on(asked, faulty.blob(archive))
    (tmp_path / "got").mkdir()
    (tmp_path / "got/marketplace.signature.json").write_text("somebody else's")
    with pytest.raises(InvalidSpec, match=r"acme/little@0.1.0 has no signature"):
        await pulled(faulty, tmp_path / "got")
    assert os.listdir(tmp_path / "got") == ["marketplace.signature.json"]


def test_the_usual_patience_is_a_human_one():
    usual = RetryPolicy()
    worst = sum(min(usual.longest, usual.first * 2**n) for n in range(usual.retries))
    assert worst < 10, "seconds until a dead registry is told"


async def test_what_is_there_already_is_not_believed(faulty, served, tmp_path, hasty):
    """A machine that lost its power may leave a file of the right size."""
    file, archive, asked = served
    faulty.on(asked, faulty.blob(archive))
    digest = asked.rpartition("/")[2].removeprefix("sha256:")
    (tmp_path / "got").mkdir()
    found = (await LayoutTar(tmp_path / "little-0.1.0.vai.tar").manifest(""))[0].digest
    blobs = tmp_path / f"got/.plughost-pull-{found.removeprefix('sha256:')[:16]}/blobs/sha256"
    blobs.mkdir(parents=True)
    (blobs / digest).write_bytes(bytes(len(archive)))
    told = await pulled(faulty, tmp_path / "got")
    with open(file, "rb") as expected, open(told.file, "rb") as got:
        assert got.read() == expected.read()


async def test_a_folder_that_somebody_else_has_put_there_is_not_used(faulty, served, tmp_path, hasty):
    _, archive, asked = served
    faulty.on(asked, faulty.blob(archive))
    found = (await LayoutTar(tmp_path / "little-0.1.0.vai.tar").manifest(""))[0].digest
    for name in ("got", "elsewhere"):
        (tmp_path / name).mkdir()
    landing = tmp_path / f"got/.plughost-pull-{found.removeprefix('sha256:')[:16]}"
    landing.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidSpec, match="only this user"):
        await pulled(faulty, tmp_path / "got")
    assert os.listdir(tmp_path / "elsewhere") == []
    landing.unlink()
    landing.mkdir()
    landing.chmod(0o777)
    with pytest.raises(InvalidSpec, match="only this user"):
        await pulled(faulty, tmp_path / "got")
