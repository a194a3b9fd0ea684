"""vai-plugin.toml and schemas/ out of functions, and the SDK into a package."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib

import pytest

from plughost.vai.packages.pack import pack
from tests.support.sdk import SDK
from tests.support.vai_wire import Talk

SOURCE = '''
from __future__ import annotations

from typing import Annotated

from plughost_sdk import vai

plugin = vai.Plugin()


@plugin.tool(effect_class="read_only")
def shout(text: Annotated[str, "what to shout"], context: vai.Context) -> str:
    """Says it louder"""
    return text.upper()


@plugin.hook(subscribes_to=["run.completed"])
def heard(event): ...


if __name__ == "__main__":
    plugin.run()
'''


def run(folder, *words):
    command = [sys.executable, "-m", "plughost_sdk.vai", *words]
    env = {"PYTHONPATH": str(SDK), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60)


def package(folder, source=SOURCE):
    (folder / "bin").mkdir()
    (folder / "bin/plugin").write_text(f"#!{sys.executable}\n{source}")
    (folder / "bin/plugin").chmod(0o755)
    made = run(folder, "generate", "--package-id", "acme/shouter", "bin/plugin")
    assert made.returncode == 0, made.stderr
    return made


def test_a_new_package(tmp_path):
    made = package(tmp_path)
    assert "schemas/shout_input.json" in made.stdout
    told = tomllib.loads((tmp_path / "vai-plugin.toml").read_text())
    assert (told["package_id"], told["name"], told["runtime"]["entrypoint"]) == (
        "acme/shouter",
        "Shouter",
        ["./bin/plugin"],
    )
    shout, heard = told["exports"]
    assert (shout["description"], shout["execution_class"], shout["default_timeout_ms"]) == (
        "Says it louder",
        "isolated",
        20000,
    )
    assert shout["tool"] == {
        "effect_class": "read_only",
        "streaming": False,
        "input_schema": "schemas/shout_input.json",
        "output_schema": "schemas/shout_output.json",
    }
    assert (heard["execution_class"], heard["hook"]) == ("worker", {"subscribes_to": ["run.completed"]})
    schema = json.loads((tmp_path / "schemas/shout_input.json").read_text())
    assert schema["properties"]["text"] == {"type": "string", "description": "what to shout"}


def test_what_is_said_of_the_package_stays_and_the_rest_follows_the_functions(tmp_path):
    package(tmp_path)
    manifest = tmp_path / "vai-plugin.toml"
    before = manifest.read_text()
    manifest.write_text(
        before.replace('version = "0.1.0"', 'version = "2.0.0" # mine').replace("Says it", "Sings it")
        + '[[exports]]\nid = "old"\n[exports.tool]\ninput_schema = "schemas/old_input.json"\n'
    )
    for name in ("old_input", "own"):
        (tmp_path / f"schemas/{name}.json").write_text("{}")
    checked = run(tmp_path, "generate", "--check", "bin/plugin")
    assert checked.returncode == 1
    assert [line.rpartition("/")[2].split()[0] for line in checked.stderr.splitlines()] == [
        "old_input.json",
        "vai-plugin.toml",
    ]
    assert run(tmp_path, "generate", "bin/plugin").returncode == 0
    assert manifest.read_text() == before.replace('version = "0.1.0"', 'version = "2.0.0" # mine')
    assert not (tmp_path / "schemas/old_input.json").exists()
    assert (tmp_path / "schemas/own.json").exists(), "an author's own"
    checked = run(tmp_path, "generate", "--check", "bin/plugin")
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_what_holds_itself_can_be_packed(tmp_path):
    tree = "@dataclass\nclass Tree:\n    name: str\n    below: list[Tree]\n    above: Tree | None = None\n\n\n@plugin.tool("
    source = SOURCE.replace("@plugin.tool(", tree, 1).replace('Annotated[str, "what to shout"]', "list[Tree]")
    program = source.replace("from typing", "from dataclasses import dataclass\nfrom typing", 1)
    package(tmp_path, program)
    assert pack(tmp_path, tmp_path).package_id == "acme/shouter"


@pytest.mark.parametrize(
    ("parameter", "why"),
    [
        (
            "text: datetime.datetime",
            "shout: no JSON Schema for <class 'datetime.datetime'>; there is one for str",
        ),
        ("text: set[str]", "shout: no JSON Schema for set[str]"),
        ("*text: str", "shout takes *args or **kwargs: a tool must name the members of its input"),
    ],
)
def test_a_type_that_json_has_no_word_for_is_told_in_a_line(parameter, why, tmp_path):
    source = SOURCE.replace('text: Annotated[str, "what to shout"]', parameter).replace(
        "from typing", "import datetime\nfrom typing", 1
    )
    (tmp_path / "plugin.py").write_text(source)
    made = run(tmp_path, "generate", "--package-id", "acme/shouter", "plugin.py")
    assert (made.returncode, made.stdout) == (2, "")
    assert "Traceback" not in made.stderr
    assert why in made.stderr.splitlines()[-1]


def test_what_cannot_be_generated(tmp_path):
    (tmp_path / "plugin.py").write_text(SOURCE)
    made = run(tmp_path, "generate", "plugin.py")
    assert (made.returncode, "--package-id publisher/name" in made.stderr) == (2, True)
    (tmp_path / "empty.py").write_text("")
    made = run(tmp_path, "generate", "--package-id", "a/b", "empty.py")
    assert (made.returncode, "has no plugin = vai.Plugin()" in made.stderr) == (2, True)
    assert run(tmp_path, "vendor", ".").returncode == 2


def test_a_package_with_the_sdk_in_it_needs_nothing_else(tmp_path):
    package(tmp_path)
    (tmp_path / "lib/plughost_sdk").mkdir(parents=True)
    (tmp_path / "lib/plughost_sdk/older.py").write_text("")
    assert run(tmp_path, "vendor", ".").returncode == 0
    brought = {str(path.relative_to(tmp_path / "lib")) for path in tmp_path.glob("lib/**/*.py")}
    assert {"plughost_sdk/wire.py", "plughost_sdk/vai/plugin.py"} <= brought
    assert not brought & {"plughost_sdk/older.py", "plughost_sdk/ainb.py"}
    program = tmp_path / "bin/plugin"
    finds = f"import sys\nsys.path.insert(0, {str(tmp_path / 'lib')!r})\n"
    program.write_text(program.read_text().replace("from typing", finds + "from typing"))
    with Talk([sys.executable, "-ISE", program]) as talk:
        assert talk.hello()["plugin"]["package_id"] == "acme/shouter"
        assert talk.tool("shout", {"text": "hi"})["structured_output"] == "HI"
        assert talk.end() == 0
