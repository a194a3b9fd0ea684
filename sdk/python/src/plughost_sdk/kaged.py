"""kaged plugins: methods, hooks, notifications, and the host's storage.

from plughost_sdk import kaged

plugin = kaged.Plugin("notes", "1.0.0", notifications=["notes.kept"])

@plugin.method  # notes.retain
def retain(params, context):
    plugin.storage.set(params["id"], params["content"])
    plugin.notify("notes.kept", {"id": params["id"]})
    return {"status": "stored"}

@plugin.method("notes.tags.list")
async def tags(): ...

@plugin.hook("on_session_start")
def begin(params, context):
    return {"inject": "there are notes"}

plugin.run()

The name, the version, the methods and the notifications are those of the `manifest.yaml` beside the program.
A method takes its params, and the call's context if it has a second parameter: who calls, on whose behalf.
It returns a JSON value, or raises `kaged.Error`.
"""

from __future__ import annotations

import re

from plughost_sdk.handlers import log_failure
from plughost_sdk.hooks import Bare, Either, Hooked
from plughost_sdk.message import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Error
from plughost_sdk.peer import Ended, Peer, serve
from plughost_sdk.storage import Storage
from plughost_sdk.wire import Lines, TooLarge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from plughost_sdk.handlers import Handler

__all__ = [
    "API_VERSION", "CAPABILITY_DENIED", "INTERNAL_ERROR", "INVALID_PARAMS", "MAX_MESSAGE", "METHOD_NOT_FOUND",
    "Ended", "Error", "Plugin",
]  # fmt: skip

API_VERSION = 1
CAPABILITY_DENIED = -32001
MAX_MESSAGE = 4_000_000
"""Bytes that both sides take in one message, for sure."""
CONTEXT = "_context"
HOOK = "kaged.hook."
HEALTH = "health.check"
RESERVED = ("kaged.", "system.")


class ShortLines(Lines):
    def write(self, *frames: bytes) -> None:
        for frame in frames:
            if len(frame) > MAX_MESSAGE:
                told = f"a message of {len(frame)} bytes is over the limit of {MAX_MESSAGE}"
                raise TooLarge(f"{told}: send less at once, such as one page of results")
        super().write(*frames)


