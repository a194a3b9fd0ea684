"""A layout as one tar file: the same bytes for the same content, and no other tar's tricks."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile

import pytest

from plughost.errors import InvalidSpec
from plughost.vai.packages.oci.content_store import MANIFEST, no_progress
from plughost.vai.packages.oci.copy_artifact import copy
from plughost.vai.packages.oci.digests import describe
from plughost.vai.packages.oci.errors import BadContent, NotFound, TransferFailed
from plughost.vai.packages.oci.layout.folder import LayoutFolder
from plughost.vai.packages.oci.layout.tar_file import LayoutTar, write_tar
from tests.support.oci_artifacts import LAYER, SIGNATURE, put_artifact, put_signature


async def filled(folder, *, layer=b"layer" * 100_000):
    layout = LayoutFolder(folder)
    pushed = await put_artifact(layout, layer=layer)
    await put_signature(layout, pushed)
    return layout, pushed


async def test_what_was_written_is_read(tmp_path):
    layer = os.urandom(1_000_001)
    layout, pushed = await filled(tmp_path / "layout", layer=layer)
    write_tar(layout, tmp_path / "x.vai.tar")
    read = LayoutTar(tmp_path / "x.vai.tar")
    assert await read.manifest("0.1.0") == await layout.manifest("0.1.0")
    assert (await read.manifest(""))[0].digest == pushed.digest
    assert await read.referrers(pushed.digest, SIGNATURE) == await layout.referrers(pushed.digest, SIGNATURE)
    await read.fetch(describe(layer, LAYER), tmp_path / "out", no_progress)
    assert (tmp_path / "out").read_bytes() == layer
    assert sorted(os.listdir(tmp_path)) == ["layout", "out", "x.vai.tar"]


@pytest.mark.clause("VAI-01")
async def test_equal_content_gives_equal_bytes(tmp_path):
    first, pushed = await filled(tmp_path / "first")
    write_tar(first, tmp_path / "first.tar")
    second = LayoutFolder(tmp_path / "second")
    await copy("", LayoutTar(tmp_path / "first.tar"), second, "0.1.0")
    (second.root / "blobs/sha256/left.partial").write_bytes(b"half")
    os.utime(second.path_of(pushed), (1, 1))
    write_tar(second, tmp_path / "second.tar")
    assert (tmp_path / "first.tar").read_bytes() == (tmp_path / "second.tar").read_bytes()


async def test_tar_itself_reads_it(tmp_path):
    layout, _ = await filled(tmp_path / "layout")
    write_tar(layout, tmp_path / "x.tar")
    (tmp_path / "unpacked").mkdir()
    subprocess.run(["tar", "xf", tmp_path / "x.tar", "-C", tmp_path / "unpacked"], check=True)
    assert (await LayoutFolder(tmp_path / "unpacked").manifest("0.1.0")) == (await layout.manifest("0.1.0"))


@pytest.mark.parametrize("style", ["gnu", "ustar", "posix", "v7"])
async def test_one_that_tar_made_is_read(tmp_path, style):
    layout, pushed = await filled(tmp_path / "layout")
    subprocess.run(
        ["tar", f"--format={style}", "-cf", tmp_path / "x.tar", "-C", layout.root, "."], check=True
    )
    assert (await LayoutTar(tmp_path / "x.tar").manifest(""))[0].digest == pushed.digest


async def test_nothing_is_added_to_a_finished_file(tmp_path):
    layout, _ = await filled(tmp_path / "layout")
    write_tar(layout, tmp_path / "x.tar")
    with pytest.raises(InvalidSpec, match="is complete"):
        await put_artifact(LayoutTar(tmp_path / "x.tar"))
    with pytest.raises(InvalidSpec, match="is complete"):
        await LayoutTar(tmp_path / "x.tar").push_manifest(b"{}", MANIFEST, "1")


async def test_altered_bytes_are_refused(tmp_path):
    layer = b"layer" * 1000
    layout, _ = await filled(tmp_path / "layout", layer=layer)
    write_tar(layout, tmp_path / "x.tar")
    altered = (tmp_path / "x.tar").read_bytes().replace(b"layerlayer", b"layerLayer", 1)
    (tmp_path / "x.tar").write_bytes(altered)
    with pytest.raises(BadContent):
        await LayoutTar(tmp_path / "x.tar").fetch(describe(layer, LAYER), tmp_path / "out", no_progress)
    assert not (tmp_path / "out").exists()


def tar(*members, pax=None):
    """A tar with these (name, content or type)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT, pax_headers=pax) as written:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes) and len(content) == 1:
                info.type, info.linkname = content, "/etc/passwd"
                written.addfile(info)
            else:
                info.size = len(content)
                written.addfile(info, io.BytesIO(content))
    return out.getvalue()


