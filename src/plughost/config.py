"""Loads plughost.toml, the configuration of plugins: checks the whole file and reports each problem with its
line.

A file that the operator names on the command line counts as the operator's, who may grant anything. A file
that lies in a plugin's folder, or was found in the current folder, may have come with the plugin: it counts
as its author's and may set only what `contracts/settings.py` lets an author set.
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
from plughost.contracts.registry import broken_contracts, detect_contract, get_contract, loadable_contracts
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
from plughost.wire.method_description import MethodDescription

T = TypeVar("T")

FILE = "plughost.toml"
DEFAULT_ROOT = Path("dist/plugins")
HARMLESS = ("PATH", "HOME", "LANG", "TERM")
"""Environment variables of the host that any plugin may see: they tell it nothing it could not find out."""
REMEDY = "use command-line options, or configure the plugin in a file of your own"


class Root(NamedTuple):
    """The result of loading a root, which is a folder of plugin folders: the specs of the usable plugins,
    sorted by name, and the problems of the others."""

    specs: list[PluginSpec]
    problems: list[LocatedProblem]


class MethodTable(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A `[plugins.NAME.methods.METHOD]` table: what the operator says about a method, for the catalogue."""

    title: str = ""
    description: str = ""
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None


class Common(msgspec.Struct, kw_only=True):
    """The keys of a `[plugins.NAME]` table that every contract has."""

    contract: Annotated[str, author_may_set("unless a manifest in the folder names another one")]
    command: Annotated[
        list[str], author_may_set("naming a private file here does not make it visible in a sandbox")
    ] = []
    cwd: Annotated[str | None, author_may_set("inside the folder")] = None
    env: Annotated[
        dict[str, str], author_may_set(f"from the host's environment only {', '.join(HARMLESS)}")
    ] = {}
    grants: list[str] | None = None
    sandbox: Annotated[
        Literal["strict", "landlock", "none"] | None, author_may_strengthen("none", "landlock", "strict")
    ] = None
    allow: dict[str, list[str]] = {}
    limits: dict[str, int | str] = {}
    methods: dict[str, MethodTable] = {}

    def __repr__(self) -> str:  # the environment may hold secrets
        return f"Common(contract={self.contract!r}, command={self.command!r})"


def load(path: Path, variables: Mapping[str, str] = os.environ) -> dict[str, PluginSpec]:
    """Load the operator's plughost.toml: its plugins by name. Relative paths start at the file's folder."""
    return _load(path, SetBy.OPERATOR, variables)


def load_found(path: Path) -> dict[str, PluginSpec]:
    """Load a plughost.toml that was found and that nobody named: it counts as the plugin author's.

    It may say how to run its plugins. A file that grants them anything, or raises a limit, is refused.
    """
    return _load(path, SetBy.AUTHOR, from_host(*HARMLESS))


def _load_own(path: Path) -> PluginSpec:
    """Load the plughost.toml in a plugin's folder, which configures exactly one plugin."""
    place = Path(real_path(path.parent)) / path.name
    document = load_authors_toml(place, str(path))
    tables = document.data.get("plugins")
    # Checked first, because each table reads the folder's manifest.
    if isinstance(tables, dict) and len(tables) > 1:
        raise InvalidSpec(
            f"{path} configures {len(tables)} plugins; the file in a plugin folder must configure exactly one"
        )
    specs = _read_plugins(document, place, SetBy.AUTHOR, from_host(*HARMLESS))
    if not specs:
        raise InvalidSpec(
            f"{path} configures no plugin; the file in a plugin folder must configure exactly one"
        )
    return next(iter(specs.values()))


def load_folder(folder: Path) -> PluginSpec:
    """Load a plugin from its folder, by its plughost.toml or else by the manifest of a contract.

    Both count as the author's files.
    """
    if not folder.is_dir():
        raise InvalidSpec(f"no such plugin folder: {folder}")
    if (folder / FILE).exists():
        return _load_own(folder / FILE)
    spec = detect_contract(folder)
    if spec is None:
        broken = ", ".join(broken_contracts())
        raise InvalidSpec(
            f"{folder} is not a plugin folder: it has no {FILE} and no contract's manifest",
            hint=f"these contracts cannot be loaded, so their manifests were not looked for: {broken}"
            if broken
            else "",
        )
    return spec


def _load(path: Path, by: SetBy, variables: Mapping[str, str]) -> dict[str, PluginSpec]:
    # Resolved once, so that all paths of the file are relative to this very folder.
    base = Path(real_path(path.parent))
    read = load_toml if by is SetBy.OPERATOR else load_authors_toml
    return _read_plugins(read(base / path.name, str(path)), base / path.name, by, variables)


def _read_plugins(
    document: Document, path: Path, by: SetBy, variables: Mapping[str, str]
) -> dict[str, PluginSpec]:
    """The plugins of a document. `path` is the path of the file, with the symlinks of its folder resolved."""
    base = path.parent
    tables = document.data.setdefault("plugins", {})
    for key in document.data.keys() - {"plugins"}:
        document.unknown_key((key,), ["plugins"])
    if not isinstance(tables, dict):
        document.problem(("plugins",), "expected tables such as [plugins.my-plugin]")
        tables = {}
    specs = {
        name: spec
        for name in tables
        if (spec := _read_plugin(document, name, base, by, variables)) is not None
    }
    document.check()
    if len(specs) > 1:
        shared = real_path(base / path.name)
        specs = {name: msgspec.structs.replace(spec, excluded_file=shared) for name, spec in specs.items()}
    return specs


