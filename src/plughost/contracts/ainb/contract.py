"""The ainb contract, plugin contract v2: Content-Length JSON-RPC in both directions, screens, snapshots."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from plughost._util.real_path import real_path
from plughost._util.text import escape_controls
from plughost.contracts.ainb import manifest, manifest_limits, messages, services
from plughost.contracts.ainb.client import Ainb, CliResult
from plughost.contracts.ainb.default_roots import FILE_CAPABILITIES, default_roots
from plughost.contracts.ainb.manifest import ABI_VERSION, AinbManifest, Capabilities
from plughost.contracts.ainb.messages import KeyEvent, RenderResult, WireBuffer
from plughost.contracts.ainb.session import AinbSession
from plughost.contracts.base import BaseContract, DataFolder, Permissions, ResolvedSpec, SandboxNeeds
from plughost.contracts.resolve import from_host, read_options, sandbox_class
from plughost.contracts.settings import AUTHOR_MAY_LOWER
from plughost.engine.policy import LifecyclePolicy
from plughost.errors import InvalidSpec
from plughost.permissions.access import Access
from plughost.permissions.capabilities import allows, effective
from plughost.permissions.capability import Capability
from plughost.permissions.operator_only import operator_access
from plughost.services.base import ServiceFactory
from plughost.services.host_method import HostMethod
from plughost.spec import PluginSpec
from plughost.wire.method_description import MethodDescription

__all__ = [
    "ABI_VERSION",
    "CONTRACT",
    "Ainb",
    "AinbContract",
    "AinbManifest",
    "CliResult",
    "KeyEvent",
    "RenderResult",
    "WireBuffer",
]

DECLARED = "declared"
"""The grant of every capability that the manifest declares."""
LIMITED = ("network", "spawn_subprocess")
"""The capabilities that a list in the manifest limits; for the others any non-empty list grants the whole."""


class AinbOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of an ainb plugin in plughost.toml; times in seconds."""

    folder: str | None = None
    """The folder of its manifest.toml. Default: the folder of its program."""
    init_timeout: Annotated[float, AUTHOR_MAY_LOWER] = 15.0
    call_timeout: Annotated[float, AUTHOR_MAY_LOWER] = 30.0
    shutdown_grace: Annotated[float, AUTHOR_MAY_LOWER] = 5.0
    """Seconds from the shutdown request to SIGTERM; SIGKILL follows 2 s later."""
    idle_reap_secs: float | None = None
    """Overrides the manifest's idle timeout; 0 never stops an idle plugin."""
    backoff: tuple[float, ...] = (1.0, 4.0, 16.0)
    failure_limit: int = 3
    failure_window: float = 60.0
    max_unread: Annotated[int, AUTHOR_MAY_LOWER] = 64 << 20
    """Bytes of events that the plugin may leave unread before it is stopped as failed."""
    log_level: Literal["trace", "debug", "info", "warn", "error"] = "info"
    """The lowest level of its log messages that are kept."""
    data_root: str | None = None
    """The parent of the plugin's data folder, which is created if the plugin may write it. Default: `plugins`
    in AINB_HOME, or else in `~/.agents-in-a-box`."""


class AinbSettings(msgspec.Struct, frozen=True):
    """The resolved settings that an ainb session needs."""

    manifest: AinbManifest
    path: str
    granted: tuple[str, ...]
    data_folder: str | None


TERM_GRACE = 2.0
MAX_REVERSE = 32
"""Plugin requests that are served at a time: each may hold a file of 12 MiB in memory."""


