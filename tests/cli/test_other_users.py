"""The hosts of one user, as another user meets them: commands and a client as real processes of that user."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from plughost.control import ControlClient
from tests.support import plugin_processes
from tests.support.newcomer import NOBODY, Tools, tools_outside_tmp
from tests.support.running_host import puppets, running, toml

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")

SECRET = "payroll"
ONLY = "a host can be controlled only by the user who runs it, and by root"
CLIENT = """
import asyncio, sys
from plughost import PluginError
from plughost.control import ControlClient, hosts

async def ask():
    async with ControlClient(sys.argv[1]) as client:
        return await client.ps()

try:
    print(asyncio.run(ask()))
except PluginError as error:
    print(type(error).__name__, error.explain())
"""
# It connects without the client's own checks, so that only the host's check is left.
RAW = """
import socket, sys
host = socket.socket(socket.AF_UNIX)
host.settimeout(30)
host.connect(sys.argv[1])
try:
    host.sendall(b'{"do": "ps"}\\n{"do": "stop"}\\n')
    print(host.makefile().read())
except ConnectionError:
    pass
"""


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with tools_outside_tmp() as tools:
        yield tools


@pytest.fixture
def config(tmp_path, mark):
    file = tmp_path / "plughost.toml"
    file.write_text(toml(puppets(mark, SECRET)))
    return file


@pytest.fixture
def nobody(tools):
    def run(*words) -> subprocess.CompletedProcess[str]:
        """A command line of nobody's, which must tell nothing."""
        ran = subprocess.run(
            [str(word) for word in words], capture_output=True, text=True, timeout=60, cwd="/",
            env={"PATH": tools.path, "HOME": "/nonexistent"}, stdin=subprocess.DEVNULL,
            user=NOBODY, group=NOBODY, extra_groups=[],
        )  # fmt: skip
        said = ran.stdout + ran.stderr
        assert "Traceback" not in said
        assert "plughost failed" not in said
        assert SECRET not in said
        return ran

    return run


def commands(*which: object) -> list[tuple[object, ...]]:
    """Commands that control a host."""
    return [
        ("plughost", "ps", *which),
        ("plughost", "call", *which, SECRET, "ping"),
        ("plughost", "stop", "--all", *which),
    ]


async def unharmed(path: Path, mark: str, pids: list[int]) -> None:
    async with ControlClient(path) as client:
        (seen,) = (await client.ps())["plugins"]
    assert (seen["name"], seen["state"], seen["metrics"]["calls"]) == (SECRET, "Running", 0)
    assert plugin_processes(mark) == pids


@pytest.mark.parametrize("mode", [0o700, 0o755], ids=["closed", "opened"])
async def test_another_user_is_refused_with_the_reason_and_told_nothing(config, tools, nobody, mark, mode):
    """In a folder that is closed, as hosts make it, and in one that was opened by hand with its socket."""
    sockets = tools.place / f"sockets-{mode:o}"
    async with running(sockets, "-c", config) as host, ControlClient(host.path) as client:
        await client.start(SECRET)
        pids = plugin_processes(mark)
        sockets.chmod(mode)
        host.path.chmod(0o777)
        for words in commands("--socket-dir", sockets):
            ran = nobody(*words)
            assert (ran.stdout, ran.returncode) == ("", 2), ran
            assert f"{sockets} is not this user's own folder: it belongs to user 0" in ran.stderr
            assert ONLY in ran.stderr
        why = (
            f"no access to the host at {host.path}: Permission denied"
            if mode == 0o700
            else f"the host at {host.path} belongs to user 0, and this is user {NOBODY}"
        )
        for words in commands("--host", host.path):
            ran = nobody(*words)
            assert (ran.stdout, ran.returncode) == ("", 3), ran
            assert ran.stderr == f"refused: {why}\nhint: {ONLY}\n"
        ran = nobody("plughost", "ps", "--json", "--host", host.path)
        assert (json.loads(ran.stdout)["error"]["code"], ran.returncode) == ("refused", 3)
        ran = nobody("python3", "-c", CLIENT, host.path)
        assert ran.stdout == f"ControlRefused refused: {why}\nhint: {ONLY}\n"
        if mode != 0o700:
            ran = nobody("python3", "-c", RAW, host.path)
            assert (ran.stdout.strip(), ran.returncode) == ("", 0), ran.stderr
        await unharmed(host.path, mark, pids)


async def test_a_socket_folder_that_another_user_cannot_even_see_is_a_plain_refusal(config, tmp_path, nobody):
    sockets = tmp_path / "s"  # below a folder of root alone
    tmp_path.chmod(0o700)
    async with running(sockets, "-c", config) as host:
        for words in commands("--socket-dir", sockets):
            ran = nobody(*words)
            assert (ran.stdout, ran.returncode) == ("", 2), ran
            assert f"cannot use {sockets} for control sockets: Permission denied" in ran.stderr
            assert ONLY in ran.stderr
        ran = nobody("plughost", "call", "--host", host.path, SECRET, "ping")
        assert f"no access to the host at {host.path}: Permission denied" in ran.stderr
