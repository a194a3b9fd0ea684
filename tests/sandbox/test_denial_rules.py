"""Which denials are told, over values; and that bytes which no watcher would write do no harm."""

from __future__ import annotations

import errno
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plughost.contracts.kaged.capabilities import GRANTING
from plughost.engine.io.denial_records import MAX_RECORD, DenialRecords
from plughost.sandbox.denials import classify, local_fs
from plughost.sandbox.denials.classify import Denial
from plughost.sandbox.denials.collector import MOST_WAITING, DenialCollector
from plughost.sandbox.denials.visible_access import VisibleAccess
from plughost.testing import VirtualClock

REACH = VisibleAccess(
    read=("/usr/lib/python3", "/srv/shown"),
    write=("/srv/data",),
    execute=("/home/ann/plugin", "/usr/bin/python3"),
    programs=("/home/ann/plugin", "/usr/bin/python3"),
    built=("/home/ann/plugin", "/usr/bin/python3", "/usr/lib/python3"),
    private=("/run/user/1",),
)
FILE, PROGRAM, FOLDER, SOCKET = (stat.S_IFREG, stat.S_IFREG | 0o755, stat.S_IFDIR, stat.S_IFSOCK)
MACHINE = {
    "/home/ann/notes": FILE, "/home/ann/package.json": FILE, "/home/ann/plugin/tool": PROGRAM,
    "/srv/shown/a": FILE, "/srv/data/a": FILE, "/srv/other/package.json": FILE, "/srv/socket": SOCKET,
    "/usr/bin/git": PROGRAM, "/usr/bin/python3": PROGRAM, "/usr/lib/python3/os.py": FILE, "/usr/share/words": FILE,
    "/etc/hostname": FILE, "/etc/ssl/openssl.cnf": FILE, "/usr/lib/libnss_db.so.2": FILE, "/usr/lib/libpq.so.5": FILE,
    "/home/ann/.bun/install/cache/left-pad/index.js": FILE, "/home/ann/.cache/bin/git": PROGRAM,
    "/usr/lib/locale/C/LC_CTYPE": FILE, "/run/user/1/plughost/1.sock": FILE, "/proc/1": FOLDER,
}  # fmt: skip
INTERPRETERS = {"/home/ann/plugin/tool": "/usr/bin/git"}


def lstat(path):
    if path in MACHINE:
        return os.stat_result((MACHINE[path], *[0] * 9))
    if any(each.startswith(f"{path}/") for each in MACHINE):
        return os.stat_result((FOLDER | 0o755, *[0] * 9))
    raise FileNotFoundError(errno.ENOENT, path)


def judged(record):
    known = classify.parse(record)
    if known is None or not classify.needs_lookup(*known, REACH):
        return None
    return classify.classify_denial(*known, REACH, lstat, INTERPRETERS.get)


@pytest.mark.parametrize(
    ("record", "kind", "path"),
    [
        (b"r/home/ann/notes", "read", "/home/ann/notes"),
        (b"r/usr/share", "read", "/usr/share"),
        (b"r/etc/hostname", "read", "/etc/hostname"),
        (b"r/srv/other/package.json", "read", "/srv/other/package.json"),
        (b"r/usr/lib/libpq.so.5", "read", "/usr/lib/libpq.so.5"),
        (b"w/srv/shown/a", "write", "/srv/shown/a"),
        (b"c/srv/shown/new", "write", "/srv/shown"),
        (b"c/srv/shown/a", "write", "/srv/shown/a"),
        (b"x/usr/bin/git", "execute", "/usr/bin/git"),
        (b"x/home/ann/plugin/tool", "execute", "/usr/bin/git"),
    ],
)
def test_what_a_grant_would_change_is_told(record, kind, path):
    assert judged(record) == Denial(kind, path, path)


@pytest.mark.parametrize(
    "record",
    [
        b"r/home/ann/nothing", b"w/home/ann/nothing", b"c/home/nobody/new", b"x/usr/bin/nothing",
        b"r/srv/shown/a", b"r/srv/data/a", b"w/srv/data/a", b"c/srv/data/new", b"x/usr/bin/python3",
        b"r/home/ann/plugin/tool", b"x/home/ann/notes", b"x/usr/bin",
        b"n93.184.216.34 443",  # without sockets there is nothing to grant
        b"r/", b"r/proc/1", b"r/srv/socket", b"r/run/user/1/plughost/1.sock", b"r/run/user/1", b"r/run",
        b"w/home/ann/plugin/tool", b"c/home/ann/plugin/new", b"w/usr/lib/python3/os.py", b"c/home/ann/new",
        b"r/etc/ssl/openssl.cnf", b"r/usr/lib/locale/C/LC_CTYPE", b"r/usr/lib/libnss_db.so.2", b"r/home/ann/package.json",
    ],
)  # fmt: skip
def test_what_is_not_there_or_open_or_nobodys_to_give_or_only_probed_is_not(record):
    assert judged(record) is None


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        (Denial("read", "/a", "/a"), 'to allow it, allow.read = ["/a"] or --allow read=/a'),
        (Denial("write", "/a b", "/a b"), "to allow it, allow.write = [\"/a b\"] or --allow 'write=/a b'"),
        (
            Denial("execute", "/x", '/"\\'),
            r"""to allow it, allow.execute = ["/\"\\"] or --allow 'execute=/"\' """,
        ),
        (Denial("read", "/a\u202e", "/a\u202e"), r'to allow it, allow.read = ["/a\u202e"]'),
    ],
)
def test_the_grant_is_spelled_as_it_is_written(said, remedy):
    assert classify.format_denial(said, {})[1] == remedy.strip()


