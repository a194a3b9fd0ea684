"""The kernel does what the filter says: forbidden calls fail, by the filter alone, and real programs run."""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import tomllib

import pytest

from tests.support import ROOT
from tests.support.sandbox_env import PYTHON

NUMBERS = tomllib.loads((ROOT / "launcher/seccomp/numbers.toml").read_text())
ARCHITECTURES = ["x86_64", "aarch64"]
HERE = platform.machine()
pytestmark = pytest.mark.skipif(HERE not in ARCHITECTURES, reason="no filter for this processor")

ATTEMPTS = """
import ctypes, errno, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
answers = {}
for name, number, *args in json.loads(sys.argv[1]):
    ctypes.set_errno(0)
    result = libc.syscall(*[ctypes.c_long(n) for n in (number, *args)])
    if name.startswith("clone ") and result == 0:
        os._exit(0)
    answers[name] = errno.errorcode[ctypes.get_errno()] if result < 0 else "done"
print(json.dumps(answers))
"""
REFUSED = [
    # title, call, arguments, answer below the filter
    ("unshare", "unshare", [0], "EPERM"),
    ("setns", "setns", [-1, 0], "EPERM"),
    ("keyring", "keyctl", [0, -3, 0], "EPERM"),
    ("another's memory", "process_vm_readv", [0, 0, 0, 0, 0, 0], "EPERM"),
    ("page faults", "userfaultfd", [1], "EPERM"),
    ("counters", "perf_event_open", [0, 0, 0, 0, 0], "EPERM"),
    ("another's descriptors", "pidfd_getfd", [-1, 0, 0], "EPERM"),
    ("io_uring", "io_uring_setup", [1, 0], "ENOSYS"),
    ("clone3", "clone3", [0, 0], "ENOSYS"),
    ("clone with a user namespace", "clone", [0x10000000 | 17, 0, 0, 0, 0], "EPERM"),
    ("System V memory", "shmget", [0, 4096, 0o600], "ENOSYS"),
    ("multipath TCP", "socket", [2, 1, 262], "EAFNOSUPPORT"),
    ("kernel events", "socket", [16, 3, 15], "EAFNOSUPPORT"),
    ("no randomisation", "personality", [0x40000], "EPERM"),
    ("another's limits", "prlimit64", [2**31 - 1, 7, 0, 0], "EPERM"),
    ("a setuid file", "mknodat", [-100, 0, 0o104755, 0], "EPERM"),
    ("a new setuid file", "openat", [-100, 0, 0o101, 0o4755], "EPERM"),
    ("a file that becomes setgid", "fchmod", [-1, 0o2755], "EPERM"),
    ("flags in memory", "openat2", [-100, 0, 0, 0], "ENOSYS"),
    ("a lease", "fcntl", [0, 1024, 0], "EPERM"),
    ("typing into a terminal", "ioctl", [0, 0x5412, 0], "EPERM"),
    ("typing with a high bit", "ioctl", [0, 1 << 32 | 0x5412, 0], "EPERM"),
]
OFFLINE = [
    ("a mode by name", "fchmodat", [-100, 0, 0o644], "EPERM"),
    ("an owner by name", "fchownat", [-100, 0, 0, 0, 0], "EPERM"),
    ("an attribute to be read", "getxattr", [0, 0, 0, 0], "EPERM"),
    ("a pair of datagrams", "socketpair", [1, 2, 0, 0], "EAFNOSUPPORT"),
    ("an attribute by name", "setxattr", [0, 0, 0, 0, 0], "EPERM"),
    ("a time by name", "utimensat", [-100, 1 << 32, 0, 0], "EPERM"),
    ("another's processors", "sched_setaffinity", [2**31 - 1, 0, 0], "EPERM"),
    ("another's priority", "setpriority", [0, 2**31 - 1, 5], "EPERM"),
    ("another's disk priority", "ioprio_set", [1, 2**31 - 1, 0], "EPERM"),
]
WORKING = [
    ("its own limits", "prlimit64", [0, 7, 0, 0]),
    ("unix socket", "socket", [1, 1, 0]),
    ("TCP", "socket", [2, 1 | 0o2000000, 6]),
    ("UDP", "socket", [10, 2 | 0o4000, 0]),
    ("addresses", "socket", [16, 3, 0]),
    ("clone of a process", "clone", [17, 0, 0, 0, 0]),
    ("personality", "personality", [0xFFFFFFFF]),
]


async def answers(inner, words, attempts):
    wanted = [[title, NUMBERS[call][ARCHITECTURES.index(HERE)], *args] for title, call, args, *_ in attempts]
    ran = await inner(words, [*PYTHON, ATTEMPTS, json.dumps(wanted)])
    assert ran.failure is None
    reported = {"seccomp": "seccomp", "offline": "seccomp offline"}
    assert [word for word in ran.confined_by if word.startswith("seccomp")] == [
        reported[word] for word in words
    ]
    return json.loads(ran.out)


async def test_forbidden_calls_fail_and_only_by_the_filter(inner):
    expected = {title: answer for title, _, _, answer in REFUSED}
    assert await answers(inner, ["seccomp"], REFUSED) == expected
    free = await answers(inner, [], REFUSED)
    assert {title for title in expected if free[title] == expected[title]} == set()


