"""Nobody finds out late that a plugin runs unconfined, or that what they allowed is not enforced."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import plughost
from plughost.permissions.access import Access, ResourceLimits
from tests.support import PLUGINS, PYTHON, ROOT, puppet
from tests.support.confinable import PATH, needs, open_folder

CLI = [sys.executable, "-m", "plughost.cli"]


def run(folder, *words, sockets):
    """What `plughost run` says until it is ready, and `ps` while it runs."""
    how = {"cwd": folder, "env": {**os.environ, "PATH": PATH, "COLUMNS": "200"}, "text": True}
    with subprocess.Popen(
        [*CLI, "run", *words, "--socket-dir", str(sockets)], stderr=subprocess.PIPE, **how
    ) as process:
        said = []
        for line in process.stderr:
            said.append(line)
            if line.startswith("ready"):
                break
        listed = subprocess.run(
            [*CLI, "ps", "--socket-dir", str(sockets)], capture_output=True, timeout=60, **how
        ).stdout
        process.send_signal(signal.SIGINT)
        process.stderr.read()
    return said, listed


def bound(folder, more):
    (folder / "plughost.toml").write_text(
        f"""
[plugins.open]
contract = "mcptest"
command = {json.dumps([*PYTHON, str(PLUGINS / "puppet.py")])}
{more}
"""
    )


def test_run_names_what_is_unconfined_before_anything_runs(tmp_path):
    bound(tmp_path, 'sandbox = "none"\nallow.read = ["."]\n')
    said, listed = run(tmp_path, "-c", "plughost.toml", sockets=tmp_path / "s")
    assert said[0].startswith("warning: running without a sandbox, with all rights of ")
    assert 'sandbox = "strict"' in said[0]
    assert any(line.startswith("open lint: sandbox none is set") for line in said)
    assert any(line.startswith("open lint: `allow` is not enforced") for line in said)
    assert "none" in listed.splitlines()[1].split()


def test_run_tells_what_a_confined_plugin_may_and_ps_its_class(tmp_path):
    needs("strict")
    with open_folder() as folder:
        (folder / "plughost.toml").write_text(
            '[plugins.held]\ncontract = "mcptest"\ncommand = ["/bin/sh", "-c", "read line"]\n'
            'sandbox = "strict"\nallow.read = ["/usr/share/doc"]\n'
        )
        said, listed = run(folder, "-c", "plughost.toml", sockets=tmp_path / "s")
    assert not any("unconfined" in line for line in said)
    assert "held may: read /usr/share/doc (strict)\n" in said
    assert "strict" in listed.splitlines()[1].split()


async def test_inspect_holds_the_lints():
    spec = puppet()
    async with plughost.Host() as host:
        assert (await host.add(spec)).inspect()["lints"] == []
    changed = plughost.PluginSpec(
        contract="mcptest",
        name="p",
        command=spec.command,
        allow=Access(read=("/a",)),
        limits=ResourceLimits(memory=1),
    )
    async with plughost.Host() as host:
        lints = (await host.add(changed)).inspect()["lints"]
    assert [lint.split(" ")[0] for lint in lints] == ["`allow`", "`limits`"]


def test_a_call_tells_what_is_not_enforced_and_still_answers():
    words = ["call", "plugins/echo-mcptest", "--limit", "memory=1M", "ping"]
    ran = subprocess.run([*CLI, *words], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert (ran.stdout, ran.returncode) == ('"pong"\n', 0)
    assert ran.stderr.startswith("echo lint: `limits` are not enforced")
