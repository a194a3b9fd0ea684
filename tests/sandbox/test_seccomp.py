"""The generated filters say what policy.toml says, for both architectures."""

from __future__ import annotations

import errno
import importlib.util
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.sandbox import bpf
from tests.support import ROOT

SECCOMP = ROOT / "launcher/seccomp"
spec = importlib.util.spec_from_file_location("generate", SECCOMP / "generate.py")
generate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generate)

POLICY = tomllib.loads((SECCOMP / "policy.toml").read_text())
NUMBERS = tomllib.loads((SECCOMP / "numbers.toml").read_text())
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
PROGRAMS = {
    (name, cases): generate.program(POLICY, name, cases)
    for name in ARCHITECTURES
    for cases in generate.FILTERS.values()
}
NAMES = {
    architecture: {pair[place]: name for name, pair in NUMBERS.items() if pair[place] >= 0}
    for place, architecture in enumerate(ARCHITECTURES)
}

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
    rows = [row for case in ("rows", *generate.CASES) for row in check.get(case, [])]
    words = " ".join(text for row in rows for text in row).split()
    spoken = [POLICY["names"].get(word, 0) for word in words if word in POLICY["names"]] + [0]
    return st.one_of(
        st.sampled_from(spoken),
        st.builds(
            lambda value, flag: value | flag, st.sampled_from(spoken), st.sampled_from([0o4000, 1 << 31])
        ),
        st.integers(0, 2**32 - 1),
    )


checked = st.sampled_from(POLICY["check"]).flatmap(
    lambda check: st.tuples(st.sampled_from(check["calls"]), arguments(telling(check)))
)
programs = st.sampled_from(sorted(PROGRAMS))


@settings(max_examples=300, deadline=None)
@given(programs, checked)
def test_a_filter_looks_at_arguments_as_the_policy_reads(which, call_and_args):
    call, args = call_and_args
    architecture, cases = which
    number = NUMBERS[call][list(ARCHITECTURES).index(architecture)]
    assume(number >= 0)
    answer = bpf.run(PROGRAMS[which], number, ARCHITECTURES[architecture], args)
    assert answer == bpf.verdict(POLICY, call, args, cases)


@given(programs, numbers, arguments(st.integers(0, 2**32 - 1)))
def test_a_filter_answers_any_call_as_the_policy_reads(which, number, args):
    architecture, cases = which
    answer = bpf.run(PROGRAMS[which], number, ARCHITECTURES[architecture], args)
    assert answer == bpf.verdict(POLICY, NAMES[architecture].get(number), args, cases)


def refused(call, *args, offline=False, uncounted=False, lockless=False):
    number, architecture = NUMBERS[call][0], ARCHITECTURES["x86_64"]
    held = {"offline": offline, "uncounted": uncounted, "lockless": lockless}
    cases = tuple(case for case in generate.CASES if held[case])
    answer = bpf.run(PROGRAMS["x86_64", cases], number, architecture, [*args, *[0] * (6 - len(args))])
    return answer != bpf.ALLOW


def test_no_file_is_made_that_acts_as_its_owner_or_group():
    here, create, temporary = 2**32 - 100, 0o101, 0o20200002
    for bits in (0o4000, 0o2000, 0o6000):
        assert refused("chmod", 1, bits | 0o755)
        assert refused("fchmod", 3, bits | 0o755)
        assert refused("fchmodat", here, 1, bits | 0o755)
        assert refused("fchmodat2", here, 1, bits | 0o755)
        assert refused("creat", 1, bits | 0o755)
        assert refused("mknod", 1, bits | 0o100755)
        assert refused("mknodat", here, 1, bits | 0o100755)
        for flags in (create, temporary):
            assert refused("open", 1, flags, bits | 0o755)
            assert refused("openat", here, 1, flags, bits | 0o755)
        assert not refused("open", 1, 0, bits), "what nobody asked for may be in its place"
        assert not refused("openat", here, 1, 0o200000, bits)
    assert refused("openat2", here, 1, 1, 24)
    assert not refused("open", 1, create, 0o1777)
    assert not refused("openat", here, 1, create, 0o666)
    assert not refused("chmod", 1, 0o755)
    assert not refused("fchmodat", here, 1, 0o644)


def test_memory_that_nobody_counts_is_refused():
    shared, private, validated, fixed, anonymous, huge = 1, 2, 3, 0x10, 0x20, 0x40000
    for offline in (False, True):
        assert refused("memfd_create", 0, 0, offline=offline, uncounted=True)
        assert not refused("memfd_create", 0, 0, offline=offline)
        for more in (0, fixed, huge, 1 << 32):
            for sharing in (shared, validated):
                flags = sharing | anonymous | more
                assert refused("mmap", 0, 4096, 3, flags, 2**32 - 1, offline=offline, uncounted=True)
                assert not refused("mmap", 0, 4096, 3, flags, 2**32 - 1, offline=offline)
                assert not refused("mmap", 0, 4096, 3, sharing | more, 3, offline=offline, uncounted=True)
            assert not refused(
                "mmap", 0, 4096, 3, private | anonymous | more, 0, offline=offline, uncounted=True
            )


