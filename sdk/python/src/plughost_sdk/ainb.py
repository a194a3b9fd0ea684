"""ainb plugins: screens, keys, events, command lines, and calls back to the host.

from plughost_sdk import ainb

plugin = ainb.Plugin()

@plugin.on_init
def start():
    plugin.host.log.info("here I am")

@plugin.screen
def draw(width, height):
    buffer = ainb.Buffer(width, height)
    buffer.put(0, 0, "hello", style=ainb.BOLD)
    return buffer

@plugin.on_key
def key(key, screen_id): ...

@plugin.on("sessions.usage_data")
def usage(payload): ...

@plugin.on_batch("sessions.usage_data")  # published in chunks
def batch(batch): ...

@plugin.on_chunk("sessions.usage_data")  # piece by piece, as they come
def chunk(chunk): ...

@plugin.cli("usage")
def usage_command(argv):
    print("what is printed here is the command's output")
    return 0

plugin.run()

The manifest is `manifest.toml` beside the program.
"""

from __future__ import annotations

import os
import sys

from plughost_sdk import command_line
from plughost_sdk.chunks import Assembler, Batch, Chunk, InTurn, Mismatch, Unreadable, msgpack
from plughost_sdk.handlers import log, log_failure
from plughost_sdk.hooks import Bare, Either, Hooked, Named
from plughost_sdk.host import Host, to_text
from plughost_sdk.manifest import load
from plughost_sdk.message import INVALID_PARAMS, METHOD_NOT_FOUND, Error
from plughost_sdk.params import WrongParams, take, take_bytes
from plughost_sdk.peer import Ended, Peer, serve
from plughost_sdk.screen import (
    ALT,
    BOLD,
    CTRL,
    DIM,
    ITALIC,
    REVERSED,
    SHIFT,
    SUPER,
    UNDERLINED,
    Buffer,
    Key,
    cells,
)
from plughost_sdk.wire import BrokenWire, ContentLength

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from plughost_sdk.handlers import Handler

__all__ = [
    "ABI_VERSION", "ALT", "BOLD", "CTRL", "DIM", "ITALIC", "REVERSED", "SHIFT", "SUPER", "UNDERLINED",
    "Batch", "Buffer", "Chunk", "Ended", "Error", "Key", "Mismatch", "Plugin",
    "cells",
]  # fmt: skip

ABI_VERSION = 2
MANIFEST_VALIDATION = -32003


