"""A folder becomes the same file everywhere, or is told all that keeps it from being a package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from plughost.errors import InvalidConfig, InvalidSpec
from plughost.vai.packages.archive.archive_file import ArchiveFile
from plughost.vai.packages.archive.source_tree import list_files
from plughost.vai.packages.errors import HoldsSecret
from plughost.vai.packages.pack import pack
from tests.support import ROOT
from tests.support import sample_package as little

DIGEST = "sha256:580071753efe38ecf486529d91d3277c515fb3e005cefa6daaa41f882ae2849d"
"""Of the little package. It must never change: what was signed yesterday is packed again tomorrow."""

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
"""A locale in which Python cannot even spell some files' names."""

ELSEWHERE = """
import os, sys
from pathlib import Path
from plughost.vai.packages.pack import pack
source, out, warm, user = sys.argv[1:]
pack(Path(warm), Path(warm).parent)  # what is imported late must be imported while we may read it
if user:
    os.setgroups([])
    os.setgid(int(user))
    os.setuid(int(user))
os.umask(0o077)
print(pack(Path(source), Path(out)).file)
"""


@pytest.mark.clause("VAI-01")
def test_folder_user_clock_umask_and_locale_make_no_difference(folder):
    first = pack(little.write(folder / "one", README_md="hello\n", assets__b="b", assets__ä="a"), folder)
    user = 65534 if os.geteuid() == 0 else os.geteuid()
    with tempfile.TemporaryDirectory(dir="/tmp") as shared:
        os.chmod(shared, 0o755)
        source = little.write(Path(shared, "two"), assets__ä="a", assets__b="b", README_md="hello\n")
        out = Path(shared, "out")
        out.mkdir()
        os.chown(out, user, -1)
        for number, path in enumerate([*source.rglob("*"), source]):
            path.chmod(0o700 if path.is_dir() or path.name == "plugin" else 0o600)
            os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))
            os.chown(path, user, -1)
        ran = subprocess.run(
            [
                sys.executable,
                "-c",
                ELSEWHERE,
                source,
                out,
                folder / "one",
                str(user) if os.geteuid() == 0 else "",
            ],
            env={"PYTHONPATH": os.pathsep.join(sys.path), "TZ": "Asia/Tokyo", **ASCII},
            capture_output=True,
            text=True,
            cwd="/",
            timeout=60,
        )
        assert ran.returncode == 0, ran.stderr
        assert os.stat(ran.stdout.strip()).st_uid == user
        assert Path(ran.stdout.strip()).read_bytes() == Path(first.file).read_bytes()


def test_the_digest_of_a_package_never_changes(made):
    assert made.digest == DIGEST