def resized(archive, size):
    """With another size in its first header, and the sum to fit."""
    head = bytearray(archive[:512])
    head[124:136], head[148:156] = size, b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + archive[512:]


VERSION = ("oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
INDEX = ("index.json", json.dumps({"schemaVersion": 2, "manifests": []}).encode())
HOSTILE = {
    "nothing": b"",
    "no tar": b"x" * 2048,
    "zeros": bytes(10240),
    "no layout": tar(INDEX),
    "no index": tar(VERSION),
    "a link": tar(VERSION, ("index.json", tarfile.SYMTYPE)),
    "a hard link": tar(VERSION, ("index.json", tarfile.LNKTYPE)),
    "a device": tar(VERSION, INDEX, ("blobs/x", tarfile.CHRTYPE)),
    "twice": tar(VERSION, INDEX, INDEX),
    "twice, spelled otherwise": tar(VERSION, INDEX, ("./index.json", INDEX[1])),
    "cut off": tar(VERSION, ("index.json", b" " * 5000))[:3000],
    "a renaming header": tar(VERSION, INDEX, ("x" * 300, b"long")),
    "a renaming header for all": tar(VERSION, INDEX, pax={"path": "y"}),
    "a huge header": tar(VERSION, INDEX, pax={"comment": "y" * 100_000}),
    "a huge index": tar(VERSION, ("index.json", b" " * (5 << 20))),
    "a negative size": resized(tar(VERSION, INDEX), b"-0000002000\0"),
    "a size in another notation": resized(tar(VERSION, INDEX), b"\x80" + bytes(9) + b"\x00\x1f"),
    "a size with ornaments": resized(tar(VERSION, INDEX), b"0000000_037\0"),
}


@pytest.mark.parametrize("trick", HOSTILE)
async def test_another_tars_tricks_are_one_error(tmp_path, trick):
    (tmp_path / "x.tar").write_bytes(HOSTILE[trick])
    with pytest.raises(TransferFailed):
        await LayoutTar(tmp_path / "x.tar").manifest("")


@pytest.mark.parametrize("trick", [trick for trick in HOSTILE if "size" in trick])
async def test_a_size_has_one_spelling(tmp_path, trick):
    (tmp_path / "x.tar").write_bytes(HOSTILE[trick])
    with pytest.raises(BadContent, match="no tar header at byte 0"):
        await LayoutTar(tmp_path / "x.tar").manifest("")


async def test_a_file_that_was_cut_off_is_told_as_that(tmp_path):
    layout, _ = await filled(tmp_path / "layout")
    write_tar(layout, tmp_path / "x.tar")
    os.truncate(tmp_path / "x.tar", 300_000)
    with pytest.raises(BadContent, match="cut off within 'blobs/sha256/"):
        await LayoutTar(tmp_path / "x.tar").manifest("")


async def test_a_tar_of_a_million_files_is_not_read_to_the_end(tmp_path):
    one = tar(("a", b""))[:512]
    (tmp_path / "x.tar").write_bytes(one * 20_000)
    with pytest.raises(BadContent, match="twice|more than"):
        await LayoutTar(tmp_path / "x.tar").manifest("")


async def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(TransferFailed, match="No such file"):
        await LayoutTar(tmp_path / "x.tar").manifest("")
    layout, _ = await filled(tmp_path / "layout")
    write_tar(layout, tmp_path / "x.tar")
    with pytest.raises(NotFound):
        await LayoutTar(tmp_path / "x.tar").fetch(describe(b"other", LAYER), tmp_path / "out", no_progress)


async def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    layout, _ = await filled(tmp_path / "layout")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("plughost.vai.packages.oci.layout.tar_file.os.sendfile", full)
    with pytest.raises(TransferFailed, match="No space left"):
        write_tar(layout, tmp_path / "x.tar")
    assert os.listdir(tmp_path) == ["layout"]
