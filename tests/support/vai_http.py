"""A server on loopback, or on a Unix socket, that answers as it is told and remembers what it was asked."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple


class Asked(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: Any


Answer = tuple[int, Any]
"""A status, and a body: bytes as they are, anything else as JSON."""


class Server:
    def __init__(self, answer: Callable[[Asked], Answer]) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.url = ""


@contextmanager
def serving(answer: Callable[[Asked], Answer], socket: Path | None = None) -> Iterator[Server]:
    server = Server(answer)

    class Handler(BaseHTTPRequestHandler):
        def do(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(size)) if size else None
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, self.path, headers, body)
            server.asked.append(asked)
            status, told = server.answer(asked)
            data = told if isinstance(told, bytes) else json.dumps(told).encode()
            self.send_response(status)
            if status in (301, 302):
                self.send_header("Location", data.decode())
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do

        def log_message(self, *_: object) -> None:
            pass

        def address_string(self) -> str:
            return ""

    kind = socketserver.ThreadingTCPServer if socket is None else socketserver.ThreadingUnixStreamServer
    listening = kind(("127.0.0.1", 0) if socket is None else str(socket), Handler)  # type: ignore[arg-type]
    listening.daemon_threads = True
    listening.handle_error = lambda *_: None  # type: ignore[method-assign]  # who asked has left
    with listening:
        if socket is None:
            server.url = f"http://127.0.0.1:{listening.server_address[1]}"
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()
