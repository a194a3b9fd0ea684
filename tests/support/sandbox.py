"""Runs what was confined: the real launcher, the real bubblewrap, the real last step."""

from __future__ import annotations

import ctypes
import json
import os
import stat
import subprocess
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from plughost.contracts.registry import get_contract
from plughost.engine.launcher.launch import Launch
from plughost.permissions.access import Access, ResourceLimits
from plughost.sandbox.inputs import EgressInputs
from plughost.sandbox.mechanisms.features import kernel_features
from plughost.sandbox.plan import SandboxPlan
from plughost.sandbox.prepare import prepare_sandbox
from plughost.sandbox.run_dir import RunDir
from plughost.spec import PluginSpec
from tests.support import ROOT

CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 4096, 16384, 1 << 18

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


class Ran(NamedTuple):
    status: int
    out: str
    err: str
    report: list[str]


def run(launch: Launch, given: str = "") -> Ran:
    """To its end. The report goes to a file: bubblewrap holds the pipe open for as long as it lives."""
    with tempfile.NamedTemporaryFile("r", prefix="report-") as report:
        ended = subprocess.run(
            ["/bin/sh", "-c", f'exec "$@" 3>{report.name}', "sh", *launch.argv()],
            env=dict(launch.env), input=given, capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        return Ran(ended.returncode, ended.stdout, ended.stderr, report.read().splitlines())


def confinement(
    run_dir: RunDir,
    command: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] = ENV,
    access: Access | None = None,
    limits: ResourceLimits | None = None,
    class_: str = "strict",
    name: str = "puppet",
    egress: EgressInputs | None = None,
) -> SandboxPlan:
    spec = PluginSpec(
        contract="mcptest", name=name, command=list(command), cwd=None if cwd is None else os.fspath(cwd)
    )
    return prepare_sandbox(
        spec, env, access or Access(), limits or ResourceLimits(), class_, run_dir, egress=egress
    )


def as_nobody(deed: Callable[[], Any]) -> Any:
    """What the deed returns, done in a process of a user who is not root and owns nothing."""
    for name in ("mcptest", "rune", "ainb", "kaged", "vai"):
        get_contract(name)  # what is imported later may be out of that user's reach
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            if os.geteuid() == 0:
                _open_the_way()
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            kernel_features.cache_clear()
            os.write(writer, json.dumps(deed()).encode())
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writer)
    with open(reader, "rb") as pipe:
        told = pipe.read()
    assert os.waitpid(pid, 0)[1] == 0, "it failed; its traceback is on stderr"
    return json.loads(told)


def _open_the_way() -> None:
    """A clone in a folder of root's own is out of others' reach. In a mount namespace of our own its way there is
    another one, through which everybody may go."""
    private = [place for place in reversed(ROOT.parents) if not place.stat().st_mode & stat.S_IXOTH]
    if not private:
        return
    libc = ctypes.CDLL(None, use_errno=True)

    def done(result: int) -> None:
        if result:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    done(libc.unshare(CLONE_NEWNS))
    done(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    project = os.open(ROOT, os.O_PATH | os.O_DIRECTORY)
    done(libc.mount(b"tmpfs", os.fsencode(private[0]), b"tmpfs", 0, b"mode=755"))
    ROOT.mkdir(parents=True)
    done(libc.mount(f"/proc/self/fd/{project}".encode(), os.fsencode(ROOT), None, MS_BIND | MS_REC, None))
    os.close(project)
    os.chdir(ROOT)


def group_folders(name: str) -> list[str]:
    """Where a control group of that name is: a folder (v2), or one for each controller (v1)."""
    if "memory" in Path("/proc/self/cgroup").read_text():
        return [f"/sys/fs/cgroup/{controller}{name}" for controller in ("memory", "pids")]
    return [f"/sys/fs/cgroup{name}"]
