"""Starts python-lsp-jsonrpc servers and sends them requests: a thread reads, callers wait for futures."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections import deque
from collections.abc import Awaitable
from threading import Thread
from time import perf_counter
from typing import Any

from pylsp_jsonrpc.endpoint import Endpoint
from pylsp_jsonrpc.streams import JsonRpcStreamReader, JsonRpcStreamWriter

from benchmarks import payload, timing
from benchmarks.contenders.contender import Caller
from benchmarks.peers.obedience import obey

SERVER = (sys.executable, "-m", "benchmarks.peers.pylsp_jsonrpc.server")


class PylspJsonrpc(Caller):
    async def open(self) -> None:
        pipe = subprocess.PIPE
        self._server = subprocess.Popen(SERVER, stdin=pipe, stdout=pipe)
        self._writer = JsonRpcStreamWriter(self._server.stdin)
        self._endpoint = Endpoint({}, self._writer.write)
        reader = JsonRpcStreamReader(self._server.stdout)
        Thread(target=reader.listen, args=(self._endpoint.consume,), daemon=True).start()

    async def close(self) -> None:
        self._writer.close()
        self._server.wait()
        self._endpoint.shutdown()

    def call(self, params: Any, method: str = "echo") -> Awaitable[Any]:
        return asyncio.wrap_future(self._endpoint.request(method, params))

    async def one_at_a_time(self, size: int, seconds: float) -> list[float]:
        params = payload.params(size)
        return timing.one_at_a_time_blocking(lambda: self._endpoint.request("echo", params).result(), seconds)

    async def in_flight(self, size: int, width: int, seconds: float) -> float:
        """One thread that waits for the oldest answer and sends a request in its place."""
        params = payload.params(size)
        began = perf_counter()
        waiting = deque(self._endpoint.request("echo", params) for _ in range(width))
        answered = 0
        while waiting:
            waiting.popleft().result()
            answered += 1
            if perf_counter() < began + seconds:
                waiting.append(self._endpoint.request("echo", params))
        return answered / (perf_counter() - began)


logging.disable()
asyncio.run(obey(PylspJsonrpc, "python-lsp-jsonrpc", "ujson"))
