"""The generated filters say what policy.toml says, and the kernel does what they say."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sandbox import bpf
from tests.sandbox.ground import PYTHON
from tests.support import ROOT

SECCOMP = ROOT / "launcher/seccomp"
spec = importlib.util.spec_from_file_location("generate", SECCOMP / "generate.py")
generate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generate)

POLICY = tomllib.loads((SECCOMP / "policy.toml").read_text())
NUMBERS = tomllib.loads((SECCOMP / "numbers.toml").read_text())
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
PROGRAMS = {
    (name, off): generate.program(POLICY, name, off) for name in ARCHITECTURES for off in (False, True)
}
NAMES = {
    architecture: {pair[place]: name for name, pair in NUMBERS.items() if pair[place] >= 0}
    for place, architecture in enumerate(ARCHITECTURES)
}
HERE = platform.machine()

numbers = st.one_of(
    st.sampled_from(sorted({number for pair in NUMBERS.values() for number in pair if number >= 0})),
    st.integers(0, 600),
    st.integers(0x40000000, 0x40000200),  # x32
    st.integers(0, 2**32 - 1),
)


def arguments(low_halves):
    """Six of them; the upper half is what the kernel cuts off."""
    whole = st.builds(lambda low, high: low | high << 32, low_halves, st.sampled_from([0, 0, 1, 2**32 - 1]))
    return st.lists(whole, min_size=6, max_size=6)


def telling(check):
    """The values a check speaks of, some flags around them, and anything else."""
    words = " ".join(text for row in check["rows"] for text in row).split()
    spoken = [POLICY["names"].get(word, 0) for word in words if word in POLICY["names"]] + [0]
    return st.one_of(
        st.sampled_from(spoken),
        st.builds(
            lambda value, flag: value | flag, st.sampled_from(spoken), st.sampled_from([0o4000, 1 << 31])
        ),
        st.integers(0, 2**32 - 1),
    )


checked = st.sampled_from(POLICY["check"]).flatmap(
    lambda check: st.tuples(st.just(check["call"]), arguments(telling(check)))
)
programs = st.sampled_from(sorted(PROGRAMS))


@settings(max_examples=300, deadline=None)
@given(programs, checked)
def test_a_filter_looks_at_arguments_as_the_policy_reads(which, call_and_args):
    call, args = call_and_args
    architecture, offline = which
    number = NUMBERS[call][list(ARCHITECTURES).index(architecture)]
    answer = bpf.run(PROGRAMS[which], number, ARCHITECTURES[architecture], args)
    assert answer == bpf.verdict(POLICY, call, args, offline)


@given(programs, numbers, arguments(st.integers(0, 2**32 - 1)))
def test_a_filter_answers_any_call_as_the_policy_reads(which, number, args):
    architecture, offline = which
    answer = bpf.run(PROGRAMS[which], number, ARCHITECTURES[architecture], args)
    assert answer == bpf.verdict(POLICY, NAMES[architecture].get(number), args, offline)


def test_every_number_is_answered_as_the_policy_reads():
    for (architecture, offline), program in PROGRAMS.items():
        for number in range(700):
            answer = bpf.run(program, number, ARCHITECTURES[architecture], [0] * 6)
            assert answer == bpf.verdict(POLICY, NAMES[architecture].get(number), [0] * 6, offline)


@given(st.sampled_from(sorted(ARCHITECTURES)), numbers, st.integers(0, 2**32 - 1))
def test_the_call_table_of_another_architecture_kills(architecture, number, other):
    if other != ARCHITECTURES[architecture]:
        assert bpf.run(PROGRAMS[architecture, False], number, other, [0] * 6) == bpf.KILL


def test_the_x32_table_is_not_there():
    for number in range(600):
        answer = bpf.run(PROGRAMS["x86_64", False], 0x40000000 | number, ARCHITECTURES["x86_64"], [0] * 6)
        assert answer == bpf.ERRNO | errno.ENOSYS


def test_filters_are_small_and_their_jumps_stay_inside():
    for program in PROGRAMS.values():
        assert len(program) < 400
        for at, (code, value, if_so, if_not) in enumerate(program):
            assert max(if_so, if_not) <= 255
            assert at + 1 + max(if_so, if_not, value if code == 0x05 else 0) < len(program) or code == 0x06


def test_far_branches_of_a_large_policy_go_through_a_long_jump():
    stretches = [(n, (generate.Instruction(0x06, n),)) for n in range(2000)]
    program = [generate.Instruction(0x20, 0), *generate.search(stretches)]
    assert any(code == 0x05 for code, *_ in program)
    assert [bpf.run(program, n, 0, [0] * 6) for n in range(2000)] == list(range(2000))


def test_generation_is_the_same_every_time():
    assert generate.header() == generate.header()


def test_numbers_are_those_of_the_systems_headers():
    """Only x86-64 machines carry their own list; the generic one, which arm64 uses, comes with every libc."""
    generic = Path("/usr/include/asm-generic/unistd.h")
    if not generic.exists():
        pytest.skip("no kernel headers here")
    found = dict(re.findall(r"#define __NR(?:3264)?_(\w+) (\d+)", generic.read_text()))
    renamed = {"newfstatat": "fstatat"}  # as the generic list spells it
    for name, (_, number) in NUMBERS.items():
        listed = found.get(renamed.get(name, name), found.get(name))
        assert listed is None or int(listed) == number, name
    assert sum(name in found for name in NUMBERS) > 200
    own = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    if own.exists():
        found = dict(re.findall(r"#define __NR_(\w+) (\d+)", own.read_text()))
        assert all(int(found.get(name, pair[0])) == pair[0] for name, pair in NUMBERS.items())


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
    ("typing into a terminal", "ioctl", [0, 0x5412, 0], "EPERM"),
    ("typing with a high bit", "ioctl", [0, 1 << 32 | 0x5412, 0], "EPERM"),
]
WORKING = [
    ("unix socket", "socket", [1, 1, 0]),
    ("TCP", "socket", [2, 1 | 0o2000000, 6]),
    ("UDP", "socket", [10, 2 | 0o4000, 0]),
    ("addresses", "socket", [16, 3, 0]),
    ("clone of a process", "clone", [17, 0, 0, 0, 0]),
    ("personality", "personality", [0xFFFFFFFF]),
]


async def answers(inner, words, attempts):
    if HERE not in ARCHITECTURES:
        pytest.skip(f"no filter for {HERE}")
    place = list(ARCHITECTURES).index(HERE)
    wanted = [[title, NUMBERS[call][place], *args] for title, call, args, *_ in attempts]
    ran = await inner(words, [*PYTHON, ATTEMPTS, json.dumps(wanted)])
    assert ran.failure is None
    assert ("seccomp" in ran.confined_by) is bool(words)
    return json.loads(ran.out)


async def test_forbidden_calls_fail_and_only_by_the_filter(inner):
    expected = {title: answer for title, _, _, answer in REFUSED}
    assert await answers(inner, ["seccomp"], REFUSED) == expected
    free = await answers(inner, [], REFUSED)
    assert {title for title in expected if free[title] == expected[title]} == set()


async def test_allowed_calls_work(inner):
    assert set((await answers(inner, ["seccomp"], WORKING)).values()) == {"done"}


async def test_offline_there_are_no_sockets_but_pairs(inner):
    sockets = [row for row in WORKING if row[1] == "socket"]
    assert set((await answers(inner, ["offline"], sockets)).values()) == {"EAFNOSUPPORT"}
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
