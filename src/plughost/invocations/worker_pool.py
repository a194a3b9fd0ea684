"""A few worker processes for checks that may take long, shared by all tenants.

- At most `most` processes, started when they are needed and ended when nobody has needed one for a while.
- One job at a time for each key (a package of a tenant), and keys in turn: who sends much, or a schema that
  takes all of its time, leaves the other workers to the others.
- Waiting counts: a job ends with Timeout at its deadline, wherever it is then, and its worker is killed.
- A job that has had `SHARE` seconds is ended when another one waits for a worker.
- What waits is bounded for each key and in all; more is Overloaded.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Any

import msgspec

from plughost.base.clock import Clock, Timer
from plughost.base.errors import HostFailed, Overloaded, PluginError, Stopped, Timeout
from plughost.invocations.worker import Reply, Worker

MOST = 2
MOST_WAITING = 1024
MOST_WAITING_OF_ONE = 64
SHARE = 5.0
IDLE = 30.0


class Job(msgspec.Struct, eq=False):
    head: dict[str, Any]
    body: tuple[bytes | memoryview, ...]
    key: Hashable
    done: asyncio.Future[Reply]
    worker: Worker | None = None
    began: float = 0.0

    def fail(self, error: PluginError) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class WorkerPool:
    """`module` has the worker's `main`."""

    def __init__(
        self, module: str, clock: Clock, *, most: int = MOST, idle: float = IDLE, share: float = SHARE
    ) -> None:
        self._module = module
        self._clock = clock
        self._most = most
        self._idle = idle
        self._share = share
        self._workers: set[Worker] = set()
        self._free: list[Worker] = []
        self._ending: set[Worker] = set()
        self._running: dict[Hashable, Job] = {}
        self._waiting: OrderedDict[Hashable, deque[Job]] = OrderedDict()
        self._timer: Timer | None = None
        self._closed = False
        self.jobs = 0
        """How many there were."""

    @property
    def pids(self) -> list[int]:
        """Of its workers."""
        return [worker.pid for worker in self._workers]

    async def ask(
        self, head: dict[str, Any], *body: bytes | memoryview, key: Hashable, deadline: float
    ) -> Reply:
        """A worker's reply. Timeout when there is none by `deadline` (of the pool's clock)."""
        if self._closed:
            raise Stopped("this host is closed")
        line = self._waiting.get(key, ())
        if len(line) >= MOST_WAITING_OF_ONE or sum(map(len, self._waiting.values())) >= MOST_WAITING:
            raise Overloaded("too many checks wait for a worker process")
        job = Job(head, body, key, asyncio.get_running_loop().create_future())
        self.jobs += 1
        self._waiting.setdefault(key, deque()).append(job)
        late = self._clock.call_at(deadline, lambda: job.fail(Timeout("checking it took too long")))
        try:
            self._go_on()
            return await job.done
        finally:
            late.cancel()
            self._leave(job)
            self._go_on()

    def _leave(self, job: Job) -> None:
        """It has its reply, or does not want one any more: then its worker is of no use."""
        if self._running.get(job.key) is job:
            del self._running[job.key]
            worker = job.worker
            assert worker is not None
            if worker.busy or not worker.alive:
                self._workers.discard(worker)
                self._kill(worker)
            else:
                worker.idle_since = self._clock.time()
                self._free.append(worker)
        elif (line := self._waiting.get(job.key)) is not None and job in line:
            line.remove(job)
            if not line:
                del self._waiting[job.key]

    def _go_on(self) -> None:
        """Whoever's turn it is, as far as there are workers."""
        while (key := next((key for key in self._waiting if key not in self._running), None)) is not None:
            if (worker := self._worker()) is None:
                break
            line = self._waiting.pop(key)
            job = line.popleft()
            if line:
                self._waiting[key] = line  # behind the others
            job.worker, job.began = worker, self._clock.time()
            self._running[key] = job
            worker.ask(job.head, job.body, job.done)
        self._arm()

    def _worker(self) -> Worker | None:
        while self._free:
            worker = self._free.pop()
            if worker.alive:
                return worker
            self._workers.discard(worker)
            self._kill(worker)
        if len(self._workers) >= self._most or self._closed:
            return None
        try:
            worker = Worker(self._module)
        except OSError as error:
            if not self._workers:
                for line in [*self._waiting.values()]:
                    for job in line:
                        job.fail(HostFailed(f"no worker process could be started: {error.strerror}"))
            return None
        self._workers.add(worker)
        return worker

    def _arm(self) -> None:
        """For the next worker that is idle long enough, or the next job that has had its share."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = [worker.idle_since + self._idle for worker in self._free]
        if self._crowd:
            due += [job.began + self._share for job in self._running.values()]
        if due and not self._closed:
            self._timer = self._clock.call_at(min(due), self._due)

    @property
    def _crowd(self) -> int:
        """How many wait who could run if there were more workers."""
        return sum(key not in self._running for key in self._waiting)

    def _due(self) -> None:
        self._timer = None
        now = self._clock.time()
        for worker in [each for each in self._free if each.idle_since + self._idle <= now]:
            self._free.remove(worker)
            self._workers.discard(worker)
            self._kill(worker)
        if self._crowd:
            late = [job for job in self._running.values() if job.began + self._share <= now]
            for job in sorted(late, key=lambda job: job.began)[: self._crowd]:
                job.fail(
                    Overloaded(f"checking it took more than {self._share:g} seconds while others waited")
                )
        self._arm()

    async def close(self) -> None:
        """Kill all workers, and wait until they are gone; what waits for one fails."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for job in [*self._running.values(), *(job for line in self._waiting.values() for job in line)]:
            job.fail(Stopped("this host is closed"))
        for worker in self._workers:
            self._kill(worker)
        self._workers.clear()
        self._free.clear()
        while self._ending:
            await asyncio.wait([worker.gone for worker in self._ending])

    def _kill(self, worker: Worker) -> None:
        worker.kill()
        self._ending.add(worker)
        worker.gone.add_done_callback(lambda _: self._ending.discard(worker))
