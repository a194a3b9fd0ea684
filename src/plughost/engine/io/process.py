"""Process: one plugin process from spawn to exit, with its pipes, pidfd, stderr and signals. Linux only.

Nothing here waits: the caller's callbacks run when the program was executed (or could not be) and
when it has ended. All descriptors are non-blocking and watched by the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

from plughost._util.redaction.redactor import Redactor
from plughost.engine.io.channel import CHUNK, MAX_DRAIN, Channel
from plughost.engine.io.denial_records import DenialRecords
from plughost.engine.io.stderr import READ_SIZE, StderrTail
from plughost.engine.launcher.errors import NO_WATCHES, launch_failure
from plughost.engine.launcher.launch import Launch, LaunchReport
from plughost.errors import LaunchFailed

# The signals that the launcher obeys, see the top of launcher/plughost-launcher.c.
KILL_TREE = signal.SIGTERM
TERMINATE_PLUGIN = signal.SIGUSR1

KILL_TIMEOUT = 3.0
"""Seconds for a launcher to end after KILL_TREE before it is killed itself. It is long, for a machine that
stands still for a moment: processes that the launcher has no time to end may outlive it."""


class Process:
    """A running plugin process below its launcher. The descriptors `stdin` and `stdout` are for a channel to
    own."""

    __slots__ = (
        "_denial_records", "_denials", "_launch", "_loop", "_on_denials", "_on_executed", "_on_exit",
        "_on_stderr", "_pidfd", "_report", "_report_pipe", "_stderr_pipe", "confined_by", "exit_status",
        "mode", "pid", "stderr", "stdin", "stdout",
    )  # fmt: skip

    def __init__(
        self,
        launch: Launch,
        loop: asyncio.AbstractEventLoop,
        on_executed: Callable[[LaunchFailed | None], None],
        on_exit: Callable[[], None],
        *,
        on_stderr: Callable[[list[str]], None] | None = None,
        on_denials: Callable[[list[bytes]], None] | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        """Start it. Raises LaunchFailed when not even the launcher could be started.

        `on_denials` gets denial records of a sandboxed process, in the format of `launcher/watch.h`. The
        `redactor` hides secrets in its stderr.
        """
        self._launch = launch
        self._loop = loop
        self._on_executed = on_executed
        self._on_exit = on_exit
        self._on_stderr = on_stderr
        self._on_denials = on_denials
        self._report: LaunchReport | None = LaunchReport()
        self.mode = ""
        self.confined_by: tuple[str, ...] = ()
        self.exit_status: int | None = None
        self.stderr = StderrTail(redactor=redactor)
        self._denial_records = DenialRecords()
        spawned = spawn(launch)
        self.pid, self.stdin, self.stdout = spawned.pid, spawned.stdin, spawned.stdout
        self._pidfd = _WatchedFd(loop, spawned.pidfd)
        self._stderr_pipe = _WatchedFd(loop, spawned.stderr)
        self._report_pipe = _WatchedFd(loop, spawned.report)
        self._denials = _WatchedFd(loop, spawned.denials)
        try:
            self._pidfd.watch(self._exited)
            self._stderr_pipe.watch(self._read_stderr)
            self._report_pipe.watch(self._read_report)
            self._denials.watch(self._read_denials)
        except OSError as error:
            self.kill_launcher()
            self._reap()
            self.release()
            os.close(self.stdin)
            os.close(self.stdout)
            raise _spawn_failure(launch.argv()[0], error) from error

    def __repr__(self) -> str:
        state = "running" if self.alive else f"exit status {self.exit_status}"
        return f"<Process {self.pid} {self.mode or 'not executed'}: {state}>"

    @property
    def alive(self) -> bool:
        return self._pidfd.is_open

    def terminate(self) -> None:
        """Ask the plugin to end: the launcher sends SIGTERM to it, and to none of its descendants."""
        self._signal(TERMINATE_PLUGIN)

    def kill(self) -> None:
        """Kill the plugin and every descendant: the launcher does it. `on_exit` is called when all of them
        are gone."""
        self._signal(KILL_TREE)

    def kill_launcher(self) -> None:
        """Send SIGKILL to a launcher that does not react: the kernel then kills the processes below it."""
        self._signal(signal.SIGKILL)

    def release(self) -> None:
        """Close every descriptor that is left, except the two of the channel. Does not wait for anything."""
        for watched in (self._pidfd, self._stderr_pipe, self._report_pipe, self._denials):
            watched.close()

    def abandon(self, channel: Channel | None) -> None:
        """Kill the process of a host that was garbage collected. If the loop still runs, the exit is noticed
        as usual; if it is closed, this waits for the exit."""
        self.kill()
        if self._loop.is_closed() and self.alive:
            if not select.select([self._pidfd.fd], [], [], KILL_TIMEOUT)[0]:
                self.kill_launcher()
            self._reap()
            if channel is not None:
                channel.close()
            self.release()

    def _signal(self, number: int) -> None:
        if self.alive:
            try:
                signal.pidfd_send_signal(self._pidfd.fd, number)
            except ProcessLookupError:
                pass  # it has just ended: `_exited` follows

    def _reap(self) -> None:
        """Wait for the launcher's exit, and keep its status; None if the embedding program has reaped it."""
        try:
            result = os.waitid(os.P_PIDFD, self._pidfd.fd, os.WEXITED)
        except ChildProcessError:
            return
        assert result is not None  # only WNOHANG returns None
        self.exit_status = result.si_status if result.si_code == os.CLD_EXITED else -result.si_status

    def _read_report(self) -> None:
        """Read the launcher's report until the launcher, its child and the plugin have all closed the
        pipe."""
        report = self._report
        assert report is not None
        while data := self._report_pipe.read():
            report.feed(data)
        if data is None:
            return
        self._report_pipe.close()
        self._report = None
        self.mode = report.mode
        self.confined_by = report.confined_by
        self._on_executed(report.failure(self._launch))

    def _read_denials(self) -> None:
        data = self._denials.read()
        if data:
            self._take_denials(data)
        elif data is not None:
            self._denials.close()

    def _take_denials(self, data: bytes) -> None:
        records = self._denial_records.feed(data)
        if records and self._on_denials is not None:
            self._on_denials(records)

    def _read_stderr(self) -> None:
        data = self._stderr_pipe.read(READ_SIZE)
        if data:
            self._take_stderr(data)
        elif data is not None:
            self._stderr_pipe.close()

    def _take_stderr(self, data: bytes) -> None:
        lines = self.stderr.feed(data)
        if lines and self._on_stderr is not None:
            self._on_stderr(lines)

    def _exited(self) -> None:
        """The launcher and everything below it have ended: read the rest of the pipes, then call
        `on_exit`."""
        self._reap()
        self._pidfd.close()
        for _ in range(MAX_DRAIN // CHUNK):
            if not (data := self._stderr_pipe.read()):
                break
            self._take_stderr(data)
        if self._on_stderr is not None and (rest := self.stderr.rest()):
            self._on_stderr([rest])
        if data := self._denials.read():
            self._take_denials(data)
        if self._report_pipe.is_open:
            self._read_report()
        self._on_exit()


class _WatchedFd:
    """A descriptor that the event loop watches until it is closed; -1 is one that is closed already."""

    __slots__ = ("_loop", "fd")

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        self._loop = loop
        self.fd = fd

    @property
    def is_open(self) -> bool:
        return self.fd >= 0

    def watch(self, on_readable: Callable[[], None]) -> None:
        if self.is_open:
            self._loop.add_reader(self.fd, on_readable)

    def read(self, limit: int = CHUNK) -> bytes | None:
        """Bytes; b"" at the end of the stream, or when it is closed; None when there is nothing to read
        now."""
        if not self.is_open:
            return b""
        try:
            return os.read(self.fd, limit)
        except BlockingIOError:
            return None
        except OSError:  # not expected of a pipe; whatever it is, there is nothing more to be read
            return b""

    def close(self) -> None:
        if self.is_open:
            if not self._loop.is_closed():
                self._loop.remove_reader(self.fd)
            os.close(self.fd)
            self.fd = -1


class SpawnedProcess(NamedTuple):
    """A launcher that was started, with the host's ends of its pipes."""

    pid: int
    pidfd: int
    stdin: int
    stdout: int
    stderr: int
    report: int
    denials: int
    """-1 for a process that is not sandboxed."""


def spawn(launch: Launch) -> SpawnedProcess:
    """Start the launcher, without waiting for what it does. LaunchFailed when it cannot be started; then, as
    after any other exception, it has been killed and its pipes are closed."""
    if not sys.platform.startswith("linux"):
        raise LaunchFailed(
            f"plughost cannot run plugins on {sys.platform} yet: only on Linux can it make sure that "
            "no process of theirs is left behind"
        )
    argv = launch.argv()
    with ExitStack() as child_ends, ExitStack() as on_failure:

        def pipe(*, from_child: bool = True) -> tuple[int, int]:
            """A pipe: the child's end, and the host's."""
            reading, writing = os.pipe2(os.O_CLOEXEC)
            theirs, ours = (writing, reading) if from_child else (reading, writing)
            child_ends.callback(os.close, theirs)
            on_failure.callback(os.close, ours)
            os.set_blocking(ours, False)
            return theirs, ours

        try:
            pipes = [pipe(from_child=False), pipe(), pipe(), pipe()]
            if launch.confine != "-":
                pipes.append(pipe())
            pid = os.posix_spawn(
                argv[0],
                argv,
                launch.env,
                # The launcher closes all higher descriptors, so that none of the host's leak.
                file_actions=_dup2_actions([theirs for theirs, _ in pipes]),
            )
            on_failure.callback(_kill_unwatched, pid)
            pidfd = os.pidfd_open(pid)
        except Exception as error:
            raise _spawn_failure(argv[0], error) from error
        on_failure.pop_all()
    stdin, stdout, stderr, report, *denials = (ours for _, ours in pipes)
    return SpawnedProcess(pid, pidfd, stdin, stdout, stderr, report, denials[0] if denials else -1)


def _kill_unwatched(pid: int) -> None:
    """Kill and reap a launcher for which there is no pidfd."""
    with contextlib.suppress(ProcessLookupError, ChildProcessError):  # the embedding program has reaped it
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _dup2_actions(fds: list[int]) -> list[tuple[int, int, int]]:
    """dup2 actions that put `fds` at 0, 1, 2, 3 … even when they overlap those numbers."""
    high = max(*fds, len(fds)) + 1
    moves = [(os.POSIX_SPAWN_DUP2, fd, high + target) for target, fd in enumerate(fds)]
    return moves + [(os.POSIX_SPAWN_DUP2, high + target, target) for target in range(len(fds))]


def _spawn_failure(program: str, error: Exception) -> LaunchFailed:
    if isinstance(error, OSError) and error.errno == errno.EBADF:  # dup2 to a descriptor above the limit
        error = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    failure = launch_failure(f"cannot start {program!r}", error)
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:  # not a disk: epoll's limit of watches
        failure.hint = NO_WATCHES
    elif isinstance(error, OSError) and error.errno == errno.E2BIG:
        failure.hint = (
            "command and environment together are longer than the system allows: pass large data in a file"
        )
    return failure
