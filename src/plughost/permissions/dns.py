"""Resolver: DNS lookups in a few threads of their own, so that slow name servers do not use up the
default executor's."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from plughost.permissions.addresses import Address, is_public, literal

T = TypeVar("T")
Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""Resolves a name to its IP addresses; raises OSError when it has none."""


class Resolver:
    """The system resolver (getaddrinfo), in so many threads at once. Call it with a host name.

    A program does not wait for the threads at its end: a name server that never answers delays no exit.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._turns = asyncio.Semaphore(threads)
        self._name = name

    async def __call__(self, host: str) -> list[str]:
        found = await self.in_thread(partial(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM))
        return [str(address[0]) for *_, address in found]

    async def in_thread(self, work: Callable[[], T]) -> T:
        """What `work` returns. Whoever no longer waits for it leaves its thread taken until it is done."""
        await self._turns.acquire()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def settle(set_it: Callable[[Any], None], outcome: Any) -> None:
            self._turns.release()
            if not done.done():
                set_it(outcome)

        def run() -> None:
            try:
                outcome: tuple[Callable[[Any], None], Any] = (done.set_result, work())
            except BaseException as error:
                outcome = (done.set_exception, error)
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(settle, *outcome)

        try:
            threading.Thread(target=run, name=self._name, daemon=True).start()
        except RuntimeError as error:
            self._turns.release()
            raise OSError(errno.EAGAIN, str(error)) from error
        return await done


def is_remote(address: Address) -> bool:
    """Whether an address is public and not of this machine: the kernel would send to its own address from
    that very address. Nothing is sent to find out."""
    if not is_public(address):
        return False
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return ipaddress.ip_address(probe.getsockname()[0]) != address
    except OSError as error:  # usually unreachable, which the connection attempt will report
        return error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


async def addresses(host: str, resolve: Resolve) -> list[Address]:
    """All addresses of a canonical host, without duplicates; raises OSError when it has none."""
    try:
        answers = [host] if literal(host) is not None else await resolve(host)
        return [ipaddress.ip_address(answer) for answer in dict.fromkeys(answers)]
    except ValueError as error:
        raise OSError(f"the name {host} cannot be resolved") from error
