"""The vai contract: packages of harnesses, tools, hooks and compactors, over `vai.rpc.v1`."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from plughost._util.real_path import real_path
from plughost._util.untrusted_file import read_authors
from plughost.contracts.base import BaseContract, DataFolder, Permissions, ResolvedSpec, SandboxNeeds
from plughost.contracts.resolve import folder_of, from_host, read_options, unconfined_lints
from plughost.contracts.settings import AUTHOR_MAY_LOWER
from plughost.contracts.vai import manifest, target_platform
from plughost.contracts.vai.client import Vai
from plughost.contracts.vai.errors import IdentityMismatch, InvalidFrame
from plughost.contracts.vai.manifest import ASSETS, Export, PermissionsSection, VaiManifest
from plughost.contracts.vai.messages import OPS, VaiAbout
from plughost.contracts.vai.results import ExportOutcome
from plughost.contracts.vai.session import VaiSession
from plughost.engine.policy import LifecyclePolicy
from plughost.errors import InvalidSpec
from plughost.permissions.access import Access
from plughost.permissions.capability import Capability
from plughost.spec import PluginSpec
from plughost.wire.method_description import MethodDescription

__all__ = [
    "CONTRACT",
    "ExportOutcome",
    "IdentityMismatch",
    "InvalidFrame",
    "Vai",
    "VaiContract",
    "VaiManifest",
    "spec_of",
]

MOST_PARTS = 100
"""Maximum number of entries at the root of a package."""


class VaiOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a vai process in plughost.toml; times in seconds."""

    exports: list[str] | None = None
    """The exports that this process serves, and whose permissions it has. Default: all of the package."""
    filesystem: Literal["none", "scratch", "assets_ro"] | None = None
    """Narrows the filesystem permission that the manifest asks for. Default: all of it."""
    scratch: str | None = None
    """A writable folder for the scratch folders of its invocations, created for this process alone."""
    hello_timeout: Annotated[float, AUTHOR_MAY_LOWER] = 15.0
    max_in_flight: Annotated[int, AUTHOR_MAY_LOWER] = 32
    """Maximum number of requests in flight; further ones are queued."""
    max_events: Annotated[int, AUTHOR_MAY_LOWER] = 10_000
    """Maximum number of events of one request."""
    max_event_bytes: Annotated[int, AUTHOR_MAY_LOWER] = 16 << 20
    cancel_grace: Annotated[float, AUTHOR_MAY_LOWER] = 5.0
    """Seconds after a cancel until a process that has not answered it is stopped."""
    shutdown_grace: Annotated[float, AUTHOR_MAY_LOWER] = 5.0
    idle_reap_secs: float = 0.0
    """Seconds without a frame after which the process is stopped; 0 never."""
    backoff: tuple[float, ...] = (1.0, 4.0, 16.0)
    failure_limit: int = 3
    failure_window: float = 60.0


class VaiSettings(msgspec.Struct, frozen=True):
    """The resolved settings that a vai session and client need."""

    manifest: VaiManifest
    served: tuple[Export, ...]


class VaiContract(BaseContract):
    """The contract of vai packages: reads vai-plugin.toml, resolves specs and creates sessions."""

    name = "vai"
    options: type[msgspec.Struct] = VaiOptions
    sandbox = "strict"

    def read_folder(self, folder: Path) -> PluginSpec | None:
        return spec_of(folder) if (folder / manifest.FILE).exists() else None

    def resolve(self, spec: PluginSpec) -> ResolvedSpec:
        options: VaiOptions = read_options(VaiOptions, spec)
        folder = folder_of(spec)
        if not (folder / manifest.FILE).exists():
            raise InvalidSpec(
                f"its cwd must be its package, but {folder} has no {manifest.FILE}", plugin=spec.name
            )
        if spec.grants:
            raise InvalidSpec(
                "plugins of this contract take no grants; use `allow` for what it can access",
                plugin=spec.name,
            )
        package = manifest.read(folder, manifest.in_folder(folder))
        target_platform.refuse_foreign(package)
        served = _served(package, options, spec.name)
        _check_allowed(spec, served)
        parts = _readable_entries(folder, served, options)
        scratch = () if options.scratch is None else (options.scratch,)
        temporary = {} if options.scratch is None else {"TMPDIR": options.scratch}
        return ResolvedSpec(
            _policy(served, options),
            {**from_host("PATH", "LANG"), **temporary, **spec.env},
            Permissions(
                asked=(),
                asked_by_call=tuple(_permissions(served)),
                own=Access(read=parts, write=scratch),
            ),
            SandboxNeeds(
                data=None if options.scratch is None else DataFolder(options.scratch),
                listable=(str(folder),),
                real_paths={part: part for part in parts},
                writable_tmp=options.scratch is None and _may_write(served, options),
                file_locks=_may_write(served, options),
            ),
            methods=frozenset(OPS[export.kind] for export in served) | {export.id for export in served},
            settings=VaiSettings(package, tuple(served)),
            described=tuple(_describe(folder, export) for export in served),
            provides={kind: tuple(export.id for export in served if export.kind == kind) for kind in OPS},
            lints=unconfined_lints(spec, self),
            manifest_command=_command(folder, package),
        )

    def session(self, spec: PluginSpec, resolved: ResolvedSpec) -> VaiSession:
        settings: VaiSettings = resolved.settings
        return VaiSession(settings.manifest, _host())


