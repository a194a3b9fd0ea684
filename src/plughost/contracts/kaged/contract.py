"""The kaged contract: daemon plugins with declared capabilities, JSON-RPC on lines, health checks,
storage."""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from plughost._util.json_schema import validation
from plughost._util.real_path import real_path
from plughost.contracts.base import (
    BaseContract,
    DataFolder,
    GrantEffect,
    Permissions,
    ResolvedSpec,
    SandboxNeeds,
)
from plughost.contracts.kaged import capabilities, grants, manifest, messages
from plughost.contracts.kaged.capabilities import HeldCapabilities
from plughost.contracts.kaged.client import Kaged
from plughost.contracts.kaged.manifest import API_VERSION, HOOK, KagedManifest
from plughost.contracts.kaged.messages import KagedContext
from plughost.contracts.kaged.session import MAX_SENT, KagedSession
from plughost.contracts.resolve import folder_of, from_host, read_options, unconfined_lints
from plughost.contracts.settings import AUTHOR_MAY_LOWER, AUTHOR_MAY_SET
from plughost.engine.policy import HealthPolicy, LifecyclePolicy
from plughost.errors import InvalidSpec
from plughost.permissions import intersection
from plughost.permissions.access import Access
from plughost.permissions.parse import union
from plughost.services.host_method import HostMethod
from plughost.spec import PluginSpec
from plughost.wire.messages import encode
from plughost.wire.method_description import MethodDescription

__all__ = ["API_VERSION", "CONTRACT", "Kaged", "KagedContext", "KagedContract", "KagedManifest"]

READ, WRITE = capabilities.STORAGE
HEALTH_TIMEOUT = 5.0
MAX_NOTIFY_RATE = 100
TERM_GRACE = 2.0
LARGEST_CONFIG = MAX_SENT - (64 << 10)


class KagedOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a kaged plugin in plughost.toml; times in seconds."""

    config: Annotated[dict[str, Any] | None, AUTHOR_MAY_SET] = None
    """The plugin's configuration, checked against the manifest's config_schema."""
    project_id: str | None = None
    project_root: str | None = None
    """The root folder of the project that the plugin works for, if there is one."""
    data_root: str | None = None
    """The parent of the plugin's data folder. Default: `plughost/kaged` in XDG_DATA_HOME or `~/.local/share`;
    for a host that runs as root, in `/var/lib`, where its plugins can reach it."""
    eager: bool = False
    """Start with the host, not with the first call."""
    init_timeout: Annotated[float, AUTHOR_MAY_LOWER] = 10.0
    call_timeout: Annotated[float, AUTHOR_MAY_LOWER] = 30.0
    backoff: tuple[float, ...] = (1.0, 4.0)
    failure_limit: int = 3
    failure_window: float = 60.0


class KagedSettings(msgspec.Struct, frozen=True):
    """The resolved settings that a kaged session needs."""

    manifest: KagedManifest
    held: HeldCapabilities
    projects: tuple[str, ...]
    config: Any


class KagedContract(BaseContract):
    """The contract of kaged plugins: reads manifest.yaml, resolves specs and creates sessions."""

    name = "kaged"
    options: type[msgspec.Struct] = KagedOptions
    sandbox = "strict"
    host_methods: Mapping[str, HostMethod] = {
        "kaged.storage.get": HostMethod("storage.get", READ, messages.KeyParams),
        "kaged.storage.list": HostMethod("storage.list", READ, messages.ListParams),
        "kaged.storage.set": HostMethod("storage.set", WRITE, messages.SetParams),
        "kaged.storage.delete": HostMethod("storage.delete", WRITE, messages.KeyParams),
    }

    def read_folder(self, folder: Path) -> PluginSpec | None:
        folder = Path(real_path(folder))
        path = manifest.find(folder)
        if path is None:
            return None
        plugin_manifest = manifest.read(path).manifest
        return PluginSpec(
            contract=self.name,
            name=plugin_manifest.name,
            command=plugin_manifest.command,
            command_from_manifest=True,
            cwd=str(folder),
            grants=self.default_grants,
        )

    def resolve(self, spec: PluginSpec) -> ResolvedSpec:
        options: KagedOptions = read_options(KagedOptions, spec)
        folder = folder_of(spec)
        path = manifest.find(folder)
        if path is None:
            files = " or ".join(manifest.FILES)
            raise InvalidSpec(f"its cwd must be its folder, but {folder} has no {files}", plugin=spec.name)
        read = manifest.read(path)
        plugin_manifest = read.manifest
        if spec.name != plugin_manifest.name:
            raise InvalidSpec(f"the name in its manifest is {plugin_manifest.name!r}", plugin=spec.name)
        config = _validate_config(plugin_manifest, options, spec.name)
        asked = capabilities.together(plugin_manifest.capabilities)
        declared = asked.access
        given = grants.effect_of(spec.grants, plugin_manifest, spec.name)
        granted = functools.reduce(operator.or_, given.values(), HeldCapabilities())
        data = os.path.join(_data_root(options), plugin_manifest.name)
        own = union(granted.access, Access(write=(data,)))
        reached = union(union(own, intersection.intersect(declared, spec.allow)), Access(read=(str(folder),)))
        held = HeldCapabilities(granted.capabilities, reached)
        return ResolvedSpec(
            _policy(plugin_manifest, options),
            {
                **from_host("PATH", "HOME", "LANG"),
                **plugin_manifest.env,
                **spec.env,
                **_host_variables(options, data, spec.name),
            },
            Permissions(
                capabilities=granted.capabilities,
                asked=tuple(sorted(asked.capabilities, key=str)),
                given={word: GrantEffect(each.capabilities, each.access) for word, each in given.items()},
                declared=declared,
                own=own,
                granting=capabilities.GRANTING,
            ),
            SandboxNeeds(
                data=DataFolder(data, owner=str(folder), make_parents=options.data_root is None),
                real_paths=granted.resolved,
            ),
            methods=plugin_manifest.all_methods | {HOOK + hook for hook in plugin_manifest.hooks},
            settings=KagedSettings(plugin_manifest, held, _projects(options), config),
            described=tuple(_describe(plugin_manifest)),
            manifest_command=tuple(plugin_manifest.command),
            provides={
                "tools": tuple(tool.name for tool in plugin_manifest.tools),
                "hooks": tuple(plugin_manifest.hooks),
                "notifications": tuple(plugin_manifest.notifications),
            },
            lints=(
                *map(str, read.lints),
                *grants.grant_lints(spec.grants, plugin_manifest, held),
                *unconfined_lints(spec, self),
            ),
            folder=str(folder),
        )

    def session(self, spec: PluginSpec, resolved: ResolvedSpec) -> KagedSession:
        settings: KagedSettings = resolved.settings
        words = {each.name for each in resolved.permissions.capabilities}
        params = messages.InitializeParams(
            _version(),
            API_VERSION,
            settings.manifest.name,
            any(self.host_methods[method].capability in words for method in resolved.offered),
            list(settings.projects),
            msgspec.UNSET if settings.config is None else settings.config,
        )
        return KagedSession(settings.manifest, settings.held, params)


def _describe(plugin_manifest: KagedManifest) -> Iterator[MethodDescription]:
    """The methods and tools of a plugin; a tool is the method `<plugin>.<tool>`."""
    tools = {f"{plugin_manifest.name}.{tool.name}": tool for tool in plugin_manifest.tools}
    for method in sorted(plugin_manifest.all_methods):
        tool = tools.get(method)
        if tool is None:
            yield MethodDescription(name=method)
        else:
            yield MethodDescription(
                name=method, description=tool.description, input_schema=tool.parameters_schema or None
            )


def _policy(plugin_manifest: KagedManifest, options: KagedOptions) -> LifecyclePolicy:
    return LifecyclePolicy(
        eager=options.eager,
        ready_timeout=options.init_timeout,
        call_timeout=options.call_timeout,
        grace=plugin_manifest.shutdown_timeout_sec + TERM_GRACE,
        term_grace=TERM_GRACE,
        respawn=True,
        backoff=options.backoff,
        failure_limit=options.failure_limit,
        failure_window=options.failure_window,
        health=HealthPolicy(plugin_manifest.health_interval_sec, HEALTH_TIMEOUT),
        max_notify_rate=MAX_NOTIFY_RATE,
    )


def _validate_config(plugin_manifest: KagedManifest, options: KagedOptions, plugin: str) -> Any:
    """The configuration as it is sent, validated; None when there is neither a configuration nor a schema."""
    if options.config is None and plugin_manifest.config_schema is None:
        return None
    config: Any = None
    try:
        sent = encode(options.config or {})
        if len(sent) > LARGEST_CONFIG:
            raise ValueError(f"larger than {LARGEST_CONFIG} bytes")
        config = msgspec.json.decode(sent)
        problems = (
            []
            if plugin_manifest.config_schema is None
            else validation.quick_problems(plugin_manifest.config_schema, config)
        )
    except (TypeError, ValueError, RecursionError) as error:
        problems = [str(error)]
    if problems:
        raise InvalidSpec("\n".join(f"config: {problem}" for problem in problems), plugin=plugin)
    return config


def _projects(options: KagedOptions) -> tuple[str, ...]:
    return () if options.project_id is None else (options.project_id,)


def _host_variables(options: KagedOptions, data: str, plugin: str) -> dict[str, str]:
    """The environment variables that only the host sets; those of a project only when it is known, and never
    empty."""
    variables = {"KAGED_CONFIG_ROOT": data}
    for option in ("project_id", "project_root"):
        value = getattr(options, option)
        if value is not None:
            if not value:
                raise InvalidSpec(f"{option} is empty; leave it out", plugin=plugin)
            variables[f"KAGED_{option.upper()}"] = value
    return variables


def _data_root(options: KagedOptions) -> str:
    if options.data_root is not None:
        return os.path.abspath(os.path.expanduser(options.data_root))
    default = "/var/lib" if os.geteuid() == 0 else os.path.expanduser("~/.local/share")
    return os.path.join(os.environ.get("XDG_DATA_HOME") or default, "plughost", "kaged")


@functools.cache
def _version() -> str:
    from importlib.metadata import version

    return version("plughost")


CONTRACT = KagedContract()
