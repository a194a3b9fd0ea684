"""What a machine lacks while one plugin is prepared is that plugin's failure: no other plugin notices."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import plughost
from tests.support import PLUGINS, PYTHON, ROOT, all_gone, fds, processes, puppet, until
from tests.support.confinable import needs, open_folder
from tests.support.shortage import write_victim

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk")
CLI = (sys.executable, "-m", "plughost.cli")


@as_root
@pytest.mark.parametrize(("what", "steps"), [("inodes", 10), ("pages", 8), ("descriptors", 12)])
def test_each_step_of_a_preparation_may_fail_and_harms_no_other_plugin(what, steps):
    """The victim lacks one more thing at each attempt, until it starts; `short_of.py` is the host."""
    needs("strict")
    with open_folder() as folder:
        ran = subprocess.run(
            [sys.executable, "-m", "tests.support.shortage", what, str(folder)],
            cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    *failures, success = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(failures) >= steps
    for told in failures:
        lacked = "Too many open files" if what == "descriptors" else "No space left on device"
        assert lacked in told["error"], told
        if told["kind"] != "InvalidConfig":  # its manifest could not even be read
            assert lacked in told["shown"], told
        assert told["children"] == [], told
    assert success["error"] is None
    for told in (*failures, success):
        assert (told["good_before"], told["good"], told["after"]) == (1, 2, "hi"), told
        assert (told["descriptors"], told["folders"], told["left"]) == ([], [], []), told
        assert "loop" not in told, told


def ps(sockets: Path) -> dict[str, dict[str, Any]]:
    ran = subprocess.run(
        [*CLI, "ps", "--json", "--socket-dir", str(sockets)], capture_output=True, check=True, cwd=ROOT
    )
    return {plugin["name"]: plugin for host in json.loads(ran.stdout)["hosts"] for plugin in host["plugins"]}


@as_root
async def test_run_goes_on_when_the_disk_is_full_for_one_plugin_and_ps_shows_why(mark):
    needs("strict")
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare here")
    with open_folder() as folder:
        write_victim(folder / "victim")
        (folder / "disk").mkdir()
        (folder / "plughost.toml").write_text(f"""
            [plugins.good]
            contract = "mcptest"
            sandbox = "none"
            command = {json.dumps([*PYTHON, str(PLUGINS / "puppet.py"), mark])}
            [plugins.victim]
            contract = "kaged"
            command = ["/bin/sh", "./main.sh"]
            cwd = "victim"
            sandbox = "strict"
            failure_limit = 1
            data_root = "{folder}/data"
            """)
        small = f"mount -t tmpfs -o nr_inodes=2,mode=0755 tmpfs {folder}/disk"
        running = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", f'{small} && exec "$@"', "sh",
             *CLI, "run", "-c", str(folder / "plughost.toml"), "--socket-dir", str(folder / "sockets")],
            cwd=ROOT, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(folder / "disk")},
        )  # fmt: skip
        try:
            shown: dict[str, Any] = {}

            def settled() -> bool:
                assert running.poll() is None, running.stderr and running.stderr.read()
                shown.update(ps(folder / "sockets"))
                return (
                    len(shown) == 2
                    and bool(shown["victim"]["failure"])
                    and shown["good"]["state"] == "Running"
                )

            await until(settled)
            assert "No space left on device" in shown["victim"]["failure"]["message"]
            assert shown["good"]["failure"] is None
            told = subprocess.run(
                [*CLI, "ps", "--socket-dir", str(folder / "sockets")],
                cwd=ROOT, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "400"},
            )  # fmt: skip
            assert "No space left on device" in told.stdout
            again = [*CLI, "reload", "good", "--socket-dir", str(folder / "sockets")]
            assert subprocess.run(again, cwd=ROOT, check=False).returncode == 0
        finally:
            running.terminate()
            _, said = await asyncio.to_thread(running.communicate, timeout=30)
        assert running.returncode == 0, said
        assert "No space left on device" in said
    await all_gone(mark)


class NoWatches(asyncio.SelectorEventLoop):
    """A loop whose user has no epoll watch left for a process's stdout, once so many are used."""

    spare = 1 << 30

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:
        if "_readable" in getattr(callback, "__name__", ""):
            if not self.spare:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.spare -= 1
        super().add_reader(fd, callback, *args)


@pytest.mark.parametrize("contract", ["mcptest", "rune"])
def test_a_plugin_whose_stdout_cannot_be_watched_fails_at_once(mark, contract):
    """Neither a handshake nor an answer could be read: nobody waits for a timeout."""
    from tests.support import rune_puppet

    spec = puppet(mark) if contract == "mcptest" else rune_puppet(mark=mark)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, NoWatches)
        async with plughost.Host() as host:
            plugin = await host.add(spec)
            loop.spare = 0
            with pytest.raises(plughost.PluginError, match="cannot watch its pipes") as caught:
                async with asyncio.timeout(20):
                    await plugin.call("ping", {}, timeout=3600)
            assert "max_user_watches" in caught.value.hint
            assert processes(mark) == []
            loop.spare = 1 << 30
            if contract == "mcptest":
                await plugin.reload()
                assert await plugin.call("ping") == "pong"
        await all_gone(mark)

    before = fds()
    with asyncio.Runner(loop_factory=NoWatches) as runner:
        runner.run(main())
    assert fds() == before


async def test_a_plugin_whose_preparation_fails_is_not_added_unless_it_is_kept(host, tmp_path):
    """For a program that embeds the host, the failure is raised, with its cause."""
    (tmp_path / "data/.victim.owner").mkdir(parents=True)
    place = write_victim(tmp_path / "victim")
    spec = plughost.PluginSpec(
        contract="kaged",
        name="victim",
        command=["/bin/sh", "./main.sh"],
        cwd=str(place),
        sandbox="none",
        options={"data_root": str(tmp_path / "data"), "failure_limit": 1},
    )
    with pytest.raises(plughost.LaunchFailed, match="Is a directory") as caught:
        await host.add(spec)
    assert isinstance(caught.value.__cause__, IsADirectoryError)
    assert host.plugins == {}
    plugin = await host.add(spec, keep=True)
    assert "Is a directory" in str(plugin.failure)
    assert plugin.inspect()["failure"]["code"] == "launch_failed"
    with pytest.raises(plughost.LaunchFailed, match="Is a directory"):
        await plugin.call("victim.hi")
    (tmp_path / "data/.victim.owner").rmdir()
    await plugin.reload()
    assert await plugin.call("victim.hi") == "hi"
    assert plugin.failure is None