def spec_of(folder: Path, *, name: str | None = None, parsed: VaiManifest | None = None) -> PluginSpec:
    """The spec of a process of the package in a folder. A package may have many processes, each with its own
    name.

    The process does not get its whole folder: `assets` is visible only if its exports have the permission.
    `parsed` is the manifest, if it has been read already.
    """
    folder = Path(real_path(folder))
    if parsed is None:
        parsed = manifest.read(folder, manifest.in_folder(folder))
    return PluginSpec(
        contract=CONTRACT.name,
        name=name or parsed.package_id,
        command=_command(folder, parsed),
        command_from_manifest=True,
        cwd=str(folder),
        cwd_is_plugin_dir=False,
    )


def _command(folder: Path, package: VaiManifest) -> tuple[str, ...]:
    program, *arguments = package.runtime.entrypoint
    return (str(folder / program), *arguments)


MAX_SCHEMA = 1 << 18
"""Bytes of a schema file that is shown in the catalogue."""


def _describe(folder: Path, export: Export) -> MethodDescription:
    return MethodDescription(
        name=export.id,
        kind=export.kind,
        title=export.display_name,
        description=export.description,
        input_schema=_schema(folder, export.schemas.get("input_schema")),
        output_schema=_schema(folder, export.schemas.get("output_schema")),
    )


def _schema(folder: Path, path: str | None) -> Any:
    """The schema in a file of the package; None when it cannot be read. It only describes: invocations read
    it anew, and check it."""
    if path is None:
        return None
    try:
        return msgspec.json.decode(read_authors(folder / path, MAX_SCHEMA))
    except (OSError, ValueError, RecursionError):
        return None


def _served(package: VaiManifest, options: VaiOptions, plugin: str) -> list[Export]:
    if options.exports is None:
        return package.exports
    served = [export for export in package.exports if export.id in options.exports]
    if unknown := {*options.exports} - {export.id for export in served}:
        known = ", ".join(export.id for export in package.exports)
        raise InvalidSpec(f"it has no export {sorted(unknown)[0]!r:.100}; it has: {known}", plugin=plugin)
    return served


def _check_allowed(spec: PluginSpec, served: Sequence[Export]) -> None:
    """Refuses an `allow` that exceeds what the manifest asks for."""
    asked = [export.permissions for export in served]
    networked = any(each.network == "egress" or each.gateway_api_scopes for each in asked)
    if spec.allow.connect and not networked:
        raise InvalidSpec(
            "hosts are allowed, but its manifest does not ask for network access", plugin=spec.name
        )
    if spec.allow.write and not any(each.filesystem == "scratch" for each in asked):
        raise InvalidSpec(
            "a writable folder is allowed, but its manifest does not ask for a scratch folder",
            plugin=spec.name,
        )


def _permissions(served: Sequence[Export]) -> Iterator[Capability]:
    """The permissions that the manifest asks for, over all served exports."""
    for name in PermissionsSection.__struct_fields__:
        asked = [getattr(export.permissions, name) for export in served]
        words = {word for each in asked for word in ([each] if isinstance(each, str) else each)} - {"none"}
        if words:
            yield Capability(name, tuple(sorted(words)))


def _readable_entries(folder: Path, served: Sequence[Export], options: VaiOptions) -> tuple[str, ...]:
    """The entries of the package that the process may read. Symlinks are excluded: they may lead anywhere."""
    names = sorted(name for name in os.listdir(folder) if not os.path.islink(folder / name))
    if len(names) > MOST_PARTS:
        raise InvalidSpec(f"a package with more than {MOST_PARTS} files at its root")
    asked = any(export.permissions.filesystem == "assets_ro" for export in served)
    assets = asked and options.filesystem in (None, "assets_ro")
    return tuple(str(folder / name) for name in names if name != ASSETS or assets)


def _may_write(served: Sequence[Export], options: VaiOptions) -> bool:
    """Whether any of the served exports has the permission `scratch`."""
    asked = any(export.permissions.filesystem == "scratch" for export in served)
    return asked and options.filesystem in (None, "scratch")


def _policy(served: Sequence[Export], options: VaiOptions) -> LifecyclePolicy:
    return LifecyclePolicy(
        ready_timeout=options.hello_timeout,
        call_timeout=max((export.default_timeout_ms for export in served), default=1) / 1000,
        max_in_flight=options.max_in_flight,
        max_events=options.max_events,
        max_event_bytes=options.max_event_bytes,
        cancel_grace=options.cancel_grace,
        grace=options.shutdown_grace,
        idle_reap=options.idle_reap_secs or None,
        respawn=True,
        backoff=options.backoff,
        failure_limit=options.failure_limit,
        failure_window=options.failure_window,
    )


@functools.cache
def _host() -> VaiAbout:
    from importlib.metadata import version

    return VaiAbout("plughost", version("plughost"))


CONTRACT = VaiContract()
