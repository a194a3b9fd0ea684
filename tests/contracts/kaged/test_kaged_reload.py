"""kaged: a reload runs what the manifest says now, or leaves all as it was."""

from __future__ import annotations

import asyncio
import functools
import json
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import plughost
from plughost import config
from plughost.control import Control
from plughost.errors import InvalidConfig
from tests.support import PLUGINS, until
from tests.support.confinable import PUBLIC_PYTHON, needs, open_folder
from tests.support.kaged import ABOUT, folder, spec

"""One that any user can reach: of a root host the plugin is another."""
METHODS = [*ABOUT["methods"], "p.try"]
PROGRAM = {"code": "__import__('sys').argv[0]"}
HOSTS = {"code": "open('/etc/hosts').read()"}


@pytest.fixture
def root(mark):
    with open_folder() as made:
        root = made / mark
        root.mkdir()
        yield root


@pytest.fixture
def place(root):
    """The puppet, whole in its folder, in two versions; and one that does not start."""
    place = folder(root, command=command(root, "main.py"), methods=METHODS)
    for name in ("main.py", "other.py"):
        shutil.copy(PLUGINS / "kaged_puppet.py", place / name)
    (place / "broken.py").write_text("import sys\nsys.exit('cannot start today')\n")
    return place


@pytest.fixture(params=["none", "strict"])
def sandbox(request):
    if request.param == "strict":
        needs("strict")
    return request.param


def command(root, program):
    return [PUBLIC_PYTHON, "-ISE", f"./{program}", str(root)]


def write(place, **changes):
    """Other things in the manifest, and in what the puppet answers to initialize."""
    path = place / "manifest.yaml"
    told = {**json.loads(path.read_text()), **changes}
    about = {key: told[key] for key in ("version", "notifications", "methods")}
    path.write_text(json.dumps({**told, "env": {"about": json.dumps(about)}}))


async def process(plugin):
    """The one that answers, as it is known outside: in its own eyes each has the same number."""
    await plugin.call("p.echo")
    (instance,) = (each for each in plugin.inspect()["instances"] if each["state"] == "Running")
    return instance["pid"]


@pytest.mark.clause("KAGED-02")
async def test_a_reload_runs_the_command_that_the_manifest_tells_now(host, root, place, sandbox):
    plugin = await host.add(spec(place, sandbox=sandbox))
    before = await process(plugin)
    assert await plugin.call("p.try", PROGRAM) == "./main.py"
    write(place, command=command(root, "other.py"), methods=[*METHODS, "p.more"])
    assert await plugin.call("p.try", PROGRAM) == "./main.py"
    await plugin.reload()
    assert await plugin.call("p.try", PROGRAM) == "./other.py"
    assert await process(plugin) != before
    assert await plugin.call("p.more") == {"status": "ok"}
    assert (plugin.inspect()["command"], list(plugin.spec.command)) == (command(root, "other.py"),) * 2
    write(place, command=command(root, "main.py"))
    await plugin.reload()
    assert await plugin.call("p.try", PROGRAM) == "./main.py"


async def test_one_that_does_not_run_starts_with_the_new_command(host, root, place):
    plugin = await host.add(spec(place))
    write(place, command=command(root, "other.py"))
    await plugin.reload()
    assert await plugin.call("p.try", PROGRAM) == "./other.py"


@pytest.mark.clause("KAGED-06")
async def test_a_broken_manifest_refuses_the_reload_with_all_its_problems(host, place, sandbox):
    plugin = await host.add(spec(place, sandbox=sandbox))
    before = await process(plugin)
    (place / "manifest.yaml").write_text("name: puppet\nversion: one\ncommand: []\nmethods: [p.echo]\n")
    with pytest.raises(InvalidConfig) as caught:
        await plugin.reload()
    told = str(caught.value)
    for word in ("manifest.yaml:2: version", "manifest.yaml:3: command", "kaged_api", "description"):
        assert word in told
    assert (await process(plugin), plugin.generation) == (before, 1)
    assert await plugin.call("p.try", PROGRAM) == "./main.py"


