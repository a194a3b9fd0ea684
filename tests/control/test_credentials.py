"""Who may use a control socket, by what the kernel says of the process at the other end."""

from __future__ import annotations

import os
import signal
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from plughost.control.credentials import may_control

LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
ATTEMPTS = 1000
SO_PEERPIDFD = 77


@pytest.fixture
def listening(tmp_path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        yield listening


def child(deed) -> int:
    """A child that does the deed and ends; one without a deed waits to be killed."""
    pid = os.fork()
    if pid == 0:
        try:
            if deed is None:
                signal.pause()
            else:
                deed()
        finally:
            os._exit(0)
    return pid


def end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def child_with_id(pid: int) -> int | None:
    """A child with the process id of one that has ended; None if that is impossible here."""
    for _ in range(ATTEMPTS):
        try:
            LAST_PID.write_text(str(pid - 1))
        except OSError:
            return None
        made = child(None)
        if made == pid:
            return made
        end(made)  # another process of the machine was faster
    return None


def has_handles() -> bool:
    one, other = socket.socketpair()
    with one, other:
        try:
            os.close(struct.unpack("i", one.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD, 4))[0])
        except OSError:
            return False
    return True


@pytest.mark.parametrize("reused", [False, True], ids=["ended", "reused"])
def test_a_process_that_has_ended_is_refused_even_if_its_id_is_another_ones(listening, reused):
    def connect() -> None:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(listening.getsockname())
        connection.sendall(b'{"do": "ps"}\n')

    connected = child(connect)
    os.waitpid(connected, 0)
    other = child_with_id(connected) if reused else None
    if reused and other is None:
        pytest.skip("this user cannot choose the id of a process")
    accepted, _ = listening.accept()
    with accepted:
        try:
            if reused and not has_handles():
                pytest.skip("before Linux 6.5 the kernel has no handle of the process that connected")
            assert not may_control(accepted)
        finally:
            if other is not None:
                end(other)


def test_a_process_of_this_user_that_runs_may_control_and_costs_no_descriptor(listening):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(listening.getsockname())
        accepted, _ = listening.accept()
        with accepted:
            before = len(os.listdir("/proc/self/fd"))
            assert may_control(accepted)
            assert len(os.listdir("/proc/self/fd")) == before
