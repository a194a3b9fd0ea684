"""The public surface: what a program may import, and that documents import nothing else."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import plughost
from plughost import errors, events
from tests.support import ROOT

PUBLIC = (
    "plughost", "plughost.contract", "plughost.control", "plughost.sync", "plughost.testing", "plughost.vai"
)  # fmt: skip
LAZY = ("plughost", "plughost.contract", "plughost.vai")
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("sdk/python/*.md"),
        *ROOT.glob("tests/outside/*.py"),
    ]
)
"""Every document that may show code, and the contract that stands outside of this package."""


@pytest.mark.parametrize("name", PUBLIC)
def test_whatever_is_exported_is_there_and_documented(name):
    module = importlib.import_module(name)
    exported = {each: getattr(module, each) for each in module.__all__}
    assert exported.keys() <= {*dir(module)}
    assert module.__doc__
    undocumented = [each for each, value in exported.items() if callable(value) and not value.__doc__]
    assert undocumented == []


@pytest.mark.parametrize("name", LAZY)
def test_what_a_type_checker_sees_is_what_is_imported(name):
    """The imports under TYPE_CHECKING, the table of lazy exports and `__all__` say the same."""
    module = importlib.import_module(name)
    tree = ast.parse(Path(module.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {alias.name: node.module for node in block.body for alias in node.names}
    (table,) = [node for node in ast.walk(block) if isinstance(node, ast.Dict)]
    assert ast.literal_eval(table) == seen
    assert sorted(seen) == sorted(module.__all__)


def test_a_name_that_does_not_exist_is_told():
    with pytest.raises(AttributeError, match="module 'plughost' has no attribute 'Hots'"):
        plughost.Hots  # noqa: B018


def test_all_errors_and_events_are_exported():
    for module, base in ((errors, errors.PluginError), (events, events.Event)):
        kinds = {
            name
            for name, value in vars(module).items()
            if isinstance(value, type) and issubclass(value, base) and value.__module__ == module.__name__
        }
        assert kinds <= {*plughost.__all__}


def test_the_version_is_that_of_the_installed_package():
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", plughost.__version__)


@pytest.mark.parametrize(("field", "kind"), [("allow", "Access"), ("limits", "ResourceLimits")])
def test_a_dict_where_a_value_is_expected_is_a_clear_error(field, kind):
    with pytest.raises(plughost.InvalidSpec, match=f"{field} is a dict, not a plughost.{kind}") as refused:
        plughost.PluginSpec(contract="mcptest", name="echo", command=["true"], **{field: {}})
    assert f"{field}=plughost.{kind}.parse(" in refused.value.hint


def test_the_words_of_the_configuration_become_values():
    assert plughost.Access.parse({"read": ["notes"]}, "/srv") == plughost.Access(read=("/srv/notes",))
    assert plughost.ResourceLimits.parse({"memory": "256M"}).memory == 256 << 20


def imports(text: str) -> set[str]:
    """The modules of ours that the code of a document imports."""
    found = re.findall(r"^\s*(?:>>> )?(?:from (plughost[\w.]*) import|import (plughost[\w.]*))", text, re.M)
    return {first or second for first, second in found if not (first or second).startswith("plughost_sdk")}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_imports_only_what_is_public(document):
    assert imports(document.read_text()) <= {*PUBLIC}


def test_documents_do_import_something():
    assert {"plughost", "plughost.vai"} <= set().union(*(imports(path.read_text()) for path in DOCUMENTS))


TYPED = """
import plughost
from plughost import Host

async def main(plugin: plughost.Plugin) -> None:
    reveal_type(await plugin.call("m", type=int))
    reveal_type(await plugin.call("m"))
    plughost.Hots
"""


def test_types_help_a_program(tmp_path):
    """A result has the type that was asked for, and a name that does not exist is a type error."""
    program = tmp_path / "program.py"
    program.write_text(TYPED)
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(program)],
        capture_output=True,
        text=True,
        timeout=110,
        cwd=ROOT,
    )
    assert 'Revealed type is "builtins.int"' in ran.stdout or 'Revealed type is "int"' in ran.stdout, (
        ran.stdout
    )
    assert 'Revealed type is "Any"' in ran.stdout
    assert 'Module has no attribute "Hots"' in ran.stdout
