"""A host in a process of its own, as `plughost run` starts it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import plughost
from tests.support import PLUGINS, PYTHON, ROOT

PLUGHOST = [sys.executable, "-m", "plughost.cli"]


class RunningHost(NamedTuple):
    """A host that is ready."""

    process: subprocess.Popen[str]
    path: Path
    """Its control socket."""
    said: list[str]
    """What it has said on stderr before it was ready."""


def toml(plugins: Mapping[str, plughost.PluginSpec]) -> str:
    """A plughost.toml that binds these plugins."""
    return "".join(
        f'[plugins."{name}"]\ncontract = "{spec.contract}"\ncommand = {json.dumps(list(spec.command))}\n'
        f'sandbox = "none"\n'
        + "".join(f"{option} = {json.dumps(value)}\n" for option, value in spec.options.items())
        for name, spec in plugins.items()
    )


def puppets(mark: str, *names: str, **options: Any) -> dict[str, plughost.PluginSpec]:
    """The specs of mcptest puppets."""
    command = [*PYTHON, str(PLUGINS / "puppet.py"), mark]
    return {
        name: plughost.PluginSpec(contract="mcptest", name=name, command=[*command, name], options=options)
        for name in names
    }


@asynccontextmanager
async def running(sockets: Path, *words: Any) -> AsyncIterator[RunningHost]:
    """`plughost run` with these words, until the end of the block."""
    process = subprocess.Popen(
        [*PLUGHOST, "run", "--socket-dir", str(sockets), *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    said: list[str] = []
    try:
        assert process.stderr is not None
        while not (line := await asyncio.to_thread(process.stderr.readline)).startswith("ready"):
            assert line, said
            said.append(line)
        (path,) = [path for path in sockets.glob("*.sock") if path.name.startswith(f"{process.pid}-")]
        yield RunningHost(process, path, said)
    finally:
        process.terminate()
        process.communicate(timeout=60)


async def command(*words: Any, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    """A plughost command, run to its end."""
    return await asyncio.to_thread(
        subprocess.run,
        [*PLUGHOST, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **env},
    )
