"""Plugins read what lies beneath granted folders, and learn nothing about what does not."""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import socket
import stat
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plughost.errors import Denied, InvalidSpec
from plughost.permissions import open_beneath
from plughost.services.files import reader
from plughost.services.files.reader import LARGEST, Files, FolderEntry
from tests.permissions.test_open_beneath import INSIDE, RACE, SECRET, battlefield, failing, renaming

GRANTED = {"read_sessions"}


@pytest.fixture
def root(tmp_path) -> Path:
    """A granted folder with a secret beside it, reached from within by every kind of symlink."""
    root = tmp_path / "grant"
    (root / "sub/deep").mkdir(parents=True)
    (root / "f").write_bytes(b"inside")
    (root / "sub/g").write_bytes(b"inside too")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/f").write_bytes(SECRET)
    (tmp_path / "grantX").mkdir()
    (tmp_path / "grantX/f").write_bytes(SECRET)
    (root / "absolute").symlink_to(tmp_path / "outside/f")
    (root / "relative").symlink_to("../outside/f")
    (root / "climb").symlink_to("..")
    (root / "home").symlink_to(root)
    (root / "magic").symlink_to("/proc/self/root/etc/passwd")
    (root / "stays").symlink_to("sub/../sub/g")
    (root / "into").symlink_to("sub")
    (root / "loop").symlink_to("loop")
    return root


@pytest.fixture
def service(root) -> Files:
    return Files({"read_sessions": root})


@pytest.fixture(params=["kernel", "hand"])
def way(request, monkeypatch) -> str:
    if request.param == "hand":
        monkeypatch.setattr(open_beneath, "_openat2", failing(errno.ENOSYS))
    return request.param


@contextmanager
def refused(kind: type[Exception], message: str) -> Iterator[None]:
    with pytest.raises(kind) as caught:
        yield
    assert type(caught.value) is kind
    assert caught.value.message == message


def told(entry: FolderEntry) -> FolderEntry:
    """Without its time, which differs from run to run."""
    return msgspec.structs.replace(entry, modified_ns=0)


# What is read


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("f", b"inside"),
        ("/f", b"inside"),
        ("./sub//./g", b"inside too"),
        ("sub/../f", b"inside"),
        ("sub/deep/../g", b"inside too"),
        ("sub/deep/../../f", b"inside"),
        ("stays", b"inside too"),
        ("into/g", b"inside too"),
        ("into/../f", b"inside"),
    ],
)
def test_a_file_below_the_folder_is_read(service, root, way, path, content):
    assert service.read_file(GRANTED, f"{root}/{path}") == content


def test_a_folder_is_listed_as_it_stands_there(service, root, way):
    listed = service.read_dir(GRANTED, f"{root}/sub/..//")
    assert {entry.name for entry in listed} == set(os.listdir(root))
    assert [entry.name for entry in listed] == os.listdir(root)
    by_name = {entry.name: entry for entry in listed}
    assert told(by_name["f"]) == FolderEntry("f", False, 6)
    assert told(by_name["sub"]) == FolderEntry("sub", True, 0)
    assert told(by_name["into"]) == FolderEntry("into", False, 3)
    assert by_name["f"].modified_ns == (root / "f").stat().st_mtime_ns
    assert by_name["absolute"].is_dir is False
    assert service.read_dir(GRANTED, f"{root}/into") == service.read_dir(GRANTED, f"{root}/sub")
    assert service.read_dir(GRANTED, f"{root}/sub/deep") == []


def test_a_hard_link_is_a_file_of_the_folder_it_is_in(service, root):
    os.link(root.parent / "outside/f", root / "linked")
    assert service.read_file(GRANTED, f"{root}/linked") == SECRET


def test_a_tilde_is_expanded_in_the_configuration_and_never_in_a_request(root, monkeypatch):
    monkeypatch.setenv("HOME", str(root.parent))
    service = Files({"read_sessions": "~/grant"})
    assert service.read_file(GRANTED, f"{root}/f") == b"inside"
    with refused(Denied, "capability denied: fs"):
        service.read_file(GRANTED, "~/grant/f")
    with refused(InvalidSpec, f"read {root}/~/f: No such file or directory"):
        service.read_file(GRANTED, f"{root}/~/f")


