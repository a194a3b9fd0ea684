"""`plughost new`: all of a folder, or nothing and a reason."""

from __future__ import annotations

import compileall
import glob
import json
import os
import shutil
import stat
import subprocess
import sys
import tomllib

import pytest

from plughost.cli.main import main
from plughost.errors import InvalidSpec
from plughost.scaffold import writer
from tests.support import ROOT


def new(*words, cwd):
    return subprocess.run(
        [sys.executable, "-m", "plughost.cli", "new", *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=60,
    )


def test_it_says_what_was_written_and_what_to_do_next(tmp_path):
    ran = new("rune", "greeter", "--lang", "go", cwd=tmp_path)
    assert (ran.stdout.splitlines(), ran.stderr, ran.returncode) == (
        [
            "greeter: a plugin for rune in go. Next:",
            "  cd greeter",
            "  go build -o greeter .",
            "  go test",
            '  plughost call . --grant tool.execute greet \'{"name": "Ada"}\'',
            "  plughost dev . --build 'go build -o greeter .' --grant tool.execute",
            "  plughost conform . --grant tool.execute",
        ],
        "",
        0,
    )
    assert (tmp_path / "greeter/main.go").exists()


def test_python_is_what_is_meant_and_json_tells_the_files(tmp_path):
    (tmp_path / "with space/greeter").mkdir(parents=True)  # an empty folder is as good as none
    ran = new("mcptest", "greeter", "--dir", "with space", "--json", cwd=tmp_path)
    told = json.loads(ran.stdout)
    assert (told["folder"], told["contract"], told["language"]) == ("with space/greeter", "mcptest", "python")
    folder = tmp_path / "with space/greeter"
    assert told["files"] == sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()
    )
    assert "lib/plughost_sdk/mcptest.py" in told["files"]
    assert told["next"]["cd"] == "cd 'with space/greeter'"
    assert os.listdir(tmp_path / "with space") == ["greeter"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["mcptest", "taken"], "taken already exists and is not an empty folder"),
        (["mcptest", "file"], "file already exists"),
        (["mcptest", "link"], "link already exists"),
        (["mcptest", "Greeter"], "is not a valid plugin name"),
        (["mcptest", "../up"], "is not a valid plugin name"),
        (["mcptest", "a" * 51], "is not a valid plugin name"),
        (["mcptest", "greeter-"], "is not a valid plugin name"),
        (["mcptest", "1st"], "is not a valid plugin name"),
        (["mcptest", "größe"], "is not a valid plugin name"),
        (["ainb", "host"], "'host' is reserved"),
        (["kaged", "system"], "'system' is reserved"),
        (["ainb", "src", "--lang", "rust"], "'src' is reserved"),
        (["nothing", "greeter"], f"known: {', '.join(writer.contracts())}"),
        (["shared", "greeter"], "no templates for contract 'shared'"),
        (["mcptest", "greeter", "--lang", "any"], "known: go, node, python, rust"),
        (["mcptest", "greeter", "--dir", "missing"], "no such folder: missing"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(tmp_path, monkeypatch, capsys, words, reason):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/precious").touch()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["new", *words])
    told = capsys.readouterr()
    assert (told.out, end.value.code) == ("", 2)
    assert reason in told.err
    with pytest.raises(SystemExit):
        main(["new", *words, "--json"])
    assert reason in json.loads(capsys.readouterr().out)["error"]["message"]
    assert sorted(tmp_path.rglob("*")) == before


def test_a_disk_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(path, text):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer, "_write", full)
    with pytest.raises(InvalidSpec, match="No space left on device"):
        writer.write("mcptest", "greeter", "python", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("contract", writer.contracts())
def test_every_word_is_filled_in_and_scripts_can_be_run(tmp_path, contract):
    for language in writer.languages(contract):
        written = writer.write(contract, f"x-{language}", language, tmp_path)
        for file in written.files:
            path = tmp_path / f"x-{language}" / file
            text = path.read_text()
            assert "{{name}}" not in text + file
            assert text.endswith("\n")
            assert not text.endswith("\n\n")
            assert bool(path.stat().st_mode & stat.S_IXUSR) == text.startswith("#!")


def test_what_an_installer_compiles_is_not_written(tmp_path, monkeypatch):
    templates = tmp_path / "templates"
    shutil.copytree(writer.TEMPLATES, templates)
    compileall.compile_dir(templates, quiet=2)
    assert list(templates.rglob("*.pyc"))
    monkeypatch.setattr(writer, "TEMPLATES", templates)
    monkeypatch.setattr(writer, "SHARED", templates / "shared")
    monkeypatch.setattr(writer.SCAFFOLDS, "get", lambda contract: templates / contract)
    assert not [file for file in writer.write("mcptest", "a", "python", tmp_path).files if ".pyc" in file]


def test_every_template_is_in_the_wheel():
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"][
        "plughost"
    ]
    package = ROOT / "src/plughost"
    packed = {path for pattern in patterns for path in glob.glob(pattern, root_dir=package, recursive=True)}
    templates = {str(path.relative_to(package)) for path in writer.TEMPLATES.rglob("*") if path.is_file()}
    assert templates - packed == set()


def test_what_make_setup_installs_is_enough_for_a_package_with_the_sdk_in_it(tmp_path):
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "plughost.cli", "new", "vai", "hello"]
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=30)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "hello/lib/plughost_sdk/vai/__init__.py").is_file()
