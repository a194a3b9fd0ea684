"""A process of a plugin: what a failed start leaves behind, who reaps it, and how it shows itself."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from plughost.engine.io.process import Process, spawn
from plughost.engine.launcher.launch import Launch
from plughost.errors import LaunchFailed
from tests.support import processes, puppet, until


def launch(mark: str, script: str = "sleep 60") -> Launch:
    return Launch(("/bin/sh", "-c", f"{script}; : {mark}"), {"PATH": os.defpath})


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def start(mark: str, script: str = "sleep 60") -> tuple[Process, asyncio.Future[None], asyncio.Future[None]]:
    loop = asyncio.get_running_loop()
    executed, exited = loop.create_future(), loop.create_future()
    process = Process(
        launch(mark, script), loop, executed.set_result, lambda: exited.set_result(None), on_stderr=None
    )
    return process, executed, exited


def close(process: Process) -> None:
    process.release()
    os.close(process.stdin)
    os.close(process.stdout)


@pytest.fixture
def unreaped():
    """The embedding program lets the kernel reap all children."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGCHLD, before)


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), KeyboardInterrupt()])
async def test_a_start_that_fails_halfway_leaves_no_descriptor_and_no_process(mark, monkeypatch, error):
    def fail(pid: int) -> int:
        raise error

    before = descriptors()
    monkeypatch.setattr(os, "pidfd_open", fail)
    with pytest.raises(LaunchFailed if isinstance(error, OSError) else KeyboardInterrupt):
        spawn(launch(mark))
    assert descriptors() <= before
    await until(lambda: processes(mark) == [])  # the kernel kills what is below the launcher, in its own time


async def test_a_process_that_cannot_be_watched_is_ended_even_where_others_reap(mark, monkeypatch, unreaped):
    loop = asyncio.get_running_loop()
    before = descriptors()

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(loop, "add_reader", fail)
    with pytest.raises(LaunchFailed, match="No space left on device"):
        start(mark)
    assert descriptors() <= before
    await until(lambda: processes(mark) == [])


async def test_the_exit_status_is_unknown_when_the_embedding_program_has_reaped_it(mark, unreaped):
    process, _, exited = start(mark, "exit 3")
    await asyncio.wait_for(exited, 20)
    assert (process.alive, process.exit_status) == (False, None)
    close(process)


async def test_a_process_shows_its_id_its_keeper_and_whether_it_runs(mark):
    process, executed, exited = start(mark, "read line; exit 3")
    assert repr(process) == f"<Process {process.pid} not executed: running>"
    await executed
    assert repr(process) == f"<Process {process.pid} {process.mode}: running>"
    os.write(process.stdin, b"end\n")
    await asyncio.wait_for(exited, 20)
    assert repr(process) == f"<Process {process.pid} {process.mode}: exit status 3>"
    close(process)


async def test_an_instance_and_its_peer_show_their_state(host, mark):
    plugin = await host.add(puppet(mark))
    await plugin.call("ping")
    instance = plugin._current
    assert repr(plugin) == "<Plugin puppet (mcptest) Running>"
    assert repr(instance) == "<Instance puppet#1 Running>"
    assert repr(instance._peer) == "<Peer: 0 in flight, 0 waiting>"
