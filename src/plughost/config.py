"""plughost.toml: what no manifest on disk can say. Checked whole, every problem located."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from plughost.base.errors import InvalidConfig, InvalidSpec
from plughost.base.located import Document, Field, Problem, expand
from plughost.base.located_toml import load_toml
from plughost.base.names import wrong_name
from plughost.contracts.contract import (
    PluginSpec,
    check_runnable,
    contract,
    contract_of,
    from_host,
    names,
)
from plughost.guard import allowance
from plughost.guard.powers import NONE, Limits

T = TypeVar("T")

FILE = "plughost.toml"
DEFAULT_ROOT = Path("dist/plugins")


class Root(NamedTuple):
    """A folder of plugin folders: those that can be used, by name, and what is wrong with the others."""

    specs: list[PluginSpec]
    problems: list[Problem]


class Common(msgspec.Struct, kw_only=True):
    """What every plugin's table may hold, whatever its contract."""

    contract: str
    command: list[str]
    cwd: str | None = None
    env: dict[str, str] = {}
    grants: list[str] | None = None
    sandbox: Literal["strict", "landlock", "none"] | None = None
    allow: dict[str, list[str]] = {}
    limits: dict[str, int | str] = {}

    def __repr__(self) -> str:  # the environment may hold secrets
        return f"Common(contract={self.contract!r}, command={self.command!r})"


def load(path: Path, variables: Mapping[str, str] = os.environ) -> dict[str, PluginSpec]:
    """The plugins a file binds, by name. Relative folders are taken from the file's own."""
    document = load_toml(path)
    tables = document.data.pop("plugins", {})
    for key in document.data:
        document.problem((key,), "unknown key; known here: plugins")
    if not isinstance(tables, dict):
        document.problem(("plugins",), "expected tables such as [plugins.my-plugin]")
        tables = {}
    specs = {
        name: spec
        for name, table in tables.items()
        if (spec := _plugin(document, name, table, path.parent, variables)) is not None
    }
    document.check()
    if len(specs) > 1:
        shared = str(path.resolve())
        specs = {name: msgspec.structs.replace(spec, kept_from=shared) for name, spec in specs.items()}
    return specs


def of_folder(folder: Path, *, trusted: bool = True) -> PluginSpec:
    """The plugin that a folder is: bound by its own plughost.toml, or told by a contract's manifest.

    The file in a folder that is not `trusted` only says how to run it: what it allows itself does not count,
    and of the host's variables it gets those that tell nothing. None is `trusted` where the contract itself
    confines plugins: whoever wrote it could let his own out.
    """
    if not folder.is_dir():
        raise InvalidSpec(f"no such plugin folder: {folder}")
    if (folder / FILE).exists():
        if trusted:
            spec = load_one(folder, os.environ)
            if contract(spec.contract).sandbox == "none":
                return spec
        spec = load_one(folder, from_host("PATH", "HOME", "LANG", "TERM"))
        if not Path(spec.cwd or ".").is_relative_to(folder.resolve()):
            raise InvalidSpec(f"{folder / FILE} wants to start in {spec.cwd}, which is not in its folder")
        modest = _modest(spec)
        if trusted:
            _check_modest(folder / FILE, spec, modest)
        return modest
    told = contract_of(folder)
    if told is None:
        raise InvalidSpec(f"{folder} is no plugin folder: it holds no {FILE} and no contract's manifest")
    return told


def _modest(spec: PluginSpec) -> PluginSpec:
    return msgspec.structs.replace(
        spec,
        command_is_told=True,
        sandbox=None,
        allow=NONE,
        limits=Limits(),
        grants=contract(spec.contract).default_grants,
    )


def _check_modest(file: Path, spec: PluginSpec, modest: PluginSpec) -> None:
    """What a file says that does not count is not passed over when nobody said that it would be."""
    usual = contract(spec.contract).sandbox
    said = [name for name in ("allow", "limits") if getattr(spec, name) != getattr(modest, name)]
    said += ["grants"] if tuple(spec.grants) != tuple(modest.grants) else []
    said += ["sandbox"] if spec.sandbox not in (None, usual) else []
    if said:
        raise InvalidSpec(
            f"{file} says {' and '.join(said)} of a {spec.contract} plugin, which may be its author's word",
            hint="say it in a plughost.toml of your own, outside of its folder, and name that with -c",
        )


def of_root(root: Path) -> Root:
    """Every plugin of a root, by its manifest. One that is broken does not keep the others from loading.

    A plughost.toml in a plugin's folder does not count here: it is the operator's word, and in a folder
    that somebody else has filled it is not known to be.
    """
    found = Root([], [])
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        if folder.is_symlink() or not folder.is_dir():
            continue
        try:
            spec = contract_of(folder)
        except InvalidConfig as error:
            found.problems.extend(error.problems)
        except (InvalidSpec, OSError) as error:
            found.problems.append(Problem(str(folder), 0, "", str(error)))
        else:
            if spec is not None:
                found.specs.append(spec)
    found.specs.sort(key=lambda spec: spec.name)
    return found


def load_one(folder: Path, variables: Mapping[str, str]) -> PluginSpec:
    """The one plugin that a folder's own file binds; the folder is its own."""
    specs = load(folder / FILE, variables)
    if len(specs) != 1:
        raise InvalidSpec(f"{folder / FILE} binds {len(specs)} plugins; a plugin folder's file binds one")
    return msgspec.structs.replace(next(iter(specs.values())), cwd_is_own=True)


def _plugin(
    document: Document, name: str, table: Any, base: Path, variables: Mapping[str, str]
) -> PluginSpec | None:
    field: Field = ("plugins", name)
    if (why := wrong_name(name)) is not None:
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
    if kind not in names():
        document.problem((*field, "contract"), f"unknown contract {kind!r}; known: {', '.join(names())}")
        return None
    document.read(contract(kind).options, field, options)
    if common is None:
        return None
    if not common.command:
        document.problem((*field, "command"), "expected at least the program to run")
        return None
    env = {key: _value(document, (*field, "env", key), text, variables) for key, text in common.env.items()}
    here = str(base.resolve())
    allow = {
        kind: [_value(document, (*field, "allow", kind), word, variables) for word in words]
        for kind, words in common.allow.items()
    }
    spec = PluginSpec(
        contract=kind,
        name=name,
        command=common.command,
        cwd=str((base / (common.cwd or ".")).resolve()),
        cwd_is_own=common.cwd is not None,
        env=env,
        grants=contract(kind).default_grants if common.grants is None else common.grants,
        options=options,
        sandbox=common.sandbox,
        allow=_understood(document, (*field, "allow"), NONE, lambda: allowance.powers(allow, here)),
        limits=_understood(document, (*field, "limits"), Limits(), lambda: allowance.limits(common.limits)),
    )
    if not any(problem.field.startswith(f"plugins.{name}") for problem in document.problems):
        try:
            check_runnable(spec, contract(kind).bind(spec))
        except InvalidSpec as error:
            document.problem(field, error.message)
    return spec


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
    return expand(
        text, variables, lambda name: document.problem(field, f"${{{name}}} is not set in the environment")
    )
