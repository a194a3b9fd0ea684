"""An artifact on its way, while others write to the same place."""

from __future__ import annotations

import pytest

from plughost.errors import InvalidSpec
from plughost.vai.packages.oci import copy_artifact
from plughost.vai.packages.oci.content_store import EMPTY, INDEX, MANIFEST, Descriptor, no_progress
from plughost.vai.packages.oci.copy_artifact import copy
from plughost.vai.packages.oci.digests import describe
from plughost.vai.packages.oci.layout.folder import LayoutFolder
from plughost.vai.packages.oci.manifests import write_index
from tests.support.oci_artifacts import SIGNATURE, image, put_artifact, put_signature


@pytest.fixture
async def source(tmp_path):
    layout = LayoutFolder(tmp_path / "source")
    await put_artifact(layout)
    return layout


class Contested(LayoutFolder):
    """Somebody else publishes the same version with other bytes: while blobs are sent, or right after us."""

    def __init__(self, root, moment):
        super().__init__(root)
        self._other = LayoutFolder(root)
        self._moment = moment

    async def push_manifest(self, body, media_type, reference):
        if self._moment == "before" and reference is None:
            await put_artifact(self._other, layer=b"other bytes")
        pushed = await super().push_manifest(body, media_type, reference)
        if self._moment == "after" and reference is not None:
            await put_artifact(self._other, layer=b"other bytes")
        return pushed


@pytest.mark.clause("VAI-01")
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_who_publishes_other_bytes_at_the_same_time_is_told(moment, source, tmp_path):
    target = Contested(tmp_path / "target", moment)
    with pytest.raises(InvalidSpec, match=r"0.1.0 is already published with different contents"):
        await copy("0.1.0", source, target, "0.1.0")
    theirs, _ = await target.manifest("0.1.0")
    assert theirs.digest != (await source.manifest("0.1.0"))[0].digest


class Crowded(LayoutFolder):
    """Has referrers that are indexes, as a registry may."""

    async def referrers(self, digest, artifact_type):
        entry = await self.push_manifest(write_index([]), INDEX, None)
        return [entry, *await super().referrers(digest, artifact_type)]


async def put_sbom(content, subject, size, number=0):
    config = describe(b"{}", EMPTY)
    await content.push_blob(config, b"{}", no_progress)
    layer = Descriptor("application/sbom", f"sha256:{number:064x}", size)
    layers = [layer] if size else []
    body = image(config, layers, "application/sbom", subject).replace(b"{", b"{" + b" " * number, 1)
    await content.push_manifest(body, MANIFEST, None)


async def test_what_others_say_of_an_artifact_stands_in_nobody_s_way(tmp_path, monkeypatch):
    monkeypatch.setattr(copy_artifact, "MAX_REFERRERS", 5)
    crowded, target = Crowded(tmp_path / "crowded"), LayoutFolder(tmp_path / "target")
    pushed = await put_artifact(crowded)
    await put_sbom(crowded, pushed, copy_artifact.MAX_REFERRER_BYTES + 1)
    for number in range(1, 10):
        await put_sbom(crowded, pushed, 0, number)
    signatures = [(await put_signature(crowded, pushed, b'{"n": %d}' % number)).digest for number in range(9)]
    copied = await copy("0.1.0", crowded, target, "0.1.0", signatures=SIGNATURE)
    assert copied.referrers[:9] == signatures
    assert len(copied.referrers) == 9 + 5
    assert [entry.digest for entry in await target.referrers(pushed.digest, SIGNATURE)] == signatures
