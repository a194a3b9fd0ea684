"""A plugin as the storage sees it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from plughost.engine.caller import Caller
from plughost.services.storage import database, sqlite_file
from plughost.services.storage.service import Storage


class Client:
    """Asks as one process of a plugin does, and hears plain values."""

    def __init__(self, store: Storage, name: str) -> None:
        self.store = store
        self.warnings: list[str] = []
        self.caller = Caller(name, 1, lambda publication: True, self.warnings.append)

    @staticmethod
    def params(**fields: Any) -> Any:
        return SimpleNamespace(**fields)

    async def get(self, key: str) -> bytes | None:
        answer = await self.store.get(self.caller, self.params(key=key))
        assert answer.found == (answer.value is not None)
        return None if answer.value is None else bytes(answer.value)

    async def set(self, key: str, value: bytes) -> None:
        await self.store.set(self.caller, self.params(key=key, value=msgspec.Raw(value)))

    async def delete(self, key: str) -> bool:
        return (await self.store.delete(self.caller, self.params(key=key))).deleted

    async def list(self, prefix: str = "", after: str = "", limit: int = 1000) -> tuple[list[str], bool]:
        page = await self.store.list(self.caller, self.params(prefix=prefix, after=after, limit=limit))
        return page.keys, page.more


def used(entries: Mapping[str, bytes]) -> int:
    """Bytes of all keys and values."""
    return sum(len(key.encode()) + len(value) for key, value in entries.items())


def file(store: Storage, name: str = "notes") -> Path:
    return Path(store.file_of(name))


def open_files(folder: Path) -> list[str]:
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        found += [target] if target.startswith(f"{folder}/") else []
    return found


def quick_settings() -> tuple[str, ...]:
    """The same without syncs, where durability is not what is looked at."""
    return tuple(
        setting.replace("synchronous = FULL", "synchronous = OFF") for setting in sqlite_file.SETTINGS
    )


def counted(monkeypatch) -> list[int]:
    """How many requests each transaction had."""
    counts: list[int] = []
    together = database.KeyValueDatabase._run_in_transaction

    def counting(self, connection, requests):
        counts.append(len(requests))
        return together(self, connection, requests)

    monkeypatch.setattr(database.KeyValueDatabase, "_run_in_transaction", counting)
    return counts
