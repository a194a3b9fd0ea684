"""The machine runs out, stalls or changes under us: a clear error, and back to work when it is over."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import resource
import shutil
import stat
import struct
import subprocess
import sys
import termios
import textwrap
import time
from pathlib import Path

import pytest

import plughost
from tests.support import PLUGINS, PYTHON, ROOT, all_gone, fds, puppet, seen, until
from tests.support.scripts import PARLEY


def stand_still(seconds: float, size: int) -> None:
    """Block the loop that long, and until so many bytes lie in the pipes: a busy plugin takes its time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end or unread() < size:
        time.sleep(0.01)


def unread() -> int:
    """Bytes in the pipes that we read."""
    found = 0
    for fd in map(int, fds()):
        try:
            ours = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
            if ours and stat.S_ISFIFO(os.fstat(fd).st_mode):
                found += struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0]
        except OSError:  # the listing's own, closed by now
            continue
    return found


async def test_answers_that_came_while_the_loop_was_blocked_are_in_time(host, mark):
    """The embedding program's fault, not the plugin's: what lies in the pipe was in time."""
    plugin = await host.add(puppet(mark, max_in_flight=8))
    await plugin.call("ping")
    calls = [asyncio.create_task(plugin.call("echo", n, timeout=0.3)) for n in range(5)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # all of them are written
    stand_still(0.5, len('{"id": 2, "result": 0}\n' * 5))
    assert await asyncio.gather(*calls) == [0, 1, 2, 3, 4]


async def test_a_large_answer_that_came_while_the_loop_was_blocked_still_times_out_cleanly(host, mark):
    """More than the pipe holds was not there in time; the process serves on, nothing is mixed up."""
    plugin = await host.add(puppet(mark, max_in_flight=8))
    await plugin.call("ping")
    call = asyncio.create_task(plugin.call("big", 8 << 20, timeout=0.3))
    await asyncio.sleep(0)
    time.sleep(1)
    (outcome,) = await asyncio.gather(call, return_exceptions=True)
    assert isinstance(outcome, plughost.Timeout) or len(outcome) == 8 << 20
    assert await plugin.call("echo", 2) == 2


async def test_a_handshake_that_came_while_the_loop_was_blocked_is_in_time(host, mark):
    spec = PARLEY.spec([*PARLEY.steps, ["wait"]], mark, ready_timeout=1.5)
    plugin = await host.add(spec)
    call = asyncio.create_task(plugin.call("echo", 1))
    await until(lambda: seen(plugin).get("held_by"))
    stand_still(1.6, 1)
    assert await call == 1


async def test_a_clock_that_jumps_ahead_ends_what_is_due_once_and_no_more(slow_host, clock, mark):
    """A suspended machine: hours are gone at once."""
    plugin = await slow_host.add(puppet(mark, max_in_flight=4))
    await plugin.call("ping")
    late = [asyncio.create_task(plugin.call("silent", timeout=60)) for _ in range(3)]
    patient = asyncio.create_task(plugin.call("echo", 5, timeout=1e7))
    await patient
    clock.advance(86_400)
    outcomes = await asyncio.gather(*late, return_exceptions=True)
    assert [type(outcome).__name__ for outcome in outcomes] == ["TimedOut"] * 3
    assert await plugin.call("ping") == "pong"


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EAGAIN])
async def test_no_room_for_another_process_is_a_launch_failure_that_can_pass(host, mark, monkeypatch, number):
    plugin = await host.add(puppet(mark))

    def no_room(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_spawn", no_room)
        with pytest.raises(plughost.LaunchFailed) as caught:
            await plugin.call("ping")
    assert os.strerror(number) in str(caught.value)
    assert "ulimit -u" in caught.value.hint
    assert await plugin.call("ping") == "pong"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become a user with few processes")
def test_a_real_limit_of_processes_is_a_launch_failure_that_can_pass(tmp_path):
    """The launcher itself is refused its fork by the kernel."""
    program = tmp_path / "host.py"
    program.write_text(
        textwrap.dedent(f"""
        import asyncio, os, resource, sys
        sys.path.insert(0, {str(ROOT)!r})
        import plughost
        from tests.support import puppet
        async def main():
            async with plughost.Host(launch_mode="subreaper") as host:
                plugin = await host.add(puppet())
                os.setresuid(54321, 54321, 0)  # its processes are counted apart; root may come back
                resource.setrlimit(resource.RLIMIT_NPROC, (1, 4096))
                try:
                    await plugin.call("ping")
                except plughost.LaunchFailed as error:
                    print(error)
                os.setresuid(0, 0, 0)
                resource.setrlimit(resource.RLIMIT_NPROC, (4096, 4096))
                print(await plugin.call("ping"))
        asyncio.run(main())
        """)
    )
    ran = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=30)
    assert "launch_failed" in ran.stdout or "spawn_failed" in ran.stdout, ran.stdout + ran.stderr
    assert ran.stdout.endswith("pong\n"), ran.stdout + ran.stderr


