"""Nothing of a plugin outlives its host or its own end: both launchers, both ways of holding."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import plughost
from plughost.engine.io.process import Process
from plughost.engine.launcher import selftest
from plughost.engine.launcher.launch import Launch, LaunchReport
from tests.support import LAUNCHERS, PLUGINS, PYTHON, ROOT, all_gone, plugin_process, processes, puppet, until

MODES = ["pidns", "subreaper"]


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


async def run(launcher, mode, command, *, env=None, cwd=None):
    """Run to its end: exit status, stdout, what the launcher reported."""
    loop = asyncio.get_running_loop()
    executed, exited = loop.create_future(), loop.create_future()
    launch = Launch(tuple(command), env or {}, cwd, launcher, mode)
    process = Process(launch, loop, executed.set_result, lambda: exited.set_result(None))
    try:
        async with asyncio.timeout(60):
            failure = await executed
            await exited
        chunks = []
        os.set_blocking(process.stdout, True)
        while chunk := os.read(process.stdout, 65536):
            chunks.append(chunk)
    finally:
        os.close(process.stdin)
        os.close(process.stdout)
        process.release()
    return process, failure, b"".join(chunks)


async def test_it_ends_as_the_plugin_ended(launcher, mode):
    for script, status in (
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -9 $$", -9),
        ("kill -15 $$", -15),
    ):
        process, failure, _ = await run(launcher, mode, ["/bin/sh", "-c", script])
        assert failure is None
        assert process.exit_status == status
        assert process.mode == mode


async def test_what_cannot_be_executed_is_told_apart_from_a_crash(launcher, mode, tmp_path):
    _, failure, _ = await run(launcher, mode, ["/no/such/program"])
    assert "ENOENT" in failure.message
    assert "/no/such/program" in failure.message
    _, failure, _ = await run(launcher, mode, [str(tmp_path)])
    assert "EACCES" in failure.message
    _, failure, _ = await run(launcher, mode, ["/bin/true"], cwd="/no/such/folder")
    assert "/no/such/folder" in failure.message
    process, failure, _ = await run(launcher, mode, ["/bin/sh", "-c", "exit 127"])
    assert failure is None
    assert process.exit_status == 127


async def test_the_plugin_gets_its_environment_and_nothing_else(launcher, mode, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_HOST", "x")
    env = {"A": "1", "EMPTY": "", "ODD": "é=\udcff"}
    _, _, out = await run(launcher, mode, ["/usr/bin/env", "-0"], env=env)
    assert sorted(out.split(b"\0")) == sorted([b"", b"A=1", b"EMPTY=", "ODD=é=".encode() + b"\xff"])


async def test_the_plugin_gets_three_descriptors_default_signals_and_no_terminal(launcher, mode):
    leaked = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leaked, True)
    old = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    script = "import os,signal,json; print(json.dumps([sorted(map(int, os.listdir('/proc/self/fd'))), [int(l.split()[1], 16) for l in open('/proc/self/status') if l.startswith(('SigBlk', 'SigIgn'))], os.getsid(0) == os.getpid() or os.getsid(0)]))"
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
        _, _, out = await run(launcher, mode, [sys.executable, "-I", "-S", "-c", script])
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR2])
        signal.signal(signal.SIGCHLD, old)
        os.close(leaked)
    fds, (blocked, ignored), _ = json.loads(out)
    assert fds[:3] == [0, 1, 2]
    assert len(fds) == 4  # the listing's own
    assert blocked == 0
    # Python itself ignores SIGPIPE and SIGXFSZ; 32 and 33 are the C library's own and cannot be reset.
    assert ignored & ~0x1_8100_1000 == 0


async def test_the_plugins_limit_of_open_files_is_the_one_we_had(launcher, mode):
    program = f"""
    import asyncio, resource, sys
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (777, hard))
    import plughost
    async def main():
        async with plughost.Host(launcher={launcher!r}, launch_mode={mode!r}) as host:
            spec = plughost.PluginSpec(contract="mcptest", name="p", command=[sys.executable, "-c",
                "import resource; input(); print('{{\\"id\\":1,\\"result\\":%d}}' % resource.getrlimit(resource.RLIMIT_NOFILE)[0])"])
            print(await (await host.add(spec)).call("x"), resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard)
    asyncio.run(main())
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=30
    )
    assert ran.stdout == "777 True\n", ran.stderr


