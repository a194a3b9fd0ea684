"""An artifact on its way, while others write to the same place."""

from __future__ import annotations

import pytest

from plughost.base.errors import InvalidSpec
from plughost.packages.oci.layout import LayoutFolder
from plughost.packages.oci.transfer import copy
from tests.packages.oci.artifacts import put_artifact


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
    with pytest.raises(InvalidSpec, match=r"0.1.0 is published already, with other bytes"):
        await copy("0.1.0", source, target, "0.1.0")
    theirs, _ = await target.manifest("0.1.0")
    assert theirs.digest != (await source.manifest("0.1.0"))[0].digest