@pytest.mark.clause("VAI-20")
def test_the_file_is_an_oci_layout_that_others_read(made):
    import tarfile

    with tarfile.open(made.file) as tar:
        texts = {entry.name: tar.extractfile(entry).read() for entry in tar}
    assert json.loads(texts["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads(texts["index.json"])["manifests"]
    assert entry["digest"] == made.digest
    assert entry["annotations"] == {"org.opencontainers.image.ref.name": "0.1.0"}
    body = json.loads(texts[f"blobs/sha256/{made.digest.removeprefix('sha256:')}"])
    assert body["artifactType"] == "application/vnd.vai.plugin.v1"
    assert body["config"]["mediaType"] == "application/vnd.vai.plugin.manifest.v1+toml"
    (layer,) = body["layers"]
    assert layer["mediaType"] == "application/vnd.vai.plugin.package.v1.tar"
    assert made.bytes == os.path.getsize(made.file)


def names_in(file: str, folder: Path) -> list[str]:
    import tarfile

    with tarfile.open(file) as tar:
        archive = max(tar.getmembers(), key=lambda entry: entry.size)
        (folder / "layer").write_bytes(tar.extractfile(archive).read())
    with ArchiveFile(folder / "layer") as layer:
        return list(layer.members)


def test_what_is_no_part_of_a_package_stays_out(folder):
    source = little.write(folder / "source")
    for name in (".git/config", "a/__pycache__/x.pyc", ".venv/bin/python", ".env", "x.vai.tar", "notes/draft.md",
                 "notes/final.md", "big.log", "keep/big.txt", "build/out", "src/build/out"):  # fmt: skip
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("x")
    (source / ".vaiignore").write_text("# drafts\nnotes/draft.*\n*.log\n/build/\n")
    (source / "empty/folder").mkdir(parents=True)
    assert names_in(pack(source, folder).file, folder) == [
        "bin/plugin", "keep/big.txt", "notes/final.md", "schemas/input.json", "src/build/out", "vai-plugin.toml",
    ]  # fmt: skip


@pytest.mark.clause("VAI-01")
def test_what_other_runs_have_left_in_the_folder_makes_no_difference(folder):
    """Also a run that was killed, and those that are still at work."""
    source = little.write(folder / "source")
    first = pack(source, folder).digest
    for below in (source, source / "dist"):
        for left in (
            ".plughost-pack-a1b2/layer",
            ".plughost-pull-c3d4/blobs/sha256/x",
            ".marketplace.signature.json.e5f6",
        ):
            (below / left).parent.mkdir(parents=True, exist_ok=True)
            (below / left).write_text("half of it")
        (below / "marketplace.signature.json").write_text("{}")
        assert pack(source, below).digest == first
    assert pack(source, source).digest == first


def test_a_link_inside_is_the_file_and_one_that_leads_out_is_refused(folder):
    source = little.write(folder / "source", lib__real="real\n")
    (source / "lib/link").symlink_to("real")
    names = names_in(pack(source, folder).file, folder)
    assert [name for name in names if name.startswith("lib/")] == ["lib/link", "lib/real"]
    (source / "out").symlink_to("/etc/passwd")
    (source / "up").symlink_to("../../elsewhere")
    (source / "dir").symlink_to("lib")
    os.mkfifo(source / "pipe")
    (source / "Lib").mkdir()
    (source / "Lib/other").write_text("x")
    (source / "aux.txt").write_text("x")
    with pytest.raises(InvalidConfig) as caught:
        pack(source, folder)
    assert {(Path(p.file).name, p.message) for p in caught.value.problems} == {
        ("out", "a link out of the folder; put the file itself here"),
        ("up", "a link out of the folder; put the file itself here"),
        ("dir", "a link to a folder; put the folder itself here"),
        ("pipe", "neither a file nor a folder"),
        ("aux.txt", "it is a device name on some systems"),
        ("link", "on some systems it is the same as Lib"),
        ("real", "on some systems it is the same as Lib"),
    }


def test_in_an_installed_package_there_are_no_links(folder):
    source = little.write(folder / "source", lib__real="real\n")
    (source / "lib/link").symlink_to("real")
    with pytest.raises(InvalidConfig, match="lib/link: a link"):
        list_files(source)


def test_a_name_that_is_no_text_is_told_in_letters(folder):
    source = little.write(folder / "source")
    (source / os.fsdecode(b"caf\xe9\x1b")).write_text("x")
    with pytest.raises(InvalidConfig) as caught:
        pack(source, folder)
    (problem,) = caught.value.problems
    assert (problem.message, problem.file.isprintable()) == ("it is not UTF-8", True)
    json.dumps(problem.file).encode()


@pytest.mark.clause("VAI-23", "VAI-26", "VAI-28")
def test_a_broken_manifest_names_the_file_and_the_field(folder):
    source = little.write(folder / "source", manifest=little.MANIFEST.replace('"tool"', '"widget"'))
    with pytest.raises(InvalidConfig, match=r"source/vai-plugin.toml:15: exports\[0\].kind"):
        pack(source, folder)
    source = little.write(folder / "source", manifest=little.MANIFEST.replace("bin/plugin", "bin/other"))
    (source / "schemas/input.json").unlink()
    with pytest.raises(InvalidConfig) as caught:
        pack(source, folder)
    assert {problem.message for problem in caught.value.problems} == {
        "the package has no file 'bin/other'",
        "the package has no file 'schemas/input.json'",
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON"),
        ("[]", "a schema is an object"),
        ('{"type": "thing"}', "thing"),
        ('{"$ref": "file:///etc/passwd"}', "can refer only to itself"),
        ('{"$ref": "https://example.com/x"}', "can refer only to itself"),
        ('{"$schema": "http://json-schema.org/draft-07/schema#"}', "2020-12"),
        ('{"allOf":[' * 3000 + "{}" + "]}" * 3000, "deep|recursion|parts"),
    ],
)
@pytest.mark.clause("VAI-20", "VAI-26")
def test_a_schema_that_is_none_is_refused(text, why, folder):
    source = little.write(folder / "source", schemas__input_json=text)
    with pytest.raises(InvalidConfig, match=rf"(?s)source/schemas/input.json: .*({why})"):
        pack(source, folder)
    assert list(folder.glob("*.vai.tar")) == []


def test_an_entrypoint_that_nobody_can_run_is_refused(folder):
    source = little.write(folder / "source")
    (source / "bin/plugin").chmod(0o644)
    with pytest.raises(InvalidConfig, match=r"chmod \+x"):
        pack(source, folder)


@pytest.mark.clause("VAI-01", "VAI-90")
def test_a_secret_is_told_by_file_line_and_kind_and_never_itself(folder):
    key = "AKIA" + "QQQQWWWWEEEERRRR"
    source = little.write(folder / "source", lib__config_py=f"# config\nKEY = '{key}'\n")
    with pytest.raises(HoldsSecret) as caught:
        pack(source, folder)
    assert "source/lib/config.py:2: AWS access key" in caught.value.message
    assert key not in caught.value.explain()
    assert sorted(os.listdir(folder)) == ["source"]


def test_a_folder_without_a_manifest_is_told_so_at_once(folder):
    with pytest.raises(InvalidConfig, match=r"there is no vai-plugin.toml"):
        pack(folder)


def test_a_disk_that_takes_no_more_leaves_nothing(folder):
    source = little.write(folder / "source", big="x" * 2_000_000)
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "from plughost.cli.main import main; main(sys.argv[1:])"
    )
    words = ["pack", str(source), "--out", str(folder)]
    ran = subprocess.run([sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "File too large" in ran.stderr
    assert sorted(os.listdir(folder)) == ["source"]


def test_a_place_that_cannot_be_written_to_is_told(made, folder):
    for out in (folder / "nowhere" / "x.vai.tar", folder / "nowhere"):
        with pytest.raises(InvalidSpec, match=r"there is no folder \S*nowhere$"):
            pack(folder / "source", out)
    shutil.rmtree(folder / "source")
