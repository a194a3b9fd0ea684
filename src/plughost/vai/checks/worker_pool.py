"""A pool of a few worker processes for checks that may take long, scheduled fairly between tenants.

- At most `most` processes, started on demand and stopped when they were idle for a while.
- One job at a time for each key: a path such as (organisation, project, package), whose first part is the
  tenant. A free worker goes to the tenant with the fewest workers who has waited longest, within the tenant
  to the project of which that is true, and so on. So a tenant that sends many jobs, or a schema that takes
  all of its time, does not starve others, however many packages and projects it has.
- Waiting counts: a job ends with Timeout at its deadline, queued or running, and its worker is killed.
- A job that ran for `SHARE` seconds is ended when another one of its tenant waits for a worker, or one of a
  tenant with fewer workers.
- The queue is bounded for each key, for each tenant and in all; beyond that a job is Overloaded. When the
  whole queue is full, the newest job of the tenant with the longest queue is.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Hashable, Iterator
from typing import Any

import msgspec

from plughost.clock import Clock, Timer
from plughost.errors import HostFailed, Overloaded, PluginError, Stopped, Timeout
from plughost.vai.checks.worker import Reply, Worker

MAX_WORKERS = 2
MAX_WAITING = 1024
MAX_WAITING_OF_TENANT = 256
MAX_WAITING_OF_KEY = 64
SHARE = 5.0
"""Seconds of a job after which it may be ended in favour of others."""
IDLE = 30.0
"""Seconds after which an idle worker is stopped."""

Key = tuple[Hashable, ...]
"""A path for fair scheduling, such as (organisation, project, package)."""


class Job(msgspec.Struct, eq=False):
    """One job for a worker: a head, a body, and the future of its reply."""

    head: dict[str, Any]
    body: tuple[bytes | memoryview, ...]
    key: Key
    done: asyncio.Future[Reply]
    worker: Worker | None = None
    started: float = 0.0

    def fail(self, error: PluginError) -> None:
        """Ends the job with an error, unless it has ended."""
        if not self.done.done():
            self.done.set_exception(error)


class WorkerPool:
    """A fair pool of worker processes that run `main` of `module`."""

    def __init__(
        self, module: str, clock: Clock, *, most: int = MAX_WORKERS, idle: float = IDLE, share: float = SHARE
    ) -> None:
        self._module = module
        self._clock = clock
        self._most = most
        self._idle = idle
        self._share = share
        self._workers: set[Worker] = set()
        self._free: list[Worker] = []
        self._ending: set[Worker] = set()
        self._running: dict[Key, Job] = {}
        self._waiting: dict[Key, deque[Job]] = {}
        self._job_counts = Counter[Key]()
        """Waiting and running jobs, by key and by each prefix of it."""
        self._turns: dict[Key, int] = {}
        """For each of these, the turn at which it arrived or last got a worker."""
        self._turn = 0
        self._timer: Timer | None = None
        self._closed = False
        self.jobs = 0
        """The number of jobs so far."""

    @property
    def pids(self) -> list[int]:
        """The process ids of its workers."""
        return [worker.pid for worker in self._workers]

    async def ask(self, head: dict[str, Any], *body: bytes | memoryview, key: Key, deadline: float) -> Reply:
        """A worker's reply to a job. Timeout when there is none by `deadline` (on the pool's clock)."""
        if self._closed:
            raise Stopped("this host is closed")
        self._make_room(key)
        job = Job(head, body, key, asyncio.get_running_loop().create_future())
        self.jobs += 1
        self._waiting.setdefault(key, deque()).append(job)
        for part in _parts(key):
            self._job_counts[part] += 1
            self._turns.setdefault(part, self._next_turn())
        late = self._clock.call_at(deadline, lambda: job.fail(Timeout("checking it took too long")))
        try:
            self._schedule()
            return await job.done
        finally:
            late.cancel()
            self._leave(job)
            self._schedule()

    def _make_room(self, key: Key) -> None:
        """Admits a job of `key` to the queue, or raises Overloaded. A full queue may drop a job of another
        tenant."""
        waiting = Counter[Hashable]()
        for other, queue in self._waiting.items():
            waiting[other[0]] += len(queue)
        own = waiting[key[0]]
        if len(self._waiting.get(key, ())) >= MAX_WAITING_OF_KEY or own >= MAX_WAITING_OF_TENANT:
            raise Overloaded("too many checks wait for a worker process")
        if waiting.total() < MAX_WAITING:
            return
        ((tenant, most),) = waiting.most_common(1)
        if own + 1 >= most:
            raise Overloaded("too many checks wait for a worker process")
        queue = max((queue for other, queue in self._waiting.items() if other[0] == tenant), key=len)
        newest = queue[-1]
        newest.fail(Overloaded("too many checks of this tenant wait for a worker process"))
        self._leave(newest)

    def _next_turn(self) -> int:
        self._turn += 1
        return self._turn

    def _leave(self, job: Job) -> None:
        """Removes a job that has its reply or was given up. A worker that is still busy with it is killed."""
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
        elif (queue := self._waiting.get(job.key)) is not None and job in queue:
            queue.remove(job)
            if not queue:
                del self._waiting[job.key]
        else:
            return  # it was removed already
        for part in _parts(job.key):
            self._job_counts[part] -= 1
            if not self._job_counts[part]:
                del self._job_counts[part], self._turns[part]

    def _schedule(self) -> None:
        """Schedules waiting jobs, in turn, on free workers."""
        while (self._free or len(self._workers) < self._most) and (ready := self._ready()):
            if (worker := self._worker()) is None:
                break
            key = ready[0]
            job = self._waiting[key].popleft()
            if not self._waiting[key]:
                del self._waiting[key]
            for part in _parts(key):
                self._turns[part] = self._next_turn()  # behind all others
            job.worker, job.started = worker, self._clock.time()
            self._running[key] = job
            worker.ask(job.head, job.body, job.done)
        self._arm()

    def _ready(self) -> list[Key]:
        """The keys with a waiting job and no running one, in the order of their turns."""
        running = Counter(part for key in self._running for part in _parts(key))
        ready = [key for key in self._waiting if key not in self._running]
        return sorted(ready, key=lambda key: [(running[part], self._turns[part]) for part in _parts(key)])

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
                for queue in [*self._waiting.values()]:
                    for job in queue:
                        job.fail(HostFailed(f"no worker process could be started: {error.strerror}"))
            return None
        self._workers.add(worker)
        return worker

    def _arm(self) -> None:
        """Sets the timer for the next worker that was idle long enough, or the next job that has had its
        share."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = [worker.idle_since + self._idle for worker in self._free]
        due += [job.started + self._share for job in self._displaceable()]
        if due and not self._closed:
            self._timer = self._clock.call_at(min(due), self._on_timer)

    def _displaceable(self) -> list[Job]:
        """The running jobs to end when they have had their share: at most one for each key that could run
        instead."""
        jobs = [job for job in self._running.values() if not job.done.done()]
        jobs.sort(key=lambda job: job.started)
        running = Counter(job.key[0] for job in jobs)
        found: list[Job] = []
        ended = len(self._running) - len(jobs)
        for key in self._ready()[ended:]:  # the first get the workers of jobs that have just ended
            tenant = key[0]
            others = [job for job in jobs if job.key[0] == tenant or running[job.key[0]] > running[tenant]]
            if others:
                job = max(others, key=lambda job: running[job.key[0]])  # the oldest, since jobs are sorted
                jobs.remove(job)
                found.append(job)
                running[job.key[0]] -= 1
                running[tenant] += 1
        return found

    def _on_timer(self) -> None:
        self._timer = None
        now = self._clock.time()
        for worker in [each for each in self._free if each.idle_since + self._idle <= now]:
            self._free.remove(worker)
            self._workers.discard(worker)
            self._kill(worker)
        for job in self._displaceable():
            if job.started + self._share <= now:
                why = f"checking it took more than {self._share:g} seconds while others waited"
                job.fail(Overloaded(why))
        self._arm()

    async def close(self) -> None:
        """Kills all workers and waits until they are gone; waiting jobs fail with Stopped."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for job in [*self._running.values(), *(job for queue in self._waiting.values() for job in queue)]:
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


def _parts(key: Key) -> Iterator[Key]:
    """The prefixes of a key: its tenant, the project in that, and so on to the key itself."""
    return (key[:end] for end in range(1, len(key) + 1))
