"""Creates a plugin from templates: a folder that is ready to be tested, run and changed.

A contract has a folder of templates, found by entry point, and in it a folder per language and `any` for all
of them. Files that our own contracts share are in `templates/shared`; those of others share none.
`variables.toml` is not copied: it has the values of the variables `{{name}}` in the files and their names,
and with `brings` the contract for which the SDK is copied along.
"""

from __future__ import annotations

import errno
import platform
import re
import shlex
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

import msgspec

from plughost._util.entry_points import EntryPoints
from plughost._util.nearest import did_you_mean
from plughost.errors import InvalidSpec
from plughost.scaffold.builtin import SHARED, TEMPLATES

SCAFFOLDS: EntryPoints[Path] = EntryPoints("plughost.scaffolds", "templates of contract")
"""The folder of templates of each contract. External contracts register their own."""
ANY, VARIABLES = "any", "variables.toml"
STEPS = ("cd", "build", "test", "try", "dev", "conform", "pack")
MOST = 50
RESERVED = {
    "aux", "build", "con", "deps", "examples", "host", "incremental", "kaged", "nul", "prn", "src", "system",
    "target", "test", "tests",
}  # fmt: skip
"""Names with a special meaning to a host, a compiler, a file system or the plugin's folder itself."""


class Scaffold(msgspec.Struct, frozen=True):
    """The files that were written, and the next commands."""

    folder: str
    contract: str
    language: str
    files: list[str]
    next: dict[str, str]


def contracts() -> list[str]:
    """The contracts that have templates."""
    return SCAFFOLDS.names()


def languages(contract: str) -> list[str]:
    """The languages in which a contract has templates."""
    folders = [place for place in Path(SCAFFOLDS.get(contract)).iterdir() if place.is_dir()]
    return sorted(place.name for place in folders if place.name != ANY)


def write(contract: str, name: str, language: str, parent: Path) -> Scaffold:
    """Creates a plugin called `name` in a folder of that name. On failure raises InvalidSpec and writes
    nothing."""
    _check(contract, name, language, parent)
    templates = Path(SCAFFOLDS.get(contract))
    shared = [SHARED] if templates.parent == TEMPLATES else []
    layers = [place / part for place in (*shared, templates) for part in (ANY, language)]
    given = {"name": name, "contract": contract, "language": language, "machine": _machine()}
    variables = _variables(layers, given)
    files = {_fill(path, variables): template for path, template in _templates(layers)}
    brought = _sdk_files(variables)
    folder = parent / name
    try:
        with tempfile.TemporaryDirectory(dir=parent, prefix=f".{name}-") as place:
            made = Path(place) / name
            for path, template in files.items():
                _write(made / path, _fill(template.read_text("utf-8"), variables))
            for path, source in brought.items():
                _write(made / path, source.read_text("utf-8"))
            made.rename(folder)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise InvalidSpec(f"{folder} already exists and is not an empty folder") from error
        raise InvalidSpec(f"cannot write to {parent}: {error.strerror}") from error
    variables["cd"] = f"cd {shlex.quote(str(folder))}"
    steps = {step: variables[step] for step in STEPS if variables.get(step)}
    return Scaffold(str(folder), contract, language, sorted({**files, **brought}), steps)


def _check(contract: str, name: str, language: str, parent: Path) -> None:
    if contract not in contracts():
        raise InvalidSpec(f"no templates for contract {contract!r}{did_you_mean(contract, contracts())}")
    if language not in languages(contract):
        known = did_you_mean(language, languages(contract))
        raise InvalidSpec(f"no {contract} templates in {language!r}{known}")
    if not re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", name, re.ASCII) or len(name) > MOST:
        raise InvalidSpec(
            f"{name!r} is not a valid plugin name: "
            f"use up to {MOST} lowercase letters, digits and hyphens, starting with a letter"
        )
    if name in RESERVED:
        raise InvalidSpec(f"{name!r} is reserved; choose another name")
    if not parent.is_dir():
        raise InvalidSpec(f"no such folder: {parent}")


def _variables(layers: list[Path], variables: dict[str, str]) -> dict[str, str]:
    """The variables of all layers. Later layers override earlier ones, and may use their variables."""
    for layer in layers:
        if (layer / VARIABLES).exists():
            for name, text in tomllib.loads((layer / VARIABLES).read_text("utf-8")).items():
                variables[name] = _fill(text, variables)
    return variables


def _sdk_files(variables: Mapping[str, str]) -> dict[str, Path]:
    """The SDK files that are copied into the plugin's folder, by their paths there."""
    if "brings" not in variables:
        return {}
    if not (sdk() / "vendor.py").is_file():
        raise InvalidSpec(
            f"a Python plugin gets a copy of the SDK, but {sdk()} is missing", hint="reinstall plughost"
        )
    sources: dict[str, Path] = _vendor().sources(variables["brings"])
    return sources


def _vendor() -> ModuleType:
    """The SDK's module that knows which of its files a plugin needs. The SDK itself is not imported."""
    loader = SourceFileLoader("plughost_sdk_vendor", str(sdk() / "vendor.py"))
    module = module_from_spec(ModuleSpec(loader.name, loader))
    module.__file__ = loader.path
    loader.exec_module(module)
    return module


def sdk() -> Path:
    """The sources of the Python SDK: packed into an installed plughost, otherwise those of the checkout."""
    packed = Path(__file__).parent / "sdk/plughost_sdk"
    return packed if packed.is_dir() else Path(__file__).parents[3] / "sdk/python/src/plughost_sdk"


def _machine() -> str:
    """The architecture of this machine, as package manifests name it."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine := platform.machine(), machine)


def _templates(layers: list[Path]) -> Iterator[tuple[str, Path]]:
    for layer in layers:
        for template in layer.rglob("*"):
            path = template.relative_to(layer)
            # Installers compile whatever is called .py.
            if template.is_file() and path.name != VARIABLES and "__pycache__" not in path.parts:
                yield str(path), template


def _fill(text: str, variables: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] not in variables:
            raise InvalidSpec(f"a template uses {match[0]}, but no {VARIABLES} gives it a value")
        return variables[match[1]]

    return re.sub(r"\{\{(\w+)\}\}", value, text)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    if text.startswith("#!"):
        path.chmod(path.stat().st_mode | 0o111)
