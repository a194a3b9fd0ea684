"""ainb, plugin contract v2: Content-Length JSON-RPC both ways, screens, snapshots, supervised."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from plughost import guard
from plughost.base.capability import Capability
from plughost.base.errors import InvalidSpec
from plughost.base.real_path import real_path
from plughost.base.text import visible
from plughost.contracts.ainb import manifest, messages, own_words
from plughost.contracts.ainb.manifest import ABI_VERSION, Capabilities, Manifest
from plughost.contracts.ainb.messages import KeyEvent, RenderResult, WireBuffer
from plughost.contracts.ainb.session import AinbSession
from plughost.contracts.ainb.view import Ainb, CliResult
from plughost.contracts.contract import (
    Binding,
    DataFolder,
    PluginSpec,
    Reverse,
    from_host,
    read_options,
    sandbox_of,
)
from plughost.contracts.settings import AUTHOR_MAY_LOWER
from plughost.guard.operators_word import operators_word
from plughost.guard.powers import Powers
from plughost.runtime.policy import Policy

__all__ = [
    "ABI_VERSION",
    "CONTRACT",
    "Ainb",
    "AinbContract",
    "CliResult",
    "KeyEvent",
    "Manifest",
    "RenderResult",
    "WireBuffer",
]

DECLARED = "declared"
"""The grant of all that the manifest declares."""
LIMITED = ("network", "spawn_subprocess")
"""Those that a list limits; of the others, any list grants the whole."""
FILE_CAPABILITIES = ("read_sessions", "read_claude_logs", "read_codex_logs")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """An ainb plugin's own settings; times in seconds."""

    folder: str | None = None
    """Where its manifest.toml is; without it, the folder of its program."""
    init_timeout: Annotated[float, AUTHOR_MAY_LOWER] = 15.0
    call_timeout: Annotated[float, AUTHOR_MAY_LOWER] = 30.0
    shutdown_grace: Annotated[float, AUTHOR_MAY_LOWER] = 5.0
    """Until it is sent SIGTERM; SIGKILL follows 2 s later."""
    idle_reap_secs: float | None = None
    """Instead of the manifest's; 0 never."""
    backoff: tuple[float, ...] = (1.0, 4.0, 16.0)
    failure_limit: int = 3
    failure_window: float = 60.0
    max_unread: Annotated[int, AUTHOR_MAY_LOWER] = 64 << 20
    """Bytes of events it may leave unread before it is ended as failed."""
    log_level: Literal["trace", "debug", "info", "warn", "error"] = "info"
    """What it logs below this is not kept."""
    data_root: str | None = None
    """Its own folder below this one is made when it may write there; `plugins` in AINB_HOME, or else in
    `~/.agents-in-a-box`."""


class Settings(msgspec.Struct, frozen=True):
    manifest: Manifest
    path: str
    granted: tuple[str, ...]
    data_folder: str | None


TERM_GRACE = 2.0
MAX_REVERSE = 32
"""Requests served at a time: each may hold a file of 12 MiB."""


class AinbContract:
    name = "ainb"
    options: type[msgspec.Struct] = Options
    default_grants: tuple[str, ...] = (DECLARED,)
    sandbox = "none"
    reverse: Mapping[str, Reverse] = {
        "host/snapshot/get": Reverse(
            "snapshots.get",
            "event_bus",
            messages.TopicParams,
            lambda latest: {"payload": latest.payload, "version": latest.version},
        ),
        "host/snapshot/subscribe": Reverse("snapshots.subscribe", "event_bus", messages.TopicParams),
        "host/snapshot/publish": Reverse(
            "snapshots.publish", "event_bus", messages.SnapshotPublishParams, notification=True
        ),
        "host/action/invoke": Reverse(
            "actions.invoke", None, messages.ActionInvokeParams, lambda payload: {"payload": payload}
        ),
        "host/log": Reverse("logs.log", None, messages.LogParams, notification=True),
        "host/fs/read_dir": Reverse(
            "fs.read_dir",
            params=messages.PathParams,
            result=lambda entries: {"entries": entries},
            checks=FILE_CAPABILITIES,
        ),
        "host/fs/read_file": Reverse(
            "fs.read_file",
            params=messages.ReadFileParams,
            result=lambda content: {"bytes": content.data, "offset": content.offset, "size": content.size},
            checks=FILE_CAPABILITIES,
        ),
        "host/network/fetch": Reverse("network.fetch", "network", messages.NetworkFetchParams),
    }

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
            command_is_told=True,
            folder=str(folder),
            grants=self.default_grants,
        )

    def bind(self, spec: PluginSpec) -> Binding:
        options: Options = read_options(Options, spec)
        folder = _manifest_folder(spec, options)
        _check_text(folder, spec.name)
        read = manifest.read(folder)
        told = read.manifest
        if spec.name != told.plugin.name:
            raise InvalidSpec(f"its manifest calls it {told.plugin.name!r}", plugin=spec.name)
        asked = told.capabilities.granted()
        granted, named = _granted(spec, told)
        word = operators_word(guard.effective(asked, named), spec.allow)
        held, withheld = own_words.without_private(guard.effective(asked, granted), word, spec)
        names = tuple(word for word in Capabilities.__struct_fields__ if guard.allows(held, word))
        topics = tuple(told.subscribes.snapshots) if "event_bus" in names else ()
        home = os.environ.get("AINB_HOME") or "~/.agents-in-a-box"
        data_root = options.data_root or os.path.join(home, "plugins")
        data = os.path.join(os.path.expanduser(data_root), told.plugin.name)
        settings = Settings(
            told,
            str(folder / manifest.FILE),
            names,
            data if "write_plugin_data" in names else None,
        )
        programs = own_words.programs(held, spec)
        return Binding(
            _policy(told, options, topics),
            {**from_host("HOME", "PATH", "LANG", "TERM", "AINB_HOME"), **spec.env},
            capabilities=held,
            operator=word,
            asked=tuple(asked),
            settings=settings,
            topics=topics,
            log_level=options.log_level,
            offers={kind: tuple(getattr(told.provides, kind)) for kind in told.provides.__struct_fields__},
            lints=(*map(str, read.lints), *withheld, *_unenforced(names, spec, sandbox_of(spec, self))),
            data=_data_folder(settings.data_folder, folder, options),
            folder=str(folder),
            granting={"item": "{name}={path}"},
            own=Powers(
                write=() if settings.data_folder is None else (settings.data_folder,),
                execute=programs.paths,
            ),
            resolved=programs.resolved,
        )

    def session(self, spec: PluginSpec, binding: Binding) -> AinbSession:
        settings: Settings = binding.settings
        return AinbSession(settings.manifest, settings.path, settings.granted)


