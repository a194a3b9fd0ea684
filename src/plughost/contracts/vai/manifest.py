"""vai-plugin.toml: what a package says of itself. Every problem is told at once, with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec

from plughost.base.located import as_text, read_authors_text
from plughost.base.located_toml import LARGEST_OF_AUTHORS, parse_authors_toml
from plughost.base.real_path import real_path
from plughost.contracts.vai import rules
from plughost.contracts.vai.rules import Holds

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


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    protocol: Literal["vai.rpc.v1"]
    transport: Literal["stdio"]
    entrypoint: list[str]
    """The program, a path in the package, and its arguments."""
    os: list[Os]
    arch: list[Arch]


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    """What an export asks for; it is granted no more than its binding and the host's policy allow."""

    network: Literal["none", "egress"] = "none"
    filesystem: Literal["none", "scratch", "assets_ro"] = "none"
    gateway_api_scopes: list[Scope] = []
    secret_slots: list[str] = []


class Harness(msgspec.Struct, frozen=True, kw_only=True):
    mode: Literal["composite"]
    fidelity: Fidelity
    supports: list[Literal["continue", "branch_session", "compact", "tool"]] = []


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    effect_class: EffectClass = "unknown"
    streaming: bool = False
    """Whether events go to the caller while it works; recorded they are in any case."""
    input_schema: str
    output_schema: str | None = None


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    subscribes_to: list[str]


class Compactor(msgspec.Struct, frozen=True, kw_only=True):
    target_context: str
    supports_pinned_items: bool = False


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """One item of a package. Of the four tables at the end it has that of its kind."""

    id: str
    kind: Kind
    display_name: str
    description: str = ""
    written_class: ExecutionClass | None = msgspec.field(default=None, name="execution_class")
    default_timeout_ms: Milliseconds
    max_concurrency: Concurrency | None = None
    config_schema: str | None = None
    permissions: Permissions = Permissions()
    harness: Harness | None = None
    tool: Tool | None = None
    hook: Hook | None = None
    compactor: Compactor | None = None

    @property
    def execution_class(self) -> ExecutionClass:
        """As written, or else the usual one of its kind."""
        return self.written_class or DEFAULT_CLASS[self.kind]

    @property
    def schemas(self) -> dict[str, str]:
        """Its schema files by their field: config_schema, input_schema, output_schema."""
        named = {"config_schema": self.config_schema}
        if self.tool is not None:
            named |= {"input_schema": self.tool.input_schema, "output_schema": self.tool.output_schema}
        return {field: path for field, path in named.items() if path is not None}


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    api_version: Literal["vai.plugin.v1"]
    package_id: str
    """`publisher/name`."""
    version: str
    name: str
    description: str = ""
    license: str = ""
    source: str = ""
    runtime: Runtime
    exports: list[Export]

    @property
    def publisher(self) -> str:
        return self.package_id.partition("/")[0]

    def export(self, id: str) -> Export | None:
        return next((export for export in self.exports if export.id == id), None)


def read(path: Path, holds: Holds | None = None) -> Manifest:
    """The manifest of a package's folder, or that file itself; InvalidConfig with all that is wrong."""
    file = path / FILE if path.is_dir() else path
    real = Path(real_path(file.parent)) / file.name
    return _checked(read_authors_text(real, LARGEST), str(file), holds)


def parse(text: bytes, name: str = FILE, holds: Holds | None = None) -> Manifest:
    """The same for a manifest out of an archive. With `holds`, files that it names must be there."""
    return _checked(as_text(text, name), name, holds)


def in_folder(folder: Path) -> Holds:
    """What a package's folder holds: regular files, and no symlink in the way."""

    def holds(path: str) -> bool:
        walked = folder
        for part in path.split("/"):
            walked /= part
            if walked.is_symlink():
                return False
        return walked.is_file()

    return holds


def _checked(text: str, name: str, holds: Holds | None) -> Manifest:
    document = parse_authors_toml(text, name)
    manifest = document.read(Manifest, (), document.data)
    rules.check(document, get_args(Kind), holds)
    document.check()
    assert manifest is not None
    return manifest
