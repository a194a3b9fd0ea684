"""The host's end of vai.rpc.v1 over raw pipes: frames out, frames in, and nothing that helps."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

PROTOCOL = "vai.rpc.v1"
PATIENCE = 100.0
"""Seconds for a whole conversation, also on a busy machine."""
HELLO = {"type": "hello", "role": "host", "host": {"name": "vai-runner", "version": "0.1.0"}}


def context(**more: Any) -> dict[str, Any]:
    """An invocation's, as the source text shows it, with a deadline in a minute."""
    deadline = (datetime.now(UTC) + timedelta(seconds=60)).isoformat().replace("+00:00", "Z")
    told = {
        f"{name}_id": f"{name}_1"
        for name in ("invocation", "trace", "org", "project", "session", "chain", "run")
    }
    gateway = {"base_url": "http://127.0.0.1:1", "delegation_token": None, "scopes": []}
    return {**told, "deadline_at": deadline, "scratch_dir": None, "gateway": gateway, **more}


class Talk:
    """A plugin's process. It is gone at the end of the `with`, whatever it does."""

    def __init__(
        self, command: Sequence[str | Path], cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self._process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._out, self._in = self._process.stdin, self._process.stdout
        self._watchdog = threading.Timer(PATIENCE, self._process.kill)
        self._watchdog.start()
        self._last = 0
        self.stderr = ""

    def __enter__(self) -> Talk:
        return self

    def __exit__(self, *_: object) -> None:
        self._watchdog.cancel()
        self._watchdog.join()
        self._process.kill()
        self._process.communicate()

    def hello(self) -> dict[str, Any]:
        self.send(HELLO)
        return self.hear()

    def send(self, message: Mapping[str, Any]) -> None:
        self.send_body(json.dumps({"protocol": PROTOCOL, **message}).encode())

    def send_body(self, body: bytes) -> None:
        self.send_bytes(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def send_bytes(self, data: bytes) -> None:
        self._out.write(data)
        self._out.flush()

    def hear(self) -> Any:
        header = self._in.readline()
        assert header, f"it has ended: {self._process.stderr.read() if self._process.stderr else ''!r}"
        assert self._in.readline() == b"\r\n"
        message = json.loads(self._in.read(int(header.removeprefix(b"Content-Length: "))))
        assert message.pop("protocol") == PROTOCOL
        return message

    def request(self, op: str, export_id: str, **body: Any) -> str:
        """Its id."""
        self._last += 1
        number = f"req_{self._last}"
        body = {"export_id": export_id, "context": context(), **body}
        self.send({"type": "request", "id": number, "op": op, "body": body})
        return number

    def answer(self, number: str) -> Any:
        """The body of the response that comes next."""
        message = self.hear()
        assert (message["type"], message["id"], message["ok"]) == ("response", number, True), message
        return message["body"]

    def ask(self, op: str, export_id: str, **body: Any) -> Any:
        return self.answer(self.request(op, export_id, **body))

    def tool(self, export_id: str, input: Any = None, **body: Any) -> Any:
        """Its result, which succeeded."""
        told = self.ask("tool.invoke", export_id, tool_execution_id="toolx_1", input=input or {}, **body)
        assert told["status"] == "succeeded", told
        return told["result"]

    def cancel(self, number: str, reason: str = "deadline_exceeded") -> None:
        self.send({"type": "cancel", "request_id": number, "reason": reason})

    def hang_up(self) -> None:
        """Say nothing more, not even that it is over."""
        self._out.close()
        self._process.stdin = None

    def end(self, *, shutdown: bool = True) -> int:
        """Its exit code; it has nothing more to say."""
        if shutdown:
            self.send({"type": "shutdown"})
        rest, log = self._process.communicate()
        self.stderr = log.decode()
        assert rest == b""
        return self._process.returncode