def test_a_contract_spells_grants_in_its_own_words():
    what, remedy = classify.format_denial(
        Denial("execute", "/usr/bin/mkdir", "/bin/mkdir"), {"execute": "exec:{name}:{path}"}
    )
    assert what == "execute /usr/bin/mkdir: not granted"
    assert remedy == 'to allow it, grants = ["exec:mkdir:/bin/mkdir"] or --grant exec:mkdir:/bin/mkdir'


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("93.184.216.34:443", 'grants = ["net:93.184.216.34:443"] or --grant net:93.184.216.34:443'),
        ("127.0.0.1:80 private", 'grants = ["net:127.0.0.1:80"] or --grant net:127.0.0.1:80'),
        (
            "a.test:80 private",
            "allow.connect = [\"a.test:80 private\"] or --allow 'connect=a.test:80 private'",
        ),
    ],
)
def test_kaged_grants_a_host_in_its_own_words_but_not_where_a_name_leads_inside(place, words):
    assert classify.format_denial(Denial("connect", place, place), GRANTING)[1] == f"to allow it, {words}"


@pytest.mark.parametrize(
    ("record", "place", "path"),
    [
        (b"n93.184.216.34 443", "93.184.216.34:443", "93.184.216.34:443"),
        (b"n::ffff:10.0.0.1 80", "10.0.0.1:80", "10.0.0.1:80 private"),
        (b"n2606::1 80", "[2606::1]:80", "[2606::1]:80"),
        (b"nfe80::1%eth0 80", None, None),
        (b"n1.2.3.4 0", None, None),
        (b"nexample.com 80", None, None),
    ],
)
def test_an_address_that_was_dialled_is_told_as_it_would_be_granted(record, place, path):
    known = classify.parse(record)
    if place is None:
        assert known is None
    else:
        reach = VisibleAccess(connect=())
        assert classify.classify_denial(*known, reach, lstat, INTERPRETERS.get) == Denial(
            "connect", place, path
        )


@given(st.lists(st.binary(max_size=40), max_size=12), st.integers(1, 9))
def test_records_are_the_same_however_their_bytes_are_split(records, step):
    data = b"".join(record.replace(b"\0", b"") + b"\0" for record in records)
    refused = DenialRecords()
    got = [each for at in range(0, len(data), step) for each in refused.feed(data[at : at + step])]
    assert got == DenialRecords().feed(data)
    assert got == [each for record in records if len(each := record.replace(b"\0", b"")) > 1]


def test_a_record_that_never_ends_is_not_kept():
    refused = DenialRecords()
    for _ in range(100):
        assert refused.feed(b"r" * 1000) == []
    assert refused.feed(b"r\0r/a\0" + b"x" * (MAX_RECORD + 1) + b"\0r/b\0") == [b"r/a", b"r/b"]


@given(st.binary(max_size=80))
async def test_any_bytes_are_heard_without_harm(record):
    hearing = DenialCollector(VirtualClock())
    hearing.collect([record, b"r" + record, b"x/" + record, b"n" + record], 1, REACH, lambda _: None)
    await hearing.close()


async def test_what_comes_faster_than_it_is_looked_at_is_dropped():
    hearing = DenialCollector(VirtualClock())
    hearing.collect([b"r/none/%d" % number for number in range(10 * MOST_WAITING)], 1, REACH, lambda _: None)
    assert len(hearing._waiting) == MOST_WAITING
    await hearing.close()
    assert not hearing._waiting


MOUNTS = """\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 0:4 / /proc rw - proc proc rw
40 22 0:5 / /net rw shared:1 - autofs systemd-1 rw
41 22 0:6 / /home/ann/My\\040Files rw - fuse.sshfs far: rw
42 22 0:7 / /mnt/nas rw - nfs4 nas:/ rw
43 42 8:2 / /mnt/nas/disk rw - xfs /dev/sdb rw
"""


@pytest.mark.parametrize(
    ("path", "loud"),
    [
        ("/home/ann/notes", False), ("/net", True), ("/net/evil.example", True), ("/network", False),
        ("/home/ann/My Files/x", True), ("/mnt/nas/x", True), ("/mnt/nas/disk/x", False),
    ],
)  # fmt: skip
def test_nothing_is_looked_up_where_a_name_would_leave_the_machine(path, loud):
    assert local_fs.is_network_mount(path, local_fs.parse(MOUNTS)) is loud


def test_a_symlink_does_not_lead_there_either(folder, monkeypatch):
    (folder / "link").symlink_to("/net/evil.example/secret")
    (folder / "mounts").write_text(MOUNTS)
    monkeypatch.setattr(local_fs, "MOUNTS", str(folder / "mounts"))
    looked = []
    really = os.lstat
    monkeypatch.setattr(os, "lstat", lambda path, **named: looked.append(str(path)) or really(path, **named))
    assert local_fs.walk_local(str(folder / "link"), local_fs.look()) is None
    assert looked[-1] == str(folder / "link")


def test_no_advice_leads_into_a_private_cache():
    assert judged(b"r/home/ann/.bun/install/cache/left-pad/index.js") is None
    assert judged(b"c/home/ann/.cache/new") is None
    found = judged(b"x/home/ann/.cache/bin/git")
    what, advice = classify.format_denial(found, GRANTING)
    assert what == "execute /home/ann/.cache/bin/git: not granted"
    assert "install it for all users" in advice
    assert "/home/ann" not in advice
