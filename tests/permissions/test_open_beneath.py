"""Nothing outside the folder is reached: by the kernel's walk and by ours, which give the same answers."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plughost.permissions import open_beneath as beneath
from plughost.permissions.open_beneath import MAX_DEPTH, MAX_RACES, MAX_SYMLINKS, EscapesFolder, open_beneath

WAYS = ["kernel", "hand", "hand without O_PATH"]
INSIDE, SECRET = b"inside", b"secret"


def walking(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """From here on paths are walked this way."""
    if way != "kernel":
        monkeypatch.setattr(beneath, "_openat2", failing(errno.ENOSYS))
    if way == "hand without O_PATH":
        monkeypatch.setattr(beneath, "O_PATH", 0)


def failing(number: int):
    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.fixture(params=WAYS)
def way(request, monkeypatch) -> str:
    if request.param == "kernel" and not kernel_has_openat2():
        pytest.skip("this kernel, or its seccomp filter, has no openat2")
    walking(monkeypatch, request.param)
    return request.param


def kernel_has_openat2() -> bool:
    with opened("/") as folder:
        try:
            os.close(beneath._openat2(folder, b".", os.O_PATH | os.O_CLOEXEC))
        except OSError:
            return False
    return True


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[int]:
    fd = os.open(path, os.O_PATH | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def answer(folder: int, path: str, flags: int = os.O_RDONLY) -> str | bytes:
    """A file's bytes, "folder <its name>" or the reason why not."""
    try:
        fd = open_beneath(folder, path, flags)
    except EscapesFolder:
        return "escapes"
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    try:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            return "folder " + os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))
        return os.read(fd, 100)
    finally:
        os.close(fd)


TREE: dict[str, str | None] = {
    # a name → where the symlink leads; None for a folder, its own name for a file
    "f": "f",
    "d": None,
    "d/g": "d/g",
    "d/e": None,
    "d/e/h": "d/e/h",
    "to_f": "->f",
    "to_d": "->d",
    "to_d_slash": "->d/",
    "to_f_slash": "->f/",
    "here": "->.",
    "deep": "->d/e",
    "round": "->d/../f",
    "chain": "->to_d/e/h",
    "d/back": "->../f",
    "d/top": "->..",
    "d/e/top": "->../..",
    "up": "->..",
    "d/up": "->../..",
    "out": "->../outside/f",
    "out_and_back": "->../root/f",
    "absolute": "->/outside/f",
    "dangling": "->nowhere",
    "loop": "->loop",
    "ping": "->d/pong",
    "d/pong": "->../ping",
}
NAMES = sorted({name for path in TREE for name in path.split("/")})


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("beneath") / "root"
    root.mkdir()
    (root.parent / "outside").mkdir()
    (root.parent / "outside/f").write_bytes(SECRET)
    for name, content in TREE.items():
        if content is None:
            (root / name).mkdir()
        elif content.startswith("->/"):
            (root / name).symlink_to(root.parent / "outside/f")
        elif content.startswith("->"):
            os.symlink(content[2:], root / name)
        else:
            (root / name).write_bytes(content.encode())
    return root


def by_definition(path: str) -> str | bytes:
    """The slow, obvious walk over a dictionary."""
    if not path:
        return "ENOENT"
    at: list[str] = []
    links = 0
    todo = [path]
    file: str | None = None
    while todo:
        text = todo.pop(0)
        if text.startswith("/"):
            return "escapes"
        name, slash, rest = text.partition("/")
        if slash:
            todo.insert(0, rest.lstrip("/") or ".")
        if file is not None:
            return "ENOTDIR"
        if name == ".":
            continue
        if name == "..":
            if not at:
                return "escapes"
            at.pop()
            continue
        full = "/".join([*at, name])
        if full not in TREE:
            return "ENOENT"
        content = TREE[full]
        if content is None:
            at.append(name)
        elif content.startswith("->"):
            links += 1
            if links > MAX_SYMLINKS:
                return "ELOOP"
            todo.insert(0, content[2:])
        else:
            file = content
    return file.encode() if file is not None else "folder " + (at[-1] if at else "root")


