"""The decision, over values: which words, for which machine, and who holds what."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from typing import ClassVar

import msgspec
import pytest

from plughost.errors import InvalidSpec, SandboxUnavailable
from plughost.permissions.access import Access, Endpoint, ResourceLimits
from plughost.sandbox.inputs import SandboxInputs
from plughost.sandbox.mechanisms import bubblewrap
from plughost.sandbox.mechanisms import features as module
from plughost.sandbox.mechanisms.bubblewrap import MountView, outermost
from plughost.sandbox.mechanisms.features import KernelFeatures, kernel_features, landlock_abi
from plughost.sandbox.memory.cgroups import Cgroup
from plughost.sandbox.plan import SandboxPlan
from plughost.sandbox.planner import DEVICES, build_plan
from plughost.sandbox.resolve.command_cache import ResolvedCommand
from plughost.sandbox.resolve.grants import ResolvedGrants
from plughost.sandbox.users import User

HERE = KernelFeatures(
    uid=1000, inner="/opt/inner", bubblewrap="/usr/bin/bwrap", version=(0, 8, 0), landlock=7, seccomp=True,
    separate_nproc=True, hard_limits={"nofile": 4096},
)  # fmt: skip
RUN = ResolvedCommand(
    "/code/run", ("run", "-v"), ("/code",), ("/usr/lib/py",), ("/code/run", "/lib/ld.so"),
    ("/lib/libc.so", "/lib/libm.so"), ("/lib",), (("/bin", "usr/bin"), ("/lib/libc.so.6", "libc.so")),
)  # fmt: skip
READY = SandboxInputs(
    runnable=RUN, inner="/opt/inner", etc="/q/0/etc", scratch="/q/0/scratch", shared=("/zones",)
)


class Way:
    socket = "/q/0/way-out/proxy"
    listing = "proxy 127.0.0.1 3128\nhost 127.83.0.1 443 example.com\n"
    hosts = "127.83.0.1 example.com\n"
    env: ClassVar = {"HTTPS_PROXY": "http://127.0.0.1:3128"}


def decide(
    confined: str = "strict", *, here=HERE, ready=READY, access=None, limits=None, env=None
) -> SandboxPlan:
    return build_plan(
        confined,
        ["run", "-v"],
        "/code",
        env or {"A": "1"},
        access or Access(),
        limits or ResourceLimits(),
        here,
        ready,
    )


def said(found: SandboxPlan, *words: str) -> bool:
    """Whether these words follow each other on the command line."""
    line = found.launch.command
    return any(line[at : at + len(words)] == words for at in range(len(line)))


def changed(**facts):
    return msgspec.structs.replace(HERE, **facts)


@pytest.mark.parametrize(
    ("confined", "facts", "why", "remedy"),
    [
        ("strict", {"linux": False}, "Linux only", "run the host on Linux"),
        ("strict", {"inner": None}, "plughost-inner is missing", "apt install gcc"),
        ("strict", {"bubblewrap": None}, "not installed", "apt install bubblewrap"),
        ("strict", {"namespaces": "no", "remedy": "sysctl x"}, "cannot make a sandbox here: no", "sysctl x"),
        ("strict", {"landlock": 0}, "no Landlock", "5.13"),
        ("strict", {"seccomp": False}, "no seccomp", "CONFIG_SECCOMP"),
        ("landlock", {"landlock": 0}, "no Landlock", "5.13"),
        ("landlock", {"landlock": 2}, "truncating the files", "6.2"),
        ("landlock", {"inner": None}, "plughost-inner is missing", "apt install gcc"),
    ],
)
def test_a_class_that_cannot_be_had_is_refused_with_a_remedy(confined, facts, why, remedy):
    with pytest.raises(SandboxUnavailable, match=why) as caught:
        decide(confined, here=changed(**facts))
    assert remedy in caught.value.hint


def test_where_there_is_no_user_but_root_the_remedy_is_users():
    assert "map the uids" in module._remedy(module.NO_USERS)
    assert "doctor" not in module._remedy("it failed"), "which is what shows it"


IN_A_CHROOT = """
import os, subprocess, sys
from plughost.sandbox.mechanisms import features
os.mkdir(f"{sys.argv[1]}/proc")
subprocess.run(["mount", "-t", "proc", "proc", f"{sys.argv[1]}/proc"], check=True)
print("chroot" in features._remedy("it failed"))
os.chroot(sys.argv[1])
print("chroot" in features._remedy("it failed"))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes its root")
def test_in_a_chroot_that_is_the_cause(folder):
    command = ["unshare", "--mount", sys.executable, "-c", IN_A_CHROOT, folder]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.stdout.split() == ["False", "True"], ran.stderr


