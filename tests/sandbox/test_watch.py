"""The watcher beside a confined plugin: it only tells, gives nothing away, and is gone with the plugin."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import subprocess
import sys

import msgspec
import pytest

from plughost.engine.io.process import Process
from plughost.engine.launcher.launch import INNER, NATIVE
from plughost.permissions.access import Access
from plughost.sandbox.enforcement import SIGNALS
from plughost.sandbox.mechanisms.features import kernel_features
from plughost.sandbox.resolve.elf import read_elf
from tests.support import token
from tests.support.confinable import PUBLIC_PYTHON
from tests.support.sandbox import ENV, as_nobody, confinement

pytestmark = pytest.mark.usefixtures("strict")

CLASSES = ["strict", "landlock"]


async def run(launch, during=None):
    """To its end, as the runtime runs it: exit status, stdout, what confined it, and what was refused."""
    loop = asyncio.get_running_loop()
    executed, exited, refused = loop.create_future(), loop.create_future(), []
    process = Process(
        launch, loop, executed.set_result, lambda: exited.set_result(None), on_denials=refused.extend
    )
    try:
        async with asyncio.timeout(60):
            assert await executed is None
            if during is not None:
                os.set_blocking(process.stdout, True)
                assert await asyncio.to_thread(os.read, process.stdout, 6) == b"ready\n"
                during(process)
            await exited
        os.set_blocking(process.stdout, True)
        with open(process.stdout, "rb", closefd=False) as out:
            said = out.read().decode()
    finally:
        process.kill()
        os.close(process.stdin)
        os.close(process.stdout)
        process.release()
    return process.exit_status, said, process.confined_by, refused


LOOK = """
import json, os, signal
def attempt(deed):
    try:
        return deed()
    except OSError as error:
        return error.strerror
parent = os.getppid()
print(json.dumps({
    "watcher": open(f"/proc/{parent}/comm").read().strip(),
    "fds": attempt(lambda: os.listdir(f"/proc/{parent}/fd")),
    "memory": attempt(lambda: open(f"/proc/{parent}/mem").close()),
    "kill": attempt(lambda: os.kill(parent, signal.SIGKILL)),
    "own": [fd for fd in map(int, os.listdir("/proc/self/fd")) if fd > 2 and os.path.exists(f"/proc/self/fd/{fd}")],
}))
"""


@pytest.mark.parametrize("class_", CLASSES)
async def test_a_plugin_can_neither_look_into_it_nor_end_it_and_holds_nothing_of_it(run_dir, class_):
    status, said, by, _ = await run(confinement(run_dir, [PUBLIC_PYTHON, "-c", LOOK], class_=class_).launch)
    assert "watched" in by
    if kernel_features().landlock < SIGNALS:
        assert status != 0  # whoever ends the watcher ends itself
        return
    found = json.loads(said)
    assert found == {
        "watcher": "plughost-watch", "fds": "Permission denied", "memory": "Permission denied",
        "kill": "Operation not permitted", "own": [],
    }  # fmt: skip


@pytest.mark.parametrize(("deed", "status"), [("exit 7", 7), ("kill -SEGV $$", -11), ("kill -KILL $$", -9)])
async def test_the_plugins_end_is_the_end_as_it_was(run_dir, deed, status):
    launch = confinement(run_dir, ["/bin/sh", "-c", deed], class_="landlock").launch
    assert (await run(launch))[0] == status


async def test_a_polite_signal_goes_to_the_plugin(run_dir):
    patient = "trap 'exit 5' TERM; echo ready; read line; exit 1"
    launch = confinement(run_dir, ["/bin/sh", "-c", patient], class_="landlock").launch
    assert (await run(launch, Process.terminate))[0] == 5


SIGNALLED = """
import os, signal
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
for _ in range(3000):
    os.close(os.open("/dev/null", os.O_RDONLY))