spellings = st.tuples(
    st.sampled_from(["", "", "", "", "/", "./", "//", "../"]),
    st.lists(st.sampled_from([*NAMES, "d", "to_d", "deep", "..", "..", ".", "", "missing"]), max_size=7),
    st.sampled_from(["", "", "", "/", "/.", "//", "/.."]),
).map(lambda parts: parts[0] + "/".join(parts[1]) + parts[2])


@settings(max_examples=600, deadline=None)
@given(spellings)
def test_every_spelling_is_answered_as_the_definition_says_by_every_way(root, path):
    with opened(root) as folder:
        for way in WAYS if kernel_has_openat2() else WAYS[1:]:
            with pytest.MonkeyPatch.context() as patch:
                walking(patch, way)
                assert answer(folder, path) == by_definition(path), way


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("f", b"f"),
        ("d//e/./h", b"d/e/h"),
        ("d/../f", b"f"),
        ("d/e/../../f", b"f"),
        ("chain", b"d/e/h"),
        ("round", b"f"),
        ("deep/../g", b"d/g"),
        ("here/here/here/f", b"f"),
        ("to_d_slash", "folder d"),
        ("to_d/", "folder d"),
        (".", "folder root"),
        ("./", "folder root"),
        ("d/..", "folder root"),
        ("", "ENOENT"),
        ("f/", "ENOTDIR"),
        ("f/.", "ENOTDIR"),
        ("f/..", "ENOTDIR"),
        ("to_f_slash", "ENOTDIR"),
        ("missing/..", "ENOENT"),
        ("dangling", "ENOENT"),
        ("loop", "ELOOP"),
        ("ping/x", "ELOOP"),
        ("..", "escapes"),
        ("../", "escapes"),
        ("../root/f", "escapes"),
        ("d/../../root/f", "escapes"),
        ("d/e/../../../root/f", "escapes"),
        ("./..//outside/f", "escapes"),
        ("up/outside/f", "escapes"),
        ("d/up/outside/f", "escapes"),
        ("out", "escapes"),
        ("out_and_back", "escapes"),
        ("absolute", "escapes"),
        ("/", "escapes"),
        ("/etc/passwd", "escapes"),
        ("//f", "escapes"),
        ("x" * 300, "ENAMETOOLONG"),
        ("./" * 3000 + "f", "ENAMETOOLONG"),
    ],
)
def test_a_path_is_answered_so(root, way, path, expected):
    with opened(root) as folder:
        assert answer(folder, path) == expected
        if expected == "escapes":
            assert answer(folder, path, beneath.O_PATH) == "escapes"
            assert answer(folder, path, os.O_DIRECTORY) == "escapes"


def test_only_folders_are_opened_where_a_folder_is_asked_for(root, way):
    with opened(root) as folder:
        for flags in (os.O_DIRECTORY, beneath.O_PATH | os.O_DIRECTORY):
            assert answer(folder, "to_d", flags) == "folder d"
            assert answer(folder, "to_d/.", flags) == "folder d"
            assert answer(folder, "f", flags) == "ENOTDIR"
            assert answer(folder, "to_f", flags) == "ENOTDIR"


def test_as_many_symlinks_are_followed_as_the_kernel_follows_and_no_more(tmp_path, way):
    (tmp_path / "0").write_bytes(INSIDE)
    for number in range(MAX_SYMLINKS + 1):
        (tmp_path / f"{number + 1}").symlink_to(str(number))
    with opened(tmp_path) as folder:
        assert answer(folder, str(MAX_SYMLINKS)) == INSIDE
        assert answer(folder, str(MAX_SYMLINKS + 1)) == "ELOOP"


@pytest.mark.parametrize("path", ["root/etc/passwd", "cwd", "exe", "fd/{fd}", "task/../root", "fd/../root/."])
def test_magic_links_lead_nowhere(tmp_path, way, path):
    with opened("/proc/self") as folder, opened(tmp_path) as other:
        assert answer(folder, path.format(fd=other)) == "escapes"
        assert answer(folder, path.format(fd=other), beneath.O_PATH) == "escapes"


