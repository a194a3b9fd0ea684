"""The examples of the notes plugins run as they stand, and find what they have kept."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import pytest

from tests.support import ROOT
from tests.support.confinable import PATH, PUBLIC_PYTHON
from tests.support.notes import compiled, copied


def examples(name):
    (block,) = re.findall(r"```sh\n(.*?)```", (ROOT / "plugins" / name / "README.md").read_text(), re.S)
    return [shlex.split(line) for line in block.splitlines()]


@pytest.mark.parametrize(
    ("name", "program", "found"),
    [
        ("notes", PUBLIC_PYTHON, '"content": "Tea is at five on the terrace"'),
        ("notes-ts", "", '"content":"Tea is at five"'),
    ],
)
def test_the_examples_run_one_after_another(ground, name, program, found):
    if name == "notes-ts":
        compiled()
    copied(name, ground / "plugins", program)
    env = {
        **os.environ,
        "XDG_STATE_HOME": str(ground / "state"),
        "XDG_DATA_HOME": str(ground / "data"),
        "PATH": PATH,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    told = []
    for line in examples(name):
        assert line[0] == "plughost"
        command = [sys.executable, "-m", "plughost.cli", *line[1:]]
        ran = subprocess.run(command, cwd=ground, env=env, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, ran.stderr
        told.append(ran.stdout)
    assert '"stored"' in told[0]
    assert found in told[1]
    assert len(told) == 2 or '["house"]' in told[2]
