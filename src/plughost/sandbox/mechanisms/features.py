"""Detects the features of this kernel and machine that a sandbox needs, by trying them once."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import resource
import shutil
import subprocess
import sys

import msgspec

from plughost.engine.launcher.errors import is_shortage
from plughost.engine.launcher.launch import INNER
from plughost.sandbox.users import UIDS, is_mapped

TRIAL_TIMEOUT = 10.0
NO_USERS = "this container has no user but root"
INSIDE = "--unshare-all --unshare-user --die-with-parent --ro-bind / / --proc /proc --dev /dev --remount-ro /"

_LANDLOCK_CREATE_RULESET = 444  # the same number on every architecture
_LANDLOCK_VERSION = 1
_PR_GET_SECCOMP = 21
_REPORT_FD, _DENIALS_FD = 3, 6
_UNREADABLE = ("2", "3")  # a process's memory cannot be read, not even by its parent

LIMITS = {
    "nofile": resource.RLIMIT_NOFILE,
    "nproc": resource.RLIMIT_NPROC,
    "fsize": resource.RLIMIT_FSIZE,
    "data": resource.RLIMIT_DATA,
    "cpu": resource.RLIMIT_CPU,
    "core": resource.RLIMIT_CORE,
}


class KernelFeatures(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that decide how a plugin can be confined on this machine."""

    linux: bool = True
    uid: int
    """The host's effective uid."""
    inner: str | None
    """The path of `plughost-inner`; None where it was not compiled."""
    bubblewrap: str | None
    """The path of bubblewrap; None where it is not installed."""
    version: tuple[int, ...] = ()
    """The version of bubblewrap."""
    namespaces: str = ""
    """Why a sandbox with namespaces cannot be created; empty when a trial created one."""
    remedy: str = ""
    landlock: int
    """The Landlock ABI of the kernel; 0 for none."""
    seccomp: bool
    separate_nproc: bool
    """Whether RLIMIT_NPROC counts processes in a user namespace apart from their user's others."""
    reports_denials: bool = True
    """Whether seccomp notifications work: a watcher can see which files and programs are asked for."""
    hard_limits: dict[str, int]
    """The hard limits of this process, by name: no limit can be set above them."""


@functools.cache
def kernel_features() -> KernelFeatures:
    """The features of this machine: detected at the first call (some 10 ms) and cached. OSError when the
    machine lacked resources for the trial itself; that is not cached, and the next call tries again."""
    if not sys.platform.startswith("linux"):
        return KernelFeatures(
            linux=False, uid=os.geteuid(), inner=None, bubblewrap=None, landlock=0, seccomp=False,
            separate_nproc=False, hard_limits={},
        )  # fmt: skip
    bubblewrap = shutil.which("bwrap")
    version, problem = _try(bubblewrap) if bubblewrap else ((), "")
    release = tuple(int(number) for number in re.findall(r"[0-9]+", os.uname().release)[:2])
    return KernelFeatures(
        uid=os.geteuid(),
        inner=INNER if os.access(INNER, os.X_OK) else None,
        bubblewrap=bubblewrap,
        version=version,
        namespaces=problem,
        remedy=_remedy(problem) if problem else "",
        landlock=landlock_abi(),
        seccomp=_libc().prctl(_PR_GET_SECCOMP, 0, 0, 0, 0) >= 0,
        separate_nproc=release >= (5, 14),
        reports_denials=_setting("kernel/yama/ptrace_scope") not in _UNREADABLE and _can_watch(INNER),
        hard_limits={
            name: hard
            for name, number in LIMITS.items()
            if (hard := resource.getrlimit(number)[1]) != resource.RLIM_INFINITY
        },
    )


def landlock_abi() -> int:
    """The Landlock ABI by the kernel's own answer; 0 when it is missing or switched off."""
    version: int = _libc().syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), _LANDLOCK_VERSION)
    return max(0, version)


def _can_watch(inner: str) -> bool:
    """Whether `plughost-inner`, told to execute itself and fail, could set up a watcher."""
    reader, report = os.pipe2(os.O_CLOEXEC)
    places = [(os.POSIX_SPAWN_DUP2, report, fd) for fd in (_REPORT_FD, _DENIALS_FD)]
    with open(reader, "rb") as report_pipe:
        try:
            pid = os.posix_spawn(inner, [inner, "watch", "", "--", inner, inner], {}, file_actions=places)
        except OSError as error:
            if is_shortage(error):
                raise
            return False
        finally:
            os.close(report)
        os.waitpid(pid, 0)
        return b"watched\n" in report_pipe.read(4096).splitlines(keepends=True)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _try(bubblewrap: str) -> tuple[tuple[int, ...], str]:
    """The version of bubblewrap, printed inside a sandbox; and its error output if that failed."""
    output, problem = _run([bubblewrap, *INSIDE.split(), "--", bubblewrap, "--version"])
    if problem:
        output, _ = _run([bubblewrap, "--version"])
    return tuple(int(number) for number in re.findall(r"[0-9]+", output)[:3]), problem


def _run(command: list[str]) -> tuple[str, str]:
    """The output of a command, and why it failed. As root it runs as a user like those of plugins."""
    who = {"user": UIDS[-1], "group": UIDS[-1], "extra_groups": []} if os.geteuid() == 0 else {}
    if who and not is_mapped(UIDS[-1]):
        return "", NO_USERS
    try:
        ran = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=TRIAL_TIMEOUT,
            cwd="/",
            env={},
            check=False,
            **who,  # type: ignore[call-overload]
        )
    except (OSError, subprocess.TimeoutExpired, subprocess.SubprocessError) as error:
        if is_shortage(error):
            raise
        return "", str(error)
    return ran.stdout, (ran.stderr.strip()[-500:] or f"exit {ran.returncode}") if ran.returncode else ""


def _remedy(problem: str) -> str:
    """What forbids namespaces here, judging by the kernel's visible settings, and how to change that."""
    if problem == NO_USERS:
        return f"map the uids {UIDS[0]} to {UIDS[-1]} into it, or run the host as another user"
    if _is_chroot():
        return (
            "the host runs in a chroot, where the kernel allows no user namespaces: run it outside, or in a "
            "container that changes its root with pivot_root; or choose the class landlock"
        )
    if _setting("user/max_user_namespaces") == "0":
        return "user namespaces are switched off: sysctl user.max_user_namespaces=15000"
    if _setting("kernel/unprivileged_userns_clone") == "0":
        return "user namespaces are for root only: sysctl kernel.unprivileged_userns_clone=1"
    if _setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            "AppArmor forbids user namespaces: give bwrap a profile that allows userns "
            "(/etc/apparmor.d/bwrap), or sysctl kernel.apparmor_restrict_unprivileged_userns=0"
        )
    if "proc" in problem.lower() or os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"):
        return (
            "this container allows no namespaces: run it with --security-opt seccomp=unconfined "
            "--security-opt systempaths=unconfined, or choose the class landlock"
        )
    return "the cause is unknown; the class landlock needs no namespaces"


def _is_chroot() -> bool:
    """Whether our root is not the root of our mounts, as far as can be seen."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
            is_mount = any(line.split(" ")[4] == "/" for line in lines)
        return not is_mount or not os.path.samefile("/", "/proc/1/root")
    except OSError:
        return False


def _setting(name: str) -> str:
    try:
        with open(f"/proc/sys/{name}", encoding="ascii") as file:
            return file.read(64).strip()
    except OSError:
        return ""
