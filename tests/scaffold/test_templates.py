"""What `plughost new` writes: built, tested by its own tests, run by a real host."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest

from plughost import CallFailed, config
from plughost.contracts.ainb.contract import Ainb
from plughost.contracts.ainb.messages import Char, KeyEvent
from plughost.contracts.registry import get_contract as contract_named
from plughost.contracts.resolve import sandbox_class
from plughost.events import Linted
from plughost.scaffold import writer
from plughost.scaffold.builtin import OURS, SHARED, TEMPLATES
from tests.support import confinable, data_root, unhurried
from tests.support.confinable import PUBLIC_PYTHON
from tests.support.sdk import SDK

CASES = [(kind, language) for kind in OURS for language in writer.languages(kind)]
each = pytest.mark.parametrize(("contract", "language"), CASES)


SOURCES = ("plugin.py", "plugin.js", "main.go", "src/main.rs")


def conform(workshop, folder, contract):
    """Every axis passes, as soon as there are axes for the contract."""
    if find_spec(f"plughost.conformance.{contract}"):
        granted = " --grant tool.execute" if contract == "rune" else ""
        ran = workshop.run(f"plughost conform . --sandbox none{granted}", folder)
        assert ran.returncode == 0, ran.stdout


def test_every_contract_has_every_language():
    assert sorted(OURS) == sorted(path.name for path in TEMPLATES.iterdir() if path != SHARED)
    assert len(CASES) == 4 * len(OURS) >= 12


@each
def test_its_own_tests_pass(made, workshop, contract, language):
    new = made(contract, language)
    readme = (Path(new.folder) / "README.md").read_text()
    assert all(command in readme for step, command in new.next.items() if step != "cd")
    ran = workshop.run(new.next["test"], Path(new.folder))
    assert ran.returncode == 0, ran.stdout


@each
def test_its_own_tests_fail_when_it_greets_otherwise(made, workshop, contract, language, tmp_path):
    new = made(contract, language)
    folder = tmp_path / Path(new.folder).name
    shutil.copytree(new.folder, folder)
    [source] = [path for name in SOURCES if (path := folder / name).exists()]
    source.write_text(source.read_text().replace("Hello, ", "Go away, "))
    ran = workshop.run(new.next["test"], folder)
    assert ran.returncode in (1, 101), ran.stdout
    assert "Go away" in ran.stdout


@each
def test_it_conforms(made, workshop, contract, language):
    conform(workshop, Path(made(contract, language).folder), contract)


@pytest.mark.parametrize("language", writer.languages("mcptest"))
@pytest.mark.parametrize("contract", ["mcptest", "rune"])
async def test_a_real_host_calls_it(made, host, contract, language):
    folder = made(contract, language).folder
    plugin = await host.add(unhurried(folder) if contract == "rune" else folder)
    assert await plugin.call("greet", {"name": "Ada"}) == {"greeting": "Hello, Ada!"}
    assert await plugin.call("greet", {"name": "Zoë 😀\n"}) == {"greeting": "Hello, Zoë 😀\n!"}
    with pytest.raises(CallFailed) as refused:
        await plugin.call("greet", {"name": 1})
    assert refused.value.error["code"] in (-32602, "invalid_input")
    assert await plugin.call("greet", {"name": ""}) == {"greeting": "Hello, !"}


"""One that any user can reach: of a root host a confined plugin is another."""


@pytest.mark.parametrize("sandbox", ["none", "strict"])
@pytest.mark.parametrize("language", writer.languages("kaged"))
async def test_a_real_host_confines_it_and_calls_it(made, host, language, sandbox):
    confinable.needs(sandbox)
    new = made("kaged", language)
    with confinable.open_folder() as place:
        folder = place / Path(new.folder).name
        shutil.copytree(new.folder, folder)
        spec = config.load_folder(folder)
        if language == "python":  # with the SDK beside it, as a plugin may bring it along
            shutil.copytree(SDK / "plughost_sdk", folder / "plughost_sdk")
            spec = msgspec.structs.replace(spec, command=[PUBLIC_PYTHON, *spec.command[1:]])
        assert sandbox_class(spec, contract_named("kaged")) == "strict"
        options = {"data_root": data_root(place), "init_timeout": 60}
        with host.events() as events:
            plugin = await host.add(msgspec.structs.replace(spec, sandbox=sandbox, options=options))
            greet = f"{folder.name}.greet"
            assert await plugin.call(greet, {"name": "Zoë 😀\n"}) == {"greeting": "Hello, Zoë 😀\n!"}
            with pytest.raises(CallFailed) as refused:
                await plugin.call(greet, {"name": 1})
            assert (refused.value.error["code"], plugin.sandbox) == (-32602, sandbox)
            await plugin.stop()
            assert not [event for event in iter(events.take, None) if isinstance(event, Linted)]


async def lines(plugin):
    """What two lines of its screen show."""
    cells = (await plugin.render(20, 2, deadline=60)).buffer.cells
    return ["".join(cell.symbol for place, cell in cells if place.y == y) for y in (0, 1)]


@pytest.mark.parametrize("language", writer.languages("ainb"))
async def test_a_real_host_shows_it(made, host, language):
    new = made("ainb", language)
    name = Path(new.folder).name
    plugin = Ainb(await host.add(new.folder))
    assert await lines(plugin) == ["Hello, world!", "Last key: none yet"]
    assert plugin.key(name, KeyEvent(Char("é")))
    assert (await lines(plugin))[1] == "Last key: é"
    ran = await plugin.cli(name, ["Ada"])
    assert (ran.stdout, ran.stderr, ran.exit_code) == (b"Hello, Ada!\n", b"", 0)
    ran = await plugin.cli("nobody", [])
    assert (ran.stdout, ran.exit_code) == (b"", 2)
    assert b"nobody" in ran.stderr


STRAY = {
    "python": ("def greeting(name):\n", '    print("stray")\n'),
    "node": ("const greeting = (name) => ", 'console.log("stray") ?? '),
    "go": ("func greeting(name string) string {\n", '\tos.Stdout.WriteString("stray\\n")\n'),
    "rust": ("fn greeting(name: &str) -> String {\n", '    println!("stray");\n'),
}


@pytest.mark.parametrize("language", STRAY)
async def test_what_the_author_prints_ends_up_in_the_log(workshop, host, tmp_path, made, language):
    made("mcptest", language)  # or a reason to skip
    new = writer.write("mcptest", "stray", language, tmp_path)
    where, printing = STRAY[language]
    folder = Path(new.folder)
    [source] = [path for path in folder.rglob("*") if path.is_file() and where in path.read_text()]
    source.write_text(source.read_text().replace(where, where + printing))
    ran = workshop.run(new.next.get("build", "true"), folder)
    assert ran.returncode == 0, ran.stdout
    plugin = await host.add(folder)
    for _ in range(2):
        assert await plugin.call("greet", {"name": "Ada"}) == {"greeting": "Hello, Ada!"}
    await plugin.stop()
    assert [line.message for line in host.service("logs").recent("stray")] == ["stray", "stray"]


@pytest.mark.parametrize("contract", OURS)
def test_a_python_with_nothing_installed_runs_it(made, contract):
    folder = Path(made(contract, "python").folder)
    program = {"ainb": folder.name, "vai": "bin/plugin"}.get(contract, "plugin.py")
    ran = subprocess.run(
        [sys.executable, "-S", "-E", folder / program],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert "ModuleNotFoundError" not in ran.stderr
    lists = "import sys, plughost_sdk; print(plughost_sdk.__file__)\nfrom plughost_sdk import " + contract
    ran = subprocess.run(
        [sys.executable, "-S", "-c", lists],
        env={"PYTHONPATH": str(folder / "lib")},
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert (ran.stdout, ran.stderr) == (f"{folder}/lib/plughost_sdk/__init__.py\n", "")


@pytest.mark.parametrize("contract", OURS)
def test_the_sdk_in_its_folder_has_every_module_that_its_modules_import(made, contract):
    lib = Path(made(contract, "python").folder) / "lib"
    wanted = re.compile(r"^\s*from (plughost_sdk[\w.]*) import (\w+)", re.M)
    for path in lib.rglob("*.py"):
        source = re.sub(r'""".*?"""', "", path.read_text(), flags=re.S)
        for module, name in wanted.findall(source):
            place = lib / module.replace(".", "/")
            found = [place.with_suffix(".py"), place / "__init__.py", place / f"{name}.py"]
            assert any(each.exists() for each in found[:2]), (path, module)
            if module == "plughost_sdk":
                assert found[2].exists() or (place / name).is_dir(), (path, name)
