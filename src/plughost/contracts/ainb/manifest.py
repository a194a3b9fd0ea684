"""The manifest of an ainb plugin, manifest.toml: parsing, validation with line numbers, lints for loose
entries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from plughost._util.located.document import Document, LocatedProblem
from plughost._util.located.toml import load_authors_toml
from plughost._util.plugin_names import name_problem
from plughost._util.semver import is_semantic
from plughost.permissions.capability import Capability

FILE = "manifest.toml"
ABI_VERSION = 2
MOST_TOPICS = 1000
RESERVED = "host"
"""The name under which the host publishes; no plugin may have it."""

Grant = bool | list[str]
"""True, or a list of items to which the capability is limited; false and an empty list deny."""
Seconds = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class AinbAbout(msgspec.Struct, frozen=True):
    """The `[plugin]` section of manifest.toml."""

    name: str
    version: str
    abi_version: int
    description: str = ""


class Capabilities(msgspec.Struct, frozen=True):
    """The `[capabilities]` section of manifest.toml."""

    read_sessions: Grant = False
    write_plugin_data: Grant = False
    event_bus: Grant = False
    network: Grant = False
    spawn_subprocess: Grant = False
    read_claude_logs: Grant = False
    read_codex_logs: Grant = False

    def granted(self) -> list[Capability]:
        """The capabilities that the manifest asks for, in the order of the contract."""
        return [
            Capability(name, None if grant is True else tuple(grant))
            for name in self.__struct_fields__
            if (grant := getattr(self, name))
        ]


class Provides(msgspec.Struct, frozen=True):
    """The `[provides]` section of manifest.toml."""

    screens: list[str] = []
    commands: list[str] = []
    cli_namespaces: list[str] = []
    snapshots: list[str] = []


class Subscribes(msgspec.Struct, frozen=True):
    """The `[subscribes]` section of manifest.toml."""

    snapshots: list[str] = []


class Lifecycle(msgspec.Struct, frozen=True):
    """The `[lifecycle]` section of manifest.toml."""

    spawn: Literal["lazy", "eager"] = "lazy"
    idle_reap_secs: Seconds = 600
    """Seconds after which an idle plugin is stopped; 0 never."""


class AinbManifest(msgspec.Struct, frozen=True):
    """The whole manifest.toml of an ainb plugin; also part of the answer to `plugin/init`."""

    plugin: AinbAbout
    capabilities: Capabilities = Capabilities()
    provides: Provides = Provides()
    subscribes: Subscribes = Subscribes()
    lifecycle: Lifecycle = Lifecycle()


class AinbManifestFile(msgspec.Struct, frozen=True):
    """A valid manifest, with the lints found in it."""

    manifest: AinbManifest
    lints: tuple[LocatedProblem, ...] = ()


def read(folder: Path) -> AinbManifestFile:
    """Reads the manifest in a plugin's folder, which is a real path. Raises InvalidConfig with every problem,
    each with its line."""
    document = load_authors_toml(folder / FILE)
    lints = document.set_aside_unknown(AinbManifest, document.data)
    manifest = document.read(AinbManifest, (), document.data)
    about = document.data.get("plugin")
    if isinstance(about, dict):
        _check_about(document, about, folder)
    if manifest is not None:
        if manifest.subscribes.snapshots and not manifest.capabilities.event_bus:
            lints.append(
                document.lint(("subscribes", "snapshots"), "has no effect without the capability event_bus")
            )
        if len(manifest.subscribes.snapshots) > MOST_TOPICS:
            document.problem(("subscribes", "snapshots"), f"expected at most {MOST_TOPICS} topics")
        here = folder.name
        if manifest.plugin.name == here and not (folder / here).is_file():
            document.problem(("plugin", "name"), f"there is no program {manifest.plugin.name!r} in {folder}")
    document.check()
    assert manifest is not None
    return AinbManifestFile(manifest, tuple(lints))


def _check_about(document: Document, about: dict[str, Any], folder: Path) -> None:
    name, version, abi = about.get("name"), about.get("version"), about.get("abi_version")
    here = folder.name
    if name == RESERVED:
        document.problem(("plugin", "name"), f"{RESERVED!r} is reserved")
    elif isinstance(name, str) and name != here:
        document.problem(
            ("plugin", "name"), f"expected the name of its folder, {here!r}: rename the plugin or the folder"
        )
    elif isinstance(name, str) and (why := name_problem(name)) is not None:
        document.problem(("plugin", "name"), why)
    if isinstance(version, str) and not is_semantic(version):
        document.problem(("plugin", "version"), "expected a semantic version such as 1.0.0")
    if isinstance(abi, int) and not isinstance(abi, bool) and abi != ABI_VERSION:
        document.problem(("plugin", "abi_version"), f"expected {ABI_VERSION}, which this host speaks")


def write(manifest: AinbManifest) -> str:
    """Writes the manifest as TOML; reading it again gives an equal manifest."""
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