def test_the_kernel_is_asked_to_take_no_magic_link():
    """Today it takes none beneath a folder anyhow, and says EXDEV; its manual promises that only for now."""
    if not kernel_has_openat2():
        pytest.skip("this kernel, or its seccomp filter, has no openat2")
    with opened("/proc/self") as folder, pytest.raises(OSError) as caught:
        beneath._openat2(folder, b"root", os.O_PATH | os.O_CLOEXEC)
    assert caught.value.errno == errno.ELOOP


def test_a_magic_link_without_a_path_leads_nowhere_either(way):
    reading, writing = os.pipe()
    try:
        with opened("/proc/self") as folder:
            assert answer(folder, f"fd/{reading}", beneath.O_PATH) in ("escapes", "ENOENT")
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("target", ["/proc/self/root/etc/passwd", "/proc/self/fd/{fd}", "/proc/self/cwd"])
def test_a_symlink_to_a_magic_link_is_a_way_out(tmp_path, way, target):
    with opened(tmp_path) as folder:
        (tmp_path / "magic").symlink_to(target.format(fd=folder))
        assert answer(folder, "magic") == "escapes"
        assert answer(folder, "magic/magic") == "escapes"


def test_a_null_byte_does_not_cut_a_name_short(root, way):
    with opened(root) as folder, pytest.raises(ValueError, match="null"):
        open_beneath(folder, "f\0/../../outside/f")


@pytest.mark.parametrize(
    "flags", [os.O_WRONLY, os.O_RDWR, os.O_CREAT, os.O_TRUNC, os.O_APPEND, os.O_NOFOLLOW]
)
def test_nothing_is_opened_but_for_reading(root, way, flags):
    with opened(root) as folder, pytest.raises(ValueError, match="reading only"):
        open_beneath(folder, "f", flags)


def test_opening_waits_for_nobody_and_reaches_no_child(tmp_path, way):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "f").write_bytes(INSIDE)
    with opened(tmp_path) as folder:
        for name in ("fifo", "f"):
            fd = open_beneath(folder, name)
            try:
                assert not os.get_inheritable(fd)
                assert fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK
            finally:
                os.close(fd)
        fd = open_beneath(folder, "f", beneath.O_PATH)
        assert not os.get_inheritable(fd)
        os.close(fd)


def test_what_the_system_refuses_is_refused_as_the_system_says(tmp_path, way):
    with socket.socket(socket.AF_UNIX) as server, opened(tmp_path) as folder:
        server.bind(str(tmp_path / "socket"))
        assert answer(folder, "socket") == "ENXIO"
        assert answer(-1, "socket") == "EBADF"


ORDINARY = """
import ctypes, errno, os, sys  # while they can be read
from plughost.permissions import open_beneath as beneath
folder = int(sys.argv[1])
try:
    os.setgroups([])
    os.setresuid(65534, 65534, 65534)
except PermissionError:
    pass  # ordinary already
if sys.argv[2] == "hand":
    def missing(*_):
        raise OSError(errno.ENOSYS, "no such call")
    beneath._openat2 = missing
for case in sys.argv[3:]:
    path, flags = case.split(":")
    try:
        os.close(beneath.open_beneath(folder, path, int(flags)))
        print("ok")
    except OSError as error:
        print(errno.errorcode[error.errno])
"""


@pytest.mark.parametrize("way", WAYS[:2])
def test_an_ordinary_user_needs_the_right_to_search_on_every_step(tmp_path, way):
    (tmp_path / "shut/in").mkdir(parents=True)
    (tmp_path / "list").mkdir()
    (tmp_path / "f").write_bytes(INSIDE)
    for name, mode in {".": 0o755, "shut": 0o644, "list": 0o444, "f": 0o000}.items():
        (tmp_path / name).chmod(mode)
    wanted = {
        f"shut/in:{os.O_PATH}": "EACCES",
        f"shut/.:{os.O_PATH}": "EACCES",
        f"shut/../f:{os.O_PATH}": "EACCES",
        f"shut:{os.O_PATH}": "ok",
        f"list:{os.O_DIRECTORY}": "ok",
        f"list/:{os.O_DIRECTORY}": "ok",
        f"list/.:{os.O_DIRECTORY}": "EACCES",
        f"f:{os.O_PATH}": "ok",
        f"f:{os.O_RDONLY}": "EACCES",
    }
    with opened(tmp_path) as folder:
        command = [sys.executable, "-c", ORDINARY, str(folder), way, *wanted]
        done = subprocess.run(command, capture_output=True, text=True, pass_fds=[folder], timeout=30)
    for name in ("shut", "list"):
        (tmp_path / name).chmod(0o755)
    assert (done.stdout.split(), done.stderr) == (list(wanted.values()), "")