@pytest.mark.parametrize("folder", ["sessions", "", "~nobody-of-that-name/x", "/a\0b"])
def test_a_configured_folder_must_be_one_place(folder):
    with pytest.raises(InvalidSpec, match="the folder of read_sessions must be an absolute path"):
        Files({"read_sessions": folder})


def test_both_the_configured_and_the_real_spelling_of_a_folder_name_it(tmp_path, root, way):
    (tmp_path / "link").symlink_to(root)
    (tmp_path / "above").symlink_to(tmp_path)
    for configured in ("link", "above/grant", "above/link", "link/../grant", "above/./link/"):
        service = Files({"read_sessions": f"{tmp_path}/{configured}"})
        names = {os.path.normpath(f"{tmp_path}/{configured}"), str(root)}
        for name in names:
            assert service.read_file(GRANTED, f"{name}/f") == b"inside"
            assert len(service.read_dir(GRANTED, name)) == len(os.listdir(root))
            with refused(Denied, "capability denied: read_sessions"):
                service.read_file(GRANTED, f"{name}/absolute")
    with refused(Denied, "capability denied: fs"):
        Files({"read_sessions": root}).read_file(GRANTED, f"{tmp_path}/link/f")


def test_a_folder_that_appears_or_moves_later_is_found_where_it_is_then(tmp_path):
    service = Files({"read_sessions": tmp_path / "later"})
    with refused(InvalidSpec, f"read {tmp_path}/later/f: No such file or directory"):
        service.read_file(GRANTED, f"{tmp_path}/later/f")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(name)
    for name in ("one", "two"):
        (tmp_path / "later").unlink(missing_ok=True)
        (tmp_path / "later").symlink_to(name)
        assert service.read_file(GRANTED, f"{tmp_path}/later/f") == name.encode()
        assert service.read_file(GRANTED, f"{tmp_path}/{name}/f") == name.encode()
    with refused(Denied, "capability denied: fs"):
        service.read_file(GRANTED, f"{tmp_path}/one/f")


def test_the_whole_filesystem_may_be_a_folder(root, way):
    service = Files({"read_sessions": "/"})
    assert service.read_file(GRANTED, f"{root}/f") == b"inside"
    assert service.read_file(GRANTED, f"//{root}/relative") == SECRET
    for path in ("/..", f"/..{root}/f", f"{root}/absolute", "/proc/self/root/etc/passwd", "/proc/self/cwd/x"):
        with refused(Denied, "capability denied: read_sessions"):
            service.read_file(GRANTED, path)


# What is denied


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "f",
        "grant/f",
        "./grant/f",
        "~/f",
        "{root}X/f",
        "{root}x",
        "{root}/../outside/f",
        "{root}/../grantX/f",
        "{root}/sub/../../outside/f",
        "{root}/..",
        "/",
        "/etc/passwd",
        "{root} ",
        "file://{root}/f",
    ],
)
def test_what_lies_under_no_folder_is_denied(service, root, way, path):
    for read in (service.read_file, service.read_dir):
        for granted in (GRANTED, set()):
            with refused(Denied, "capability denied: fs"):
                read(granted, path.format(root=root))


@pytest.mark.parametrize(
    "path",
    [
        "absolute",
        "relative",
        "climb",
        "climb/outside/f",
        "climb/grant/f",
        "into/../climb/outside/f",
        "home/f",
        "magic",
        "../grant/f",
        "sub/../../grant/f",
        "sub/deep/../../../grant/sub",
        "..//./grant",
        "absolute/",
    ],
)
def test_what_leaves_the_folder_is_denied_even_if_it_comes_back(service, root, way, path):
    for read in (service.read_file, service.read_dir):
        with refused(Denied, "capability denied: read_sessions"):
            read(GRANTED, f"{root}/{path}")


def test_what_was_not_granted_is_denied_whether_it_exists_or_not(service, root):
    for granted in (set(), {"other"}, ["read_session"], "read_sessions"[:-1]):
        for name in ("f", "missing", "sub", "loop", "absolute"):
            for read in (service.read_file, service.read_dir):
                with refused(Denied, "capability denied: read_sessions"):
                    read(granted, f"{root}/{name}")


