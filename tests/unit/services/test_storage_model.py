"""The storage and a dict with a quota are told the same, and cannot be told apart."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from plughost.errors import Overloaded
from plughost.services.storage import sqlite_file
from plughost.services.storage.service import Storage
from tests.support.storage_client import Client, quick_settings, used

KEYS = ("a", "ab", "a\0", "b", "é")
VALUES = (b"1", b'"longer"', b"[" + b"1," * 150 + b"1]")
QUOTA = 700


class AgainstADict(RuleBasedStateMachine):
    folder: ClassVar[Path]

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.place = tempfile.mkdtemp(dir=self.folder)
        self.model: dict[str, bytes] = {}
        self.start()

    def start(self):
        self.store = Storage(self.place, quota=QUOTA)
        self.client = Client(self.store, "notes")

    def run(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    @rule(key=st.sampled_from(KEYS), value=st.sampled_from(VALUES))
    def set(self, key, value):
        after = {**self.model, key: value}
        if used(after) > max(QUOTA, used(self.model)):
            with pytest.raises(Overloaded, match="quota"):
                self.run(self.client.set(key, value))
        else:
            self.run(self.client.set(key, value))
            self.model = after

    @rule(key=st.sampled_from(KEYS))
    def delete(self, key):
        assert self.run(self.client.delete(key)) == (self.model.pop(key, None) is not None)

    @rule(
        prefix=st.sampled_from(["", "a", "c"]), after=st.sampled_from(["", "a", "b"]), limit=st.integers(1, 6)
    )
    def list(self, prefix, after, limit):
        keys = sorted((key for key in self.model if key.startswith(prefix) and key > after), key=str.encode)
        assert self.run(self.client.list(prefix, after, limit)) == (keys[:limit], len(keys) > limit)

    @rule()
    def start_again(self):
        self.run(self.store.close())
        self.start()

    @rule()
    def process_ends(self):
        self.loop.call_soon(self.client.caller.end)
        self.run(asyncio.sleep(0))
        self.client = Client(self.store, "notes")

    @invariant()
    def holds_the_same(self):
        async def everything():
            return await asyncio.gather(*(self.client.get(key) for key in KEYS))

        assert self.run(everything()) == [self.model.get(key) for key in KEYS]

    def teardown(self):
        self.run(self.store.close())
        connection = sqlite3.connect(self.store.file_of("notes"))
        assert connection.execute("SELECT bytes FROM usage").fetchone() == (used(self.model),)
        connection.close()
        self.loop.close()


def test_it_behaves_as_a_dict_with_a_quota(tmp_path, monkeypatch):
    monkeypatch.setattr(AgainstADict, "folder", tmp_path, raising=False)
    monkeypatch.setattr(sqlite_file, "SETTINGS", quick_settings())
    run_state_machine_as_test(
        AgainstADict, settings=settings(max_examples=20, stateful_step_count=20, deadline=None)
    )
