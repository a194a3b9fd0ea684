"""docs/authors.md: every command as it stands there, and what it prints as it is shown there."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import time
from importlib.util import find_spec
from typing import NamedTuple

import pytest

from tests.support import ROOT
from tests.support.workshop import Workshop, need

DOCUMENT = ROOT / "docs/authors.md"
TRACKS = ("Python", "Node", "Go")
BLOCK = re.compile(
    r"(?:<!-- needs: (?P<needs>[\w.]+) -->\n)?```(?P<kind>console|python)\n(?P<text>.*?)```", re.S
)
CTRL_C = "^C"
PATIENCE = 60


class Typed(NamedTuple):
    command: str
    shown: str


def blocks(track):
    """What a track has to be typed or saved; without what needs a module that is not there yet."""
    sections = re.split(r"^## (.+)\n", DOCUMENT.read_text(), flags=re.M)
    text = sections[sections.index(track) + 1]
    for block in BLOCK.finditer(text):
        if block["needs"] is None or find_spec(block["needs"]):
            yield block["kind"], block["text"]


def typed(text):
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, _, shown = part.partition("\n")
        yield Typed(command, shown)


def same(shown, printed):
    pattern = ".*".join(map(re.escape, shown.strip().split("…")))
    return re.fullmatch(pattern, printed.strip(), re.S) is not None


def interrupted(command, folder, env, shown):
    """What it prints until that is as shown; then Ctrl-C ends it."""
    process = subprocess.Popen(
        command, shell=True, cwd=folder, env=env, process_group=0,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    with process:
        os.set_blocking(process.stdout.fileno(), False)
        printed = b""
        while not same(shown, printed.decode(errors="replace")):
            select.select([process.stdout], [], [], PATIENCE)
            if not (more := process.stdout.read(65536)):  # the end, or nothing for too long
                break
            printed += more
        os.killpg(process.pid, signal.SIGINT)
        process.wait(PATIENCE)
    return printed.decode(errors="replace")


@pytest.mark.parametrize("track", TRACKS)
def test_a_track_of_the_first_hour(track, tmp_path, tmp_path_factory, record_property):
    need(track.lower())
    workshop = Workshop(tmp_path_factory.mktemp("workshop"))
    folder, count, start = tmp_path, 0, time.monotonic()
    for kind, text in blocks(track):
        if kind == "python":
            (tmp_path / text.splitlines()[0].removeprefix("# ")).write_text(text)
            continue
        for command, shown in typed(text):
            count += 1
            if command.startswith("cd "):
                folder = folder / command.removeprefix("cd ")
                continue
            if shown.rstrip().endswith(CTRL_C):
                shown = shown.rstrip().removesuffix(CTRL_C)
                printed = interrupted(command, folder, workshop.env, shown)
            else:
                printed = workshop.run(command, folder).stdout
            assert same(shown, printed), f"$ {command}\n{printed}\nis not as in {DOCUMENT.name}:\n{shown}"
    took = time.monotonic() - start
    record_property("seconds", round(took, 1))
    print(f"{track}: {count} commands in {took:.1f} s")
    assert count >= 10


def test_every_block_belongs_to_a_track_and_says_what_it_needs():
    text = DOCUMENT.read_text()
    found = [block for block in BLOCK.finditer(text) if block["kind"] == "console"]
    assert len(found) == text.count("```console\n")
    needs = [block["needs"] for block in found if block["needs"]]
    modules = ["plughost.conformance." + contract for contract in ("mcptest", "rune", "ainb")]
    assert needs == [word for module in modules for word in ("plughost.cli.commands.dev", module)]


def test_what_runs_on_is_ended_by_ctrl_c_once_it_has_printed_what_is_shown(tmp_path):
    start = time.monotonic()
    assert interrupted("echo ready; exec sleep 90", tmp_path, None, "…ready…") == "ready\n"
    assert interrupted("echo over", tmp_path, None, "…ready…") == "over\n"
    assert time.monotonic() - start < 30


def test_what_differs_is_noticed():
    assert same("a …\nc", "a b\n b\nc\n")
    assert same("…", "")
    assert not same("a", "b")
    assert not same("a\n…", "b\na\n")
    assert not same("1 passed in …", "11 passed in 1 s")
