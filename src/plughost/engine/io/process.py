"""Process: one plugin process from spawn to exit, with its pipes, pidfd, stderr and signals. Linux only.

Nothing here waits: the caller's callbacks run when the program was executed (or could not be) and
when it has ended. All descriptors are non-blocking and watched by the event loop.
"""

from __future__ import annotations

import asyncio
import errno
import os
import select
import signal
import sys
from collections.abc import Callable

from plughost._util.redaction.redactor import Redactor
from plughost.engine.io.channel import CHUNK, MAX_DRAIN, Channel
from plughost.engine.io.denial_records import DenialRecords
from plughost.engine.io.stderr import READ_SIZE, StderrTail
from plughost.engine.launcher.errors import NO_WATCHES, launch_failure
from plughost.engine.launcher.launch import Launch, LaunchReport
from plughost.errors import LaunchFailed

KILL_TIMEOUT = 3.0
"""Seconds for a launcher to end after SIGTERM before it is killed itself. It is long, for a machine that
stands still for a moment: processes that the launcher has no time to end may outlive it."""


class Process:
    """A running plugin process below its launcher. The descriptors `stdin` and `stdout` are for a channel to
    own."""

    __slots__ = (
        "_denial_records", "_denials_fd", "_launch", "_loop", "_on_denials", "_on_executed", "_on_exit",
        "_on_stderr", "_pidfd", "_report", "_report_fd", "_stderr_fd", "confined_by", "exit_status", "mode",
        "pid", "stderr", "stdin", "stdout",
    )  # fmt: skip

    def __init__(
        self,
        launch: Launch,
        loop: asyncio.AbstractEventLoop,
        on_executed: Callable[[LaunchFailed | None], None],
        on_exit: Callable[[], None],
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
        self.pid = self.stdin = self.stdout = -1
        self._pidfd = self._stderr_fd = self._report_fd = self._denials_fd = -1
        self._denial_records = DenialRecords()
        self._spawn(launch)
        try:
            self._watch()
        except OSError as error:
            self._reap_unwatched()
            raise _spawn_failure(launch.argv()[0], error) from error

    def _watch(self) -> None:
        self._loop.add_reader(self._pidfd, self._exited)
        self._loop.add_reader(self._stderr_fd, self._read_stderr)
        self._loop.add_reader(self._report_fd, self._read_report)
        if self._denials_fd >= 0:
            self._loop.add_reader(self._denials_fd, self._read_denials)

    def _reap_unwatched(self) -> None:
        """Kill and reap a process that was started but cannot be watched by the event loop."""
        self.kill_launcher()
        os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED)
        self.release()
        os.close(self.stdin)
        os.close(self.stdout)

    @property
    def alive(self) -> bool:
        return self._pidfd >= 0

    def kill(self) -> None:
        """Kill the plugin and every descendant. `on_exit` is called when all of them are gone."""
        self._signal(signal.SIGTERM)

    def kill_launcher(self) -> None:
        """Kill a launcher that does not react: the kernel then kills the processes below it."""
        self._signal(signal.SIGKILL)

    def ask_to_end(self) -> None:
        """Send the plugin itself a polite SIGTERM."""
        self._signal(signal.SIGUSR1)

    def release(self) -> None:
        """Close every descriptor that is left, except the two of the channel. Does not wait for anything."""
        for fd in (self._pidfd, self._stderr_fd, self._report_fd, self._denials_fd):
            if fd >= 0:
                if not self._loop.is_closed():
                    self._loop.remove_reader(fd)
                os.close(fd)
        self._pidfd = self._stderr_fd = self._report_fd = self._denials_fd = -1

    def abandon(self, channel: Channel | None) -> None:
        """Kill the process of a host that was garbage collected. If the loop still runs, the exit is noticed
        as usual; if it is closed, this waits for the exit."""
        self.kill()
        if self._loop.is_closed() and self._pidfd >= 0:
            if not select.select([self._pidfd], [], [], KILL_TIMEOUT)[0]:
                self.kill_launcher()
            try:
                os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED)
            except ChildProcessError:
                pass
            if channel is not None:
                channel.close()
            self.release()

    def _signal(self, number: int) -> None:
        if self._pidfd >= 0:
            try:
                signal.pidfd_send_signal(self._pidfd, number)
            except ProcessLookupError:
                pass  # it has just ended: `_exited` follows

    def _spawn(self, launch: Launch) -> None:
        if not sys.platform.startswith("linux"):
            raise LaunchFailed(
                f"plughost cannot run plugins on {sys.platform} yet: only on Linux can it make sure that "
                "nothing of them is left behind"
            )
        argv = launch.argv()
        fds: list[int] = []
        try:
            for _ in range(4 if launch.confine == "-" else 5):
                fds += os.pipe2(os.O_CLOEXEC)
            stdin, self.stdin, self.stdout, stdout, self._stderr_fd, stderr, self._report_fd, report = fds[:8]
            child_fds = [stdin, stdout, stderr, report, *fds[9:]]
            own_fds = [self.stdin, self.stdout, self._stderr_fd, self._report_fd, *fds[8:9]]
            self.pid = os.posix_spawn(
                argv[0],
                argv,
                launch.env,
                # The launcher closes all higher descriptors, so that none of the host's leak.
                file_actions=_dup2_actions(child_fds),
            )
            self._pidfd = os.pidfd_open(self.pid)
        except Exception as error:
            for fd in fds:
                os.close(fd)
            if self.pid > 0:  # started, but there is no pidfd to watch it by
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            raise _spawn_failure(argv[0], error) from error
        for fd in child_fds:
            os.close(fd)
        for fd in own_fds:
            os.set_blocking(fd, False)
        self._denials_fd = fds[8] if len(fds) > 8 else -1

    def _read_report(self) -> None:
        """Read the launcher's report until the launcher, its child and the plugin have all closed the
        pipe."""
        report = self._report
        assert report is not None
        while data := _read(self._report_fd):
            report.feed(data)
        if data is None:
            return
        self._loop.remove_reader(self._report_fd)
        os.close(self._report_fd)
        self._report_fd = -1
        self._report = None
        self.mode = report.mode
        self.confined_by = report.confined_by
        self._on_executed(report.failure(self._launch))

    def _read_denials(self) -> None:
        data = _read(self._denials_fd)
        if data:
            self._take_denials(data)
        elif data is not None:
            self._loop.remove_reader(self._denials_fd)
            os.close(self._denials_fd)
            self._denials_fd = -1

    def _take_denials(self, data: bytes) -> None:
        records = self._denial_records.feed(data)
        if records and self._on_denials is not None:
            self._on_denials(records)

    def _read_stderr(self) -> None:
        data = _read(self._stderr_fd, READ_SIZE)
        if data:
            self._take_stderr(data)
        elif data is not None:
            self._loop.remove_reader(self._stderr_fd)
            os.close(self._stderr_fd)
            self._stderr_fd = -1

    def _take_stderr(self, data: bytes) -> None:
        lines = self.stderr.feed(data)
        if lines and self._on_stderr is not None:
            self._on_stderr(lines)

    def _exited(self) -> None:
        """The launcher and everything below it have ended: read the rest of the pipes, then call
        `on_exit`."""
        self._loop.remove_reader(self._pidfd)
        try:
            result = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED)
        except ChildProcessError:
            result = None  # the embedding program has reaped it: the status is lost
        if result is not None:
            self.exit_status = result.si_status if result.si_code == os.CLD_EXITED else -result.si_status
        os.close(self._pidfd)
        self._pidfd = -1
        for _ in range(MAX_DRAIN // CHUNK):
            if self._stderr_fd < 0 or not (data := _read(self._stderr_fd)):
                break
            self._take_stderr(data)
        if self._on_stderr is not None and (rest := self.stderr.rest()):
            self._on_stderr([rest])
        if self._denials_fd >= 0 and (data := _read(self._denials_fd)):
            self._take_denials(data)
        if self._report_fd >= 0:
            self._read_report()
        self._on_exit()


def _dup2_actions(fds: list[int]) -> list[tuple[int, int, int]]:
    """dup2 actions that put `fds` at 0, 1, 2, 3 … even when they overlap those numbers."""
    high = max(*fds, len(fds)) + 1
    moves = [(os.POSIX_SPAWN_DUP2, fd, high + target) for target, fd in enumerate(fds)]
    return moves + [(os.POSIX_SPAWN_DUP2, high + target, target) for target in range(len(fds))]


def _read(fd: int, limit: int = CHUNK) -> bytes | None:
    """Bytes; b"" at the end of the stream; None when there is nothing to read now."""
    try:
        return os.read(fd, limit)
    except BlockingIOError:
        return None
    except OSError:
        return b""


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