async def test_the_plugin_sees_only_its_own_processes(launcher):
    _, _, out = await run(launcher, "pidns", ["/bin/sh", "-c", "echo $$; ls /proc"])
    first, *rest = out.decode().split()
    assert first == "2"
    assert [int(name) for name in rest if name.isdigit()] == [1, 2, 3]


async def test_every_descendant_ends_with_the_plugin(launcher, mode, mark, tmp_path):
    async with plughost.Host(launcher=launcher, launch_mode=mode) as host:
        for end in ("exit", "kill"):
            plugin = await host.add(puppet(mark, name=end))
            for n, how in enumerate(["child", "double fork"] * 2):
                path = tmp_path / f"{end}{n}"
                await plugin.call("escape", {"path": str(path), "how": how})
                await until(lambda path=path: path.exists() and path.read_text())
            if end == "exit":
                with pytest.raises(plughost.Crashed):
                    await plugin.call("exit", 0)
                assert processes(mark) == [], "the exit was told before everything was gone"
            else:
                plugin.kill()
                await all_gone(mark)


async def test_a_killed_launcher_takes_everything_along(launcher, mark, tmp_path):
    """Only a PID namespace can promise this: the subreaper is best effort, and says so."""
    async with plughost.Host(launcher=launcher, launch_mode="pidns") as host:
        plugin = await host.add(puppet(mark))
        await plugin.call("escape", {"path": str(tmp_path / "e"), "how": "double fork"})
        await until(lambda: (tmp_path / "e").exists())
        os.kill(plugin.inspect()["instances"][0]["pid"], signal.SIGKILL)
        await all_gone(mark)


@pytest.mark.parametrize("how", ["SIGKILL", "os._exit", "exception"])
async def test_a_host_that_dies_takes_everything_along(launcher, mode, mark, tmp_path, how):
    path = tmp_path / "escaped"
    program = f"""
    import asyncio, os, signal, sys
    sys.path.insert(0, {str(ROOT)!r})
    import plughost
    from tests.support import puppet
    async def main():
        host = plughost.Host(launcher={launcher!r}, launch_mode={mode!r})
        plugin = await host.add(puppet({mark!r}))
        await plugin.call("escape", {{"path": {str(path)!r}, "how": "double fork"}})
        while not os.path.exists({str(path)!r}):
            await asyncio.sleep(0.001)
        how = {how!r}
        if how == "SIGKILL":
            os.kill(os.getpid(), signal.SIGKILL)
        elif how == "os._exit":
            os._exit(1)
        raise RuntimeError("the embedding program failed")
    asyncio.run(main())
    """
    host = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(program), stderr=asyncio.subprocess.DEVNULL
    )
    assert await host.wait() != 0
    assert path.exists(), "the plugin never ran"
    await all_gone(mark)


async def test_a_host_killed_at_the_moment_of_the_spawn_leaves_nothing(launcher, mark):
    """The narrow window: the launcher starts while its host is dying."""
    program = f"""
    import os, signal, sys
    args = [*{launcher!r}, str(os.getpid()), "pidns", "-", "-", "-", "-", "-", "-", {PYTHON[0]!r}, *{PYTHON!r}, {str(PLUGINS / "puppet.py")!r}, {mark!r}]
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 3)
    os.posix_spawn(args[0], args, {{}})
    os.kill(os.getpid(), signal.SIGKILL)
    """
    runs = 40 if launcher == LAUNCHERS["compiled"] else 5
    for _ in range(runs):
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", textwrap.dedent(program)], stdin=subprocess.PIPE, check=False
        )
    await all_gone(mark)


async def test_the_plugin_cannot_signal_or_trace_its_keeper(launcher, mark):
    """PID 1 of the namespace ignores what comes from inside."""
    script = "kill -9 1; kill -15 1; kill -10 1; kill -17 1; sleep 0.1; echo alive"
    process, _, out = await run(launcher, "pidns", ["/bin/sh", "-c", script])
    assert (out, process.exit_status) == (b"alive\n", 0)


