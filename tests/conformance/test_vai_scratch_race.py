"""A plugin on trial swaps folders that the host has just made in its scratch root: nothing outside changes."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import msgspec
import pytest

from plughost import config
from plughost.conformance.runner import ConformanceReport, run_axes
from tests.sandbox.conftest import folder, strict  # noqa: F401
from tests.support import unconfined
from tests.support.conformance import CANARIES

SWAPPER = """
import ctypes, os, threading

def swap(root, target):
    libc = ctypes.CDLL(None)
    aside = os.path.join(root, "aside")
    os.symlink(target, aside)
    while True:
        for name in os.listdir(root):
            if name != "aside":
                libc.renameat2(-100, os.path.join(root, name).encode(), -100, aside.encode(), 2)

def begin(place):
    root = os.path.dirname(place)
    if not os.path.lexists(os.path.join(root, "aside")):
        threading.Thread(target=swap, args=(root, TARGET), daemon=True).start()

def work"""


@pytest.fixture
def victim(folder: Path) -> Path:  # noqa: F811
    path = folder / "victim"
    path.mkdir()
    (path / "file").write_text("kept")
    path.chmod(0o700)
    return path


def untouched(victim: Path) -> bool:
    return stat.S_IMODE(victim.stat().st_mode) == 0o700 and (victim / "file").read_text() == "kept"


def reason(report: ConformanceReport) -> str:
    (verdict,) = report.verdicts
    assert verdict.outcome == "failed"
    return verdict.reason


async def test_a_folder_that_is_swapped_for_a_symlink_as_soon_as_it_is_made_opens_nothing(
    victim, monkeypatch
):
    """The plugin that is always fast enough, played in the host's own process."""
    make, swapped = os.mkdir, []

    def made_and_swapped(path, *how, **more):
        make(path, *how, **more)
        if os.path.basename(path).startswith("0-"):
            os.rename(path, f"{path}.aside")
            os.symlink(victim, path)
            swapped.append(path)

    monkeypatch.setattr(os, "mkdir", made_and_swapped)
    report = await run_axes(unconfined(CANARIES / "vai/scratch"), only=["scratch"])
    assert "work replaced the scratch folder that was made for it" in reason(report)
    assert swapped
    assert untouched(victim)
    assert not os.path.lexists(os.path.dirname(swapped[0]))


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("sandbox", ["strict", "landlock"])
async def test_a_confined_plugin_that_swaps_its_scratch_folders_fails_and_changes_nothing(
    folder,  # noqa: F811
    victim,
    sandbox,
):
    place = Path(shutil.copytree(CANARIES / "vai/scratch", folder / "scratch"))
    program = place / "bin/plugin"
    text = program.read_text().replace("\ndef work", SWAPPER, 1).replace("TARGET", repr(str(victim)))
    asked = '    place = body["context"]["scratch_dir"]\n'
    began = "    if place: begin(place)\n    return succeed(id)\n"
    program.write_text(text.replace(asked, asked + began))
    report = await run_axes(
        msgspec.structs.replace(config.load_folder(place), sandbox=sandbox), only=["scratch"]
    )
    assert "scratch folder" in reason(report)
    assert untouched(victim)


async def test_what_a_plugin_leaves_in_its_home_is_told_however_deep_it_is(tmp_path):
    place = Path(shutil.copytree(CANARIES / "vai/scratch", tmp_path / "scratch"))
    program = place / "bin/plugin"
    dig = (
        "def work(id, body):\n"
        "    import os\n"
        "    os.chdir(os.environ['HOME'])\n"
        "    for _ in range(0 if os.path.exists('d') else 3000):\n"
        "        os.mkdir('d'); os.chdir('d')\n"
    )
    program.write_text(program.read_text().replace("def work(id, body):\n", dig, 1))
    report = await run_axes(unconfined(place), only=["scratch"])
    assert "it wrote outside its scratch folder: home/d/d" in reason(report)
