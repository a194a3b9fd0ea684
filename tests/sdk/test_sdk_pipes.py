"""The SDK's two pipes: while one is full, the other is read, in order and within bounds."""

from __future__ import annotations

import os
import subprocess
import threading

import pytest

from plughost_sdk.pipes import CHUNK, Pipes
from tests.support.sdk import program

pytestmark = pytest.mark.timeout(60)  # a test that hangs here fails


class Ends:
    """A plugin's pipes, and the host's ends of them."""

    def __init__(self, most: int) -> None:
        self.incoming, self.write = os.pipe()
        self.read, self.outgoing = os.pipe()
        os.set_blocking(self.outgoing, False)
        self.pipes = Pipes(self.incoming, self.outgoing, most)

    def close(self) -> None:
        for descriptor in (self.incoming, self.write, self.read, self.outgoing):
            os.close(descriptor)

    def put(self, data: bytes) -> None:
        """The plugin sends all of this."""
        view = memoryview(data)
        while view:
            view = view[self.pipes.send(view) :]

    def take(self, size: int) -> bytes:
        """The plugin receives that much, by both ways in turn."""
        taken, room = bytearray(), bytearray(1000)
        while len(taken) < size:
            taken += self.pipes.receive(min(CHUNK, size - len(taken)))
            with memoryview(room)[: size - len(taken)] as view:
                taken += view[: self.pipes.receive_into(view)] if view else b""
        return bytes(taken)


@pytest.fixture
def ends(request):
    ends = Ends(request.param)
    yield ends
    ends.close()


def begin(work, *given) -> tuple[threading.Thread, list]:
    got: list = []
    thread = threading.Thread(target=lambda: got.append(work(*given)), daemon=True)
    thread.start()
    return thread, got


NUMBERS = b"".join(b"%8d" % n for n in range(1 << 17))
"""A mebibyte, no two pieces of it alike."""


@pytest.mark.parametrize("ends", [len(NUMBERS)], indirect=True)
def test_one_thread_sends_while_another_receives(ends):
    sending, _ = begin(ends.put, NUMBERS)
    taking, taken = begin(ends.take, len(NUMBERS))
    with open(ends.write, "wb", closefd=False) as host:
        host.write(NUMBERS)
    taking.join()
    with open(ends.read, "rb", closefd=False) as host:
        assert host.read(len(NUMBERS)) == NUMBERS
    sending.join()
    assert taken == [NUMBERS]


@pytest.mark.parametrize("ends", [3 * CHUNK], indirect=True)
def test_what_is_kept_meanwhile_is_bounded_and_goes_on_when_there_is_room(ends):
    sending, _ = begin(ends.put, NUMBERS)
    os.set_blocking(ends.write, False)
    told, refused = 0, 0
    while refused < 10 and told < len(NUMBERS):
        try:
            told += os.write(ends.write, NUMBERS[told : told + CHUNK])
        except BlockingIOError:
            refused += 1
            sending.join(0.01)
    assert told <= 3 * CHUNK + CHUNK + CHUNK, "the bound, the read that passes it, and the pipe"
    assert ends.take(told) == NUMBERS[:told]
    os.set_blocking(ends.write, True)
    more = NUMBERS[told : told + 3 * CHUNK]
    with open(ends.write, "wb", closefd=False) as host:
        host.write(more)  # three times what the pipe holds
    with open(ends.read, "rb", closefd=False) as host:
        assert host.read(len(NUMBERS)) == NUMBERS
    sending.join()
    assert ends.take(len(more)) == more


@pytest.mark.parametrize("ends", [len(NUMBERS)], indirect=True)
def test_what_another_thread_takes_first_is_not_waited_for(ends):
    class Late:
        """We get to read only after somebody who has read everything."""

        def acquire(self, _):
            assert os.read(ends.incoming, CHUNK) == b"news"
            return True

        def release(self): ...

    with pytest.raises(BlockingIOError):
        while True:
            os.write(ends.outgoing, NUMBERS)
    os.write(ends.write, b"news")
    ends.pipes._reading = Late()
    ends.pipes._wait()


@pytest.mark.parametrize("ends", [len(NUMBERS)], indirect=True)
def test_a_host_that_has_said_all_is_still_told_everything(ends):
    sending, _ = begin(ends.put, NUMBERS)
    os.write(ends.write, b"the end")
    os.dup2(ends.read, ends.write)  # closes the only end that is written to
    with open(ends.read, "rb", closefd=False) as host:
        assert host.read(len(NUMBERS)) == NUMBERS
    sending.join()
    assert ends.take(7) == b"the end"
    assert ends.pipes.receive(CHUNK) == b""


CLAIMING = """
import os
from plughost_sdk import pipes
pipes.claim()
print(os.get_blocking(pipes._claimed[1]))
"""


@pytest.mark.parametrize("shared", [True, False])
def test_what_is_stderr_too_blocks_as_it_did(tmp_path, shared):
    command, errors = program(tmp_path / "plugin", CLAIMING), subprocess.STDOUT if shared else subprocess.PIPE
    ran = subprocess.run([command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
    assert (ran.stdout if shared else ran.stderr).decode() == f"{shared}\n"
