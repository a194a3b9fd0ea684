"""Where plugins ask for files and for the network: who asks decides what may be had."""

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

READERS = 4


def usual_roots() -> dict[str, str]:
    """The folders of ainb's capabilities; its home may be elsewhere."""
    home = os.environ.get("AINB_HOME") or "~/.agents-in-a-box"
    return {
        "read_sessions": os.path.join(home, "sessions"),
        "read_claude_logs": "~/.claude/projects",
        "read_codex_logs": "~/.codex/sessions",
    }


class OnPath(Protocol):
    path: str


class OnFile(OnPath, Protocol):
    offset: int
    length: int | None


class ToFetch(Protocol):
    url: str
    method: str
    body: Octets | None
    headers: list[tuple[str, str]]


class FileService:
    """`roots` are the folders of the capabilities, which the embedding program opens by naming them. The
    usual ones are those of ainb: of them, a plugin that holds a capability by its manifest's word alone is
    given what every user of the machine may read."""

    def __init__(self, roots: Mapping[str, str | os.PathLike[str]] | None = None) -> None:
        self._files = Files(usual_roots() if roots is None else roots)
        self._opened = frozenset(roots or ())
        # Threads of its own: a slow disk must not use up those of the program.
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="plughost-files")

    async def read_dir(self, caller: Caller, params: OnPath) -> list[FolderEntry]:
        return await self._run(self._files.read_dir, _names(caller), params.path, self._told(caller))

    async def read_file(self, caller: Caller, params: OnFile) -> FileContent:
        """All of it, unless a part is asked for."""
        granted, path, offset, length = _names(caller), params.path, params.offset, params.length
        told = self._told(caller)
        if offset or length is not None:
            most = LARGEST if length is None else length
            return await self._run(self._files.read_part, granted, path, offset, most, told)
        whole = await self._run(self._files.read_file, granted, path, LARGEST, told)
        return FileContent(whole, 0, len(whole))

    def _told(self, caller: Caller) -> ByManifest:
        word = _word(caller)
        return ByManifest(frozenset(_names(caller) - word.capabilities - self._opened), word.folders)

    async def _run(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class NetworkService:
    def __init__(self, network: Network | None = None) -> None:
        self._network = network or Network()

    async def fetch(self, caller: Caller, params: ToFetch) -> Fetched:
        body = None if params.body is None else decode_plain(params.body)
        request = Fetch(params.url, params.method, body, tuple(params.headers))
        return await self._network.fetch(_hosts(caller), request, _word(caller))

    async def close(self) -> None:
        await self._network.close()


def _names(caller: Caller) -> set[str]:
    plugin = caller.plugin
    return {capability.name for capability in plugin.capabilities} if plugin is not None else set()


def _word(caller: Caller) -> OperatorAccess:
    plugin = caller.plugin
    return plugin.operator_access if plugin is not None else OperatorAccess()


def _hosts(caller: Caller) -> tuple[str, ...] | None:
    """The hosts it is limited to; None is every public one."""
    plugin = caller.plugin
    held = [each for each in plugin.capabilities if each.name == "network"] if plugin is not None else []
    if any(capability.scope is None for capability in held):
        return None
    return tuple(host for capability in held for host in capability.scope or ())
