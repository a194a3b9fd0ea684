"""Files out of scratch folders: their bytes, never anybody else's."""

import hashlib
import os
from pathlib import Path

import pytest

from plughost._util.redaction.redactor import Redactor
from plughost._util.redaction.sliced import SlicedRedactor
from plughost.errors import Denied
from plughost.vai.invocations import artifacts
from plughost.vai.invocations.artifacts import collect_artifacts


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
    kept = collect_artifacts(given, str(scratch), str(tmp_path / "kept"), Redactor())
    digest = hashlib.sha256(b"findings").hexdigest()
    assert kept[0] == {"type": "text", "name": "report.txt", "sha256": digest, "bytes": 8}
    assert kept[1]["name"] == "more.txt"
    assert kept[2] == {"note": "no file"}
    assert (tmp_path / "kept" / digest).read_text() == "findings"
    assert len(list((tmp_path / "kept").iterdir())) == 2
    assert collect_artifacts(given, str(scratch), None, Redactor()) == kept


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
        collect_artifacts([{"path": path}], str(scratch), None, Redactor())
    with pytest.raises(Denied):
        collect_artifacts([{"path": str(scratch / "report.txt")}], None, None, Redactor())


def test_too_many_or_too_much(scratch: Path, monkeypatch) -> None:
    with pytest.raises(Denied, match="more than"):
        collect_artifacts([{}] * 65, str(scratch), None, Redactor())
    monkeypatch.setattr(artifacts, "MAX_BYTES", 10)
    with pytest.raises(Denied, match="10 bytes"):
        collect_artifacts([{"path": "report.txt"}, {"path": "sub/more.txt"}], str(scratch), None, Redactor())


@pytest.mark.clause("VAI-90")
def test_a_file_that_holds_a_secret_is_not_kept(scratch: Path, tmp_path: Path) -> None:
    hidden = Redactor()
    hidden.add(["finding"])
    with pytest.raises(Denied, match="holds a secret"):
        collect_artifacts([{"path": "report.txt"}], str(scratch), str(tmp_path / "kept"), hidden)
    assert not (tmp_path / "kept").exists()


def test_the_same_file_may_be_kept_by_several_at_once(scratch: Path, tmp_path: Path, monkeypatch) -> None:
    rename, first = os.rename, True

    def another_between(old: str, new: str) -> None:
        nonlocal first
        if first:
            first = False
            collect_artifacts([{"path": "report.txt"}], str(scratch), str(tmp_path / "kept"), Redactor())
        rename(old, new)

    monkeypatch.setattr(os, "rename", another_between)
    assert collect_artifacts([{"path": "report.txt"}], str(scratch), str(tmp_path / "kept"), Redactor())
    assert len(list((tmp_path / "kept").iterdir())) == 1


@pytest.mark.parametrize("before", [0, 1, artifacts.SLICE - 5, artifacts.SLICE, 3 * artifacts.SLICE - 1])
@pytest.mark.parametrize("spelled", [b"s3cret-value", b"s3cret%2Dvalue", "wörds s3cret-value".encode()])
def test_a_secret_is_found_wherever_it_is_in_a_file(scratch: Path, before: int, spelled: bytes) -> None:
    hidden = Redactor()
    hidden.add(["s3cret-value"])
    (scratch / "large").write_bytes(b"\xff" * before + spelled + b"\xc3" * 100_000)
    with pytest.raises(Denied, match="holds a secret"):
        collect_artifacts([{"path": "large"}], str(scratch), None, hidden)
    (scratch / "large").write_bytes(b"\xff" * before + spelled[:-1] + b"\xc3" * 100_000)
    assert collect_artifacts([{"path": "large"}], str(scratch), None, hidden)[0]["bytes"] > 100_000


def test_a_large_file_is_searched_in_slices(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one go, its text would hold every other thread, the event loop's too."""
    sizes: list[int] = []
    feed = SlicedRedactor.feed

    def noted(slices: SlicedRedactor, said: str, *, final: bool = False) -> str:
        sizes.append(len(said))
        shown = feed(slices, said, final=final)
        sizes.append(len(shown))
        return shown

    monkeypatch.setattr(SlicedRedactor, "feed", noted)
    monkeypatch.setattr(Redactor, "redact_unbounded", None)
    (scratch / "large").write_bytes(b"\xff" * (1 << 20))
    hidden = Redactor()
    assert collect_artifacts([{"path": "large"}], str(scratch), None, hidden)[0]["bytes"] == 1 << 20
    assert not sizes, "there is nothing to look for"
    hidden.add(["s3cret-value"])
    assert collect_artifacts([{"path": "large"}], str(scratch), None, hidden)[0]["bytes"] == 1 << 20
    assert sum(sizes) == 2 << 20
    assert max(sizes) <= artifacts.SLICE + hidden.longest
