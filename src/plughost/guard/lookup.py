"""Names to addresses, in a few threads of their own: slow name servers must not use up the program's."""

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

from plughost.guard.addresses import Address, is_public, literal

T = TypeVar("T")
Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""The IP addresses of a name; OSError when it has none."""


class Lookup:
    """The machine's own resolver, in so many threads at once. One starts when there is work for it.

    A program does not wait for them at its end: a name server that never answers keeps nobody from leaving.
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


def leads_away(address: Address) -> bool:
    """Whether it is a public address, and of another machine than this: to its own the kernel would send from
    that very address. Nothing is sent to find out."""
    if not is_public(address):
        return False
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as way:
            way.connect((str(address), 9))
            return ipaddress.ip_address(way.getsockname()[0]) != address
    except OSError as error:  # usually nowhere at all, as whoever connects will be told
        return error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


async def addresses(host: str, resolve: Resolve) -> list[Address]:
    """Every address of a canonical host, each once; OSError when it has none that can be read."""
    try:
        answers = [host] if literal(host) is not None else await resolve(host)
        return [ipaddress.ip_address(answer) for answer in dict.fromkeys(answers)]
    except ValueError as error:
        raise OSError(f"the name {host} cannot be looked up") from error
