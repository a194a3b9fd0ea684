"""What an operator says of confinement, in plughost.toml and on the command line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import plughost
from plughost import config
from plughost.cli.options import plugin_roots
from plughost.cli.options.targets import Target
from plughost.errors import InvalidConfig
from plughost.permissions.access import Access, Endpoint, ResourceLimits
from tests.support import ROOT

TABLE = """
[plugins.one]
contract = "mcptest"
command = ["python3", "one.py"]
"""


def load(folder: Path, more: str = ""):
    (folder / "plughost.toml").write_text(TABLE + more)
    return config.load(folder / "plughost.toml", {"DATA": "/srv/data"})["one"]


def test_who_says_nothing_allows_nothing(tmp_path):
    spec = load(tmp_path)
    assert (spec.sandbox, spec.allow, spec.limits) == (None, Access(), ResourceLimits())


def test_a_file_says_class_access_and_limits(tmp_path):
    spec = load(
        tmp_path,
        """
sandbox = "strict"
allow.read = ["notes", "${DATA}"]
allow.connect = ["api.example.com:443"]
limits = { memory = "64M", processes = 4 }
""",
    )
    assert spec.sandbox == "strict"
    assert spec.allow.read == (str(tmp_path.resolve() / "notes"), "/srv/data")
    assert spec.allow.connect == (Endpoint("api.example.com", 443),)
    assert spec.limits == ResourceLimits(memory=64 << 20, processes=4)


def test_every_wrong_word_is_told_with_its_line(tmp_path):
    with pytest.raises(InvalidConfig) as caught:
        load(tmp_path, 'sandbox = "tight"\nallow.reed = ["x"]\nlimits.memory = "lots"\n')
    told = {problem.field: (problem.line, problem.message) for problem in caught.value.problems}
    assert told["plugins.one.sandbox"][0] == 5
    with pytest.raises(InvalidConfig) as caught:
        load(tmp_path, 'allow.reed = ["x"]\nlimits.memory = "lots"\n')
    told = {problem.field: (problem.line, problem.message) for problem in caught.value.problems}
    assert "'reed'" in told["plugins.one.allow"][1]
    assert "256M" in told["plugins.one.limits"][1]


def test_the_command_line_adds_to_what_the_file_allows(tmp_path, monkeypatch):
    load(tmp_path, 'allow.read = ["notes"]\nlimits.memory = "64M"\n')
    monkeypatch.chdir(tmp_path)
    target = Target(
        file=tmp_path / "plughost.toml", contract=None, name=None, grants=(), env=(), cwd=None, sandbox="strict",
        allow=("read=more", "connect=b.example:1"), limit=("processes=4",), bare=[],
    )  # fmt: skip
    spec, rest = target.take(["one"])
    assert not rest
    assert spec.sandbox == "strict"
    assert spec.allow.read == (str(tmp_path / "notes"), str(tmp_path / "more"))
    assert spec.allow.connect == (Endpoint("b.example", 1),)
    assert spec.limits == ResourceLimits(memory=64 << 20, processes=4)


async def test_a_sandbox_of_no_name_is_none_that_is_known():
    async with plughost.Host() as host:
        with pytest.raises(plughost.InvalidSpec, match="unknown sandbox ''"):
            await host.add(plughost.PluginSpec(contract="mcptest", name="x", command=["true"], sandbox=""))


@pytest.mark.parametrize(
    "command",
    [["run"], ["x", "echo", "ping"], ["screen", "echo-ainb", "--svg", "x.svg"]],
    ids=lambda words: words[0],
)
def test_what_the_command_line_says_counts_for_plugins_of_a_root(tmp_path, command):
    shutil.copytree(ROOT / "plugins/echo-ainb", tmp_path / "echo-ainb")
    told = Target(sandbox="strict", allow=("read=/srv",), limit=("processes=4",))
    ((spec,), _) = plugin_roots.take(tmp_path, (), told)
    assert (spec.sandbox, spec.allow.read, spec.limits.processes) == ("strict", ("/srv",), 4)
    name, *words = command
    ran = subprocess.run(
        [sys.executable, "-m", "plughost.cli", name, "--root", str(tmp_path), "--limit", "memory=lots", *words],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (ran.returncode, "256M" in ran.stderr) == (2, True), ran.stderr


def test_a_problem_of_one_plugin_hides_no_problem_of_another_whose_name_is_its_beginning(tmp_path):
    file = tmp_path / "plughost.toml"
    file.write_text(
        '[plugins.ab]\ncontract = "mcptest"\ncommand = []\n'
        '[plugins.a]\ncontract = "mcptest"\ncommand = ["x\\u0000y"]\n'
    )
    with pytest.raises(plughost.InvalidConfig) as error:
        config.load(file)
    assert [(problem.line, problem.field) for problem in error.value.problems] == [
        (3, "plugins.ab.command"),
        (4, "plugins.a"),
    ]