def test_a_walk_by_hand_holds_a_bounded_number_of_folders(tmp_path, way):
    names = ["d"] * (MAX_DEPTH + 1)
    with opened(tmp_path) as folder:
        at = os.dup(folder)
        for name in names:
            os.mkdir(name, dir_fd=at)
            at, before = os.open(name, os.O_RDONLY, dir_fd=at), at
            os.close(before)
        os.close(at)
        assert answer(folder, "/".join(names)) == "folder d"
        deeper = answer(folder, "/".join([*names, ".", "."]))
        assert deeper == ("folder d" if way == "kernel" else "ENAMETOOLONG")


def test_a_closed_folder_counts_as_outside_by_whatever_name(root):
    info = (root / "d/e").stat()
    closed = {(info.st_dev, info.st_ino)}
    with opened(root) as folder:
        for path in ("d/e/h", "d/e", "deep", "deep/h", "chain", "d/e/top/d/e/h"):
            with pytest.raises(EscapesFolder):
                open_beneath(folder, path, beneath.O_PATH, closed=closed)
        for path in ("f", "d", "d/g", "d/e/../g", "deep/top/f", "d/e/top"):
            os.close(open_beneath(folder, path, beneath.O_PATH, closed=closed))


# What the kernel says, and what is made of it.


def test_a_race_that_the_kernel_sees_is_tried_again_then_refused(root, monkeypatch):
    calls = []
    real = beneath._openat2

    def racing(*arguments: object) -> int:
        calls.append(arguments)
        if len(calls) <= seen:
            raise BlockingIOError(errno.EAGAIN, "a race")
        return real(*arguments)

    monkeypatch.setattr(beneath, "_openat2", racing)
    with opened(root) as folder:
        seen = MAX_RACES - 1
        assert answer(folder, "f") == b"f"
        assert len(calls) == MAX_RACES
        calls.clear()
        seen = 10 * MAX_RACES
        assert answer(folder, "f") == "escapes"
        assert len(calls) == MAX_RACES


def test_an_interrupted_walk_is_taken_again(root, monkeypatch):
    failures = [InterruptedError(errno.EINTR, "a signal")] * 3
    real = beneath._openat2

    def interrupted(*arguments: object) -> int:
        if failures:
            raise failures.pop()
        return real(*arguments)

    monkeypatch.setattr(beneath, "_openat2", interrupted)
    with opened(root) as folder:
        assert answer(folder, "d/../f") == b"f"


FILTERED = """
import ctypes, os, struct, sys
from plughost.permissions import open_beneath as beneath
libc = ctypes.CDLL(None, use_errno=True)
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, 437), (0x06, 0, 0, 0x50000 | int(sys.argv[2])), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(code)))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program, 0, 0) == 0, os.strerror(ctypes.get_errno())
folder = os.open(sys.argv[1], os.O_RDONLY)
try:
    beneath._openat2(folder, b"f", os.O_RDONLY)
except OSError as error:
    assert error.errno == int(sys.argv[2]), error
else:
    sys.exit("the filter did not hold")
for path in ("f", "d/../f", "../outside/f", "absolute", "out"):
    try:
        print(os.read(beneath.open_beneath(folder, path), 100).decode())
    except beneath.EscapesFolder:
        print("escapes")
"""


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS])
def test_where_a_container_forbids_the_kernels_walk_ours_holds(root, number):
    done = subprocess.run(
        [sys.executable, "-c", FILTERED, str(root), str(number)], capture_output=True, text=True, timeout=30
    )
    assert (done.stdout.split(), done.stderr) == (["f", "f", "escapes", "escapes", "escapes"], "")


# Others at work in the same folder, in a process of their own.

