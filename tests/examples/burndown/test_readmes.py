"""The examples of both plugins run as they stand, and show the sample logs; both keep their contract."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.support import ROOT, confinable
from tests.support.confinable import PUBLIC_PYTHON

"""Of the examples."""


@pytest.fixture
def env(tmp_path):
    """A shell that has plughost."""
    program = tmp_path / "plughost"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m plughost.cli "$@"\n')
    program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "100"}


def examples(name: str) -> list[str]:
    return re.findall(r"```sh\n(.*?)```", (ROOT / "plugins" / name / "README.md").read_text(), re.S)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("session-reader", ["5 files", "1 lines left out", '"files": 5', '"exit_code":0']),
        ("burndown", ["tea-timer", "nova-preview-1", '"wire_version": 3', "--wait SECONDS", '"cells":']),
    ],
)
def test_the_examples_run_one_after_another(name, told, env):
    block, _ = examples(name)
    assert block.count("plughost ") >= len(told) - 1
    ran = subprocess.run(["sh", "-ec", block], cwd=ROOT, env=env, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    for words in told:
        assert words in ran.stdout


@pytest.mark.parametrize(("name", "told"), [("session-reader", '"exit_code":0'), ("burndown", '"cells":')])
def test_the_example_with_a_sandbox_runs_where_the_plugin_has_nothing_else(name, told, env):
    """In a checkout that the user of a confined plugin can reach, which ours need not be."""
    confinable.needs("strict")
    ask = [PUBLIC_PYTHON, "-c", "import sys; print(*sys.version_info[:2])"]
    version = subprocess.run(ask, capture_output=True, text=True, check=False).stdout.split()
    if version != [*map(str, sys.version_info[:2])]:
        pytest.skip(f"{PUBLIC_PYTHON} is of another version, and msgspec is compiled for ours")
    with confinable.open_folder() as place:
        shutil.copytree(ROOT / "plugins" / name, place / "plugins" / name)
        shutil.copytree(ROOT / "sdk/python/src", place / "sdk/python/src")
        site = place / ".venv/lib/python3.11/site-packages"
        shutil.copytree(Path(msgspec.__file__).parent, site / "msgspec")
        (place / "home").mkdir()
        _, block = examples(name)
        command = ["sh", "-ec", block]
        env = {**env, "HOME": str(place / "home")}
        ran = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    assert told in ran.stdout


@pytest.mark.parametrize("name", ["session-reader", "burndown"])
@pytest.mark.parametrize("way", ["whole", "relative", "bare", "linked folder", "linked file"])
def test_they_start_without_any_program_but_python(name, way, tmp_path):
    """A sandbox has none. For a link to the file itself, there must be one that reads it."""
    folder, programs = tmp_path / "plugins" / name, tmp_path / "programs"
    folder.mkdir(parents=True)
    programs.mkdir()
    program = folder / name
    shutil.copy(ROOT / "plugins" / name / name, program)
    (programs / "python3").write_text('#!/bin/sh\necho "$PYTHONPATH $*"\n')
    (programs / "python3").chmod(0o755)
    linked = tmp_path / "link"
    started = {"whole": program, "relative": f"plugins/{name}/{name}", "bare": name}.get(way, linked)
    if way == "linked folder":
        linked.symlink_to(folder)
        started = linked / name
    elif way == "linked file":
        linked.symlink_to(program)
        (programs / "readlink").symlink_to(shutil.which("readlink") or "")
    ran = subprocess.run(
        ["/bin/sh", started],
        cwd=folder if way == "bare" else tmp_path,
        env={"PATH": str(programs), "CDPATH": "/"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.split() == [f"{folder}/../../sdk/python/src", f"{folder}/main.py"]


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


def test_the_tour_shows_what_it_says(env):
    ran = subprocess.run(
        [sys.executable, "-m", "plughost.cli.commands.tour"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ran.returncode == 0, ran.stderr
    table, screen, command = re.split(r"the screen of burndown:|its command line", ran.stdout)
    rows = [
        [cell.strip() for cell in line.strip("│").split("│")] for line in table.splitlines() if "│" in line
    ]
    came = {(plugin, what): result for plugin, what, result, _ in rows if what}
    assert came["worker", "killed in the middle of a call"] == "PluginCrashed: it was killed by SIGKILL"
    assert came["worker", "events for observers"] == "exit status -9"
    assert came["worker", "after a reload"] == "back"
    first, second = (
        came["mcptest, Python", f"{which} call: {what}"]
        for which, what in (("first", "starts it"), ("second", "same process"))
    )
    assert first.startswith("{'text': 'hi'} from process ")
    assert second.removeprefix("pong") == first.removeprefix("{'text': 'hi'}")
    assert "272k tokens  $0.75 + ?" in screen
    assert "2025-11-10" in screen
    assert ["tea-timer", "187k", "9", "$0.53"] in [line.split() for line in command.splitlines()]
