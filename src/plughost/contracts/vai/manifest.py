"""The manifest of a vai package, vai-plugin.toml: parsing and validation, with every problem located."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec

from plughost._util.located.document import as_text, read_authors_text
from plughost._util.located.toml import LARGEST_OF_AUTHORS, parse_authors_toml
from plughost._util.real_path import real_path
from plughost.contracts.vai import manifest_rules
from plughost.contracts.vai.manifest_rules import Holds

FILE = "vai-plugin.toml"
ASSETS = "assets"
"""The folder of a package that a plugin with `filesystem = "assets_ro"` may read."""
LARGEST = LARGEST_OF_AUTHORS
API_VERSION = "vai.plugin.v1"
PROTOCOL = "vai.rpc.v1"

Kind = Literal["harness", "tool", "hook", "compactor"]
ExecutionClass = Literal["inline", "worker", "isolated"]
Scope = Literal[
    "sessions:read", "chains:read", "chains:write", "runs:read", "runs:write", "compactions:write"
]
EffectClass = Literal["read_only", "idempotent_write", "non_idempotent_write", "unknown"]
Fidelity = Literal["lossless", "checkpoint", "prompt_replay", "summary_reseed"]
Os = Literal["linux", "darwin", "windows", "freebsd"]
Arch = Literal["amd64", "arm64", "386", "arm", "riscv64", "ppc64le", "s390x"]

DEFAULT_CLASS: dict[Kind, ExecutionClass] = {
    "harness": "isolated",
    "tool": "isolated",
    "hook": "worker",
    "compactor": "worker",
}

Milliseconds = Annotated[int, msgspec.Meta(ge=1, le=24 * 60 * 60 * 1000)]
Concurrency = Annotated[int, msgspec.Meta(ge=1, le=1000)]


class RuntimeSection(msgspec.Struct, frozen=True, kw_only=True):
    """The `[runtime]` section of vai-plugin.toml."""

    protocol: Literal["vai.rpc.v1"]
    transport: Literal["stdio"]
    entrypoint: list[str]
    """The program, as a path in the package, and its arguments."""
    os: list[Os]
    arch: list[Arch]


class PermissionsSection(msgspec.Struct, frozen=True, kw_only=True):
    """The permissions that an export asks for; it gets no more than its binding and the host's policy
    allow."""

    network: Literal["none", "egress"] = "none"
    filesystem: Literal["none", "scratch", "assets_ro"] = "none"
    gateway_api_scopes: list[Scope] = []
    secret_slots: list[str] = []


class HarnessExport(msgspec.Struct, frozen=True, kw_only=True):
    """The table `[exports.harness]`."""

    mode: Literal["composite"]
    fidelity: Fidelity
    supports: list[Literal["continue", "branch_session", "compact", "tool"]] = []


class ToolExport(msgspec.Struct, frozen=True, kw_only=True):
    """The table `[exports.tool]`."""

    effect_class: EffectClass = "unknown"
    streaming: bool = False
    """Whether events are forwarded to the caller during the call; they are recorded in any case."""
    input_schema: str
    output_schema: str | None = None


class HookExport(msgspec.Struct, frozen=True, kw_only=True):
    """The table `[exports.hook]`."""

    subscribes_to: list[str]


class CompactorExport(msgspec.Struct, frozen=True, kw_only=True):
    """The table `[exports.compactor]`."""

    target_context: str
    supports_pinned_items: bool = False


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """One `[[exports]]` entry of a package. Of the last four tables it has the one of its kind."""

    id: str
    kind: Kind
    display_name: str
    description: str = ""
    written_class: ExecutionClass | None = msgspec.field(default=None, name="execution_class")
    default_timeout_ms: Milliseconds
    max_concurrency: Concurrency | None = None
    config_schema: str | None = None
    permissions: PermissionsSection = PermissionsSection()
    harness: HarnessExport | None = None
    tool: ToolExport | None = None
    hook: HookExport | None = None
    compactor: CompactorExport | None = None

    @property
    def execution_class(self) -> ExecutionClass:
        """The execution class in the manifest, or else the default of the export's kind."""
        return self.written_class or DEFAULT_CLASS[self.kind]

    @property
    def schemas(self) -> dict[str, str]:
        """The paths of its schema files, by field: config_schema, input_schema, output_schema."""
        named = {"config_schema": self.config_schema}
        if self.tool is not None:
            named |= {"input_schema": self.tool.input_schema, "output_schema": self.tool.output_schema}
        return {field: path for field, path in named.items() if path is not None}


class VaiManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The whole vai-plugin.toml of a package."""

    api_version: Literal["vai.plugin.v1"]
    package_id: str
    """`publisher/name`."""
    version: str
    name: str
    description: str = ""
    license: str = ""
    source: str = ""
    runtime: RuntimeSection
    exports: list[Export]

    @property
    def publisher(self) -> str:
        """The part of `package_id` before the slash."""
        return self.package_id.partition("/")[0]

    def export(self, id: str) -> Export | None:
        """The export with this id; None when there is none."""
        return next((export for export in self.exports if export.id == id), None)


def read(path: Path, holds: Holds | None = None) -> VaiManifest:
    """Reads the manifest from a package's folder, or from the file itself. Raises InvalidConfig with every
    problem."""
    file = path / FILE if path.is_dir() else path
    real = Path(real_path(file.parent)) / file.name
    return _checked(read_authors_text(real, LARGEST), str(file), holds)


def parse(text: bytes, name: str = FILE, holds: Holds | None = None) -> VaiManifest:
    """Parses a manifest, for example from an archive. With `holds`, the files that it names must exist."""
    return _checked(as_text(text, name), name, holds)


def in_folder(folder: Path) -> Holds:
    """A predicate: whether a package's folder has a regular file at a path, with no symlink on the way."""

    def holds(path: str) -> bool:
        walked = folder
        for part in path.split("/"):
            walked /= part
            if walked.is_symlink():
                return False
        return walked.is_file()

    return holds


def _checked(text: str, name: str, holds: Holds | None) -> VaiManifest:
    document = parse_authors_toml(text, name)
    manifest = document.read(VaiManifest, (), document.data)
    manifest_rules.check(document, get_args(Kind), holds)
    document.check()
    assert manifest is not None
    return manifest
