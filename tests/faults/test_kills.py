"""Kill anything at any moment: nothing is left, and nothing of anybody else is touched."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import plughost
from tests.support import ROOT, all_gone, processes, puppet, token, until

HOST = f"""
import asyncio, subprocess, sys, threading
sys.path.insert(0, {str(ROOT)!r})
import plughost
from tests.support import puppet

async def busy(plugin, path):
    await plugin.call("escape", {{"path": path, "how": "double fork"}})
    print("busy", flush=True)
    while True:
        await plugin.call("echo", "x" * 1000)

async def main():
    async with plughost.Host() as host:
        async with asyncio.TaskGroup() as tasks:
            for n in range(2):
                plugin = await host.add(puppet(sys.argv[1], name=str(n)))
                tasks.create_task(busy(plugin, sys.argv[2] + str(n)))

if sys.argv[3]:
    own = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", sys.argv[3]])
if sys.argv[4] == "thread":
    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    thread.join()
else:
    asyncio.run(main())
"""


async def killed_hosts(times: int, tmp_path) -> None:
    """In the main thread or another; every third one with a child of its own, which is not ours to end."""
    source = random.Random()
    for n in range(times):
        mark = token()
        childs_mark = token() if n % 3 == 0 else ""
        host = subprocess.Popen(
            [
                sys.executable,
                "-c",
                HOST,
                mark,
                str(tmp_path / f"{n}-"),
                childs_mark,
                "thread" if n % 2 else "",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        if source.random() < 0.5:
            host.stdout.readline()
            await asyncio.sleep(source.random() * 0.02)
        else:
            await asyncio.sleep(source.random() * 0.4)
        had_child = len(processes(childs_mark)) > 1 if childs_mark else False
        host.kill()
        host.wait()
        host.stdout.close()
        await all_gone(mark)
        own_children = processes(childs_mark) if childs_mark else []
        assert bool(own_children) or not had_child
        for pid in own_children:
            os.kill(pid, signal.SIGKILL)


async def killed_below(times: int, tmp_path) -> None:
    """Kill a random process of a live plugin, at a random moment of its life."""
    source = random.Random()
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        async with plughost.Host() as host:
            quiet = await host.add(puppet(token(), name="quiet"))
            assert await quiet.call("ping") == "pong"
            for n in range(times):
                mark = token()
                plugin = await host.add(puppet(mark, name=f"victim{n}"))
                calls = asyncio.gather(
                    plugin.call("escape", {"path": str(tmp_path / f"b{n}"), "how": "double fork"}),
                    *(plugin.call("echo", "x" * 5000) for _ in range(20)),
                    return_exceptions=True,
                )
                await asyncio.sleep(source.random() * 0.05)
                victims = processes(mark)
                if victims:
                    try:
                        os.kill(source.choice(victims), signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                for outcome in await asyncio.wait_for(calls, 60):
                    # A killed escapee harms nobody; anything else is a crash, or a launch that failed.
                    assert not isinstance(outcome, Exception) or isinstance(
                        outcome, plughost.Crashed | plughost.LaunchFailed
                    )
                plugin.kill()
                await host.remove(plugin.name)
                await all_gone(mark)
            assert await quiet.call("ping") == "pong"
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


async def test_a_few_hosts_killed_at_random_moments_leave_nothing(tmp_path):
    await killed_hosts(6, tmp_path)


async def test_a_few_processes_killed_at_random_moments_harm_nobody_else(tmp_path):
    await killed_below(20, tmp_path)


async def test_the_same_in_a_host_that_lives_in_a_thread(tmp_path):
    await asyncio.to_thread(asyncio.run, killed_below(10, tmp_path))


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_hundreds_of_hosts_killed_at_random_moments_leave_nothing(tmp_path):
    await killed_hosts(300, tmp_path)


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_hundreds_of_processes_killed_at_random_moments_harm_nobody_else(tmp_path):
    await killed_below(400, tmp_path)
    await asyncio.to_thread(asyncio.run, killed_below(300, tmp_path))


@pytest.mark.soak
@pytest.mark.timeout(300)
async def test_a_gigabyte_of_stderr_neither_blocks_nor_grows_the_host(mark):
    def memory() -> int:
        return int(open("/proc/self/statm").read().split()[1]) * 4096

    async with plughost.Host() as host:
        plugin = await host.add(puppet(mark))
        await plugin.call("flood_stderr", 100)
        before = memory()
        assert await plugin.call("flood_stderr", 16384, timeout=250) == 16384
        assert memory() - before < 4 << 20


async def test_five_hundred_idle_plugins_under_the_usual_limit_of_open_files():
    """The host raises its own soft limit; each plugin takes at most five descriptors and no thread."""
    echo = ROOT / "plugins/echo-mcptest-c/bin/echo"
    if not echo.exists():
        if os.environ.get("CI"):
            pytest.fail("the C plugin was not built")
        pytest.skip("the C plugin was not built: no C compiler")
    program = f"""
    import asyncio, os, resource, threading
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    import plughost
    async def main():
        async with plughost.Host() as host:
            plugins = [await host.add(plughost.PluginSpec(contract="mcptest", name=str(n), command=[{str(echo)!r}]))
                       for n in range(500)]
            before = len(os.listdir("/proc/self/fd"))
            for plugin in plugins:
                assert await plugin.call("ping") == "pong"
            assert len(os.listdir("/proc/self/fd")) - before <= 5 * 500
            assert threading.active_count() == 1
            assert await asyncio.gather(*(plugin.call("echo", 1) for plugin in plugins)) == [1] * 500
    asyncio.run(main())
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr


async def test_a_stopped_launcher_does_not_save_its_plugin(mark):
    """SIGSTOP cannot be handled: the host loses patience and kills the launcher itself."""
    async with plughost.Host() as host:
        plugin = await host.add(puppet(mark))
        await plugin.call("ping")
        os.kill(plugin.inspect()["instances"][0]["pid"], signal.SIGSTOP)
        start = time.monotonic()
        plugin.kill()
        await plugin.stop()
        assert time.monotonic() - start < 30
        await all_gone(mark)


async def test_an_embedding_program_that_reaps_everything_only_loses_the_status(mark):
    """A program that ignores SIGCHLD reaps our children too: the end is still seen."""
    program = f"""
    import asyncio, signal, sys
    sys.path.insert(0, {str(ROOT)!r})
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    import plughost
    from tests.support import puppet
    async def main():
        async with plughost.Host() as host:
            plugin = await host.add(puppet({mark!r}))
            assert await plugin.call("ping") == "pong"
            try:
                await plugin.call("exit", 3)
            except plughost.Crashed as error:
                print(error.message)
    asyncio.run(main())
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=20
    )
    assert "unknown exit status" in ran.stdout, ran.stderr
    await all_gone(mark)
    await until(lambda: not processes(mark))
