"""What an ainb plugin may ask of its host. A call blocks until the answer is there, wherever it is made."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64

from plughost_sdk.message import Error, quick

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from plughost_sdk.peer import Peer

LEVELS = ("trace", "debug", "info", "warn", "error")


def to_text(data: bytes) -> str:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"a payload is bytes, not {type(data).__name__}: encode text with .encode()")
    return b2a_base64(data, newline=False).decode()


def to_bytes(wire: Any) -> bytes:
    """Base64, or the older form: an array of numbers."""
    if not isinstance(wire, str):
        return bytes(wire)
    msgspec = quick(len(wire))
    return a2b_base64(wire, strict_mode=True) if msgspec is None else msgspec.convert(wire, bytes)


class Host:
    """Refusals raise `plughost_sdk.ainb.Error` with the host's code: -32001 is a capability not granted."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.snapshot = Snapshots(peer)
        self.fs = Files(peer)
        self.network = Network(peer)
        self.action = Actions(peer)
        self.log = Log(peer)


class Service:
    def __init__(self, peer: Peer) -> None:
        self._peer = peer


class Snapshots(Service):
    """Needs the capability event_bus."""

    def get(self, topic: str) -> tuple[bytes | None, int]:
        """The latest payload and its version; None and 0 before the first publish."""
        answer = self._peer.call("host/snapshot/get", {"topic": topic})
        payload = answer.get("payload")
        return None if payload is None else to_bytes(payload), answer["version"]

    def publish(self, topic: str, payload: bytes) -> None:
        self._peer.tell("host/snapshot/publish", {"topic": topic, "payload": to_text(payload)})

    def publish_batch(self, topic: str, data: dict[str, Any], *, partial: bool = False) -> None:
        """Usage data of any size, in chunks: aggregates, and `calls`, a list. Needs the extra `batch`."""
        import time

        from plughost_sdk.chunks import split

        for chunk in split(data, time.time_ns(), partial=partial):
            self.publish(topic, chunk)

    def subscribe(self, topic: str) -> None:
        """For topics that neither the manifest nor a decorator names: the SDK subscribes to those."""
        self._peer.call("host/snapshot/subscribe", {"topic": topic})

    def subscribe_all(self, topics: Iterable[str]) -> dict[str, Error]:
        """Several at once; the refusals by their topics."""
        refused = {}
        asked = {topic: self._peer.start("host/snapshot/subscribe", {"topic": topic}) for topic in topics}
        for topic, number in asked.items():
            try:
                self._peer.finish(number)
            except Error as error:
                refused[topic] = error
        return refused


class Entry:
    def __init__(self, name: str, is_dir: bool, size: int, modified_ns: int = 0) -> None:
        self.name = name
        self.is_dir = is_dir
        self.size = size
        self.modified_ns = modified_ns
        """When its content last changed, in nanoseconds of Unix time; 0 where the host does not tell."""

    def __repr__(self) -> str:
        return f"Entry({self.name!r}, {'folder' if self.is_dir else self.size})"


class Files(Service):
    """Needs read_sessions, read_claude_logs or read_codex_logs, by the folder."""

    def read_dir(self, path: str) -> list[Entry]:
        entries = self._peer.call("host/fs/read_dir", {"path": path})["entries"]
        return [
            Entry(entry["name"], entry["is_dir"], entry.get("size", 0), entry.get("modified_ns", 0))
            for entry in entries
        ]

    def read_file(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """All of it, or a part: up to `length` bytes from `offset` on, of which 12 MiB come at a time."""
        return self.reading(path, offset, length)()

    def reading(self, path: str, offset: int = 0, length: int | None = None) -> Callable[[], bytes]:
        """The same, asked for now and taken later by a call that must be made; the host reads meanwhile."""
        params: dict[str, Any] = {"path": path}
        if offset:
            params["offset"] = offset
        if length is not None:
            params["length"] = length
        number = self._peer.start("host/fs/read_file", params)

        def take() -> bytes:
            answer = self._peer.finish(number)
            data = to_bytes(answer["bytes"])
            if len(params) == 1 or "offset" in answer:
                return data
            # The whole file: this host knows no parts.
            return data[offset:] if length is None else data[offset : offset + length]

        return take


class Response:
    def __init__(self, wire: dict[str, Any]) -> None:
        self.status: int = wire["status"]
        self.headers = [(name, value) for name, value in wire["headers"]]
        self.body = to_bytes(wire["body"])


class Network(Service):
    """Needs the capability network."""

    def fetch(
        self,
        url: str,
        method: str = "",
        body: bytes | None = None,
        headers: Iterable[tuple[str, str]] = (),
    ) -> Response:
        params = {
            "url": url,
            "method": method,
            "body": None if body is None else to_text(body),
            "headers": [list(header) for header in headers],
        }
        return Response(self._peer.call("host/network/fetch", params))


class Actions(Service):
    def invoke(self, action: str, payload: bytes = b"", timeout_ms: int = 0) -> bytes:
        """An action of the host or of another plugin; `Error` -32002 when its time is over (0: never)."""
        params = {"action": action, "payload": to_text(payload), "timeout_ms": timeout_ms}
        return to_bytes(self._peer.call("host/action/invoke", params)["payload"])


class Log(Service):
    def __call__(self, level: str, message: str, **fields: Any) -> None:
        if level not in LEVELS:
            raise ValueError(f"unknown log level {level!r}; known: {', '.join(LEVELS)}")
        self._peer.tell(
            "host/log", {"level": level, "message": message, **({"fields": fields} if fields else {})}
        )

    def trace(self, message: str, **fields: Any) -> None:
        self("trace", message, **fields)

    def debug(self, message: str, **fields: Any) -> None:
        self("debug", message, **fields)

    def info(self, message: str, **fields: Any) -> None:
        self("info", message, **fields)

    def warn(self, message: str, **fields: Any) -> None:
        self("warn", message, **fields)

    def error(self, message: str, **fields: Any) -> None:
        self("error", message, **fields)
