"""manifest.toml: what an ainb plugin says of itself. Every problem is located; looseness is only linted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from plughost.base.capability import Capability
from plughost.base.located import Document, Problem
from plughost.base.located_toml import load_authors_toml
from plughost.base.names import wrong_name
from plughost.base.semver import is_semantic

FILE = "manifest.toml"
ABI_VERSION = 2
MOST_TOPICS = 1000
RESERVED = "host"
"""The publisher that is no plugin."""

Grant = bool | list[str]
"""True, or a list of what it is limited to; false and an empty list deny."""
Seconds = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class About(msgspec.Struct, frozen=True):
    name: str
    version: str
    abi_version: int
    description: str = ""


class Capabilities(msgspec.Struct, frozen=True):
    read_sessions: Grant = False
    write_plugin_data: Grant = False
    event_bus: Grant = False
    network: Grant = False
    spawn_subprocess: Grant = False
    read_claude_logs: Grant = False
    read_codex_logs: Grant = False

    def granted(self) -> list[Capability]:
        """Those that are, in the order of the contract."""
        return [
            Capability(name, None if grant is True else tuple(grant))
            for name in self.__struct_fields__
            if (grant := getattr(self, name))
        ]


class Provides(msgspec.Struct, frozen=True):
    screens: list[str] = []
    commands: list[str] = []
    cli_namespaces: list[str] = []
    snapshots: list[str] = []


class Subscribes(msgspec.Struct, frozen=True):
    snapshots: list[str] = []


class Lifecycle(msgspec.Struct, frozen=True):
    spawn: Literal["lazy", "eager"] = "lazy"
    idle_reap_secs: Seconds = 600
    """0 never ends it for being idle."""


class Manifest(msgspec.Struct, frozen=True):
    plugin: About
    capabilities: Capabilities = Capabilities()
    provides: Provides = Provides()
    subscribes: Subscribes = Subscribes()
    lifecycle: Lifecycle = Lifecycle()


class Read(msgspec.Struct, frozen=True):
    """A manifest that can be used, and what about it should be better."""

    manifest: Manifest
    lints: tuple[Problem, ...] = ()


def read(folder: Path) -> Read:
    """The manifest of a plugin's folder, a real path; InvalidConfig with all that is wrong with it."""
    document = load_authors_toml(folder / FILE)
    lints = document.set_aside_unknown(Manifest, document.data)
    manifest = document.read(Manifest, (), document.data)
    about = document.data.get("plugin")
    if isinstance(about, dict):
        _check_about(document, about, folder)
    if manifest is not None:
        if manifest.subscribes.snapshots and not manifest.capabilities.event_bus:
            lints.append(
                document.lint(("subscribes", "snapshots"), "not armed: it needs the capability event_bus")
            )
        if len(manifest.subscribes.snapshots) > MOST_TOPICS:
            document.problem(("subscribes", "snapshots"), f"expected at most {MOST_TOPICS} topics")
        here = folder.name
        if manifest.plugin.name == here and not (folder / here).is_file():
            document.problem(("plugin", "name"), f"there is no program {manifest.plugin.name!r} in {folder}")
    document.check()
    assert manifest is not None
    return Read(manifest, tuple(lints))


def _check_about(document: Document, about: dict[str, Any], folder: Path) -> None:
    name, version, abi = about.get("name"), about.get("version"), about.get("abi_version")
    here = folder.name
    if name == RESERVED:
        document.problem(("plugin", "name"), f"{RESERVED!r} is reserved")
    elif isinstance(name, str) and name != here:
        document.problem(("plugin", "name"), f"expected the name of its folder, {here!r}")
    elif isinstance(name, str) and (why := wrong_name(name)) is not None:
        document.problem(("plugin", "name"), why)
    if isinstance(version, str) and not is_semantic(version):
        document.problem(("plugin", "version"), "expected a semantic version such as 1.0.0")
    if isinstance(abi, int) and not isinstance(abi, bool) and abi != ABI_VERSION:
        document.problem(("plugin", "abi_version"), f"expected {ABI_VERSION}, which this host speaks")


def write(manifest: Manifest) -> str:
    """The manifest as TOML; reading it again gives an equal one."""
    sections = []
    for section in manifest.__struct_fields__:
        pairs = msgspec.structs.asdict(getattr(manifest, section))
        sections.append(
            "\n".join([f"[{section}]", *(f"{key} = {_toml(value)}" for key, value in pairs.items())])
        )
    return "\n\n".join(sections) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        # JSON's escapes are TOML's too, but for DEL, which TOML wants escaped.
        return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
    return str(value)
