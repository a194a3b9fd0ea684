"""plughost.toml: which plugins there are and how they run. Checked whole, every problem located.

A file that the operator names is the operator's word. One that lies in a plugin's folder, or is found in the
current folder, may have come with the plugin: it is its author's word (`contracts/settings.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec

from plughost._util.located.document import Document, Field, LocatedProblem, expand
from plughost._util.located.toml import load_authors_toml, load_toml
from plughost._util.plugin_names import name_problem
from plughost._util.real_path import real_path
from plughost.contracts.base import Contract
from plughost.contracts.registry import contract_names, detect_contract, get_contract
from plughost.contracts.resolve import check_runnable, from_host
from plughost.contracts.settings import (
    SetBy,
    author_may_set,
    author_may_strengthen,
    author_refusals,
)
from plughost.errors import InvalidConfig, InvalidSpec
from plughost.permissions import parse
from plughost.permissions.access import NONE, ResourceLimits
from plughost.spec import PluginSpec

T = TypeVar("T")

FILE = "plughost.toml"
DEFAULT_ROOT = Path("dist/plugins")
HARMLESS = ("PATH", "HOME", "LANG", "TERM")
"""Variables of the host that tell a plugin nothing it could not find out: contracts hand them on, too."""
REMEDY = "use the options of the command line, or bind the plugin in a file of your own"


class Root(NamedTuple):
    """A folder of plugin folders: those that can be used, by name, and what is wrong with the others."""

    specs: list[PluginSpec]
    problems: list[LocatedProblem]


class Common(msgspec.Struct, kw_only=True):
    """What every plugin's table may hold, whatever its contract."""

    contract: Annotated[str, author_may_set("unless a manifest in the folder names another one")]
    command: Annotated[list[str], author_may_set("a sandbox shows it nothing private that it names")]
    cwd: Annotated[str | None, author_may_set("inside the folder")] = None
    env: Annotated[dict[str, str], author_may_set(f"of the host's variables only {', '.join(HARMLESS)}")] = {}
    grants: list[str] | None = None
    sandbox: Annotated[
        Literal["strict", "landlock", "none"] | None, author_may_strengthen("none", "landlock", "strict")
    ] = None
    allow: dict[str, list[str]] = {}
    limits: dict[str, int | str] = {}

    def __repr__(self) -> str:  # the environment may hold secrets
        return f"Common(contract={self.contract!r}, command={self.command!r})"


def load(path: Path, variables: Mapping[str, str] = os.environ) -> dict[str, PluginSpec]:
    """The plugins that an operator's file binds, by name. Relative folders are taken from the file's own."""
    return _load(path, SetBy.OPERATOR, variables)


def load_found(path: Path) -> dict[str, PluginSpec]:
    """The plugins that a file binds which nobody named: it counts as the word of their author.

    Such a file says how to run its plugins. One that grants them anything, or raises a bound, is refused.
    """
    return _load(path, SetBy.AUTHOR, from_host(*HARMLESS))


def _load_own(path: Path) -> PluginSpec:
    """The one plugin that the file in a plugin's folder binds."""
    place = Path(real_path(path.parent)) / path.name
    document = load_authors_toml(place, str(path))
    tables = document.data.get("plugins")
    if isinstance(tables, dict) and len(tables) > 1:  # before each of them has the folder's manifest read
        raise InvalidSpec(f"{path} binds {len(tables)} plugins; a plugin folder's file binds one")
    specs = _bound(document, place, SetBy.AUTHOR, from_host(*HARMLESS))
    if not specs:
        raise InvalidSpec(f"{path} binds no plugin; a plugin folder's file binds one")
    return next(iter(specs.values()))


def load_folder(folder: Path) -> PluginSpec:
    """The plugin that a folder is: bound by its own plughost.toml, or told by a contract's manifest.

    Both are the author's word.
    """
    if not folder.is_dir():
        raise InvalidSpec(f"no such plugin folder: {folder}")
    if (folder / FILE).exists():
        return _load_own(folder / FILE)
    told = detect_contract(folder)
    if told is None:
        raise InvalidSpec(f"{folder} is not a plugin folder: it has no {FILE} and no contract's manifest")
    return told


def _load(path: Path, by: SetBy, variables: Mapping[str, str]) -> dict[str, PluginSpec]:
    base = Path(real_path(path.parent))  # once: what the file says counts for this folder and for no other
    read = load_toml if by is SetBy.OPERATOR else load_authors_toml
    return _bound(read(base / path.name, str(path)), base / path.name, by, variables)


def _bound(document: Document, path: Path, by: SetBy, variables: Mapping[str, str]) -> dict[str, PluginSpec]:
    """The plugins of a document. `path` is where it was found, its folder resolved."""
    base = path.parent
    tables = document.data.setdefault("plugins", {})
    for key in document.data.keys() - {"plugins"}:
        document.problem((key,), "unknown key; known here: plugins")
    if not isinstance(tables, dict):
        document.problem(("plugins",), "expected tables such as [plugins.my-plugin]")
        tables = {}
    specs = {
        name: spec for name in tables if (spec := _plugin(document, name, base, by, variables)) is not None
    }
    document.check()
    if len(specs) > 1:
        shared = real_path(base / path.name)
        specs = {name: msgspec.structs.replace(spec, kept_from=shared) for name, spec in specs.items()}
    return specs


