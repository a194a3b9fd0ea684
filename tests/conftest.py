from __future__ import annotations

import atexit
import gc
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import hypothesis
import pytest

import plughost
from plughost.testing import VirtualClock
from tests.support import LAUNCHERS, all_gone, token

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background by a shell: programs that tests start would ignore Ctrl-C, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # Started by nohup: programs that tests start would not end with their terminals.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def _see_through_a_shim() -> None:
    """Put the python3 that a version manager's shim would choose before the shim: it starts five times as fast."""
    shim = shutil.which("python3")
    if shim is None or Path(shim).read_bytes()[:2] != b"#!":
        return
    chosen = subprocess.run([shim, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True)
    if chosen.returncode == 0:
        os.environ["PATH"] = f"{Path(chosen.stdout.strip()).parent}:{os.environ['PATH']}"


_see_through_a_shim()

# A machine that stands still for a second is no fault of an example.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("patient")


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking through thousands of collected tests again and again."""
    gc.collect()
    gc.freeze()


_home = tempfile.mkdtemp(prefix="plughost-tests-")
atexit.register(shutil.rmtree, _home, ignore_errors=True)
os.chmod(_home, 0o755)  # plugins of a root host are other users
_homes = itertools.count(1)
for _variable in ("XDG_DATA_HOME", "XDG_STATE_HOME"):  # of fixtures that serve several tests
    os.environ[_variable] = f"{_home}/0/{_variable.lower()}"


@pytest.fixture(autouse=True)
def _data_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What plugins keep in one test is kept neither for the next nor among this user's own."""
    home = f"{_home}/{next(_homes)}"
    for variable in ("XDG_DATA_HOME", "XDG_STATE_HOME", "AINB_HOME"):
        monkeypatch.setenv(variable, f"{home}/{variable.lower()}")


@pytest.fixture
def mark() -> str:
    """On the command line of every process of this test."""
    return token()


@pytest.fixture
async def host(mark: str) -> AsyncIterator[plughost.Host]:
    async with plughost.Host() as host:
        yield host
        for plugin in host.plugins.values():
            plugin.kill()
    await all_gone(mark)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def slow_host(clock: VirtualClock, mark: str) -> AsyncIterator[plughost.Host]:
    """A host whose time moves only when the test says so."""
    async with plughost.Host(clock=clock) as host:
        yield host
        for plugin in host.plugins.values():
            plugin.kill()
    await all_gone(mark)


@pytest.fixture(params=list(LAUNCHERS))
def launcher(request: pytest.FixtureRequest) -> tuple[str, ...]:
    command = LAUNCHERS[request.param]
    if not Path(command[0]).exists():
        if os.environ.get("CI"):
            pytest.fail("the compiled launcher is missing")
        pytest.skip("the launcher was not compiled: no C compiler")
    return command


@pytest.fixture(autouse=True)
def _no_descriptor_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test gives back every file descriptor it took."""
    before = set(os.listdir("/proc/self/fd"))
    yield
    left = set(os.listdir("/proc/self/fd")) - before
    names = {}
    for fd in left:
        try:
            names[fd] = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
    leaked = {fd: name for fd, name in names.items() if "eventpoll" not in name and "socket" not in name}
    assert not leaked, f"left open: {leaked}"
