"""The work that goes on while the plugin answers: look for what is new, read it, publish the sums."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import Any

from plughost_sdk.ainb import Ended, Error
from plughost_sdk.handlers import log_failure
from plughost_sdk.wire import BrokenWire
from session_reader.ahead import Ahead
from session_reader.files import Counted, Found, wanted
from session_reader.prices import Prices
from session_reader.publisher import Publisher
from session_reader.totals import Totals
from session_reader.trees import DENIED, trees

FIRST_PICTURE = 0.2
"""Seconds until the first publish, of what there is by then; so that nobody waits for all of it."""
PICTURES = 0.5
"""Seconds between the next ones."""
POLL = 1.0
"""Seconds between two looks."""
LAZY = 8
"""Where a look takes long, it is so many times as long until the next."""
SOONEST = 0.2
"""Seconds between two looks, however often somebody asks."""
AGAIN = 10
"""Looks between two attempts at files that could not be read; whoever asks has them tried at once."""
OWED = 10.0
"""Seconds for which changes may go on before all calls are published again."""


class Reader(threading.Thread):
    """A thread of its own; calls to the host may be made from any."""

    def __init__(self, host: Any, home: str, prices: Prices) -> None:
        super().__init__(name="reader", daemon=True)
        self.prices = prices
        self._host = host
        self._home = home
        self._lock = threading.Lock()
        self._awake = threading.Event()
        self._hard = False
        self._asked = True
        self._publisher = Publisher(host)
        self._owed_since: float | None = None
        self._looked_for = 0.0
        self._looks = 0
        self._ending = False
        self.complete = threading.Event()
        """All that was there when it began has been read; or there is no host to read it from."""
        self._forget()

    def _forget(self) -> None:
        with self._lock:
            self._trees = trees(self._home)
            self.counted = Counted()
            self._totals = Totals(self.prices)

    @property
    def file_count(self) -> int:
        return sum(map(len, self._trees))

    def refresh(self, *, hard: bool = False) -> None:
        """Look now, and publish whatever comes of it; `hard` reads everything anew."""
        self._hard = self._hard or hard
        self._asked = True
        self._awake.set()

    def end(self) -> None:
        self._ending = True
        self._awake.set()

    def aggregates(self) -> dict[str, Any]:
        with self._lock:
            return self._totals.aggregates()

    @property
    def read_nothing(self) -> bool:
        """Whether nothing is counted because logs could not be read: that is not the same as no usage."""
        unread = any(tree.trouble for tree in self._trees) or any(
            path for path in self.counted.unreadable if path.endswith(".jsonl")
        )
        return unread and self._totals.is_empty

    def run(self) -> None:
        try:
            while not self._ending:
                try:
                    self.look_once()
                except Error as error:
                    self._host.log.warn(f"cannot read: {error.message}")
                except (Ended, BrokenWire):
                    raise
                except Exception:
                    log_failure()
                time.sleep(SOONEST)
                self._awake.wait(max(POLL, LAZY * self._looked_for))
        except (Ended, BrokenWire):
            pass  # and so does the plugin
        finally:
            self.complete.set()

    def look_once(self) -> None:
        """Read what is new, and publish what is due."""
        self._awake.clear()
        asked, self._asked = self._asked, False
        if self._hard:
            self._hard = False
            self.complete.clear()
            self._forget()
        self._looks += 1
        changed = self._read_changed(again=asked or self._looks % AGAIN == 0)
        self.complete.set()
        self._publish(asked, changed)

    def _read_changed(self, *, again: bool) -> bool:
        """Whether anything new was counted. The newest files come first: they matter most."""
        begun = time.monotonic()
        if not self.complete.is_set():
            self._publisher.progress(0, 0, "")  # a look at many folders takes a while: somebody may wait
        found = [each for tree in self._trees for each in tree.look(self._host.fs, self.counted, again=again)]
        self._looked_for = time.monotonic() - begun
        if found and not self.complete.is_set():
            self._publisher.progress(0, len(found), "")
        found.sort(key=lambda each: (each[0], each[2].path), reverse=True)
        changed = False
        due = time.monotonic() + FIRST_PICTURE
        scanned: set[str] = set()
        with closing(Ahead(self._host.fs, wanted(found))) as blocks:
            for (each, start), block in blocks:
                changed |= self._take(each, start, block)
                scanned.add(each[2].path)
                if time.monotonic() >= due:
                    self._publisher.progress(len(scanned), len(found), each[2].folder)
                    self._publisher.partial(self.aggregates())
                    due = time.monotonic() + PICTURES
        self._publisher.progress(len(found), len(found), "")
        return changed

    def _take(self, found: Found, start: int, block: bytes | Error) -> bool:
        modified, size, file = found
        if isinstance(block, Error):
            self.counted.unreadable[file.path] = block.message
            file.seen, file.refused = (size, modified), block.code != DENIED
            return False
        self.counted.unreadable.pop(file.path, None)
        file.refused = False
        calls = file.take(start, block, self.counted)
        if calls is None:
            file.seen = (-1, -1)
            self._awake.set()
            return False
        file.seen = size, modified
        changed = False
        with self._lock:
            for key, call in calls:
                changed |= self._totals.add(key, call)
        return changed

    def _publish(self, asked: bool, changed: bool) -> None:
        """Calls are many: while they keep coming, only what they add up to is published."""
        now = time.monotonic()
        if changed and self._owed_since is None:
            self._owed_since = now
        owed = self._owed_since is not None and (not changed or now - self._owed_since >= OWED)
        with self._lock:
            aggregates, calls = self._totals.aggregates(), self._totals.calls()
        if self.read_nothing:
            if asked:
                told = "; ".join(f"{path}: {why}" for path, why in [*self.counted.unreadable.items()][:3])
                self._host.log.warn(f"no session log could be read: {told}")
                self._publisher.partial(aggregates)
        elif asked or owed or (changed and len(calls) <= self._publisher.FEW):
            self._publisher.complete(aggregates, calls)
            self._owed_since = None
        elif changed:
            self._publisher.partial(aggregates)