class Plugin(Hooked):
    """Handlers run one at a time, in the order in which things came. The SDK answers health checks."""

    wire = ShortLines

    method = Either("params", "context")
    """Answers calls: `@plugin.method` above `greet` is `<plugin>.greet`, `@plugin.method("a.b")` is `a.b`."""
    hook = Either("params", "context")
    """`@plugin.hook("on_session_start")`: something happens to a session. The manifest lists it, too."""
    on_init = Bare(many=True)
    """Called before the host is told that the plugin is ready; it may use `config` and `storage`."""
    on_shutdown = Bare(many=True)
    """Called before the plugin ends because the host says so."""

    def __init__(
        self,
        name: str,
        version: str,
        *,
        notifications: Sequence[str] = (),
        capabilities_used: Sequence[str] = (),
    ) -> None:
        """`capabilities_used` are those that it cannot do without: if one is not granted, it is not run."""
        super().__init__()
        for what, value in (("name", name), ("version", version)):
            if not isinstance(value, str) or not value.strip():
                raise ValueError(f"{what} is text, not {value!r}: Plugin('notes', '1.0.0')")
        for what, words in (("notifications", notifications), ("capabilities_used", capabilities_used)):
            if isinstance(words, str):
                raise TypeError(f"{what} is a list: {what}=[{words!r}]")
        self.name = name
        self.version = version
        self._notifications = [*notifications]
        self._capabilities = [*capabilities_used]
        self._peer: Peer | None = None
        self._routes: dict[str, Callable[[Any], Any]] = {}
        self.config: Any = {}
        """The operator's settings for it, from initialize on; they fit the manifest's config_schema."""
        self.projects: list[str] = []
        self.storage_available = False
        """Whether some of `storage` may be used."""

    @property
    def storage(self) -> Storage:
        """The host's storage: get, set, delete, list."""
        return Storage(self._running("storage"))

    def notify(self, name: str, params: Any = None) -> None:
        """Tell the host; nothing comes back. More than 100 a second are dropped."""
        if name not in self._notifications:
            told = f"{name!r} is not declared, so the host would drop it"
            raise ValueError(f"{told}: Plugin(…, notifications=[{name!r}]), and the same in manifest.yaml")
        self._running("notify").tell(name, {} if params is None else params)

    def _running(self, what: str) -> Peer:
        if self._peer is None:
            told = f"plugin.{what} is available only while the plugin runs"
            raise RuntimeError(f"{told}: use it in a handler, not before run()")
        return self._peer

    def run(self, wire: ShortLines | None = None) -> None:
        """Until the host has gone."""
        methods = self._methods()
        self._routes = {
            "initialize": lambda params: self._initialize(params, [*methods]),
            "shutdown": self._shutdown,
            **dict.fromkeys((HEALTH, "ping"), lambda params: {"status": "ok"}),
            "initialized": lambda params: None,
            **{name: self._route(handler) for name, handler in methods.items()},
            **{HOOK + name: self._route(handler) for name, handler in self._written("hook").items()},
        }
        self._peer = peer = Peer(wire or ShortLines.claim())
        try:
            while (message := peer.next()) is not None:
                serve(peer, message, self._handle)
        except Ended:
            pass
        finally:
            self._runner.close()

    def _written(self, hook: str) -> dict[str, Handler]:
        """In the order in which they were written."""
        return {name: handler for name, [handler] in self._handlers.get(hook, {}).items()}

    def _methods(self) -> dict[str, Handler]:
        """By their whole names."""
        methods: dict[str, Handler] = {}
        for told, handler in self._written("method").items():
            name = told if "." in told else f"{self.name}.{told}"
            if not re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+){1,3}", name):
                expected = "2 to 4 segments of a-z, 0-9, - and _, with dots between"
                raise ValueError(f"@plugin.method({name!r}) is not a valid method name: expected {expected}")
            if name == HEALTH or name.startswith(RESERVED):
                raise ValueError(
                    f"@plugin.method({name!r}) would never be called: the host reserves that name"
                )
            if name in methods:
                both = f"{methods[name].name} and {handler.name}"
                raise ValueError(f"two functions for @plugin.method({name!r}), {both}: only one is allowed")
            methods[name] = handler
        if not methods and not self._names("hook"):
            raise RuntimeError("a plugin has at least one method: write @plugin.method above a function")
        return methods

    def _route(self, handler: Handler) -> Callable[[Any], Any]:
        def call(params: Any) -> Any:
            context: Any = {}
            if isinstance(params, dict):
                context = params.pop(CONTEXT, context)
            if not isinstance(context, dict):
                raise Error(INVALID_PARAMS, f"`{CONTEXT}` must be an object")
            return self._runner.run(handler, {} if params is None else params, context)

        return call

    def _handle(self, method: Any, params: Any) -> Any:
        route = self._routes.get(method) if isinstance(method, str) else None
        if route is None:
            raise Error(METHOD_NOT_FOUND, f"method not found: {method}")
        return route(params)

    def _initialize(self, params: Any, methods: list[str]) -> dict[str, Any]:
        if not isinstance(params, dict):
            raise Error(INVALID_PARAMS, "initialize takes an object")
        self.config = params.get("config", {})
        self.projects = params.get("projects", [])
        self.storage_available = params.get("storage_available") is True
        for handler in self._all("on_init"):
            self._runner.run(handler)
        return {
            "name": self.name,
            "version": self.version,
            "api_version": API_VERSION,
            "methods": methods,
            "notifications": self._notifications,
            "capabilities_used": self._capabilities,
        }

    def _shutdown(self, params: Any) -> dict[str, str]:
        for handler in self._all("on_shutdown"):
            try:
                self._runner.run(handler)
            except Exception:  # it ends all the same
                log_failure()
        return {"status": "ok"}
