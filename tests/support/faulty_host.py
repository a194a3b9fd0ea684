"""Our own host with one thing broken, for the canaries to notice: `faulty_host.py FAULT COMMAND...`."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import plughost.cli.commands.hosts.run
import plughost.cli.commands.x
import plughost.services.dispatch
from plughost import config
from plughost.cli.main import main
from plughost.contracts import jsonrpc
from plughost.contracts.ainb import contract, session
from plughost.contracts.ainb.contract import Ainb
from plughost.engine.policy import LifecyclePolicy
from plughost.errors import InvalidSpec, Malformed, Timeout, UnknownMethod
from plughost.services.files.reader import FileContent
from plughost.services.files.service import FileService
from plughost.services.logs import Logs
from plughost.services.snapshots import Snapshots
from plughost.wire.base64_bytes import decode_plain
from plughost.wire.messages import Unusable


def manifest() -> None:
    session.ABI_VERSION = 3


def framing() -> None:
    receive = jsonrpc.JsonRpc.receive

    def strict(self: Any, frame: Any) -> Any:
        incoming = receive(self, frame)
        if isinstance(incoming, Unusable):
            raise Malformed("one word that is no JSON-RPC ends it")
        return incoming

    jsonrpc.JsonRpc.receive = strict


def dispatch() -> None:
    jsonrpc._CODES[UnknownMethod] = -32600


def capabilities() -> None:
    plughost.services.dispatch.capabilities = SimpleNamespace(allows=lambda held, word: True)


def render(side: int = 0) -> None:
    add = plughost.cli.commands.hosts.run._add

    async def drawn(managed: Any, spec: Any, *rest: Any, **how: Any) -> None:
        await add(managed, spec, *rest, **how)
        if spec.name == "render":
            await Ainb(managed.host.plugins[spec.name]).render(side, side, deadline=60)

    plughost.cli.commands.hosts.run._add = drawn


def draws() -> None:
    """No fault at all: a host with a screen."""
    render(side=9)


def pubsub() -> None:
    Snapshots.publish = lambda self, caller, params: (
        self.put(params.topic, decode_plain(params.payload)) and None
    )


def action() -> None:
    jsonrpc._CODES[Timeout] = -32603


def log() -> None:
    Logs.set_threshold = lambda self, plugin, level: self._thresholds.update({plugin: "trace"})


def files() -> None:
    async def naive(self: Any, caller: Any, params: Any) -> FileContent:
        self._files._resolve("read", {"read_sessions"}, params.path)
        try:
            with open(params.path, "rb") as file:
                data = file.read()
                return FileContent(data, 0, len(data))
        except OSError as error:
            raise InvalidSpec(str(error)) from error

    FileService.read_file = naive


def shutdown() -> None:
    session.AinbSession.shutdown_request = lambda self: None


def _policy(**changes: Any) -> None:
    contract._policy = lambda told, options, topics: LifecyclePolicy(
        eager=True, respawn=True, grace=5.0, **changes
    )


def recovery() -> None:
    _policy(backoff=(0.0,))


def quarantine() -> None:
    _policy(backoff=(1.0,), failure_limit=1000)


def cli() -> None:
    plughost.cli.commands.x._exit_code = lambda code: 0


def chunks() -> None:
    put = Snapshots.put

    def coalescing(self: Any, topic: str, payload: bytes, publisher: str = "host") -> int:
        if len(payload) > 1 << 20 and self.latest(topic).version == 0:
            return self._store(topic, payload, publisher) or self._version
        return put(self, topic, payload, publisher)

    Snapshots.put = coalescing


def discovery() -> None:
    """One manifest that cannot be read, and no plugin of the root is loaded, as in the original host."""
    of_root = config.load_root

    def all_or_nothing(root: Any) -> Any:
        found = of_root(root)
        if any("unreadable" in str(problem) for problem in found.problems):
            raise InvalidSpec("one of the manifests cannot be read")
        return found

    config.load_root = all_or_nothing


FAULTS = (
    manifest, framing, dispatch, capabilities, render, pubsub, action, log, files, shutdown, recovery,
    quarantine, cli, chunks, draws, discovery,
)  # fmt: skip

if __name__ == "__main__":
    {fault.__name__: fault for fault in FAULTS}[sys.argv[1]]()
    main(sys.argv[2:])
