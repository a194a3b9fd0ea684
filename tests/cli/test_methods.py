"""`plughost methods`: what can be called, without a start."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from plughost.cli.commands.methods import methods
from tests.support import PLUGINS, PYTHON, kaged


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return lambda *words: CliRunner().invoke(methods, list(words), catch_exceptions=False)


def test_it_lists_what_a_manifest_tells(run, tmp_path):
    tools = [{"name": "shout", "description": "Shouts.\nVery loud."}]
    place = kaged.folder(tmp_path, tools=tools, methods=None)
    ran = run(str(place), "--sandbox", "none")
    assert (ran.exit_code, ran.stdout.split()) == (0, ["puppet.shout", "method", "Shouts."])
    (entry,) = json.loads(run(str(place), "--sandbox", "none", "--json").stdout)["methods"]
    assert entry["description"] == "Shouts.\nVery loud."


def test_it_says_when_nothing_is_known(run, tmp_path):
    (tmp_path / "plughost.toml").write_text(
        f'[plugins.p]\ncontract = "mcptest"\ncommand = {json.dumps([*PYTHON, str(PLUGINS / "puppet.py")])}\n'
    )
    ran = run("-c", str(tmp_path / "plughost.toml"), "p")
    assert (ran.exit_code, ran.stdout) == (0, "")
    assert "the methods of p are unknown" in ran.stderr