def test_an_unknown_class_is_a_mistake():
    with pytest.raises(InvalidSpec, match="strict, landlock, none"):
        decide("strictest")


def test_a_root_host_never_runs_a_plugin_as_root():
    with pytest.raises(SandboxUnavailable, match="user of its own"):
        decide(here=changed(uid=0))
    ready = msgspec.structs.replace(READY, user=User(61200, 61200))
    assert decide(here=changed(uid=0), ready=ready).launch.confine == "61200:61200"
    assert decide("landlock", here=changed(uid=0), ready=ready).launch.confine == "61200:61200"
    assert decide().launch.confine == "keep"


def test_strict_in_words():
    found = decide()
    line = found.launch.command
    inner = line.index(bubblewrap.INNER, line.index("--"))
    outer, last = line[: inner - 1], line[inner:]
    assert {
        "--unshare-all",
        "--unshare-user",
        "--disable-userns",
        "--new-session",
        "--die-with-parent",
    } <= set(outer)
    assert outer[-2:] == ("--remount-ro", "/"), "nothing is mounted after it"
    assert line[inner - 1] == "--"
    assert last[-7:] == ("landlock", "seccomp", "uncounted", "--", "/code/run", "run", "-v")
    mounts = {
        line[at + 2]: (word, line[at + 1]) for at, word in enumerate(outer) if word in ("--bind", "--ro-bind")
    }
    assert mounts == {
        "/code": ("--ro-bind", "/code"),
        "/etc": ("--ro-bind", "/q/0/etc"),
        "/lib": ("--ro-bind", "/lib"),
        "/usr/lib/py": ("--ro-bind", "/usr/lib/py"),
        "/zones": ("--ro-bind", "/zones"),
        bubblewrap.INNER: ("--ro-bind", "/opt/inner"),
    }
    assert said(found, "--symlink", "usr/bin", "/bin")
    assert not said(found, "--symlink", "libc.so", "/lib/libc.so.6"), "it is in a folder that is shown"
    rules = [pair for pair in pairwise(last) if pair[0] in ("read", "write", "execute", "connect")]
    assert ("read", "/lib") not in rules, "libraries are shown by the folder and held one by one"
    assert {("read", "/lib/libc.so"), ("execute", "/code"), ("write", "/tmp")} <= set(rules)
    assert {path for word, path in rules if word == "write"} == {"/tmp", *DEVICES}
    assert found.launch.env == {"A": "1"}
    assert found.launch.cwd is None


@pytest.mark.parametrize("confined", ["strict", "landlock"])
def test_memory_that_need_not_be_mapped_is_for_plugins_that_a_control_group_counts(confined):
    system = ("/dev/zero", "/etc/hosts")
    plain = msgspec.structs.replace(READY, system=system)
    grouped = msgspec.structs.replace(plain, group=Cgroup(("/g",)))
    for found in (
        decide(confined, ready=grouped),
        decide(confined, ready=plain, limits=ResourceLimits(memory=None)),
    ):
        assert not said(found, "uncounted")
        assert said(found, "write", "/dev") or said(found, "read", "/dev/zero")
    held = decide(confined, ready=plain)
    assert said(held, "uncounted")
    assert "/dev" not in held.launch.command[held.launch.command.index("watch") :]
    assert "/dev/zero" not in held.launch.command


def test_an_older_bubblewrap_is_not_given_words_it_does_not_know():
    assert "--disable-userns" not in decide(here=changed(version=(0, 4, 1))).launch.command


def test_the_way_out_is_the_only_way():
    access = Access(connect=(Endpoint("example.com", 443),))
    with pytest.raises(SandboxUnavailable, match="the proxy to reach them is missing"):
        decide(access=access)
    with pytest.raises(SandboxUnavailable, match="certain hosts"):
        decide("landlock", access=access)
    found = decide(access=access, ready=msgspec.structs.replace(READY, egress=Way()))
    assert said(found, "--share-net")
    assert found.launch.egress == (Way.socket, Way.listing)
    assert Way.socket not in " ".join(found.launch.command)
    assert said(found, "connect", "443", "connect", "3128")
    assert found.launch.env == {"A": "1", **Way.env}