RENAMING = """
import os, sys
os.chdir(sys.argv[1])
moves = [pair.split(">") for pair in sys.argv[2:]]
print("ready", flush=True)
while True:
    for old, new in moves:
        os.rename(old, new)
"""


@contextmanager
def renaming(folder: Path, *moves: str) -> Iterator[None]:
    """Somebody renames `old>new`, one after the other, round and round."""
    command = [sys.executable, "-c", RENAMING, str(folder), *moves]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield
        finally:
            process.kill()


def battlefield(tmp_path: Path) -> Path:
    """A root and an outside of the same shape, and symlinks from the one to the other."""
    (tmp_path / "root/d/e").mkdir(parents=True)
    (tmp_path / "outside/d/e").mkdir(parents=True)
    for path in ("f", "d/f", "d/e/f"):
        (tmp_path / "root" / path).write_bytes(INSIDE)
        (tmp_path / "outside" / path).write_bytes(SECRET)
    (tmp_path / "root/link").symlink_to(tmp_path / "outside")
    (tmp_path / "root/climb").symlink_to("../outside")
    (tmp_path / "root/link.f").symlink_to(tmp_path / "outside/f")
    return tmp_path


RACE = {
    "a file and a symlink to a secret": (
        "f",
        ["root/f>root/f.real", "root/link.f>root/f", "root/f>root/link.f", "root/f.real>root/f"],
        {INSIDE, "escapes"},
    ),
    "a folder and an absolute symlink": (
        "d/f",
        ["root/d>root/d.real", "root/link>root/d", "root/d>root/link", "root/d.real>root/d"],
        {INSIDE, "escapes"},
    ),
    "a folder and a relative symlink": (
        "d/f",
        ["root/d>root/d.real", "root/climb>root/d", "root/d>root/climb", "root/d.real>root/d"],
        {INSIDE, "escapes"},
    ),
    "a folder moved out below a walk that goes up": (
        "d/e/../../f",
        ["root/d/e>outside/away", "outside/away>root/d/e"],
        {INSIDE},
    ),
}


@pytest.mark.parametrize("name", RACE)
def test_whatever_is_swapped_under_way_nothing_from_outside_is_reached(tmp_path, way, name):
    field = battlefield(tmp_path)
    path, moves, expected = RACE[name]
    seen: set[str | bytes] = set()
    reads = 0
    deadline = time.monotonic() + 8
    with opened(field / "root") as folder, renaming(field, *moves):
        # Both sides of the swap must have been met, or nothing was tried; a slow machine gets more reads.
        while reads < 10_000 or not seen >= expected:
            seen.add(answer(folder, path))
            reads += 1
            if time.monotonic() > deadline:
                break
    assert SECRET not in seen
    assert seen >= expected
    allowed = {INSIDE, "escapes", "ENOENT"}
    # Between a look and an opening by name a symlink may come in: refused, in the system's words.
    assert seen <= allowed | ({"ELOOP", "EINVAL", "ENOTDIR"} if way != "kernel" else set())


def test_a_folder_that_was_moved_out_mid_walk_does_not_take_the_walk_with_it(tmp_path, monkeypatch):
    """The same race, each step at its worst moment: `d/e` is outside before `..` is taken."""
    field = battlefield(tmp_path)
    monkeypatch.setattr(beneath, "_openat2", failing(errno.ENOSYS))
    real = os.open

    def moving(path, flags, *more, **keys):
        fd = real(path, flags, *more, **keys)
        if path == b"e":
            os.rename(field / "root/d/e", field / "outside/away")
        return fd

    monkeypatch.setattr(os, "open", moving)
    with opened(field / "root") as folder:
        assert answer(folder, "d/e/../../f") == INSIDE


def test_a_symlink_that_comes_between_the_look_and_the_opening_is_refused(tmp_path, monkeypatch):
    field = battlefield(tmp_path)
    monkeypatch.setattr(beneath, "_openat2", failing(errno.ENOSYS))
    real = beneath._open_last

    def swapping(*arguments):
        os.unlink(field / "root/f")
        os.symlink(field / "outside/f", field / "root/f")
        return real(*arguments)

    monkeypatch.setattr(beneath, "_open_last", swapping)
    with opened(field / "root") as folder:
        assert answer(folder, "f") == "ELOOP"
