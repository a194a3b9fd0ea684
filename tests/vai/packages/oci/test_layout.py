"""A layout folder: whole files, checked bytes, any number of writers."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

import pytest

from plughost.vai.packages.oci.content_store import MANIFEST, no_progress
from plughost.vai.packages.oci.digests import describe
from plughost.vai.packages.oci.errors import BadContent, NotFound, TransferFailed
from plughost.vai.packages.oci.layout.folder import LayoutFolder
from tests.support import ROOT
from tests.support.oci_artifacts import ARTIFACT, LAYER, SIGNATURE, put_artifact, put_signature


@pytest.fixture
def layout(tmp_path):
    return LayoutFolder(tmp_path / "layout")


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


async def test_an_artifact_is_found_by_tag_by_digest_and_as_the_only_one(layout):
    pushed = await put_artifact(layout)
    await put_signature(layout, pushed)
    by_tag, body = await layout.manifest("0.1.0")
    assert (by_tag.digest, by_tag.artifactType, json.loads(body)["artifactType"]) == (
        pushed.digest,
        ARTIFACT,
        ARTIFACT,
    )
    assert (await layout.manifest(pushed.digest))[1] == body
    assert (await layout.manifest(""))[1] == body


@pytest.mark.clause("VAI-01")
async def test_its_files_are_those_of_an_oci_layout(layout):
    pushed = await put_artifact(layout)
    assert json.loads((layout.root / "oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads((layout.root / "index.json").read_bytes())
    assert index["schemaVersion"] == 2
    assert index["manifests"] == [
        {
            "mediaType": MANIFEST,
            "digest": pushed.digest,
            "size": pushed.size,
            "annotations": {"org.opencontainers.image.ref.name": "0.1.0"},
            "artifactType": ARTIFACT,
        }
    ]
    assert len(files(layout.root)) == 2 + 3


async def test_a_signature_is_found_from_its_subject_and_by_its_type(layout):
    pushed = await put_artifact(layout)
    signature = await put_signature(layout, pushed)
    assert [entry.digest for entry in await layout.referrers(pushed.digest, SIGNATURE)] == [signature.digest]
    assert [entry.artifactType for entry in await layout.referrers(pushed.digest, "")] == [SIGNATURE]
    assert await layout.referrers(pushed.digest, "application/other") == []
    assert await layout.referrers(signature.digest, "") == []


async def test_a_tag_means_the_last_one_and_the_other_stays(layout):
    first = await put_artifact(layout)
    second = await put_artifact(layout, layer=b"other")
    assert (await layout.manifest("0.1.0"))[0].digest == second.digest
    assert (await layout.manifest(first.digest))[0].digest == first.digest
    with pytest.raises(NotFound, match="holds 2 artifacts: name one by its tag or digest"):
        await layout.manifest("")


async def test_one_manifest_may_have_two_tags(layout):
    await put_artifact(layout, "a")
    await put_artifact(layout, "b")
    assert (await layout.manifest("a"))[1] == (await layout.manifest("b"))[1]


async def test_what_is_not_there_is_said_with_what_is(layout):
    await put_artifact(layout)
    with pytest.raises(NotFound, match="has no 0.2.0") as caught:
        await layout.manifest("0.2.0")
    assert caught.value.hint == "it has the tags 0.1.0"


async def test_altered_bytes_are_refused_and_no_file_is_left(layout, tmp_path):
    data = b"x" * 100_000
    blob = describe(data, LAYER)
    await layout.push_blob(blob, data, no_progress)
    layout.path_of(blob).write_bytes(b"y" + data[1:])
    with pytest.raises(BadContent, match=blob.digest):
        await layout.fetch(blob, tmp_path / "out", no_progress)
    assert os.listdir(tmp_path) == ["layout"]


async def test_altered_manifests_are_refused(layout):
    pushed = await put_artifact(layout)
    path = layout.path_of(pushed)
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(BadContent):
        await layout.manifest("0.1.0")


async def test_a_fetched_blob_is_counted_once_and_goes_on_where_it_was_cut(layout, tmp_path):
    data = os.urandom(10_000_000)
    blob = describe(data, LAYER)
    await layout.push_blob(blob, data, no_progress)
    (tmp_path / "out.partial").write_bytes(data[:7_000_000])
    moved = []
    await layout.fetch(blob, tmp_path / "out", moved.append)
    assert (moved[0], sum(moved)) == (7_000_000, 10_000_000)
    assert (tmp_path / "out").read_bytes() == data
    assert sorted(os.listdir(tmp_path)) == ["layout", "out"]


async def test_a_wrong_beginning_is_not_kept(layout, tmp_path):
    data = os.urandom(100_000)
    blob = describe(data, LAYER)
    await layout.push_blob(blob, data, no_progress)
    (tmp_path / "out.partial").write_bytes(bytes(50_000))
    with pytest.raises(BadContent):
        await layout.fetch(blob, tmp_path / "out", no_progress)
    await layout.fetch(blob, tmp_path / "out", no_progress)
    assert (tmp_path / "out").read_bytes() == data


async def test_fetching_twice_at_once_gives_one_whole_file(layout, tmp_path):
    data = os.urandom(20_000_000)
    blob = describe(data, LAYER)
    await layout.push_blob(blob, data, no_progress)
    await asyncio.gather(*(layout.fetch(blob, tmp_path / "out", no_progress) for _ in range(4)))
    assert (tmp_path / "out").read_bytes() == data
    assert sorted(os.listdir(tmp_path)) == ["layout", "out"]


async def test_a_full_disk_is_said_and_what_has_arrived_is_kept(layout, tmp_path, monkeypatch):
    data = os.urandom(9_000_000)
    blob = describe(data, LAYER)
    await layout.push_blob(blob, data, no_progress)
    real = os.write

    def full(fd, data):
        if os.lseek(fd, 0, os.SEEK_CUR) >= 4 << 20:
            raise OSError(28, "No space left on device")
        return real(fd, data)

    monkeypatch.setattr("plughost.vai.packages.oci.layout.blob_writer.os.write", full)
    with pytest.raises(TransferFailed, match="No space left on device") as caught:
        await layout.fetch(blob, tmp_path / "out", no_progress)
    assert "free disk space" in caught.value.hint
    monkeypatch.undo()
    assert sorted(os.listdir(tmp_path)) == ["layout", "out.partial"]
    moved = []
    await layout.fetch(blob, tmp_path / "out", moved.append)
    assert moved[0] == 4 << 20
    assert (tmp_path / "out").read_bytes() == data


WRITER = """
import asyncio, sys
from pathlib import Path
from plughost.vai.packages.oci.layout.folder import LayoutFolder
from tests.support.oci_artifacts import put_artifact
async def main():
    layout = LayoutFolder(Path(sys.argv[1]))
    for n in range(10):
        await put_artifact(layout, f"{sys.argv[2]}-{n}", layer=b"the same for all" * 10000)
