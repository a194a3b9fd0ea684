"""What many tests need: specs of puppets, and a look at the machine's processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

import plughost
from plughost import config
from plughost.engine.launcher.launch import NATIVE, python_launcher

ROOT = Path(__file__).parents[2]
PLUGINS = ROOT / "tests/plugins"
PYTHON = (sys.executable, "-I", "-S", "-E")
UNHURRIED = dict.fromkeys(("launch_timeout", "handshake_timeout", "timeout", "teardown_timeout"), 60.0)
"""For rune, whose usual times, half a second for the end, are too short for a machine that stalls."""
LAUNCHERS = {"compiled": (NATIVE,), "python": python_launcher()}


_scripts = tempfile.TemporaryDirectory(prefix="plughost-scripts-")


def token() -> str:
    """A word that marks every process of one test, on its command line."""
    return f"plughost-test-{uuid.uuid4().hex}"


def puppet(
    mark: str = "", *, name: str = "puppet", env: dict[str, str] | None = None, **options: Any
) -> plughost.PluginSpec:
    """The mcptest plugin that does as it is told."""
    return plughost.PluginSpec(
        contract="mcptest",
        name=name,
        command=[*PYTHON, str(PLUGINS / "puppet.py"), mark or token()],
        env=env or {},
        options=options,
    )


def as_word(script: Any) -> str:
    """A script as a word of a command line; in a file when it is longer than a word may be."""
    word = json.dumps(script)
    if len(word) <= 100_000:
        return word
    path = Path(_scripts.name) / uuid.uuid4().hex
    path.write_text(word)
    return f"@{path}"


def unhurried(folder: str | Path) -> plughost.PluginSpec:
    """The rune plugin of a folder, with what it declares and more time than a busy machine takes."""
    spec = config.load_folder(Path(folder))
    return msgspec.structs.replace(spec, grants=["tool.execute"], options={**spec.options, **UNHURRIED})


def vouched(folder: Path) -> plughost.PluginSpec:
    """The plugin of a folder whose plughost.toml is the operator's own word, as with -c."""
    if not (folder / config.FILE).exists():
        return config.load_folder(folder)
    (spec,) = config.load(folder / config.FILE).values()
    return msgspec.structs.replace(spec, cwd_is_plugin_dir=True)


def rune_puppet(
    script: dict[str, Any] | None = None,
    *,
    mark: str = "",
    grants: tuple[str, ...] = (),
    usual_times: bool = False,
    **options: Any,
) -> plughost.PluginSpec:
    """The rune plugin that plays a script; the contract's own times are for tests that move the clock."""
    return plughost.PluginSpec(
        contract="rune",
        name="puppet",
        command=[*PYTHON, str(PLUGINS / "rune_puppet.py"), as_word(script or {}), mark or token()],
        grants=grants,
        options=options if usual_times else {**UNHURRIED, **options},
    )


def processes(mark: str, where: str = "cmdline") -> list[int]:
    """The live processes whose command line holds `mark`: launcher, keeper, plugin, descendants."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark.encode() in (entry / where).read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def plugin_process(mark: str) -> int:
    """The plugin itself: the first process with the mark that is not the launcher or its keeper."""
    found = plugin_processes(mark)
    assert found, "no plugin process"
    return found[0]


def plugin_processes(mark: str) -> list[int]:
    """It and its descendants, by age."""
    started = {}
    for pid in processes(mark):
        with contextlib.suppress(OSError):  # it may end while it is looked at
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
            if line and b"plughost-launcher" not in line and b"pylauncher" not in line:
                started[pid] = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    return sorted(started, key=lambda pid: started[pid])


async def until(condition: Callable[[], Any], patience: float = 30.0) -> Any:
    """Wait for something the kernel does in its own time; polls finely, fails loudly."""
    end = time.monotonic() + patience
    while not (value := condition()):
        assert time.monotonic() < end, "it did not happen"
        await asyncio.sleep(0.002)
    return value


async def all_gone(mark: str, within: float = 4.0) -> None:
    """Sooner than after the five seconds of grace: who is killed is not waited for."""
    await until(lambda: not processes(mark), within)


def fds() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def seen(plugin: plughost.Plugin) -> dict[str, Any]:
    """The first instance as `inspect` shows it; empty when there is none."""
    instances: list[dict[str, Any]] = plugin.inspect()["instances"]
    return instances[0] if instances else {}


def data_root(parent: Path) -> str:
    """A folder for plugins' data folders: the host makes none in a place that is not its own."""
    path = parent / "data"
    path.mkdir(exist_ok=True)
    return str(path)


def unconfined(folder: Path) -> plughost.PluginSpec:
    """The plugin of a folder, run unconfined by the operator's word: not every test is about sandboxes."""
    return msgspec.structs.replace(config.load_folder(folder), sandbox="none")
