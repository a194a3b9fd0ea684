"""The first ten minutes outside /tmp: a scaffold is called, packed, signed, installed and invoked."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from plughost.contracts import registry as contracts
from plughost.scaffold.builtin import OURS
from tests.support.newcomer import WHO, Newcomer, Tools, tools_outside_tmp
from tests.support.workshop import need


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with tools_outside_tmp() as tools:
        yield tools


@pytest.fixture(scope="module", params=WHO)
def newcomer(request: pytest.FixtureRequest, tools: Tools) -> Newcomer:
    return Newcomer(request.param, tools)


@pytest.mark.parametrize(("contract", "language"), [*((name, "python") for name in OURS), ("vai", "node")])
def test_a_new_plugin_runs_confined_in_any_folder(newcomer, contract, language):
    need(language)
    name = f"greeter-{contract}-{language}"
    told = json.loads(newcomer.run(f"plughost new {contract} {name} --lang {language} --json"))
    as_printed = told["next"]["try"]
    options = "--sandbox strict"
    confined = as_printed.replace("plughost x", f"plughost x {options}")
    confined = confined.replace("plughost call", f"plughost call {options}")
    assert options in confined
    is_strict = contracts.get_contract(contract).sandbox == "strict"
    for command in (as_printed,) if is_strict else (as_printed, confined):
        assert "Ada" in newcomer.run(command, newcomer.home / name)


def test_a_signed_and_installed_package_is_invoked(newcomer):
    newcomer.run("plughost new vai greeter")
    folder = newcomer.home / "greeter"
    assert "Ada" in newcomer.run("""plughost call . greet '{"name": "Ada"}'""", folder)
    [commands] = [
        block for block in (folder / "README.md").read_text().split("```\n") if "plughost install" in block
    ]
    for command in commands.strip().splitlines():
        newcomer.run(command, folder)
    assert "Ada" in newcomer.run(
        """plughost invoke --trust trust.toml example/greeter greet '{"name": "Ada"}'"""
    )