asyncio.run(main())
"""


async def test_processes_that_write_at_once_lose_nothing(layout):
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, layout.root, str(n)], env=env, cwd=ROOT)
        for n in range(3)
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    tags = {f"{who}-{n}" for who in range(3) for n in range(10)}
    assert {
        (await layout.manifest(tag))[0].annotations["org.opencontainers.image.ref.name"] for tag in tags
    } == tags
    assert len(files(layout.root)) == 2 + 3, "no temporary file is left"


@pytest.mark.parametrize(
    "index",
    [
        b"",
        b"[]",
        b'{"schemaVersion": 1, "manifests": []}',
        b'{"schemaVersion": 2, "manifests": [{"mediaType": "x", "digest": "sha256:../../etc/passwd", "size": 1}]}',
        b'{"schemaVersion": 2, "manifests": [{"mediaType": "x", "digest": "sha256:%s", "size": -1}]}'
        % (b"0" * 64),
        b'{"schemaVersion": 2, "manifests": ' + b"[" * 100_000,
        b'{"schemaVersion": 2, "x": ' + b"[" * 100_000 + b"]" * 100_000 + b', "manifests": []}',
        b" " * (5 << 20),
    ],
)
async def test_a_hostile_index_is_one_error(layout, index):
    await put_artifact(layout)
    (layout.root / "index.json").write_bytes(index)
    with pytest.raises(TransferFailed):
        await layout.manifest("")


async def test_no_layout_is_not_found(layout):
    with pytest.raises(NotFound):
        await layout.manifest("0.1.0")
    with pytest.raises(NotFound):
        await layout.fetch(describe(b"x", LAYER), layout.root / "out", no_progress)