BY_NAME = [
    "chmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchownat", "getxattr", "lgetxattr", "listxattr",
    "llistxattr", "setxattr", "lsetxattr", "removexattr", "lremovexattr", "utime", "utimes", "futimesat",
]  # fmt: skip


def test_offline_nothing_is_read_or_changed_by_name_that_landlock_does_not_hold():
    for call in BY_NAME:
        assert refused(call, offline=True)
        assert not refused(call)
    for call in ("fchmod", "fchown", "fgetxattr", "fsetxattr", "fremovexattr"):
        assert not refused(call, 3, 0o644, offline=True)
    assert not refused("utimensat", 3, 0, offline=True)
    assert refused("utimensat", 3, 1, offline=True)
    assert refused("utimensat", 3, 1 << 32, offline=True), "a pointer whose lower half is zero"
    assert not refused("utimensat", 3, 1)


def test_offline_pairs_are_connected_to_themselves_for_good():
    stream, dgram, raw, seqpacket, flags = 1, 2, 3, 5, 0o2004000
    for kind in (stream, seqpacket):
        assert not refused("socketpair", 1, kind | flags, offline=True)
    for kind in (dgram, raw):
        assert refused("socketpair", 1, kind | flags, offline=True)
        assert not refused("socketpair", 1, kind | flags)


def test_nobody_waits_for_a_plugins_lease():
    for offline in (False, True):
        assert refused("fcntl", 3, 1024, 1, offline=offline)
        for ordinary in (
            1,
            2,
            4,
            6,
            1030,
            1031,
        ):  # F_GETFD, F_SETFD, F_SETFL, F_SETLK, F_DUPFD_CLOEXEC, F_SETPIPE_SZ
            assert not refused("fcntl", 3, ordinary, 1, offline=offline)


def test_without_locks_nothing_is_said_or_heard_through_a_file():
    of_files = [
        5,
        6,
        7,
        36,
        37,
        38,
        1024,
        1025,
        1026,
        1035,
        1036,
        1037,
        1038,
    ]  # locks, leases, F_NOTIFY, hints
    of_descriptors = [0, 1, 2, 3, 4, 8, 9, 10, 11, 15, 16, 1027, 1030, 1031, 1032, 1033, 1034]
    for offline in (False, True):
        for uncounted in (False, True):
            cases = {"offline": offline, "uncounted": uncounted}
            for command in of_files:
                assert refused("fcntl", 3, command, **cases, lockless=True)
                assert refused("fcntl", 3, command | 1 << 32, **cases, lockless=True)
                assert refused("fcntl", 3, command, **cases) == (command == 1024)
            for command in of_descriptors:
                assert not refused("fcntl", 3, command, **cases, lockless=True)
            assert refused("flock", 3, 2, **cases, lockless=True)
            assert not refused("flock", 3, 2, **cases)
            assert refused("inotify_add_watch", 3, 1, 0x20, **cases, lockless=True)
            assert refused("inotify_add_watch", 3, 1, 0x20, **cases) == offline
            assert refused("fanotify_init", **cases, lockless=True)
            for call in ("utime", "utimes", "futimesat", "utimensat"):
                assert refused(call, 3, 1, **cases, lockless=True)
                assert refused(call, 3, 1, **cases) == offline
            assert refused("utimensat", 3, 0, **cases, lockless=True), "a descriptor may be a device's"
            assert not refused("utimensat", 3, 0, **cases)


def test_a_check_has_the_same_rows_for_each_case_that_it_names_or_none():
    for check in POLICY["check"]:
        rows = [check[case] for case in generate.CASES if check.get(case)]
        assert all(each == rows[0] for each in rows)


def test_other_processes_are_not_limited_and_offline_not_slowed_either():
    for offline in (False, True):
        assert refused("prlimit64", 1, offline=offline)
        assert not refused("prlimit64", 0, offline=offline)
    for call in ("sched_setaffinity", "sched_setparam", "sched_setscheduler", "sched_setattr"):
        assert refused(call, 1, offline=True)
        assert not refused(call, 0, offline=True)
    for call, process in (("setpriority", 0), ("ioprio_set", 1)):
        assert not refused(call, process, 0, offline=True)
        assert refused(call, process, 1, offline=True)
        assert refused(call, process + 1, 0, offline=True)


def test_every_number_is_answered_as_the_policy_reads():
    for (architecture, offline), program in PROGRAMS.items():
        for number in range(700):
            answer = bpf.run(program, number, ARCHITECTURES[architecture], [0] * 6)
            assert answer == bpf.verdict(POLICY, NAMES[architecture].get(number), [0] * 6, offline)


@given(st.sampled_from(sorted(ARCHITECTURES)), numbers, st.integers(0, 2**32 - 1))
def test_the_call_table_of_another_architecture_kills(architecture, number, other):
    if other != ARCHITECTURES[architecture]:
        assert bpf.run(PROGRAMS[architecture, ()], number, other, [0] * 6) == bpf.KILL


def test_the_x32_table_is_not_there():
    for number in range(600):
        answer = bpf.run(PROGRAMS["x86_64", ()], 0x40000000 | number, ARCHITECTURES["x86_64"], [0] * 6)
        assert answer == bpf.ERRNO | errno.ENOSYS


def test_filters_are_small_and_their_jumps_stay_inside():
    for program in PROGRAMS.values():
        assert len(program) < 420
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