def test_of_nested_folders_the_deepest_decides(root, way):
    (root / "sub/peek").symlink_to("../f")
    service = Files({"outer": root, "inner": root / "sub"})
    assert service.read_file({"outer"}, f"{root}/f") == b"inside"
    assert service.read_file({"inner"}, f"{root}/sub/g") == b"inside too"
    assert service.read_file({"outer", "inner"}, f"{root}/sub/g") == b"inside too"
    assert service.read_file({"outer"}, f"{root}/sub/../f") == b"inside"
    for granted, path, capability in [
        ({"outer"}, "sub/g", "inner"),
        ({"outer"}, "sub", "inner"),
        ({"outer"}, "deep/../sub/g", "inner"),
        ({"inner"}, "f", "outer"),
        ({"inner"}, "sub/../f", "outer"),
        ({"inner", "outer"}, "sub/peek", "inner"),
    ]:
        with refused(Denied, f"capability denied: {capability}"):
            service.read_file(granted, f"{root}/{path}")


def test_no_symlink_leads_from_a_granted_folder_into_an_ungranted_one_within(root, way):
    service = Files({"outer": root, "inner": root / "sub", "gone": root / "gone"})
    for path in ("into/g", "stays", "into"):
        assert service.read_file({"outer", "inner"}, f"{root}/stays") == b"inside too"
        with refused(Denied, "capability denied: outer"):
            service.read_file({"outer"}, f"{root}/{path}")
    with refused(Denied, "capability denied: outer"):
        service.read_dir({"outer"}, f"{root}/into")
    assert service.read_file({"outer"}, f"{root}/into/../f") == b"inside"


def test_one_folder_may_belong_to_two_capabilities(root):
    service = Files({"a": root, "b": root, "c": f"{root}/sub/.."})
    for granted in ("a", "b", "c"):
        assert service.read_file({granted}, f"{root}/f") == b"inside"
    with refused(Denied, "capability denied: a"):
        service.read_file({"d"}, f"{root}/f")


# What is refused


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("missing", "No such file or directory"),
        ("sub", "Is a directory"),
        ("", "Is a directory"),
        ("f/", "Not a directory"),
        ("f/x", "Not a directory"),
        ("f/../f", "Not a directory"),
        ("loop", "Too many levels of symbolic links"),
        ("x" * 256, "File name too long"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_reason(service, root, way, path, reason):
    with refused(InvalidSpec, f"read {root}/{path}: {reason}"):
        service.read_file(GRANTED, f"{root}/{path}")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("missing", "No such file or directory"),
        ("f", "Not a directory"),
        ("stays", "Not a directory"),
        ("loop", "Too many levels of symbolic links"),
    ],
)
def test_a_folder_that_cannot_be_listed_is_refused_with_the_reason(service, root, way, path, reason):
    with refused(InvalidSpec, f"read_dir {root}/{path}: {reason}"):
        service.read_dir(GRANTED, f"{root}/{path}")


def test_an_endless_path_is_refused_at_once_and_not_sent_back_whole(service, root):
    for path in (f"{root}/" + "../x/" * 10**6, "/" * 10**7):
        gc.disable()  # what it collects of other tests may take as long
        begin = time.process_time()
        with refused(InvalidSpec, f"read something of {len(path)} characters: File name too long"):
            service.read_file(GRANTED, path)
        took = time.process_time() - begin
        gc.enable()
        assert took < 0.1


@pytest.mark.parametrize("path", ["{root}/f\0", "{root}/\0/../../outside/f", "\0", "{root}/\ud800"])
def test_what_is_no_name_of_a_file_is_refused_in_words_that_can_be_sent(service, root, path):
    for read in (service.read_file, service.read_dir):
        with pytest.raises(InvalidSpec, match="this is not a valid file name") as caught:
            read(GRANTED, path.format(root=root))
        msgspec.json.encode(caught.value.report())


def test_names_that_are_not_utf_8_are_listed_lossily(service, root, way):
    name = os.path.join(os.fsencode(root), b"sub/deep/caf\xe9\xff\xed\xa0\x80")
    with open(name, "wb") as file:
        file.write(b"x")
    (entry,) = service.read_dir(GRANTED, f"{root}/sub/deep")
    assert told(entry) == FolderEntry("caf\ufffd\ufffd\ufffd\ufffd\ufffd", False, 1)
    assert msgspec.json.decode(msgspec.json.encode(entry), type=FolderEntry) == entry
    assert service.read_file(GRANTED, os.fsdecode(name)) == b"x"
    with pytest.raises(InvalidSpec, match="caf\ufffd: No such file") as caught:
        service.read_file(GRANTED, f"{root}/caf\udce9")
    msgspec.json.encode(caught.value.report())