def load_root(root: Path) -> Root:
    """Load every plugin of a root by its manifest. A broken plugin does not keep the others from loading.

    A plughost.toml in a plugin's folder is ignored here: nobody knows whether the operator wrote it.
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


def _read_plugin(
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
    if common is None:  # go on with what is sound, to find the other problems
        sound = {key: table[key] for key in common_keys & table.keys() if document.is_sound((*field, key))}
        common = msgspec.convert({"contract": "", **sound}, Common)
    contract = _contract(document, field, table.get("contract"))
    if contract is None and options:
        for key in options.keys() - _all_options():
            document.unknown_key((*field, key), common_keys | _all_options())
    elif contract is not None:
        document.read(contract.options, field, options, also=common_keys)
    is_own = table.get("cwd") is not None
    cwd = _parse_or(document, (*field, "cwd"), None, partial(_working_directory, base, common.cwd))
    if by is SetBy.AUTHOR and contract is not None:
        is_own = _check_author(document, field, table, contract, base, cwd) and (is_own or is_alone)
    if not common.command and (contract is None or contract.needs_command):
        if "command" in table:
            document.problem((*field, "command"), "expected at least the program to run")
        else:
            document.problem(field, "`command` is missing")
    env = {key: _expand(document, (*field, "env", key), text, variables) for key, text in common.env.items()}
    allow = {
        access: [_expand(document, (*field, "allow", access), word, variables) for word in words]
        for access, words in common.allow.items()
    }
    allowed = _parse_or(document, (*field, "allow"), NONE, lambda: parse.parse_access(allow, str(base)))
    limits = _parse_or(
        document, (*field, "limits"), ResourceLimits(), lambda: parse.parse_limits(common.limits)
    )
    if contract is None or cwd is None or not document.is_sound(field):
        return None
    spec = PluginSpec(
        contract=contract.name,
        name=name,
        command=common.command,
        cwd=str(cwd),
        cwd_is_plugin_dir=is_own,
        command_from_manifest=by is SetBy.AUTHOR,
        folder=str(cwd) if by is SetBy.AUTHOR else None,
        env=env,
        grants=contract.default_grants if common.grants is None else common.grants,
        options=options,
        sandbox=common.sandbox,
        allow=allowed,
        limits=limits,
        methods=[
            MethodDescription(name=method, **msgspec.structs.asdict(table))
            for method, table in common.methods.items()
        ],
    )
    # For the problems, with their lines in this file. `Host.add` resolves the spec again, because a plugin's
    # folder may have changed by then: what is confined and started is what the files say at that time.
    try:
        check_runnable(spec, contract.resolve(spec))
    except InvalidSpec as error:
        document.problem(field, error.message)
    return spec


def _contract(document: Document, field: Field, name: Any) -> Contract | None:
    """The contract of a plugin; None, with the problem reported, when there is none of that name."""
    if not isinstance(name, str):
        return None  # reported as missing, or as not a text
    try:
        return get_contract(name)
    except InvalidSpec as error:
        hint = f"; {error.hint}" if error.hint else ""
        document.problem((*field, "contract"), f"{error.message}{hint}")
        return None


def _all_options() -> set[str]:
    """The settings of all contracts: where the contract itself is wrong, any of them may be meant."""
    return {
        info.encode_name for each in loadable_contracts() for info in msgspec.structs.fields(each.options)
    }


def _working_directory(base: Path, cwd: str | None) -> Path:
    """The working directory without symlinks, so that the path that is checked is the path that is used."""
    return Path(real_path(base / (cwd or ".")))


def _check_author(
    document: Document,
    field: Field,
    table: dict[str, Any],
    contract: Contract,
    folder: Path,
    start: Path | None,
) -> bool:
    """Report every key in a plugin's table that its author may not set. `start` is its working directory;
    None when that is wrong, and reported already.

    Returns whether the folder may be the plugin's own: not where its manifest gives it only parts of that.
    """
    refusals = [
        *author_refusals(Common, table, {"sandbox": contract.sandbox}),
        *author_refusals(contract.options, table),
    ]
    for name, reason in refusals:
        document.problem(
            (*field, name),
            f"{reason}. If you trust this file, pass -c {document.file}; otherwise {REMEDY}",
        )
    if start is None:
        return False
    if not start.is_relative_to(folder):
        document.problem((*field, "cwd"), f"{table['cwd']!r} is outside the plugin's folder")
        return False
    found = [detect_contract(each) for each in dict.fromkeys((folder, start)) if each.is_dir()]
    manifests = [spec for spec in found if spec is not None]
    for spec in manifests:
        if spec.contract != contract.name:
            document.problem(
                (*field, "contract"),
                f"its folder has a manifest of the contract {spec.contract}, not {contract.name}",
            )
    return all(spec.cwd_is_plugin_dir for spec in manifests)


def _parse_or(document: Document, field: Field, default: T, read: Callable[[], T]) -> T:
    """The result of `read`; `default`, with the problem reported, when it raises InvalidSpec."""
    try:
        return read()
    except InvalidSpec as error:
        document.problem(field, error.message)
        return default


def _expand(document: Document, field: Field, text: str, variables: Mapping[str, str]) -> str:
    """`text` with `${NAME}` replaced by the value of the variable."""
    if text.startswith("secret://"):
        document.problem(field, "secret:// references need a secret store, which only the gateway has")
        return ""

    def missing(name: str) -> None:
        is_kept = variables is not os.environ and name in os.environ
        why = (
            "cannot be used in a file that may come from the plugin's author; such a file can use only "
            f"{', '.join(HARMLESS)}"
            if is_kept
            else "is not set in the environment"
        )
        document.problem(field, f"${{{name}}} {why}")

    return expand(text, variables, missing)
