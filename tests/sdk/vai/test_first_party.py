"""The packages of this tree, made as `make packages` makes them: they need nothing but what is in them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from plughost.conformance.runner import run_axes
from plughost.contracts.vai import manifest
from plughost.vai.packages.pack import pack
from tests.support import ROOT, unconfined
from tests.support.conformance import failed
from tests.support.vai_packages import packaged
from tests.support.vai_wire import Talk

NAMES = ("acme-devkit", "thread-weave")


@pytest.mark.clause("VAI-20")
@pytest.mark.parametrize("name", NAMES)
def test_it_runs_with_nothing_but_its_own_files(tmp_path, name):
    folder = packaged(name, tmp_path)
    told = manifest.read(folder, manifest.in_folder(folder))
    packed = Path(pack(folder, tmp_path).file)
    assert f"dist/{packed.name}, with the SDK in it" in (folder / "README.md").read_text()
    with Talk([sys.executable, "-ISE", folder / "bin/plugin"]) as talk:
        assert talk.hello()["plugin"] == {"package_id": told.package_id, "version": told.version}
        assert talk.end() == 0


async def test_they_conform():
    told = {name: await run_axes(unconfined(ROOT / "plugins" / name)) for name in NAMES}
    assert {name: failed(report) for name, report in told.items()} == {name: {} for name in NAMES}
