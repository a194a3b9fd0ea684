"""The host's storage for a kaged plugin: values by key, durable, and the plugin's own."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from plughost_sdk.peer import Peer

PAGE = 1000
"""Keys that the host tells at once, at most."""


class Storage:
    """Refusals raise `plughost_sdk.kaged.Error` with the host's code: -32001 is a capability not granted.

    `get` and `list` need kaged:storage:read, `set` and `delete` kaged:storage:write.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def get(self, key: str, default: Any = None) -> Any:
        answer = self._peer.call("kaged.storage.get", {"key": key})
        return answer["value"] if answer["found"] else default

    def set(self, key: str, value: Any) -> None:
        """Any JSON value, of at most 1 MiB. With the return of this it is safe."""
        self._peer.call("kaged.storage.set", {"key": key, "value": value})

    def delete(self, key: str) -> bool:
        """Whether it was there."""
        return bool(self._peer.call("kaged.storage.delete", {"key": key})["deleted"])

    def list(self, prefix: str = "") -> Iterator[str]:
        """The keys that begin with `prefix`, in order; as many are asked for as are taken."""
        after, more = "", True
        while more:
            params = {"prefix": prefix, "after": after, "limit": PAGE}
            page = self._peer.call("kaged.storage.list", params)
            yield from page["keys"]
            more = page["more"]
            after = page["keys"][-1] if more else ""
