"""The egress of one plugin instance: its proxy outside, and what its sandbox needs to reach the proxy."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

from plughost._util.rmtree import rmtree
from plughost.permissions.access import Endpoint
from plughost.permissions.dns import Resolve
from plughost.sandbox.egress.connection import Connection, EgressLimits
from plughost.sandbox.egress.hosts_file import proxy_environment
from plughost.sandbox.egress.proxy import EgressProxy
from plughost.sandbox.untrusted_temp_dir import open_folder

_BACKLOG = 256


class EgressInstance:
    """A running egress proxy with its Unix socket, until `close`; `folder` is created for it.

    `owner` is the uid and gid of the plugin, when they are not the host's.
    """

    def __init__(
        self,
        endpoints: tuple[Endpoint, ...],
        folder: str | os.PathLike[str],
        on_connection: Callable[[Connection], None],
        *,
        owner: tuple[int, int] | None = None,
        limits: EgressLimits | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        environment = proxy_environment(endpoints)
        self.hosts = environment.hosts
        self.listing = environment.listing
        self.env = environment.env
        self._folder = Path(folder)
        self.socket = str(self._folder / "proxy")
        """Whoever can connect to this socket is the plugin: only its uid can."""
        listener = _listen(self._folder, owner)
        try:
            self._proxy = EgressProxy(listener, endpoints, on_connection, limits=limits, resolve=resolve)
        except BaseException:
            listener.close()
            rmtree(str(self._folder))
            raise

    async def close(self) -> None:
        """Close every connection, and return when all are reported."""
        await self._proxy.close()
        rmtree(str(self._folder))


def _listen(folder: Path, owner: tuple[int, int] | None) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    try:
        folder.mkdir(mode=0o700)
        inside = open_folder(str(folder))
        try:
            # By descriptor: the address of a Unix socket has at most 107 bytes, and the path may be longer.
            path = f"/proc/self/fd/{inside}/proxy"
            listener.bind(path)
            os.chmod(path, 0o600)
            if owner is not None:
                os.chown(path, *owner, follow_symlinks=False)
                os.fchown(inside, *owner)  # last: until then no other user can get in
        finally:
            os.close(inside)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        rmtree(str(folder))
        raise
    return listener
