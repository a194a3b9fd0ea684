"""FileService: requests of plugins for files, limited by the plugin's capabilities."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from plughost.engine.caller import Caller
from plughost.services.base import BaseService
from plughost.services.caller_access import capability_names, operator_access
from plughost.services.files.reader import LARGEST, ByManifest, FileContent, Files, FolderEntry

T = TypeVar("T")

READER_THREADS = 4


class OnPath(Protocol):
    """Params with the path of a file or folder."""

    path: str


class OnFile(OnPath, Protocol):
    """Params for reading a file, or a part of it."""

    offset: int
    length: int | None


class FileService(BaseService):
    """The files service. `roots` maps capabilities to folders; by naming them, the embedding program opens
    them.

    With `opened=False` they are only the contract's default: there, a plugin that has a capability only by
    its manifest can read only what every user of the machine may read.
    """

    def __init__(self, roots: Mapping[str, str | os.PathLike[str]], *, opened: bool = True) -> None:
        self._files = Files(roots)
        self._opened = frozenset(roots if opened else ())
        # Separate threads, so that a slow disk does not use up those of the program.
        self._threads = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="plughost-files")

    async def read_dir(self, caller: Caller, params: OnPath) -> list[FolderEntry]:
        """List a folder."""
        return await self._run(
            self._files.read_dir, capability_names(caller), params.path, self._limits_of_manifest(caller)
        )

    async def read_file(self, caller: Caller, params: OnFile) -> FileContent:
        """Read a file: all of it, or the part that is asked for."""
        granted, path, offset, length = capability_names(caller), params.path, params.offset, params.length
        by_manifest = self._limits_of_manifest(caller)
        if offset or length is not None:
            limit = LARGEST if length is None else length
            return await self._run(self._files.read_part, granted, path, offset, limit, by_manifest)
        whole = await self._run(self._files.read_file, granted, path, LARGEST, by_manifest)
        return FileContent(whole, 0, len(whole))

    def _limits_of_manifest(self, caller: Caller) -> ByManifest:
        operator = operator_access(caller)
        return ByManifest(
            frozenset(capability_names(caller) - operator.capabilities - self._opened), operator.folders
        )

    async def _run(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