async def test_on_the_command_line_too(root, place):
    async with plughost.Host() as host, Control(host, root.parent / "s", lambda: None) as control:

        async def reload():
            words = [sys.executable, "-m", "plughost.cli", "reload", "puppet", "--socket-dir"]
            run = functools.partial(subprocess.run, capture_output=True, text=True, timeout=60)
            return await asyncio.to_thread(run, [*words, control.path.parent])

        plugin = await host.add(spec(place))
        before = await process(plugin)
        good = (place / "manifest.yaml").read_text()
        (place / "manifest.yaml").write_text("name: puppet\nversion: one\n")
        ran = await reload()
        assert (ran.returncode, await process(plugin)) == (2, before)
        assert "manifest.yaml:2: version" in ran.stderr
        (place / "manifest.yaml").write_text(good)
        write(place, command=command(root, "other.py"))
        assert (await reload()).returncode == 0
        assert await plugin.call("p.try", PROGRAM) == "./other.py"
        plugin.kill()


async def test_a_program_that_does_not_start_leaves_all_as_it_was(host, root, place, sandbox):
    plugin = await host.add(spec(place, sandbox=sandbox, failure_limit=1))
    before = await process(plugin)
    write(place, command=command(root, "broken.py"), methods=[*METHODS, "p.more"])
    with pytest.raises(plughost.Quarantined, match="exited with code 1"):
        await plugin.reload()
    assert await process(plugin) == before
    assert plugin.inspect()["command"] == command(root, "main.py")
    with pytest.raises(plughost.UnknownMethod):
        await plugin.call("p.more")
    write(place, command=command(root, "other.py"))
    await plugin.reload()
    assert await plugin.call("p.try", PROGRAM) == "./other.py"
    assert await plugin.call("p.more") == {"status": "ok"}


@pytest.mark.parametrize("program", ["main.py", "other.py"])
async def test_a_command_of_the_operators_own_stays(host, root, place, program):
    """Also where it was the manifest's."""
    bind(root, place, command(root, program))
    plugin = await host.add(config.load(root / "plughost.toml")["puppet"])
    write(place, command=command(root, "broken.py"))
    await plugin.reload()
    assert await plugin.call("p.try", PROGRAM) == f"./{program}"


async def test_so_does_one_of_the_folders_own_plughost_toml(host, root, place):
    bind(place, place, command(root, "other.py"), sandbox="strict")
    told = msgspec.structs.replace(config.load_folder(place), sandbox="none")
    assert told.command_from_manifest
    plugin = await host.add(told)
    write(place, command=command(root, "broken.py"))
    await plugin.reload()
    assert await plugin.call("p.try", PROGRAM) == "./other.py"


def bind(file_in, place, command, sandbox="none"):
    (file_in / "plughost.toml").write_text(
        f'[plugins.puppet]\ncontract = "kaged"\nsandbox = "{sandbox}"\ncwd = "{place}"\ncommand = {json.dumps(command)}\n'
    )


async def test_a_command_that_a_sandbox_cannot_hold_refuses_the_reload(host, root, place):
    needs("strict")
    plugin = await host.add(spec(place, sandbox="strict"))
    before = await process(plugin)
    tool = root / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    write(place, command=[str(tool)])
    with pytest.raises(plughost.PluginError, match="tool"):
        await plugin.reload()
    assert (await process(plugin), plugin.inspect()["command"]) == (before, command(root, "main.py"))


async def test_what_a_failed_generation_had_goes_and_what_the_running_one_has_stays(root, place):
    needs("strict")
    async with plughost.Host() as host:
        write(place, capabilities=["net:example.com:443"])
        plugin = await host.add(spec(place, "declared", sandbox="strict", backoff=[0.01], failure_limit=2))
        assert "example.com" in await plugin.call("p.try", HOSTS)
        before = sockets(host)
        write(place, command=command(root, "broken.py"), capabilities=["net:example.org:443"])
        with pytest.raises(plughost.Quarantined):
            await plugin.reload()
        host._sandboxes.drop_old_generation(plugin.name)
        await until(lambda: sockets(host) == before)
        with pytest.raises(plughost.Crashed):
            await plugin.call("p.exit", {"code": 1})
        hosts = await plugin.call("p.try", HOSTS)
        assert "example.com" in hosts
        assert "example.org" not in hosts
        write(place, command=command(root, "main.py"))
        await plugin.reload()
        assert "example.org" in await plugin.call("p.try", HOSTS)
        await until(lambda: len(sockets(host)) == 1 and sockets(host) != before)
        plugin.kill()


def sockets(host):
    return sorted(Path(host._sandboxes._host_setup.run_dir.path).glob("*/*/proxy"))