signal.setitimer(signal.ITIMER_REAL, 0)
print("done")
"""


async def test_signals_do_not_break_opens(run_dir):
    status, said, *_ = await run(confinement(run_dir, [PUBLIC_PYTHON, "-c", SIGNALLED]).launch)
    assert (status, said) == (0, "done\n")


async def test_what_is_granted_is_not_even_mentioned(run_dir, folder, launcher):
    shown = folder / "shown"
    shown.write_text("x")
    shown.chmod(0o644)
    script = "import sys\nfor path, mode in zip(sys.argv[1::2], sys.argv[2::2]): open(path, mode).close()"
    command = [
        PUBLIC_PYTHON,
        "-I",
        "-S",
        "-c",
        script,
        "/tmp/own",
        "w",
        "/proc/self/stat",
        "r",
        str(shown),
        "r",
    ]
    mine = {b"c/tmp/own", b"r/proc/self/stat", b"r" + os.fsencode(shown)}
    launch = confinement(run_dir, command).launch
    status, *_, refused = await run(msgspec.structs.replace(launch, launcher=launcher))
    assert (status, mine & {*refused}) == (1, {b"r" + os.fsencode(shown)})
    launch = confinement(run_dir, command, access=Access(read=(str(shown),))).launch
    status, *_, refused = await run(msgspec.structs.replace(launch, launcher=launcher))
    assert (status, mine & {*refused}) == (0, set())


LAST_DEED = """
#include <fcntl.h>
int main(int argc, char **argv) { return open(argv[argc - 1], O_RDONLY) < 0 ? 3 : 0; }
"""


async def test_the_last_thing_that_it_does_is_told(run_dir, folder):
    if shutil.which("cc") is None:
        assert not os.environ.get("CI"), "no C compiler"
        pytest.skip("no C compiler")
    (folder / "code").mkdir()
    program = folder / "code" / "last"
    subprocess.run(["cc", "-x", "c", "-", "-o", program], input=LAST_DEED, text=True, check=True)
    launch = confinement(run_dir, [str(program), "/etc/hostname"]).launch
    for _ in range(10):
        status, *_, refused = await run(launch)
        assert (status, b"r/etc/hostname" in refused) == (3, True)


LISTENING = """
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]
allow = (6).to_bytes(2, "little") + bytes(2) + (0x7FFF0000).to_bytes(4, "little")
program = Program(1, allow)
assert libc.prctl(38, 1, 0, 0, 0) == 0
number = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
listener = libc.syscall(number, 1, 8, ctypes.byref(program))
assert listener >= 0, ctypes.get_errno()
os.dup2(listener, 9, inheritable=False)
reader, report = os.pipe()
os.dup2(report, 3)
os.dup2(report, 6)
ran = subprocess.run([sys.argv[1], "watch", "", "--", "/bin/echo", "echo", "it runs"], close_fds=False)
os.set_blocking(reader, False)
print(os.read(reader, 4096))
"""


def test_where_the_kernel_refuses_a_watcher_the_plugin_runs_as_ever():
    """As in a container whose own system calls are watched: there is one listener for each process."""
    ran = subprocess.run(
        [sys.executable, "-c", LISTENING, INNER],
        capture_output=True,
        text=True,
        env=ENV,
        timeout=20,
        check=True,
    )
    assert "it runs\n" in ran.stdout
    assert "unwatched 16\\n" in ran.stdout


IN_FLIGHT = """
import os, resource, socket, sys
inner, report = sys.argv[1], os.open(sys.argv[2], os.O_WRONLY)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
os.dup2(0, 4); os.dup2(1, 5)  # where its stdin and stdout are kept
a, b = socket.socketpair()
for each in (a, b): each.set_inheritable(True)
try:
    while True: socket.send_fds(a, [b"x"], [a.fileno()])
except OSError: pass
for fd in (3, 6): os.dup2(report, fd); os.set_inheritable(fd, True)
os.execv(inner, [inner, "watch", "", "--", "/bin/echo", "echo", "hello"])
"""


def test_where_no_descriptor_can_be_handed_over_it_runs_unwatched():
    """A user has few on their way, and another plugin may have them all."""

    def deed():
        report = f"/tmp/{token()}"
        open(report, "x").close()
        command = [PUBLIC_PYTHON, "-c", IN_FLIGHT, INNER, report]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        with open(report) as told:
            said = told.read()
        os.unlink(report)
        return ran.returncode, ran.stdout, said.splitlines()

    assert as_nobody(deed) == [0, "hello\n", [f"unwatched {errno.ETOOMANYREFS}", "confined"]]


def test_no_variable_reaches_what_confines():
    for program in (INNER, NATIVE):
        found = read_elf(program)
        assert found is not None
        assert found.loader is None, "LD_PRELOAD would be in it"
