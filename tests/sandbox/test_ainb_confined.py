"""ainb plugins in a sandbox: their data folder, and the programs that they may start."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

import plughost
from plughost import config
from plughost.contracts.base import DataFolder
from plughost.sandbox import data_dir
from plughost.sandbox.users import User
from tests.support import data_root
from tests.support.confinable import PUBLIC_PYTHON

"""One that any user can reach: of a root host the plugin is another."""

MANIFEST = """
[plugin]
name = "probe"
version = "1.0.0"
abi_version = 2

[capabilities]
{capabilities}

[provides]
cli_namespaces = ["probe"]
"""

PROBE = """#!{python} -ISE
import base64, json, os, subprocess, sys, tomllib
about = tomllib.loads(open(os.path.join(os.path.dirname(sys.argv[0]), "manifest.toml")).read())
def tried(code):
    try:
        return repr(eval(code))
    except Exception as error:
        return type(error).__name__
while True:
    length = 0
    while (line := sys.stdin.buffer.readline()) != b"\\r\\n":
        if not line:
            sys.exit(0)
        length = int(line.split(b":")[1])
    message = json.loads(sys.stdin.buffer.read(length))
    if message["method"] == "plugin/init":
        result = {{**{{key: about["plugin"][key] for key in ("name", "version", "abi_version")}}, "manifest": about}}
    elif message["method"] == "try":
        result = tried(message["params"]["code"])
    else:
        result = {{}}
    body = json.dumps({{"jsonrpc": "2.0", "id": message["id"], "result": result}}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
    sys.stdout.buffer.flush()
"""


@pytest.fixture
def probe(folder, strict):
    def make(capabilities: str = "") -> plughost.PluginSpec:
        place = folder / "probe"
        place.mkdir(exist_ok=True)
        (place / "manifest.toml").write_text(MANIFEST.format(capabilities=capabilities))
        (place / "probe").write_text(PROBE.format(python=PUBLIC_PYTHON))
        (place / "probe").chmod(0o755)
        told = config.load_folder(place)
        options = {**told.options, "data_root": data_root(folder)}
        return msgspec.structs.replace(told, sandbox="strict", options=options)

    return make


async def tries(plugin: plughost.Plugin, code: str) -> str:
    told: str = await plugin.call("try", {"code": code}, timeout=30)
    return told


@pytest.mark.clause("AINB-37")
async def test_its_data_folder_is_the_only_writable_place(probe, folder):
    async with plughost.Host() as host:
        plugin = await host.add(probe("write_plugin_data = true"))
        data = folder / "data/probe"
        assert await tries(plugin, f"open({str(data / 'kept')!r}, 'w').write('here')") == "4"
        assert (data / "kept").read_text() == "here"
        assert data.stat().st_mode & 0o777 == 0o700
        refused = ("PermissionError", "OSError", "FileNotFoundError")
        for place in (folder / "probe/own", Path("/etc/other"), Path("/other"), Path("/usr/other")):
            assert await tries(plugin, f"open({str(place)!r}, 'w')") in refused
        await tries(plugin, f"open({str(folder / 'other')!r}, 'w')")  # in a /tmp that only it sees
        assert sorted(path.name for path in folder.iterdir()) == ["data", "probe"]
    async with plughost.Host() as host:  # and it is its own again
        plugin = await host.add(probe("write_plugin_data = true"))
        assert await tries(plugin, f"open({str(data / 'kept')!r}).read()") == "'here'"


@pytest.mark.clause("AINB-37")
async def test_without_the_capability_there_is_no_data_folder(probe, folder):
    async with plughost.Host() as host:
        plugin = await host.add(probe())
        assert await tries(plugin, f"os.listdir({str(folder / 'data')!r})") == "FileNotFoundError"
    assert os.listdir(folder / "data") == []


@pytest.mark.clause("AINB-38")
async def test_it_reaches_the_programs_it_may_start_and_no_others(probe):
    run = "subprocess.run([{0!r}, '/nowhere'], capture_output=True).returncode"
    async with plughost.Host() as host:
        plugin = await host.add(probe())
        for program in ("/bin/ls", "/usr/bin/ls", "/bin/cat", "/bin/sh"):
            assert await tries(plugin, run.format(program)) in ("FileNotFoundError", "PermissionError")
        await host.remove("probe")
        plugin = await host.add(probe('spawn_subprocess = ["ls"]'))
        assert await tries(plugin, run.format("ls")) == "2"
        assert await tries(plugin, run.format("/bin/cat")) in ("FileNotFoundError", "PermissionError")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_data_folder_goes_to_another_user_whole_and_nothing_outside_does(folder):
    data, outside = folder / "data", folder / "outside"
    outside.write_text("mine")
    its = DataFolder(str(data), owner=str(folder))
    data_dir.create_data_dir(its, "probe", User(61200, 61200))
    (data / "deep").mkdir()
    (data / "deep/file").write_text("x")
    (data / "link").symlink_to(outside)
    data_dir.create_data_dir(its, "probe", User(61300, 61300))
    found = subprocess.run(["find", str(data), "-printf", "%U "], capture_output=True, text=True, check=True)
    assert set(found.stdout.split()) == {"61300"}
    assert outside.stat().st_uid == 0


@pytest.mark.parametrize("wrong", ["open to others", "somebody else's", "a symlink", "a file"])
def test_a_data_folder_that_is_not_its_own_alone_is_refused(folder, wrong):
    data = folder / "data"
    if wrong == "a symlink":
        (folder / "elsewhere").mkdir(mode=0o700)
        data.symlink_to(folder / "elsewhere")
    elif wrong == "a file":
        data.write_text("")
    else:
        data.mkdir(mode=0o700)
        if wrong == "open to others":
            data.chmod(0o750)
        elif os.geteuid() == 0:
            os.chown(data, 1000, 1000)
        else:
            pytest.skip("only root gives folders away")
    with pytest.raises(plughost.LaunchFailed, match="data folder") as caught:
        data_dir.create_data_dir(DataFolder(str(data), owner=str(folder)), "probe", None)
    assert caught.value.plugin == "probe"