async def test_a_polite_signal_reaches_the_plugin_itself(launcher, mode):
    loop = asyncio.get_running_loop()
    executed, exited = loop.create_future(), loop.create_future()
    script = "trap 'exit 42' TERM; echo ready; while :; do sleep 0.01; done"
    launch = Launch(("/bin/sh", "-c", script), {"PATH": os.defpath}, None, launcher, mode)
    process = Process(launch, loop, executed.set_result, lambda: exited.set_result(None))
    await executed
    readable = asyncio.Event()
    loop.add_reader(process.stdout, readable.set)
    await readable.wait()
    loop.remove_reader(process.stdout)
    process.terminate()
    await asyncio.wait_for(exited, 10)
    assert process.exit_status == 42
    os.close(process.stdin)
    os.close(process.stdout)
    process.release()


async def test_the_probe_tells_what_holds(launcher, mode):
    assert await selftest.run_selftest(launcher, mode, timeout=30) == (True, mode)


async def test_the_probe_can_fail(tmp_path, mark):
    """A launcher that only executes lets the escape through; the probe must say so."""
    careless = tmp_path / "careless"
    careless.write_text(
        f'#!{PYTHON[0]}\nimport os, sys\nos.write(3, b"mode none\\n")\nos.set_inheritable(3, False)\n'
        f"import subprocess\nsys.exit(subprocess.call(sys.argv[10:], env={{**os.environ, 'MARK': '{mark}'}}))\n"
    )
    careless.chmod(0o755)
    held, why = await selftest.run_selftest((str(careless),), "auto", timeout=3.0)
    assert (held, why) == (False, "a descendant was still there")
    escaped = processes(mark, "environ")
    assert escaped
    for pid in escaped:
        with contextlib.suppress(ProcessLookupError):  # its stdin is closed: it may end by itself
            os.kill(pid, signal.SIGKILL)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
async def test_it_works_for_an_ordinary_user_through_a_user_namespace(launcher, tmp_path):
    """As nobody: the namespace comes with a user namespace, and the plugin keeps its uid."""
    copies = []
    for word in launcher:
        if os.sep in word and os.path.isfile(word) and word != sys.executable:
            copy = tmp_path / Path(word).name
            copy.write_bytes(Path(word).read_bytes())
            copy.chmod(0o755)
            word = str(copy)
        copies.append("/usr/bin/python3" if word == sys.executable else word)
    for folder in [tmp_path, *tmp_path.parents]:
        if str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    program = f"""
    import os
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
    r, w = os.pipe()
    out_r, out_w = os.pipe()
    args = [*{copies!r}, str(os.getpid()), "auto", "-", "/", "-", "-", "-", "-", "/bin/sh", "sh", "-c", "id -u; echo $$"]
    pid = os.posix_spawn(args[0], args, {{"PATH": "/usr/bin:/bin"}}, file_actions=[
        (os.POSIX_SPAWN_DUP2, out_w, 1), (os.POSIX_SPAWN_DUP2, w, 3)])
    os.close(w); os.close(out_w)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), os.read(out_r, 100), os.read(r, 100))
    """
    ran = subprocess.run(
        ["/usr/bin/python3", "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=20
    )
    assert ran.stdout.startswith(r"0 b'65534\n2\n' b'mode pidns\n"), ran.stdout + ran.stderr


def test_a_report_cut_off_in_the_middle_is_no_success():
    report = LaunchReport()
    report.feed(b"mod")
    assert report.failure(Launch(("x",), {})) is not None


def test_the_source_of_the_launcher_compiles_without_a_warning(tmp_path):
    ran = subprocess.run(
        [
            "cc",
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-static",
            "-o",
            tmp_path / "l",
            *(ROOT / "launcher" / name for name in ("plughost-launcher.c", "forwarder.c", "relay.c")),
        ],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr


async def test_running_out_of_descriptors_is_a_clear_launch_failure(mark):
    async with plughost.Host() as host:
        plugin = await host.add(puppet(mark))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        used = {int(name) for name in os.listdir("/proc/self/fd")}
        free = [fd for fd in range(max(used) + 10) if fd not in used]
        resource.setrlimit(resource.RLIMIT_NOFILE, (free[5], hard))
        try:
            with pytest.raises(plughost.LaunchFailed) as caught:
                await plugin.call("ping")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert "ulimit -n" in caught.value.hint
        assert await plugin.call("ping") == "pong"
        assert plugin_process(mark)
