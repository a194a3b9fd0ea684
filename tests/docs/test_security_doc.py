"""docs/security.md: its example runs as it stands under strict, and the tests it names are there."""

from __future__ import annotations

import re
import shutil

import plughost
from plughost import config
from plughost.permissions.access import Endpoint
from tests.support import ROOT
from tests.support.confinable import PATH, needs, open_folder

TEXT = (ROOT / "docs/security.md").read_text()


async def test_the_example_loads_and_its_plugin_answers_from_a_strict_sandbox(monkeypatch):
    needs("strict")
    monkeypatch.setenv("PATH", PATH)
    (example,) = re.findall(r"```toml\n(.*?)```", TEXT, re.S)
    with open_folder() as folder:
        (folder / "plughost.toml").write_text(example)
        (folder / "notes").mkdir()
        shutil.copy(ROOT / "plugins/echo-mcptest/echo.py", folder)
        spec = config.load(folder / "plughost.toml")["notes"]
        async with plughost.Host() as host:
            plugin = await host.add(spec)
            assert await plugin.call("echo", {"text": "hi"}) == {"text": "hi"}
            assert plugin.sandbox == "strict"
            assert plugin.confinement.access.read == (str(folder / "notes"),)
            assert plugin.confinement.access.connect == (Endpoint("api.example.com", 443),)
            by = plugin.inspect()["instances"][0]["confined_by"]
    assert {word.split()[0] for word in by} >= {"landlock", "seccomp"}


def test_every_test_that_is_named_exists():
    named = re.findall(r"`(tests/[\w./-]+)`", TEXT)
    assert len(named) > 15
    assert [name for name in named if not (ROOT / name).exists()] == []