class Plugin(Hooked):
    """Handlers run one at a time, in the order in which things came; each may call `plugin.host`.

    A handler takes what is said here, and may leave out the last of it.
    """

    wire = ContentLength

    on_init = Bare(many=True)
    """Called before the host is told that the plugin is ready; it may call the host."""
    on_shutdown = Bare(many=True)
    """Called before the plugin ends because the host says so."""
    screen = Bare("width", "height")
    """Paints a frame: returns a Buffer."""
    on_key = Bare("key", "screen_id", many=True)
    """Takes a Key and the id of the screen."""
    on = Named("payload", many=True)
    """`@plugin.on(topic)`: every publish on a topic. The SDK subscribes to it before `on_init` is called."""
    on_event = Bare("topic", "payload", many=True)
    """Every event, whatever its topic."""
    on_batch = Named("batch", many=True)
    """`@plugin.on_batch(topic)`: chunked publishes, whole again, as a Batch; or a Mismatch of versions."""
    on_chunk = Named("chunk", many=True)
    """`@plugin.on_chunk(topic)`: the same, a Chunk at a time: for what is too large to keep."""
    cli = Named("argv")
    """`@plugin.cli(namespace)`: what it prints is the output, what it returns the exit code."""
    action = Named("payload")
    """`@plugin.action(namespace)`: other plugins invoke the namespace as an action. Bytes in, bytes out."""
    method = Either("params")
    """Answers a request of any other name: the params in, a JSON value out."""

    def __init__(self, manifest: str | None = None) -> None:
        """`manifest` is the path of manifest.toml, if it is not beside the program."""
        super().__init__()
        self._manifest_path = manifest or os.path.join(
            os.path.dirname(os.path.abspath(sys.argv[0])), "manifest.toml"
        )
        self._host: Host | None = None
        self._receivers: dict[tuple[type, str], Assembler | InTurn] = {}
        self.granted: tuple[str, ...] = ()
        """The capabilities that the host has granted, from init on."""

    @property
    def host(self) -> Host:
        if self._host is None:
            raise RuntimeError(
                "the host is available only while the plugin runs: call it from a handler, not before run()"
            )
        return self._host

    def run(self, wire: ContentLength | None = None) -> None:
        """Until the host says shutdown, or has gone."""
        self._check()
        peer = Peer(wire or ContentLength.claim())
        self._host = Host(peer)
        try:
            while (message := peer.next()) is not None:
                serve(peer, message, self._handle)
                if message["method"] == "plugin/shutdown":
                    break
        except Ended:
            pass
        except BrokenWire as error:
            log(f"the host's stream cannot be read: {error}")
            sys.exit(1)
        finally:
            self._runner.close()

    def handle_events(self) -> None:
        """Handle the events that came since this handler began, for one that waits for a publish.

        They are read by whatever call is made to the host. Other messages keep waiting for their turn.
        """
        peer = self.host.peer
        for message in peer.kept("plugin/handle_event"):
            serve(peer, message, self._handle)

    def _check(self) -> None:
        """What would go wrong later, where nobody would see why."""
        if self._names("on_batch") or self._names("on_chunk"):
            msgpack()
        for name in self._names("method"):
            if name in _KNOWN:
                told = f"@plugin.method({name!r}) would never be called"
                raise ValueError(f"{told}: the SDK handles that method with the other decorators")

    def _handle(self, method: str, params: Any) -> Any:
        known = _KNOWN.get(method)
        if known is None:
            handler = self._one("method", method)
            if handler is None:
                raise Error(METHOD_NOT_FOUND, f"method not found: {method}")
            return self._runner.run(handler, params)
        if not isinstance(params, dict):
            raise Error(INVALID_PARAMS, f"{method} takes an object")
        try:
            return known(self, params)
        except WrongParams as error:
            raise Error(INVALID_PARAMS, f"{method}: {error}") from None

    def _init(self, params: dict[str, Any]) -> dict[str, Any]:
        abi = take(params, "abi_version", int)
        if abi != ABI_VERSION:
            raise Error(MANIFEST_VALIDATION, f"the host speaks ABI {abi}, this plugin {ABI_VERSION}")
        self.granted = tuple(take(params, "granted_capabilities", list))
        manifest = self._manifest(params)
        if "event_bus" in self.granted:
            self._subscribe(manifest)
        for handler in self._all("on_init"):
            self._runner.run(handler)
        about = manifest["plugin"]
        return {
            "name": about["name"],
            "version": about["version"],
            "abi_version": ABI_VERSION,
            "manifest": manifest,
        }

    def _subscribe(self, manifest: dict[str, Any]) -> None:
        """To all that the manifest lists and handlers wait for: not every host does that by the manifest."""
        listed = manifest.get("subscribes", {}).get("snapshots", [])
        hooked = [topic for hook in ("on", "on_batch", "on_chunk") for topic in self._names(hook)]
        for topic, error in self.host.snapshot.subscribe_all(dict.fromkeys([*listed, *hooked])).items():
            log(f"the host refuses to subscribe it to {topic!r}: {error.message}")

    def _manifest(self, params: dict[str, Any]) -> dict[str, Any]:
        path = self._manifest_path if os.path.exists(self._manifest_path) else params.get("manifest_path", "")
        try:
            manifest = load(path)
            manifest["plugin"]["name"], manifest["plugin"]["version"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Error(MANIFEST_VALIDATION, f"manifest TOML invalid: {error}") from None
        return manifest

    def _shutdown(self, params: dict[str, Any]) -> dict[str, Any]:
        for handler in self._all("on_shutdown"):
            try:
                self._runner.run(handler)
            except Exception:  # it ends all the same
                log_failure()
        return {}

    def _render(self, params: dict[str, Any]) -> dict[str, Any]:
        viewport = take(params, "viewport", dict)
        width, height = take(viewport, "width", int), take(viewport, "height", int)
        if not (0 <= width <= 65535 and 0 <= height <= 65535):
            raise WrongParams(f"a viewport of {width} by {height}")
        handler = self._one("screen")
        buffer = Buffer(width, height) if handler is None else self._runner.run(handler, width, height)
        if not isinstance(buffer, Buffer):
            told = f"@plugin.screen returned {type(buffer).__name__}, not a Buffer"
            raise TypeError(f"{told}: make one with ainb.Buffer(width, height), paint, and return it")
        frame = {"buffer": buffer.to_wire(width, height)}
        return {**frame, "redraw": True} if buffer.redraw else frame

    def _key(self, params: dict[str, Any]) -> None:
        try:
            key = Key(take(params, "key", dict))
        except (KeyError, TypeError, AttributeError) as error:
            raise WrongParams(f"not a key: {error!r}") from None
        for handler in self._all("on_key"):
            self._attempt(handler, key, params.get("screen_id", ""))

    def _event(self, params: dict[str, Any]) -> None:
        topic, payload = take(params, "topic", str), take_bytes(params, "payload")
        for handler in self._all("on_event"):
            self._attempt(handler, topic, payload)
        for handler in self._all("on", topic):
            self._attempt(handler, payload)
        for hook, kind in (("on_batch", Assembler), ("on_chunk", InTurn)):
            if listening := self._all(hook, topic):
                received = self._received(kind, topic, payload)
                for handler in listening if received is not None else ():
                    self._attempt(handler, received)

    def _attempt(self, handler: Handler, *offered: Any) -> None:
        """One of several who are told: what it raises does not keep the others from being told."""
        try:
            self._runner.run(handler, *offered)
        except (Ended, BrokenWire):
            raise
        except Exception:
            log_failure()

    def _received(
        self, kind: type[Assembler | InTurn], topic: str, payload: bytes
    ) -> Batch | Chunk | Mismatch | None:
        try:
            return self._receivers.setdefault((kind, topic), kind()).feed(payload)
        except Unreadable as error:
            log(f"{topic}: {error}")
            return None

    def _cli(self, params: dict[str, Any]) -> dict[str, Any]:
        namespace, argv = take(params, "namespace", str), take(params, "argv", list)
        if not all(isinstance(word, str) for word in argv):
            raise WrongParams("`argv` must be a list of words")
        handler = self._one("cli", namespace)
        if handler is None:
            return command_line.answer(b"", f"plugin does not handle namespace `{namespace}`\n".encode(), 2)
        return command_line.run(self._runner, handler, argv)

    def _action(self, params: dict[str, Any]) -> dict[str, Any]:
        name = take(params, "action", str)
        handler = self._one("action", name)
        if handler is None:
            raise Error(INVALID_PARAMS, f"unknown action: {name}")
        return {"payload": to_text(self._runner.run(handler, take_bytes(params, "payload")))}


_KNOWN: dict[str, Callable[[Plugin, dict[str, Any]], Any]] = {
    "plugin/init": Plugin._init,
    "plugin/shutdown": Plugin._shutdown,
    "plugin/render": Plugin._render,
    "plugin/cli_dispatch": Plugin._cli,
    "host/action/invoke": Plugin._action,
    "plugin/handle_key": Plugin._key,
    "plugin/handle_event": Plugin._event,
}
