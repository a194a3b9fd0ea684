"""The examples of both plugins run as they stand, and show the sample logs; both keep their contract."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.support import ROOT


@pytest.fixture
def env(tmp_path):
    """A shell that has plughost."""
    program = tmp_path / "plughost"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m plughost.cli "$@"\n')
    program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "100"}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("session-reader", ["5 files", "1 lines left out", '"files": 5', '"exit_code":0']),
        ("burndown", ["tea-timer", "nova-preview-1", '"wire_version": 3', "--wait SECONDS", '"cells":']),
    ],
)
def test_the_examples_run_one_after_another(name, told, env):
    (block,) = re.findall(r"```sh\n(.*?)```", (ROOT / "plugins" / name / "README.md").read_text(), re.S)
    assert block.count("plughost ") >= len(told) - 1
    ran = subprocess.run(["sh", "-ec", block], cwd=ROOT, env=env, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    for words in told:
        assert words in ran.stdout


AXES = {
    "session-reader": ["manifest", "pubsub", "files", "chunks"],
    "burndown": ["manifest", "render", "cli"],
}


@pytest.mark.parametrize("name", AXES)
def test_both_keep_their_contract(name, env):
    """The axes that these plugins have something to do with; all of them take half a minute."""
    asked = [word for axis in AXES[name] for word in ("--axis", axis)]
    command = ["plughost", "conform", f"plugins/{name}", *asked]
    ran = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{len(AXES[name])} passed" in ran.stdout
    assert "skipped" not in ran.stdout or "0 skipped" in ran.stdout


def test_the_tour_shows_the_screen_and_the_totals(env):
    ran = subprocess.run(
        [sys.executable, "-m", "plughost.tour"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ran.returncode == 0, ran.stderr
    _, screen, command = re.split(r"the screen of burndown:|its command line", ran.stdout)
    assert "272k tokens  $0.75 + ?" in screen
    assert "2025-11-10" in screen
    assert ["tea-timer", "187k", "9", "$0.53"] in [line.split() for line in command.splitlines()]