@pytest.mark.parametrize(
    ("reports_denials", "by"), [(True, "reported in its log"), (False, "refused, not reported")]
)
def test_whether_denials_are_told_is_known_before_it_runs(reports_denials, by):
    found = decide(here=changed(reports_denials=reports_denials))
    assert by in {each.what: each.by for each in found.enforcement}["files and programs not granted"]


def test_limits_are_set_as_far_as_the_machine_lets_them():
    found = decide(
        limits=ResourceLimits(open_files=9999, processes=10, cpu_seconds=5, memory=None, scratch=100 << 20)
    )
    assert said(found, "limit", "nofile", "4096")
    assert said(found, "limit", "nproc", "15")
    assert said(found, "limit", "cpu", "5")
    assert said(found, "limit", "core", "1")
    assert not said(found, "limit", "data")
    assert said(found, "--size", str(100 << 20), "--tmpfs", "/tmp")
    assert said(found, "--size", str(25 << 20), "--tmpfs", "/dev/shm")


def test_a_limit_that_nothing_holds_is_told_and_not_set():
    for found in (decide("landlock"), decide(here=changed(separate_nproc=False))):
        assert not said(found, "limit", "nproc")
        held = {holding.what: holding.by for holding in found.enforcement}
        assert held["processes 128"].startswith("nothing")


@pytest.mark.parametrize("folder", ["/code", "/usr/lib", "/lib"])
def test_nothing_that_it_runs_is_writable_through_a_grant(folder):
    ready = msgspec.structs.replace(READY, granted=ResolvedGrants(write=(folder,)))
    for confined in ("strict", "landlock"):
        with pytest.raises(SandboxUnavailable, match="a grant would let it write"):
            decide(confined, ready=ready)


def test_landlock_that_does_not_hold_signals_needs_a_namespace_or_another_user():
    assert decide("landlock").launch.mode == "auto"
    assert decide("landlock", here=changed(landlock=5)).launch.mode == "pidns"
    ready = msgspec.structs.replace(READY, user=User(61200, 61200))
    assert decide("landlock", here=changed(landlock=1, uid=0), ready=ready).launch.mode == "auto"


def test_landlock_alone_has_no_sockets_and_a_scratch_folder():
    found = decide("landlock")
    assert found.launch.command[0] == "/opt/inner"
    assert found.launch.command[-7:] == ("landlock", "offline", "uncounted", "--", "/code/run", "run", "-v")
    assert said(found, "cwd", "/code")
    assert said(found, "write", "/q/0/scratch")
    assert found.launch.env == {"A": "1", "TMPDIR": "/q/0/scratch"}
    with pytest.raises(SandboxUnavailable, match="LD_PRELOAD"):
        decide("landlock", env={"LD_PRELOAD": "x"})


def test_every_power_and_limit_says_what_holds_it():
    access = Access(read=("/r",), write=("/w",), execute=("/x",), connect=(Endpoint("h", 1),))
    limits = ResourceLimits(cpu_seconds=1)
    found = decide(access=access, limits=limits, ready=msgspec.structs.replace(READY, egress=Way()))
    told = {holding.what for holding in found.enforcement}
    assert {"read /r", "write /w", "execute /x", "connect h:1", "its code", "user", "system calls"} <= told
    names = ("memory", "processes", "open files", "file size", "processor seconds", "scratch")
    assert all(any(what.startswith(name) for what in told) for name in names)
    assert all(holding.by for holding in found.enforcement)


def test_a_mount_that_another_shows_is_left_out():
    view = MountView(read=("/a", "/a/b", "/w/r"), write=("/w", "/a/c"))
    line = bubblewrap.build_argv(view, "bwrap", (0, 8), {})
    shown = [line[at + 2] for at, word in enumerate(line) if word in ("--bind", "--ro-bind")]
    assert shown == ["/a", "/a/c", "/w"]
    assert outermost({"/etc": ("--ro-bind", "/q"), "/etc/java": ("--ro-bind", "/etc/java")}) == [
        "/etc",
        "/etc/java",
    ]


def test_this_machine_is_really_tried():
    here = kernel_features()
    assert here is kernel_features()
    assert here.landlock == landlock_abi()
    assert bool(here.version) == bool(here.bubblewrap)