def test_a_file_is_read_up_to_the_limit_and_not_a_byte_further(service, root, way):
    assert service.read_file(GRANTED, f"{root}/f", limit=6) == b"inside"
    with refused(InvalidSpec, f"read {root}/f: larger than 5 bytes"):
        service.read_file(GRANTED, f"{root}/f", limit=5)
    (root / "f").write_bytes(b"")
    assert service.read_file(GRANTED, f"{root}/f", limit=0) == b""
    (root / "f").write_bytes(b"x" * LARGEST)
    assert len(service.read_file(GRANTED, f"{root}/f")) == LARGEST


@pytest.mark.parametrize(
    ("offset", "length", "part"),
    [
        (0, 3, b"ins"),
        (2, 2, b"si"),
        (4, 100, b"de"),
        (6, 1, b""),
        (1000, 5, b""),
        (0, 0, b""),
        (2**62, 9, b""),
    ],
)
def test_a_part_of_a_file_is_read(service, root, way, offset, length, part):
    assert service.read_part(GRANTED, f"{root}/f", offset, length) == (part, offset, 6)


def test_parts_of_a_file_of_any_size_are_read_and_each_fits_into_a_frame(service, root):
    with open(root / "sparse", "wb") as file:
        file.truncate(2**33)
        file.seek(2**32)
        file.write(b"here")
    assert service.read_part(GRANTED, f"{root}/sparse", 2**32, 4) == (b"here", 2**32, 2**33)
    assert len(service.read_part(GRANTED, f"{root}/sparse", 0, 2**40).data) == LARGEST


def test_a_part_is_guarded_as_the_whole_is(service, root, way):
    os.mkfifo(root / "fifo")
    for path, kind in [
        ("absolute", Denied),
        ("relative", Denied),
        ("fifo", InvalidSpec),
        ("sub", InvalidSpec),
    ]:
        with pytest.raises(kind):
            service.read_part(GRANTED, f"{root}/{path}", 0, 1)


def test_a_terabyte_of_nothing_is_refused_by_its_size(service, root, monkeypatch):
    with open(root / "sparse", "wb") as file:
        file.truncate(2**40)
    monkeypatch.setattr(os, "read", lambda *_: pytest.fail("it was read"))
    with refused(InvalidSpec, f"read {root}/sparse: larger than {LARGEST} bytes"):
        service.read_file(GRANTED, f"{root}/sparse")


def test_a_file_that_grows_while_it_is_read_stays_within_the_limit(service, root, monkeypatch):
    real = os.read
    total = 0

    def growing(fd: int, size: int) -> bytes:
        nonlocal total
        with open(root / "f", "ab") as file:
            file.write(b"x" * (more.pop() if more else 0))
        piece = real(fd, size)
        total += len(piece)
        return piece

    monkeypatch.setattr(os, "read", growing)
    more = [3, 1]
    assert service.read_file(GRANTED, f"{root}/f", limit=10) == b"insidexxxx"
    total, more = 0, [1000] * 50
    with refused(InvalidSpec, f"read {root}/f: larger than 5000 bytes"):
        service.read_file(GRANTED, f"{root}/f", limit=5000)
    assert total == 5001


def test_a_file_that_shrinks_while_it_is_read_is_as_long_as_it_was(service, root, monkeypatch):
    real = os.read

    def shrinking(fd: int, size: int) -> bytes:
        os.truncate(root / "f", 2)
        return real(fd, size)

    monkeypatch.setattr(os, "read", shrinking)
    assert service.read_file(GRANTED, f"{root}/f") == b"in"


def test_a_file_that_hides_its_size_is_read_within_the_limit():
    service = Files({"read_sessions": f"/proc/{os.getpid()}"})
    path = f"/proc/{os.getpid()}/status"
    assert os.stat(path).st_size == 0
    assert service.read_file(GRANTED, path).startswith(b"Name:")
    with refused(InvalidSpec, f"read {path}: larger than 100 bytes"):
        service.read_file(GRANTED, path, limit=100)