def load_root(root: Path) -> Root:
    """Every plugin of a root, by its manifest. One that is broken does not keep the others from loading.

    A plughost.toml in a plugin's folder does not count here: it is the operator's word, and in a folder
    that somebody else has filled it is not known to be.
    """
    found = Root([], [])
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        if folder.is_symlink() or not folder.is_dir():
            continue
        try:
            spec = detect_contract(folder)
        except InvalidConfig as error:
            found.problems.extend(error.problems)
        except (InvalidSpec, OSError) as error:
            found.problems.append(LocatedProblem(str(folder), 0, "", str(error)))
        else:
            if spec is not None:
                found.specs.append(spec)
    found.specs.sort(key=lambda spec: spec.name)
    return found


def _plugin(
    document: Document, name: str, base: Path, by: SetBy, variables: Mapping[str, str]
) -> PluginSpec | None:
    field: Field = ("plugins", name)
    table = document.data["plugins"][name]
    is_alone = len(document.data["plugins"]) == 1
    if (why := name_problem(name)) is not None:
        document.problem(field, why)
        return None
    if not isinstance(table, dict):
        document.problem(field, "expected a table")
        return None
    common_keys = {info.encode_name for info in msgspec.structs.fields(Common)}
    options = {key: value for key, value in table.items() if key not in common_keys}
    common = document.read(Common, field, {key: table[key] for key in table if key in common_keys})
    kind = table.get("contract")
    if not isinstance(kind, str):
        return None
    if kind not in contract_names():
        document.problem(
            (*field, "contract"), f"unknown contract {kind!r}; known: {', '.join(contract_names())}"
        )
        return None
    document.read(get_contract(kind).options, field, options)
    is_own = table.get("cwd") is not None
    start = None if common is None else partial(_start, base, common.cwd)
    cwd = None if start is None else _understood(document, (*field, "cwd"), None, start)
    if by is SetBy.AUTHOR:
        is_own = _check_author(document, field, table, get_contract(kind), base, cwd) and (is_own or is_alone)
    if common is None or cwd is None:
        return None
    if not common.command:
        document.problem((*field, "command"), "expected at least the program to run")
        return None
    env = {key: _value(document, (*field, "env", key), text, variables) for key, text in common.env.items()}
    allow = {
        kind: [_value(document, (*field, "allow", kind), word, variables) for word in words]
        for kind, words in common.allow.items()
    }
    spec = PluginSpec(
        contract=kind,
        name=name,
        command=common.command,
        cwd=str(cwd),
        cwd_is_own=is_own,
        command_is_told=by is SetBy.AUTHOR,
        folder=str(cwd) if by is SetBy.AUTHOR else None,
        env=env,
        grants=get_contract(kind).default_grants if common.grants is None else common.grants,
        options=options,
        sandbox=common.sandbox,
        allow=_understood(document, (*field, "allow"), NONE, lambda: parse.parse_access(allow, str(base))),
        limits=_understood(
            document, (*field, "limits"), ResourceLimits(), lambda: parse.parse_limits(common.limits)
        ),
    )
    if not any(problem.field.startswith(f"plugins.{name}") for problem in document.problems):
        try:
            check_runnable(spec, get_contract(kind).bind(spec))
        except InvalidSpec as error:
            document.problem(field, error.message)
    return spec


def _start(base: Path, cwd: str | None) -> Path:
    """The folder in which a plugin starts, resolved: what is checked is what is kept."""
    return Path(real_path(base / (cwd or ".")))


def _check_author(
    document: Document,
    field: Field,
    table: dict[str, Any],
    its: Contract,
    folder: Path,
    start: Path | None,
) -> bool:
    """Note everything in the table of a plugin that its author cannot say. `start` is where it starts; None
    when that is wrong, and noted already.

    Whether the folder may be the plugin's own: not where its manifest gives it only parts of that.
    """
    refusals = [
        *author_refusals(Common, table, {"sandbox": its.sandbox}),
        *author_refusals(its.options, table),
    ]
    for name, reason in refusals:
        document.problem(
            (*field, name),
            f"{reason}. If this file is yours, name it: -c {document.file}; otherwise {REMEDY}",
        )
    if start is None:
        return False
    if not start.is_relative_to(folder):
        document.problem((*field, "cwd"), f"{table['cwd']!r} is outside of the plugin's folder")
        return False
    found = [detect_contract(place) for place in dict.fromkeys((folder, start)) if place.is_dir()]
    manifests = [told for told in found if told is not None]
    for told in manifests:
        if told.contract != its.name:
            document.problem(
                (*field, "contract"),
                f"its folder has a manifest of the contract {told.contract}, not {its.name}",
            )
    return all(told.cwd_is_own for told in manifests)


def _understood(document: Document, field: Field, otherwise: T, read: Callable[[], T]) -> T:
    try:
        return read()
    except InvalidSpec as error:
        document.problem(field, error.message)
        return otherwise


def _value(document: Document, field: Field, text: str, variables: Mapping[str, str]) -> str:
    if text.startswith("secret://"):
        document.problem(field, "secret:// references need a secret store, which only the gateway has")
        return ""

    def missing(name: str) -> None:
        is_kept = variables is not os.environ and name in os.environ
        why = (
            f"is not given to a file that may be the plugin author's; it may use {', '.join(HARMLESS)}"
            if is_kept
            else "is not set in the environment"
        )
        document.problem(field, f"${{{name}}} {why}")

    return expand(text, variables, missing)
