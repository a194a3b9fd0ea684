"""The examples of docs/screens.md, as they stand there."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys

import pytest

from tests.support import ROOT
from tests.support.screens import Terminal

pytestmark = pytest.mark.serial

TEXT = (ROOT / "docs/screens.md").read_text()
EXAMPLES = re.findall(r"^plughost (.+)$", TEXT, re.M)
PLUGHOST = [sys.executable, "-m", "plughost.cli"]


def drawing(example: str) -> bool:
    return "--png" in example or "--svg" in example


@pytest.mark.parametrize("example", [each for each in EXAMPLES if drawing(each)])
def test_pictures_are_drawn(example, tmp_path):
    (tmp_path / "plugins").symlink_to(ROOT / "plugins")
    words = shlex.split(example)
    done = subprocess.run([*PLUGHOST, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for option in ("--png", "--svg"):
        if option in words:
            assert (tmp_path / words[words.index(option) + 1]).stat().st_size > 100
    if "--json" in words:
        [shown] = re.findall(r"```json\n(.*?)```", TEXT, re.S)
        assert json.loads(done.stdout).keys() == json.loads(shown).keys()


@pytest.mark.parametrize("example", [each for each in EXAMPLES if not drawing(each)])
def test_screens_are_shown(example):
    with Terminal([*PLUGHOST, *shlex.split(example)]) as terminal:
        terminal.until("80x23")
        terminal.press("C-q")
        terminal.until("left with 0")