async def test_offline_more_calls_fail_and_only_by_that_filter(inner):
    expected = {title: answer for title, _, _, answer in OFFLINE}
    assert await answers(inner, ["offline"], OFFLINE) == expected
    usual = await answers(inner, ["seccomp"], OFFLINE)
    assert {title for title in expected if usual[title] == expected[title]} == set()


ORDINARY = """
import os, shutil, sys
os.chdir(sys.argv[1])
open("file", "w").close()
os.chmod("file", 0o755)
os.utime("file", (1, 1))
shutil.copy2("file", "copy")
os.mkdir("folder", 0o1777)
print(oct(os.stat("copy").st_mode), os.stat("copy").st_mtime)
for bits in (0o4755, 0o2755):
    try:
        os.chmod("file", bits)
    except PermissionError:
        print("refused")
"""


async def test_ordinary_modes_are_set_and_none_that_acts_as_its_owner(inner, ground):
    ran = await inner(["seccomp"], [*PYTHON, ORDINARY, str(ground / "own")])
    assert ran.out == "0o100755 1.0\nrefused\nrefused\n", ran.err


async def test_git_runs_below_the_filter(inner, ground):
    if (git := shutil.which("git")) is None:
        assert not os.environ.get("CI"), "git is missing"
        pytest.skip("git is not installed")
    script = 'cd "$1" && "$0" init -q . && "$0" config a.b c && "$0" config a.b'
    command = ["/usr/bin/env", f"HOME={ground}", "/bin/sh", "-c", script, git, str(ground / "own")]
    ran = await inner(["seccomp"], command)
    assert ran.out == "c\n", ran.err


async def test_allowed_calls_work(inner):
    assert set((await answers(inner, ["seccomp"], WORKING)).values()) == {"done"}


async def test_offline_there_are_no_sockets_but_pairs(inner):
    sockets = [row for row in WORKING if row[1] == "socket"]
    assert set((await answers(inner, ["offline"], sockets)).values()) == {"EAFNOSUPPORT"}
    ran = await inner(["offline", "seccomp"], ["/bin/true"])
    assert ran.confined_by[-1] == "seccomp offline"
    script = "import socket; a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))"
    ran = await inner(["offline"], ["/usr/bin/python3", "-c", script])
    assert ran.out == "b'x'\n"


@pytest.mark.skipif(HERE != "x86_64", reason="the old door is in x86 processors")
async def test_the_32_bit_door_kills(inner):
    script = """
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=7)
code.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20; int 0x80; ret
call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
print(call())
"""
    free = await inner([], [*PYTHON, script])
    if free.status:
        pytest.skip("this kernel has no 32-bit calls")
    ran = await inner(["seccomp"], [*PYTHON, script])
    assert (ran.status, ran.out) == (-signal.SIGSYS, "")


HELLO = {
    "python": [
        "/usr/bin/python3",
        "-c",
        "import asyncio, concurrent.futures as f, multiprocessing, subprocess\n"
        "assert subprocess.run(['true']).returncode == 0\n"
        "with f.ThreadPoolExecutor(2) as p: assert list(p.map(abs, [-1, 2])) == [1, 2]\n"
        "with f.ProcessPoolExecutor(1) as p: assert p.submit(abs, -1).result() == 1\n"
        "asyncio.run(asyncio.sleep(0)); print('hello')",
    ],
    "node": [
        "node",
        "-e",
        "const {Worker} = require('worker_threads'); require('child_process').execSync('true');"
        "new Worker('0', {eval: true}).on('exit', () => console.log('hello'))",
    ],
    "sh": ["/bin/sh", "-c", "echo hello | cat | (read word; echo $word)"],
}


@pytest.mark.parametrize("words", [["seccomp"], ["offline"]], ids=["usual", "offline"])
@pytest.mark.parametrize("language", HELLO)
async def test_programs_of_many_languages_run_below_the_filter(inner, language, words):
    program, *rest = HELLO[language]
    if (path := shutil.which(program)) is None:
        if os.environ.get("CI"):
            pytest.fail(f"{program} is missing")
        pytest.skip(f"{program} is not installed")
    ran = await inner(words, [path, *rest])
    assert (ran.out, ran.status) == ("hello\n", 0), ran.err


@pytest.mark.parametrize("language", ["c", "go", "rust"])
async def test_compiled_plugins_run_below_the_filter(inner, ground, language):
    plugin = ROOT / f"plugins/echo-mcptest-{language}/bin/echo"
    if not plugin.exists():
        if os.environ.get("CI"):
            pytest.fail(f"{plugin} is missing")
        pytest.skip("not compiled: no toolchain")
    subprocess.run(["cp", plugin, ground / "plugin"], check=True)
    script = """printf '{"id":1,"method":"tools/list","params":{}}\\n' | "$0" """
    ran = await inner(["seccomp"], ["/bin/sh", "-c", script, str(ground / "plugin")])
    assert json.loads(ran.out.splitlines()[0])["id"] == 1, ran.err
