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

from plughost_sdk.handlers import Runner, log_failure
from plughost_sdk.host import Host, to_bytes, to_text
from plughost_sdk.manifest import load
from plughost_sdk.peer import INVALID_PARAMS, METHOD_NOT_FOUND, Ended, Error, Peer, serve
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
)
from plughost_sdk.wire import BrokenWire, ContentLength

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Handler = TypeVar("Handler", bound=Callable[..., Any])

__all__ = [
    "ABI_VERSION", "ALT", "BOLD", "CTRL", "DIM", "ITALIC", "REVERSED", "SHIFT", "SUPER", "UNDERLINED",
    "Buffer", "Ended", "Error", "Key", "Plugin",
]  # fmt: skip

ABI_VERSION = 2
MANIFEST_VALIDATION = -32003


class Plugin:
    """Handlers run one at a time, in the order in which things came; each may call `plugin.host`."""

    wire = ContentLength

    def __init__(self, manifest: str | None = None) -> None:
        """`manifest` is the path of manifest.toml, if it is not beside the program."""
        self._manifest_path = manifest or os.path.join(
            os.path.dirname(os.path.abspath(sys.argv[0])), "manifest.toml"
        )
        self._runner = Runner()
        self._host: Host | None = None
        self._inits: list[Callable[[], Any]] = []
        self._shutdowns: list[Callable[[], Any]] = []
        self._screen: Callable[..., Any] | None = None
        self._keys: list[Callable[..., Any]] = []
        self._events: dict[str, list[Callable[[bytes], Any]]] = {}
        self._all_events: list[Callable[[str, bytes], Any]] = []
        self._namespaces: dict[str, Callable[[list[str]], Any]] = {}
        self._actions: dict[str, Callable[[bytes], Any]] = {}
        self._methods: dict[str, Callable[[Any], Any]] = {}
        self.granted: tuple[str, ...] = ()
        """The capabilities that the host has granted, from init on."""

    @property
    def host(self) -> Host:
        if self._host is None:
            raise RuntimeError(
                "the host is there once the plugin runs: call it from a handler, not before run()"
            )
        return self._host

    # Handlers

    def on_init(self, function: Handler) -> Handler:
        """Called before the host is told that the plugin is ready; it may call the host."""
        self._inits.append(function)
        return function

    def on_shutdown(self, function: Handler) -> Handler:
        self._shutdowns.append(function)
        return function

    def screen(self, function: Handler) -> Handler:
        """Paints a frame: takes width and height, returns a Buffer."""
        self._screen = function
        return function

    def on_key(self, function: Handler) -> Handler:
        """Takes a Key and the id of the screen."""
        self._keys.append(function)
        return function

    def on(self, topic: str) -> Callable[[Handler], Handler]:
        """Takes the payload of every publish on a topic that the manifest lists, or that is subscribed to."""

        def add(function: Handler) -> Handler:
            self._events.setdefault(topic, []).append(function)
            return function

        return add

    def on_event(self, function: Handler) -> Handler:
        """Takes topic and payload of every event, whatever its topic."""
        self._all_events.append(function)
        return function

    def cli(self, namespace: str) -> Callable[[Handler], Handler]:
        """Runs command lines of a namespace: what it prints is the output, what it returns the exit code."""

        def add(function: Handler) -> Handler:
            self._namespaces[namespace] = function
            return function

        return add

    def action(self, name: str) -> Callable[[Handler], Handler]:
        """Answers other plugins that invoke one of its namespaces as an action: bytes in, bytes out."""

        def add(function: Handler) -> Handler:
            self._actions[name] = function
            return function

        return add

    def method(self, name: str) -> Callable[[Handler], Handler]:
        """Answers a request of any other name: the params in, a JSON value out."""

        def add(function: Handler) -> Handler:
            self._methods[name] = function
            return function

        return add

    # Running

    def run(self, wire: ContentLength | None = None) -> None:
        """Until the host says shutdown, or has gone."""
        peer = Peer(wire or ContentLength.claim())
        self._host = Host(peer)
        try:
            while (message := peer.next()) is not None:
                serve(peer, message, self._handle)
                if message["method"] == "plugin/shutdown":
                    break
        except (Ended, BrokenPipeError):
            pass
        except BrokenWire as error:
            print(f"the host's stream cannot be read: {error}", file=sys.stderr)
            sys.exit(1)
        finally:
            self._runner.close()

    def _handle(self, method: str, params: Any) -> Any:
        known = _REQUESTS.get(method) or _NOTIFICATIONS.get(method)
        if known is None:
            function = self._methods.get(method)
            if function is None:
                raise Error(METHOD_NOT_FOUND, f"method not found: {method}")
            return self._runner.run(function, params)
        if not isinstance(params, dict):
            raise Error(INVALID_PARAMS, f"{method} takes an object")
        try:
            return known(self, params)
        except _WrongParams as error:
            raise Error(INVALID_PARAMS, f"{method}: {error}") from None

    def _init(self, params: dict[str, Any]) -> dict[str, Any]:
        abi = _take(params, "abi_version", int)
        if abi != ABI_VERSION:
            raise Error(MANIFEST_VALIDATION, f"the host speaks ABI {abi}, this plugin {ABI_VERSION}")
        self.granted = tuple(_take(params, "granted_capabilities", list))
        for function in self._inits:
            self._runner.run(function)
        manifest = self._manifest(params)
        about = manifest["plugin"]
        return {
            "name": about["name"],
            "version": about["version"],
            "abi_version": ABI_VERSION,
            "manifest": manifest,
        }

    def _manifest(self, params: dict[str, Any]) -> dict[str, Any]:
        path = self._manifest_path if os.path.exists(self._manifest_path) else params.get("manifest_path", "")
        try:
            manifest = load(path)
            manifest["plugin"]["name"], manifest["plugin"]["version"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Error(MANIFEST_VALIDATION, f"manifest TOML invalid: {error}") from None
        return manifest

    def _shutdown(self, params: dict[str, Any]) -> dict[str, Any]:
        for function in self._shutdowns:
            try:
                self._runner.run(function)
            except Exception:  # it ends all the same
                log_failure()
        return {}

    def _render(self, params: dict[str, Any]) -> dict[str, Any]:
        viewport = _take(params, "viewport", dict)
        width, height = _take(viewport, "width", int), _take(viewport, "height", int)
        if not (0 <= width <= 65535 and 0 <= height <= 65535):
            raise _WrongParams(f"a viewport of {width} by {height}")
        buffer = Buffer(0, 0) if self._screen is None else self._runner.run(self._screen, width, height)
        if not isinstance(buffer, Buffer):
            raise TypeError(f"the screen's function returned {type(buffer).__name__}, not a Buffer")
        return {"buffer": buffer.to_wire()}

    def _key(self, params: dict[str, Any]) -> None:
        try:
            key = Key(_take(params, "key", dict))
        except (KeyError, TypeError, AttributeError) as error:
            raise _WrongParams(f"no key: {error!r}") from None
        for function in self._keys:
            arguments = (key, params.get("screen_id", ""))[: function.__code__.co_argcount]
            self._runner.run(function, *arguments)

    def _event(self, params: dict[str, Any]) -> None:
        topic, payload = _take(params, "topic", str), _bytes(params, "payload")
        for function in self._all_events:
            self._runner.run(function, topic, payload)
        for handler in self._events.get(topic, ()):
            self._runner.run(handler, payload)

    def _cli(self, params: dict[str, Any]) -> dict[str, Any]:
        namespace, argv = _take(params, "namespace", str), _take(params, "argv", list)
        if not all(isinstance(word, str) for word in argv):
            raise _WrongParams("`argv` must be a list of words")
        function = self._namespaces.get(namespace)
        if function is None:
            said = f"plugin does not handle namespace `{namespace}`\n"
            return {"stdout": "", "stderr": to_text(said.encode()), "exit_code": 2}
        return _captured(self._runner, function, argv)

    def _action(self, params: dict[str, Any]) -> dict[str, Any]:
        name = _take(params, "action", str)
        function = self._actions.get(name)
        if function is None:
            raise Error(INVALID_PARAMS, f"unknown action: {name}")
        return {"payload": to_text(self._runner.run(function, _bytes(params, "payload")))}


_REQUESTS: dict[str, Callable[[Plugin, dict[str, Any]], Any]] = {
    "plugin/init": Plugin._init,
    "plugin/shutdown": Plugin._shutdown,
    "plugin/render": Plugin._render,
    "plugin/cli_dispatch": Plugin._cli,
    "host/action/invoke": Plugin._action,
}
_NOTIFICATIONS: dict[str, Callable[[Plugin, dict[str, Any]], Any]] = {
    "plugin/handle_key": Plugin._key,
    "plugin/handle_event": Plugin._event,
}


class _WrongParams(Exception):
    pass


def _take(params: dict[str, Any], name: str, kind: type) -> Any:
    value = params.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _WrongParams(f"`{name}` must be {kind.__name__}, not {value!r:.60}")
    return value


def _bytes(params: dict[str, Any], name: str) -> bytes:
    try:
        return to_bytes(params[name])
    except (KeyError, TypeError, ValueError) as error:
        raise _WrongParams(f"`{name}` holds no bytes: {error}") from None


def _captured(runner: Runner, function: Callable[..., Any], argv: list[str]) -> dict[str, Any]:
    """Run a command line: its prints are its output, `sys.exit` and the returned number its exit code."""
    import io

    stdout, stderr = sys.stdout, sys.stderr
    out, err = (
        io.TextIOWrapper(io.BytesIO(), "utf-8", newline=""),
        io.TextIOWrapper(io.BytesIO(), "utf-8", newline=""),
    )
    sys.stdout, sys.stderr = out, err
    try:
        code = runner.run(function, argv)
    except SystemExit as end:
        code = end.code
    except (Ended, Error):
        raise
    except Exception:
        log_failure()
        code = 1
    finally:
        sys.stdout, sys.stderr = stdout, stderr
    if isinstance(code, str):
        err.write(code + "\n")
        code = 1
    return {
        "stdout": to_text(_written(out)),
        "stderr": to_text(_written(err)),
        "exit_code": 0 if code is None else int(code),
    }


def _written(stream: Any) -> bytes:
    stream.flush()
    data: bytes = stream.buffer.getvalue()
    return data