def _manifest_folder(spec: PluginSpec, options: Options) -> Path:
    """A plugin that was found by its folder has its manifest there; else the operator's words tell where.

    A real path, found out once: it tells whose data the plugin gets, and a folder that was found does not
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
            f"the path of its folder, {visible(str(folder))}, is not valid UTF-8",
            plugin=plugin,
            hint="rename the folder, or the one around it that has that name",
        ) from None


def _data_folder(path: str | None, folder: Path, options: Options) -> DataFolder | None:
    if path is None:
        return None
    return DataFolder(path, owner=str(folder), make_parents=options.data_root is None)


def _policy(told: Manifest, options: Options, topics: tuple[str, ...]) -> Policy:
    eager = told.lifecycle.spawn == "eager"
    idle = told.lifecycle.idle_reap_secs if options.idle_reap_secs is None else options.idle_reap_secs
    return Policy(
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


def _granted(spec: PluginSpec, told: Manifest) -> tuple[list[Capability], list[Capability]]:
    """The operator's words: `declared`, a capability's name, or `name=item` for one item of its list. The
    second list has what he names himself; the items of a whole capability that a list limits are its
    manifest's."""
    granted: list[Capability] = []
    named: list[Capability] = []
    scopes: dict[str, list[str]] = {}
    for word in spec.grants:
        name, limited, item = word.partition("=")
        if word == DECLARED:
            granted += told.capabilities.granted()
        elif name not in Capabilities.__struct_fields__ or (limited and not (item and name in LIMITED)):
            known = ", ".join(
                (DECLARED, *Capabilities.__struct_fields__, *(f"{one}=ITEM" for one in LIMITED))
            )
            raise InvalidSpec(f"unknown grant {word!r}; known: {known}", plugin=spec.name)
        elif limited:
            scopes.setdefault(name, []).append(item)
        else:
            granted.append(Capability(name))
            named += [] if name in LIMITED else [Capability(name)]
    named += [Capability(name, tuple(items)) for name, items in scopes.items()]
    return granted + [each for each in named if each.scope is not None], named


def _unenforced(names: Collection[str], spec: PluginSpec, sandbox: str) -> tuple[str, ...]:
    if sandbox != "none":
        return tuple(_read_by_the_host(names, sandbox, spec.allow))
    if "spawn_subprocess" in names:
        return ()
    return ("spawn_subprocess is not granted, but without a sandbox nothing keeps it from starting programs",)


def log_folders() -> dict[str, str]:
    """The folder of each capability to read files; that of sessions follows AINB_HOME."""
    sessions = os.path.join(os.environ.get("AINB_HOME") or "~/.agents-in-a-box", "sessions")
    return dict(zip(FILE_CAPABILITIES, (sessions, "~/.claude/projects", "~/.codex/sessions"), strict=True))


def _read_by_the_host(names: Collection[str], sandbox: str, allowed: Powers) -> Iterator[str]:
    """Granted log folders are read through the host. Most existing plugins open the files themselves."""
    for name, folder in log_folders().items():
        place = os.path.expanduser(folder)
        open_to_it = any(
            f"{place}/".startswith(f"{path.rstrip('/')}/") for path in (*allowed.read, *allowed.write)
        )
        if name in names and not open_to_it:
            yield (
                f"{name} is granted, but in class {sandbox} its process cannot open {folder} itself, only "
                f'through host/fs; if it opens files itself, set allow.read = ["{folder}"] or pass '
                f"--allow read={folder}"
            )


CONTRACT = AinbContract()
