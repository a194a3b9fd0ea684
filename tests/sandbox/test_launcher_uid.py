"""A root host's plugins run as somebody else, for good, and still end with their host."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from plughost.engine.io.process import Process
from plughost.engine.launcher.launch import Launch
from tests.support import all_gone, plugin_processes, until
from tests.support.sandbox_env import NOBODY, PYTHON, fields

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only a root host changes the user of its plugins")
STATUS = ["/bin/cat", "/proc/self/status"]


@pytest.fixture(params=["pidns", "subreaper"])
def mode(request):
    return request.param


@pytest.fixture
def groups():
    """Root in many groups, as on a real machine."""
    before = os.getgroups()
    os.setgroups([0, 4, 27])
    yield
    os.setgroups(before)


async def test_the_plugin_is_another_user_in_every_respect(inner, launcher, mode, groups):
    ran = await inner([], STATUS, launcher=launcher, mode=mode)
    status = fields(ran.out)
    assert status["Uid"] == status["Gid"] == [str(NOBODY)] * 4
    assert status["Groups"] == []
    assert {status[name][0] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"] == ["1"]
    assert ran.confined_by == (f"uid {NOBODY}:{NOBODY}",)


async def test_without_a_user_it_stays_who_the_host_is(inner, launcher, mode):
    ran = await inner([], STATUS, launcher=launcher, mode=mode, confine="keep")
    assert fields(ran.out)["Uid"] == ["0"] * 4
    assert ran.confined_by == ()


async def test_the_plugin_can_neither_signal_nor_trace_its_keeper(inner, launcher, mode):
    script = """
import ctypes, os
parent = os.getppid()
try:
    os.kill(parent, 0)
except PermissionError:
    print("no signal")
libc = ctypes.CDLL(None, use_errno=True)
print(libc.ptrace(16, parent, 0, 0), os.strerror(ctypes.get_errno()))
try:
    open(f"/proc/{parent}/environ").read()
except PermissionError:
    print("no environment")
"""
    ran = await inner([], [*PYTHON, script], launcher=launcher, mode=mode)
    assert ran.out.splitlines() == ["no signal", "-1 Operation not permitted", "no environment"], ran.err


async def test_a_killed_launcher_still_takes_the_plugin_along(ground, launcher, mode, mark):
    """A change of user makes the kernel forget the parent-death signal: it must be armed after it."""
    loop = asyncio.get_running_loop()
    executed, exited = loop.create_future(), loop.create_future()
    command = (str(ground / "plughost-inner"), "--", "/bin/sh", "sh", "-c", "read line", mark)
    launch = Launch(command, {}, "/", launcher, mode, f"{NOBODY}:{NOBODY}")
    process = Process(launch, loop, executed.set_result, lambda: exited.set_result(None))
    try:
        assert await executed is None
        await until(lambda: plugin_processes(mark))
        os.kill(process.pid, signal.SIGKILL)
        await exited
        await all_gone(mark)
    finally:
        process.kill_launcher()
        os.close(process.stdin)
        os.close(process.stdout)
        process.release()


@pytest.mark.parametrize("confine", ["0:0", "0:1000", "1000:0", ":", "nobody:nogroup", "1000:1000 "])
async def test_a_user_that_is_root_or_none_at_all_is_refused(inner, launcher, confine):
    ran = await inner([], STATUS, launcher=launcher, confine=confine)
    assert "EINVAL" in ran.failure.message
    assert ran.failure.message.startswith("cannot run the plugin as another user")
    assert ran.out == ""


async def test_a_folder_of_root_alone_cannot_be_reached_as_the_working_folder(inner, ground, launcher):
    (ground / "private").mkdir(mode=0o700)
    ran = await inner(["cwd", str(ground / "private")], STATUS, launcher=launcher)
    assert str(ground / "private") in ran.failure.message
    assert "EACCES" in ran.failure.message
