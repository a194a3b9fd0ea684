"""FileService and NetworkService: requests of plugins for files and for HTTP, limited by the plugin's
capabilities."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from plughost.engine.caller import Caller
from plughost.permissions.operator_only import OperatorAccess
from plughost.services.files.reader import LARGEST, ByManifest, FileContent, Files, FolderEntry
from plughost.services.network.fetch import Fetch, Fetched, Network
from plughost.wire.base64_bytes import Octets, decode_plain

T = TypeVar("T")

READER_THREADS = 4


def default_roots() -> dict[str, str]:
    """The folders of ainb's capabilities; $AINB_HOME replaces ainb's home folder."""
    home = os.environ.get("AINB_HOME") or "~/.agents-in-a-box"
    return {
        "read_sessions": os.path.join(home, "sessions"),
        "read_claude_logs": "~/.claude/projects",
        "read_codex_logs": "~/.codex/sessions",
    }


class OnPath(Protocol):
    """Params with the path of a file or folder."""

    path: str


class OnFile(OnPath, Protocol):
    """Params for reading a file, or a part of it."""

    offset: int
    length: int | None


class ToFetch(Protocol):
    """Params of an HTTP request."""

    url: str
    method: str
    body: Octets | None
    headers: list[tuple[str, str]]


class FileService:
    """The files service. `roots` maps capabilities to folders; by naming them, the embedding program opens
    them.

    The default is the folders of ainb. In those, a plugin that has a capability only by its manifest can read
    only what every user of the machine may read.
    """

    def __init__(self, roots: Mapping[str, str | os.PathLike[str]] | None = None) -> None:
        self._files = Files(default_roots() if roots is None else roots)
        self._configured = frozenset(roots or ())
        # Separate threads, so that a slow disk does not use up those of the program.
        self._threads = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="plughost-files")

    async def read_dir(self, caller: Caller, params: OnPath) -> list[FolderEntry]:
        """List a folder."""
        return await self._run(
            self._files.read_dir, _capability_names(caller), params.path, self._limits_of_manifest(caller)
        )

    async def read_file(self, caller: Caller, params: OnFile) -> FileContent:
        """Read a file: all of it, or the part that is asked for."""
        granted, path, offset, length = _capability_names(caller), params.path, params.offset, params.length
        by_manifest = self._limits_of_manifest(caller)
        if offset or length is not None:
            limit = LARGEST if length is None else length
            return await self._run(self._files.read_part, granted, path, offset, limit, by_manifest)
        whole = await self._run(self._files.read_file, granted, path, LARGEST, by_manifest)
        return FileContent(whole, 0, len(whole))

    def _limits_of_manifest(self, caller: Caller) -> ByManifest:
        operator = _operator_access(caller)
        return ByManifest(
            frozenset(_capability_names(caller) - operator.capabilities - self._configured), operator.folders
        )

    async def _run(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class NetworkService:
    """The network service: HTTP requests on behalf of plugins, to the hosts that were granted."""

    def __init__(self, network: Network | None = None) -> None:
        self._network = network or Network()

    async def fetch(self, caller: Caller, params: ToFetch) -> Fetched:
        """Make an HTTP request for a plugin."""
        body = None if params.body is None else decode_plain(params.body)
        request = Fetch(params.url, params.method, body, tuple(params.headers))
        return await self._network.fetch(_hosts(caller), request, _operator_access(caller))

    async def close(self) -> None:
        await self._network.close()


def _capability_names(caller: Caller) -> set[str]:
    plugin = caller.plugin
    return {capability.name for capability in plugin.capabilities} if plugin is not None else set()


def _operator_access(caller: Caller) -> OperatorAccess:
    plugin = caller.plugin
    return plugin.operator_access if plugin is not None else OperatorAccess()


def _hosts(caller: Caller) -> tuple[str, ...] | None:
    """The hosts that the plugin is limited to; None is every public host."""
    plugin = caller.plugin
    held = [each for each in plugin.capabilities if each.name == "network"] if plugin is not None else []
    if any(capability.scope is None for capability in held):
        return None
    return tuple(host for capability in held for host in capability.scope or ())
