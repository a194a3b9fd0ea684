"""The one form of an archive: others can read it, and nothing else is taken for it."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plughost.vai.packages.archive import canonical_tar, legal_paths
from plughost.vai.packages.archive.archive_file import ArchiveFile
from plughost.vai.packages.archive.canonical_tar import END, ArchiveMember
from plughost.vai.packages.archive.unpack import unpack
from plughost.vai.packages.errors import Unacceptable
from tests.support.sample_package import MEMORY

LONG = "a" * 60 + "/" + "b" * 60
CASES = {
    "bin/plugin": (True, b"#!/bin/sh\n"),
    LONG: (False, b"x" * 512),
    "c" * 120: (False, b"needs pax"),
    "d/" + "e" * 110: (False, b"needs pax, too"),
    "empty": (False, b""),
    "grüße/日本語.txt": (False, b"hello"),
}


def written(files):
    out = b""
    for name, (executable, content) in sorted(files.items(), key=lambda item: item[0].encode()):
        out += (
            canonical_tar.header(ArchiveMember(name, executable, len(content)))
            + content
            + canonical_tar.padding(len(content))
        )
    return out + END


def read(data):
    return list(canonical_tar.members(io.BytesIO(data)))


def test_python_and_we_read_the_same_from_it():
    data = written(CASES)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        theirs = {
            entry.name: (entry.mode == 0o755, tar.extractfile(entry).read()) for entry in tar.getmembers()
        }
        assert {(e.uid, e.gid, e.uname, e.gname, e.mtime) for e in tar} == {(0, 0, "", "", 0)}
    assert theirs == CASES
    assert {m.name: (m.executable, m.size) for m in read(data)} == {
        name: (executable, len(content)) for name, (executable, content) in CASES.items()
    }


def made_by_python(*entries, form=tarfile.USTAR_FORMAT):
    """An archive that keeps to our form where it does not say otherwise."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for name, more in entries:
            info = tarfile.TarInfo(name)
            info.mode = 0o644
            content = more.pop("content", b"")
            for field, value in more.items():
                setattr(info, field, value)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    data = out.getvalue()
    return (
        data[: len(data) - len(data) % 512]
        .rstrip(b"\0")
        .ljust(-(-len(data.rstrip(b"\0")) // 512) * 512, b"\0")
        + END
    )


def test_the_reader_takes_what_python_writes_in_our_form():
    assert [member.name for member in read(made_by_python(("a", {"content": b"1"}), ("b/c", {})))] == [
        "a",
        "b/c",
    ]


@pytest.mark.parametrize(
    "entries",
    [
        [("/etc/passwd", {})],
        [("../up", {})],
        [("a/../../up", {})],
        [("./a", {})],
        [("a//b", {})],
        [("link", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"})],
        [("link", {"type": tarfile.LNKTYPE, "linkname": "a"})],
        [("null", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3})],
        [("disk", {"type": tarfile.BLKTYPE, "devmajor": 8})],
        [("pipe", {"type": tarfile.FIFOTYPE})],
        [("folder", {"type": tarfile.DIRTYPE})],
        [("a", {}), ("a", {})],
        [("b", {}), ("a", {})],
        [("A", {}), ("a", {})],
        [("Bin/x", {}), ("bin/y", {})],
        [("a", {}), ("a/b", {})],
        [("stra\u00dfe", {}), ("strasse", {})],
        [("setuid", {"mode": 0o4755})],
        [("writable", {"mode": 0o666})],
        [("owned", {"uid": 1000})],
        [("owned", {"uname": "root"})],
        [("dated", {"mtime": 1})],
        [("con.txt", {})],
        [("a:b", {})],
        [("a\\b", {})],
        [("trailing.", {})],
        [("bell\x07", {})],
        [("e\u0301", {})],
        [("/".join("abcdefghijklmnopqrstuvwxyz"), {})],
        [("x" * 250, {})],
    ],
    ids=lambda entries: repr(entries[-1])[:40],
)
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_what_is_not_in_the_one_form_is_refused(entries, form):
    try:
        data = made_by_python(*[(name, dict(more)) for name, more in entries], form=form)
    except ValueError:
        return  # that format cannot even say it
    with pytest.raises(Unacceptable):
        read(data)


@pytest.mark.parametrize(
    ("paths", "why"),
    [
        (["../up"], "`..` parts"),
        (["/etc/passwd"], "not inside the package"),
        (["a//b"], "empty"),
        (["A", "a"], "on some systems it is the same as A"),
        (["Bin/x", "bin/y"], "on some systems it is the same as Bin"),
        (["strasse", "stra\u00dfe"], "on some systems it is the same as strasse"),
        (["a", "a/b"], "both a file and a folder"),
        (["b", "a"], "twice or out of order"),
        (["a", "a"], "twice or out of order"),
        (["e\u0301"], "Unicode NFC"),
        (["x" * 241], "longer than 240 bytes"),
        (["/".join("abcdefghijklmnopqrstuvwxyz")], "24 levels deep"),
        (["nul.txt"], "device"),
        (["tab\there"], "cannot be printed"),
    ],
)
def test_names_that_mean_something_else_somewhere_are_refused(paths, why):
    data = (
        b"".join(canonical_tar.header(ArchiveMember(path, executable=False, size=0)) for path in paths) + END
    )
    with pytest.raises(Unacceptable, match=why):
        read(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        END[:512],
        END + b"\0",
        written(CASES)[:-1],
        written(CASES) + b"x",
        written({"a": (False, b"1")}).replace(b"1" + bytes(511), b"1" + bytes(510) + b"2"),
    ],
)
def test_bytes_that_no_file_owns_are_refused(data):
    with pytest.raises(Unacceptable):
        read(data)


def test_a_bomb_is_refused_by_its_header():
    claimed = canonical_tar.header(ArchiveMember("big", executable=False, size=(1 << 33) - 1))
    with pytest.raises(Unacceptable, match="larger than"):
        read(claimed + END)


hostile_names = st.one_of(
    st.sampled_from(["../out", "/tmp/out", "a/../../out", "a", "a/b", "A", "con", "x" * 101, "ü", ""]),
    st.text(max_size=120),
)
header_edits = st.lists(st.tuples(st.integers(0, 511), st.integers(0, 255)), max_size=4)


@given(st.lists(st.tuples(hostile_names, st.binary(max_size=600), header_edits), min_size=1, max_size=3))
@settings(deadline=None, max_examples=150)
def test_hostile_headers_never_write_outside(entries):
    data = b""
    for name, content, edits in entries:
        block = bytearray(
            canonical_tar.header(ArchiveMember(name.encode(errors="replace").decode(), False, len(content)))
        )
        for place, value in edits:
            block[place] = value
        if edits and len(block) == 512:  # a header whose sum is right, so that only its meaning is wrong
            block[148:156] = b"%06o\0 " % (sum(block) - sum(block[148:156]) + 256)
        data += bytes(block) + content + canonical_tar.padding(len(content))
    with tempfile.TemporaryDirectory(prefix="plughost-tests-", dir=MEMORY) as made:
        folder = Path(made)
        inside = folder / "staging/inside"
        inside.parent.mkdir()
        (folder / "layer").write_bytes(data + END)
        try:
            with ArchiveFile(folder / "layer") as layer:
                listed = dict(layer.members)
                unpack(layer, inside)
        except Unacceptable:
            assert not inside.exists()
        else:
            assert {str(p.relative_to(inside)) for p in inside.rglob("*") if p.is_file()} == listed.keys()
            assert not any(legal_paths.path_problem(name) for name in listed)
            assert not any(p.is_symlink() for p in inside.rglob("*"))
        assert sorted(os.listdir(folder)) == ["layer", "staging"]
        assert os.listdir(folder / "staging") in ([], ["inside"])


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=200), st.tuples(st.booleans(), st.binary(max_size=1100)), max_size=4
    )
)
def test_whatever_can_be_written_is_read_back(files):
    listing = legal_paths.Listing()
    try:
        for name in sorted(files, key=lambda name: name.encode(errors="surrogatepass")):
            listing.add(name)
    except ValueError:
        return
    data = written(files)
    assert [member.name for member in read(data)] == sorted(files, key=str.encode)