def test_a_crowded_folder_is_refused(service, root, monkeypatch):
    assert reader.MAX_ENTRIES == 100_000
    for number in range(11):
        (root / f"sub/deep/{number}").touch()
    monkeypatch.setattr(reader, "MAX_ENTRIES", 11)
    assert len(service.read_dir(GRANTED, f"{root}/sub/deep")) == 11
    monkeypatch.setattr(reader, "MAX_ENTRIES", 10)
    with refused(InvalidSpec, f"read_dir {root}/sub/deep: more than 10 entries"):
        service.read_dir(GRANTED, f"{root}/sub/deep")


def test_entries_that_vanish_while_they_are_listed_are_skipped(service, root, monkeypatch):
    real = os.scandir

    @contextmanager
    def vanishing(fd: int):
        with real(fd) as entries:
            found = list(entries)
            os.unlink(root / "f")
            yield iter(found)

    monkeypatch.setattr(os, "scandir", vanishing)
    names = [entry.name for entry in service.read_dir(GRANTED, f"{root}")]
    assert "f" not in names
    assert "sub" in names


# What is no file


@contextmanager
def watched(path: Path) -> Iterator[list[int]]:
    """Collects the kernel's notices that the file was opened."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert libc.inotify_add_watch(fd, os.fsencode(path), 0x20) > 0
    events: list[int] = []
    try:
        yield events
        while True:
            events.append(struct.unpack_from("iIII", os.read(fd, 16))[1])
    except BlockingIOError:
        pass
    finally:
        os.close(fd)


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
        os.close(os.open(path, os.O_RDONLY))
    except PermissionError:
        pytest.skip("only the superuser makes devices")


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


@pytest.mark.parametrize("make", [make_fifo, make_device, make_socket])
def test_what_is_no_regular_file_is_neither_opened_nor_waited_for(service, root, way, make):
    make(root / "special")
    (root / "to_special").symlink_to("special")
    with watched(root / "special") as opens:
        for name in ("special", "to_special"):
            with refused(InvalidSpec, f"read {root}/{name}: not a regular file"):
                service.read_file(GRANTED, f"{root}/{name}")
            with refused(InvalidSpec, f"read_dir {root}/{name}: Not a directory"):
                service.read_dir(GRANTED, f"{root}/{name}")
    assert opens == []
    assert FolderEntry("special", False, 0) in map(told, service.read_dir(GRANTED, f"{root}"))


def test_the_watch_on_openings_sees_one(service, root):
    with watched(root / "f") as opens:
        service.read_file(GRANTED, f"{root}/f")
    assert opens == [0x20]


@pytest.fixture
def without_proc(monkeypatch) -> None:
    real = os.open

    def missing(path, *more, **keys):
        if str(path).startswith("/proc/"):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return real(path, *more, **keys)

    monkeypatch.setattr(os, "open", missing)


@pytest.mark.usefixtures("without_proc")
def test_without_proc_files_are_read_all_the_same(service, root, way):
    os.mkfifo(root / "fifo")
    assert service.read_file(GRANTED, f"{root}/stays") == b"inside too"
    assert FolderEntry("f", False, 6) in map(told, service.read_dir(GRANTED, str(root)))
    with refused(InvalidSpec, f"read {root}/fifo: not a regular file"):
        service.read_file(GRANTED, f"{root}/fifo")
    with refused(Denied, "capability denied: read_sessions"):
        service.read_file(GRANTED, f"{root}/absolute")


@pytest.mark.usefixtures("without_proc")
@pytest.mark.parametrize("swap", ["fifo", "file", "symlink"])
def test_without_proc_a_file_that_is_replaced_between_look_and_opening_is_refused(
    service, root, way, swap, monkeypatch
):
    real = reader._open_file

    def swapping(*arguments):
        os.rename(root / "f", root / "f.old")
        if swap == "fifo":
            os.mkfifo(root / "f")
        elif swap == "file":
            (root / "f").write_bytes(b"other")
        else:
            os.symlink(root.parent / "outside/f", root / "f")
        return real(*arguments)

    monkeypatch.setattr(reader, "_open_file", swapping)
    if swap == "symlink":
        with refused(Denied, "capability denied: read_sessions"):
            service.read_file(GRANTED, f"{root}/f")
    else:
        with refused(InvalidSpec, f"read {root}/f: it was replaced while it was being opened"):
            service.read_file(GRANTED, f"{root}/f")


def test_the_file_that_was_looked_at_is_the_file_that_is_read(service, root, way, monkeypatch):
    real = reader._open_file

    def swapping(*arguments):
        os.rename(root / "sub", root.parent / "outside/sub")
        os.symlink(root.parent / "outside", root / "sub")
        return real(*arguments)

    monkeypatch.setattr(reader, "_open_file", swapping)
    assert service.read_file(GRANTED, f"{root}/sub/g") == b"inside too"


def test_where_looking_is_opening_the_same_files_are_read(service, root, monkeypatch):
    monkeypatch.setattr(open_beneath, "_openat2", failing(errno.ENOSYS))
    monkeypatch.setattr(open_beneath, "O_PATH", 0)
    monkeypatch.setattr(reader, "O_PATH", 0)
    os.mkfifo(root / "fifo")
    assert service.read_file(GRANTED, f"{root}/into/../stays") == b"inside too"
    assert FolderEntry("f", False, 6) in map(told, service.read_dir(GRANTED, str(root)))
    with refused(InvalidSpec, f"read {root}/fifo: not a regular file"):
        service.read_file(GRANTED, f"{root}/fifo")
    with refused(Denied, "capability denied: read_sessions"):
        service.read_file(GRANTED, f"{root}/absolute")


# Any spelling, and others at work

steps = st.sampled_from(
    [
        *("f", "sub", "g", "deep", "into", "stays", "climb", "home", "absolute", "relative", "magic", "loop"),
        *("grant", "grantX", "outside", "missing", "..", "..", ".", ""),
    ]
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["/grant/", "/", "//grant//", "/outside/../grant/"]), st.lists(steps, max_size=7))
def test_however_a_path_is_spelled_it_gives_the_file_it_names_or_nothing(service, root, start, names):
    """What is answered is what the system itself reads there, and that lies beneath the folder."""
    path = str(root.parent) + start + "/".join(names)
    try:
        content = service.read_file(GRANTED, path)
    except (Denied, InvalidSpec):
        return
    assert content != SECRET
    assert content == Path(path).read_bytes()
    assert Path(path).resolve().is_relative_to(root)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["f", "sub", "g", "deep", "..", ".", "", "missing"]), max_size=6))
def test_without_symlinks_a_path_is_read_exactly_if_it_never_leaves_the_folder(service, root, names):
    path = f"{root}/" + "/".join(names)
    depth = 0
    expected: bytes | None = None
    for name in names:
        depth += {"..": -1, ".": 0, "": 0}.get(name, 1)
        if depth < 0:
            break
    else:
        expected = Path(path).read_bytes() if os.path.isfile(path) else None
    if expected is None:
        with pytest.raises((Denied, InvalidSpec)):
            service.read_file(GRANTED, path)
    else:
        assert service.read_file(GRANTED, path) == expected


@pytest.mark.parametrize("name", RACE)
def test_nothing_from_outside_is_read_whatever_is_swapped_meanwhile(tmp_path, way, name):
    field = battlefield(tmp_path)
    path, moves, _ = RACE[name]
    service = Files({"read_sessions": field / "root"})
    seen: set[bytes | type] = set()
    reads = 0
    deadline = time.monotonic() + 40
    with renaming(field, *moves):
        while time.monotonic() < deadline and (reads < 1_500 or INSIDE not in seen):
            reads += 1
            try:
                seen.add(service.read_file(GRANTED, f"{field}/root/{path}"))
            except (Denied, InvalidSpec) as error:
                seen.add(type(error))
    assert INSIDE in seen
    assert seen <= {INSIDE, Denied, InvalidSpec}


def test_a_folder_that_moves_out_while_it_is_listed_shows_only_itself(tmp_path, way):
    field = battlefield(tmp_path)
    (field / "root/d/mine").touch()
    (field / "outside/theirs").touch()
    service = Files({"read_sessions": field / "root"})
    seen: set[str] = set()
    listed = 0
    deadline = time.monotonic() + 40
    with renaming(field, "root/d>outside/away", "outside/away>root/d"):
        while time.monotonic() < deadline and (listed < 1_500 or not seen):
            listed += 1
            try:
                seen |= {entry.name for entry in service.read_dir(GRANTED, f"{field}/root/d/e/..")}
            except (Denied, InvalidSpec):
                continue
    assert seen == {"mine", "e", "f"}
