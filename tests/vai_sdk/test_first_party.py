"""The packages of this tree as their READMEs make them: with the SDK in them, packed, and run from what was packed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from plughost.contracts.vai import manifest
from plughost.packages.packing import pack
from tests.sdk.support import SDK
from tests.support import ROOT
from tests.vai_wire import Talk


@pytest.mark.clause("VAI-20")
@pytest.mark.parametrize("name", ["acme-devkit", "thread-weave"])
def test_it_runs_with_nothing_but_its_own_files(tmp_path, name):
    folder = tmp_path / f"plugins/{name}"
    shutil.copytree(
        ROOT / "plugins" / name, folder, ignore=shutil.ignore_patterns("__pycache__", "plughost_sdk")
    )
    [commands] = re.findall(r"```\n(.*?)```", (folder / "README.md").read_text(), re.S)[:1]
    vendoring, packing = commands.splitlines()
    words = vendoring.partition("#")[0].split()[1:]
    ran = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, env={"PYTHONPATH": str(SDK)}, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    told = manifest.read(folder, manifest.in_folder(folder))
    assert packing == f"plughost pack plugins/{name}"
    assert Path(pack(folder, tmp_path).file).exists()
    with Talk([sys.executable, "-ISE", folder / "bin/plugin"]) as talk:
        assert talk.hello()["plugin"] == {"package_id": told.package_id, "version": told.version}
        assert talk.end() == 0
