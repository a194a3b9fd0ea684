"""Files out of scratch folders: their bytes, never anybody else's."""

import hashlib
import os
from pathlib import Path

import pytest

from plughost.base import hiding
from plughost.base.errors import Denied
from plughost.base.hiding import Hidden
from plughost.invocations import artifacts
from plughost.invocations.artifacts import taken


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    (folder / "sub").mkdir(parents=True)
    (folder / "report.txt").write_text("findings")
    (folder / "sub/more.txt").write_text("more")
    (tmp_path / "secret").write_text("the host's own")
    return folder


@pytest.mark.clause("VAI-58")
def test_what_is_handed_over_is_kept_by_its_digest(scratch: Path, tmp_path: Path) -> None:
    given = [
        {"path": str(scratch / "report.txt"), "type": "text"},
        {"path": "sub/more.txt"},
        {"note": "no file"},
    ]
    kept = taken(given, str(scratch), str(tmp_path / "kept"), Hidden())
    digest = hashlib.sha256(b"findings").hexdigest()
    assert kept[0] == {"type": "text", "name": "report.txt", "sha256": digest, "bytes": 8}
    assert kept[1]["name"] == "more.txt"
    assert kept[2] == {"note": "no file"}
    assert (tmp_path / "kept" / digest).read_text() == "findings"
    assert len(list((tmp_path / "kept").iterdir())) == 2
    assert taken(given, str(scratch), None, Hidden()) == kept


@pytest.mark.parametrize(
    "path",
    [
        "../secret",
        "/etc/passwd",
        "sub/../../secret",
        "link",
        "folder link/secret",
        "pipe",
        "sub",
        "none",
        "",
        7,
        "a\0b",
    ],
)
def test_what_is_not_in_the_scratch_folder_is_refused(scratch: Path, path: object) -> None:
    os.symlink("../secret", scratch / "link")
    os.symlink("..", scratch / "folder link")
    os.mkfifo(scratch / "pipe")
    with pytest.raises(Denied):
        taken([{"path": path}], str(scratch), None, Hidden())
    with pytest.raises(Denied):
        taken([{"path": str(scratch / "report.txt")}], None, None, Hidden())


def test_too_many_or_too_much(scratch: Path, monkeypatch) -> None:
    with pytest.raises(Denied, match="more than"):
        taken([{}] * 65, str(scratch), None, Hidden())
    monkeypatch.setattr(artifacts, "LARGEST", 10)
    with pytest.raises(Denied, match="10 bytes"):
        taken([{"path": "report.txt"}, {"path": "sub/more.txt"}], str(scratch), None, Hidden())


@pytest.mark.clause("VAI-90")
def test_a_file_that_holds_a_secret_is_not_kept(scratch: Path, tmp_path: Path) -> None:
    hidden = Hidden()
    hidden.learn(["finding"])
    with pytest.raises(Denied, match="holds a secret"):
        taken([{"path": "report.txt"}], str(scratch), str(tmp_path / "kept"), hidden)
    assert not (tmp_path / "kept").exists()


def test_the_same_file_may_be_kept_by_several_at_once(scratch: Path, tmp_path: Path, monkeypatch) -> None:
    rename, first = os.rename, True

    def another_between(old: str, new: str) -> None:
        nonlocal first
        if first:
            first = False
            taken([{"path": "report.txt"}], str(scratch), str(tmp_path / "kept"), Hidden())
        rename(old, new)

    monkeypatch.setattr(os, "rename", another_between)
    assert taken([{"path": "report.txt"}], str(scratch), str(tmp_path / "kept"), Hidden())
    assert len(list((tmp_path / "kept").iterdir())) == 1


@pytest.mark.parametrize("before", [0, 1, artifacts.SLICE - 5, artifacts.SLICE, 3 * artifacts.SLICE - 1])
@pytest.mark.parametrize("spelled", [b"s3cret-value", b"s3cret%2Dvalue", "wörds s3cret-value".encode()])
def test_a_secret_is_found_wherever_it_is_in_a_file(scratch: Path, before: int, spelled: bytes) -> None:
    hidden = Hidden()
    hidden.learn(["s3cret-value"])
    (scratch / "large").write_bytes(b"\xff" * before + spelled + b"\xc3" * 100_000)
    with pytest.raises(Denied, match="holds a secret"):
        taken([{"path": "large"}], str(scratch), None, hidden)
    (scratch / "large").write_bytes(b"\xff" * before + spelled[:-1] + b"\xc3" * 100_000)
    assert taken([{"path": "large"}], str(scratch), None, hidden)[0]["bytes"] > 100_000


def test_a_large_file_is_searched_in_slices(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one go, its text would hold every other thread, the event loop's too."""
    sizes: list[int] = []
    feed = hiding.Sliced.feed

    def noted(slices: hiding.Sliced, said: str, *, final: bool = False) -> str:
        sizes.append(len(said))
        shown = feed(slices, said, final=final)
        sizes.append(len(shown))
        return shown

    monkeypatch.setattr(hiding.Sliced, "feed", noted)
    monkeypatch.setattr(Hidden, "whole", None)
    (scratch / "large").write_bytes(b"\xff" * (1 << 20))
    hidden = Hidden()
    assert taken([{"path": "large"}], str(scratch), None, hidden)[0]["bytes"] == 1 << 20
    assert not sizes, "there is nothing to look for"
    hidden.learn(["s3cret-value"])
    assert taken([{"path": "large"}], str(scratch), None, hidden)[0]["bytes"] == 1 << 20
    assert sum(sizes) == 2 << 20
    assert max(sizes) <= artifacts.SLICE + hidden.longest