async def test_a_command_longer_than_the_system_allows_is_a_launch_failure(host, mark):
    spec = plughost.PluginSpec(contract="mcptest", name="long", command=["/bin/true", "x" * 3_000_000])
    plugin = await host.add(spec)
    with pytest.raises(plughost.LaunchFailed) as caught:
        await plugin.call("ping")
    assert "in a file" in caught.value.hint
    assert len(str(caught.value)) < 1000


def script(path: Path, says: str) -> None:
    """A program that answers every request with `says`; replaced in one step, as packagers do."""
    fresh = path.with_suffix(".new")
    fresh.write_text(
        "#!/bin/sh\n"
        "n=0\n"
        "while IFS= read -r line; do\n"
        "  n=$((n + 1))\n"
        f'  printf \'{{"id":%d,"result":"{says}"}}\\n\' "$n"\n'
        "done\n"
    )
    fresh.chmod(0o755)
    fresh.replace(path)


async def test_a_program_replaced_while_it_runs_serves_on_and_a_reload_takes_the_new_one(host, tmp_path):
    program = tmp_path / "plugin"
    script(program, "old")
    plugin = await host.add(plughost.PluginSpec(contract="mcptest", name="replaced", command=[str(program)]))
    assert await plugin.call("x") == "old"
    script(program, "new")
    assert await plugin.call("x") == "old"
    await plugin.reload()
    assert await plugin.call("x") == "new"


async def test_a_program_that_is_being_written_is_a_launch_failure_that_can_pass(host, tmp_path):
    program = tmp_path / "true"
    shutil.copy("/bin/cat", program)
    plugin = await host.add(plughost.PluginSpec(contract="mcptest", name="busy", command=[str(program)]))
    with program.open("ab"), pytest.raises(plughost.LaunchFailed, match="ETXTBSY"):
        await plugin.call("x")
    with pytest.raises(plughost.Malformed):  # it runs, and sends back what it got
        await plugin.call("x")


async def test_a_folder_removed_while_the_plugin_runs_is_told_at_the_next_start(host, mark, tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    spec = plughost.PluginSpec(
        contract="mcptest",
        name="homeless",
        command=[*PYTHON, str(PLUGINS / "puppet.py"), mark],
        cwd=str(folder),
    )
    plugin = await host.add(spec)
    assert await plugin.call("ping") == "pong"
    folder.rmdir()
    assert await plugin.call("ping") == "pong"
    with pytest.raises(plughost.PluginError, match=str(folder)):
        await plugin.reload()
    assert await plugin.call("ping") == "pong"  # the old one stays


def test_a_host_whose_own_folder_was_removed_starts_plugins(tmp_path, mark):
    program = f"""
    import asyncio, os, sys
    sys.path.insert(0, {str(ROOT)!r})
    import plughost
    from tests.support import puppet
    folder = os.path.join({str(tmp_path)!r}, "gone")
    os.mkdir(folder)
    os.chdir(folder)
    os.rmdir(folder)
    async def main():
        async with plughost.Host() as host:
            print(await (await host.add(puppet({mark!r}))).call("ping"))
    asyncio.run(main())
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=30
    )
    assert ran.stdout == "pong\n", ran.stderr


async def test_running_out_of_descriptors_in_mid_life_harms_no_running_plugin(host, mark):
    plugin = await host.add(puppet(mark))
    other = await host.add(puppet(mark, name="other"))
    await plugin.call("ping")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")), hard))
    taken: list[int] = []
    try:
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        assert await plugin.call("echo", "x" * 200_000) == "x" * 200_000
        with pytest.raises(plughost.LaunchFailed):
            await other.call("ping")
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert await other.call("ping") == "pong"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_a_full_disk_for_what_run_writes_ends_it_with_its_plugins(mark, stream):
    """`plughost run` whose log cannot be written does not go on in silence."""
    words = [sys.executable, "-m", "plughost.cli", "run", "--contract", "mcptest"]
    words += ["--json"] if stream == "stdout" else []
    with Path("/dev/full").open("w") as full:
        assert stat.S_ISCHR(os.fstat(full.fileno()).st_mode)
        running = subprocess.Popen(
            [*words, "--", *PYTHON, str(PLUGINS / "puppet.py"), mark],
            stdout=full if stream == "stdout" else subprocess.DEVNULL,
            stderr=full if stream == "stderr" else subprocess.PIPE,
            cwd=ROOT,
        )
        try:
            _, said = await asyncio.to_thread(running.communicate, timeout=20)
        finally:
            running.kill()
            running.wait()
    assert running.returncode == 3
    if stream == "stdout":
        assert b"No space left" in said
    await all_gone(mark)