class AinbContract(BaseContract):
    """The contract of ainb plugins: reads manifest.toml, resolves specs and creates sessions."""

    name = "ainb"
    options: type[msgspec.Struct] = AinbOptions
    default_grants: tuple[str, ...] = (DECLARED,)
    host_methods: Mapping[str, HostMethod] = {
        "host/snapshot/get": HostMethod(
            "snapshots.get",
            "event_bus",
            messages.TopicParams,
            lambda latest: {"payload": latest.payload, "version": latest.version},
        ),
        "host/snapshot/subscribe": HostMethod("snapshots.subscribe", "event_bus", messages.TopicParams),
        "host/snapshot/publish": HostMethod(
            "snapshots.publish", "event_bus", messages.SnapshotPublishParams, notification=True
        ),
        "host/action/invoke": HostMethod(
            "actions.invoke", None, messages.ActionInvokeParams, lambda payload: {"payload": payload}
        ),
        "host/log": HostMethod("logs.log", None, messages.LogParams, notification=True),
        "host/fs/read_dir": HostMethod(
            "fs.read_dir",
            params=messages.PathParams,
            result=lambda entries: {"entries": entries},
            checks=FILE_CAPABILITIES,
        ),
        "host/fs/read_file": HostMethod(
            "fs.read_file",
            params=messages.ReadFileParams,
            result=lambda content: {"bytes": content.data, "offset": content.offset, "size": content.size},
            checks=FILE_CAPABILITIES,
        ),
        "host/network/fetch": HostMethod("network.fetch", "network", messages.NetworkFetchParams),
    }

    services: Mapping[str, ServiceFactory] = {"actions": services.action_service, "fs": services.file_service}

    def read_folder(self, folder: Path) -> PluginSpec | None:
        folder = Path(real_path(folder))
        if not (folder / manifest.FILE).exists():
            return None
        read = manifest.read(folder)
        program = folder / read.manifest.plugin.name
        return PluginSpec(
            contract=self.name,
            name=read.manifest.plugin.name,
            command=[str(program)],
            command_from_manifest=True,
            folder=str(folder),
            grants=self.default_grants,
        )

    def resolve(self, spec: PluginSpec) -> ResolvedSpec:
        options: AinbOptions = read_options(AinbOptions, spec)
        folder = _manifest_folder(spec, options)
        _check_text(folder, spec.name)
        read = manifest.read(folder)
        plugin_manifest = read.manifest
        if spec.name != plugin_manifest.plugin.name:
            raise InvalidSpec(
                f"the name in its manifest is {plugin_manifest.plugin.name!r}", plugin=spec.name
            )
        asked = plugin_manifest.capabilities.granted()
        granted, named = _parse_grants(spec, plugin_manifest)
        operator = operator_access(effective(asked, named), spec.allow)
        held, withheld = manifest_limits.without_private(effective(asked, granted), operator, spec)
        names = tuple(name for name in Capabilities.__struct_fields__ if allows(held, name))
        topics = tuple(plugin_manifest.subscribes.snapshots) if "event_bus" in names else ()
        home = os.environ.get("AINB_HOME") or "~/.agents-in-a-box"
        data_root = options.data_root or os.path.join(home, "plugins")
        data = os.path.join(os.path.expanduser(data_root), plugin_manifest.plugin.name)
        settings = AinbSettings(
            plugin_manifest,
            str(folder / manifest.FILE),
            names,
            data if "write_plugin_data" in names else None,
        )
        programs = manifest_limits.programs(held, spec)
        return ResolvedSpec(
            _policy(plugin_manifest, options, topics),
            {**from_host("HOME", "PATH", "LANG", "TERM", "AINB_HOME"), **spec.env},
            Permissions(
                capabilities=held,
                operator=operator,
                asked=tuple(asked),
                own=Access(
                    write=() if settings.data_folder is None else (settings.data_folder,),
                    execute=programs.paths,
                ),
                granting={"item": "{name}={path}"},
            ),
            SandboxNeeds(
                data=_data_folder(settings.data_folder, folder, options), real_paths=programs.resolved
            ),
            settings=settings,
            topics=topics,
            described=tuple(
                MethodDescription(name=name, kind="command")
                for name in plugin_manifest.provides.cli_namespaces
            ),
            log_level=options.log_level,
            provides={
                kind: tuple(getattr(plugin_manifest.provides, kind))
                for kind in plugin_manifest.provides.__struct_fields__
            },
            lints=(
                *map(str, read.lints),
                *withheld,
                *_unenforced_lints(names, spec, sandbox_class(spec, self)),
            ),
            folder=str(folder),
        )

    def session(self, spec: PluginSpec, resolved: ResolvedSpec) -> AinbSession:
        settings: AinbSettings = resolved.settings
        return AinbSession(settings.manifest, settings.path, settings.granted)


def _manifest_folder(spec: PluginSpec, options: AinbOptions) -> Path:
    """The folder of the manifest: where the plugin was discovered, or where the operator's options point.

    A real path, resolved once: it says whose data the plugin gets, and a folder that was discovered does not
    become another one by a symlink that is put in its place.
    """
    if spec.folder is not None:
        return Path(spec.folder)
    beside_program = os.path.join(spec.cwd or ".", os.path.dirname(spec.command[0]))
    return Path(real_path(options.folder or beside_program))


def _check_text(folder: Path, plugin: str) -> None:
    """It is told where its manifest is, in JSON."""
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise InvalidSpec(
            f"the path of its folder, {escape_controls(str(folder))}, is not valid UTF-8",
            plugin=plugin,
            hint="rename that folder, or the parent folder with the invalid name",
        ) from None


def _data_folder(path: str | None, folder: Path, options: AinbOptions) -> DataFolder | None:
    if path is None:
        return None
    return DataFolder(path, owner=str(folder), make_parents=options.data_root is None)


def _policy(plugin_manifest: AinbManifest, options: AinbOptions, topics: tuple[str, ...]) -> LifecyclePolicy:
    eager = plugin_manifest.lifecycle.spawn == "eager"
    idle = (
        plugin_manifest.lifecycle.idle_reap_secs if options.idle_reap_secs is None else options.idle_reap_secs
    )
    return LifecyclePolicy(
        eager=eager,
        ready_timeout=options.init_timeout,
        call_timeout=options.call_timeout,
        grace=options.shutdown_grace + TERM_GRACE,
        term_grace=TERM_GRACE,
        # A pure publisher, or one that waits for events, has no requests to keep it alive.
        idle_reap=idle if idle and not eager and not topics else None,
        respawn=True,
        backoff=options.backoff,
        failure_limit=options.failure_limit,
        failure_window=options.failure_window,
        max_buffered=options.max_unread,
        max_reverse=MAX_REVERSE,
    )


def _parse_grants(
    spec: PluginSpec, plugin_manifest: AinbManifest
) -> tuple[list[Capability], list[Capability]]:
    """Parses the operator's grants: `declared`, a capability's name, or `name=item` for one item of its list.

    Returns all granted capabilities, and those that the operator names himself. A limited capability that is
    granted as a whole is not among the latter: its items are the manifest's choice.
    """
    granted: list[Capability] = []
    named: list[Capability] = []
    scopes: dict[str, list[str]] = {}
    for grant in spec.grants:
        name, limited, item = grant.partition("=")
        if grant == DECLARED:
            granted += plugin_manifest.capabilities.granted()
        elif name not in Capabilities.__struct_fields__ or (limited and not (item and name in LIMITED)):
            known = ", ".join(
                (
                    DECLARED,
                    *Capabilities.__struct_fields__,
                    *(f"{limited_name}=ITEM" for limited_name in LIMITED),
                )
            )
            raise InvalidSpec(f"unknown grant {grant!r}; known: {known}", plugin=spec.name)
        elif limited:
            scopes.setdefault(name, []).append(item)
        else:
            granted.append(Capability(name))
            named += [] if name in LIMITED else [Capability(name)]
    named += [Capability(name, tuple(items)) for name, items in scopes.items()]
    return granted + [each for each in named if each.scope is not None], named


def _unenforced_lints(names: Collection[str], spec: PluginSpec, sandbox: str) -> tuple[str, ...]:
    """Lints: granted or denied capabilities that this sandbox class does not enforce for the plugin's own
    process."""
    if sandbox != "none":
        return tuple(_host_only_folder_lints(names, sandbox, spec.allow))
    if "spawn_subprocess" in names:
        return ()
    return (
        "spawn_subprocess is not granted, but without a sandbox nothing stops the plugin from starting "
        "programs",
    )


def _host_only_folder_lints(names: Collection[str], sandbox: str, allowed: Access) -> Iterator[str]:
    """Lints for log folders that only the host can read. Most existing plugins open these files
    themselves."""
    for name, folder in default_roots().items():
        place = os.path.expanduser(folder)
        open_to_it = any(
            f"{place}/".startswith(f"{path.rstrip('/')}/") for path in (*allowed.read, *allowed.write)
        )
        if name in names and not open_to_it:
            yield (
                f"{name} is granted, but in class {sandbox} the plugin's process cannot open {folder} "
                "itself, only "
                f'through host/fs; if it opens files itself, set allow.read = ["{folder}"] or pass '
                f"--allow read={folder}"
            )


CONTRACT = AinbContract()
