"""Drives a plugin object in this process: through the real framing and protocol, without a subprocess.

    with drive(plugin) as host:
        assert host.call("echo", {"text": "hi"}) == {"text": "hi"}

The plugin runs in a thread. The driver uses the contract's own session, as a real host does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from plughost import config
from plughost._util.seconds import check_seconds
from plughost.contracts.registry import get_contract
from plughost.engine.io.tap import Origin
from plughost.engine.session import Incoming, Session
from plughost.errors import Crashed, Malformed, PluginError, Timeout, UnknownMethod
from plughost.spec import PluginSpec
from plughost.testing.clock import VirtualClock
from plughost.testing.duplex import Fault, MemoryPipe
from plughost.testing.traffic import Traffic
from plughost.wire.framing import FrameError
from plughost.wire.ledger import Ledger
from plughost.wire.messages import ABSENT, NOTHING, Notification, Progress, Request, Response, decode

DEFAULT_TIMEOUT = 5.0
Scripted = Callable[[Any], Any] | PluginError | Any
"""The answer to a plugin's request: a value, an error to raise, or a function of the params."""


class Drivable(Protocol):
    """A plugin object as the SDK creates it."""

    wire: Any

    def run(self, wire: Any) -> None: ...


class Driver:
    """The host's side of an in-process plugin. Messages are handled in the test's thread, whenever it calls a
    method."""

    def __init__(
        self,
        plugin: Drivable,
        session: Session,
        origin: Origin,
        *,
        answers: Mapping[str, Scripted],
        to_plugin: Fault | None,
        from_plugin: Fault | None,
        clock: VirtualClock | None,
    ) -> None:
        self._session = session
        self._framing = session.framing()
        self._ledger: Ledger[Any] = Ledger(session.first_id)
        self._answers: dict[int, Response] = {}
        self.clock = clock or VirtualClock()
        """The clock of delays and timeouts; real time also counts, for a plugin that hangs."""
        self._in, self._out = MemoryPipe(from_plugin, self.clock), MemoryPipe(to_plugin, self.clock)
        self._ended = False
        self.answers: dict[str, Scripted] = {"host/snapshot/subscribe": {}, **answers}
        """The host's answers to the plugin's requests, by method."""
        self.requests: list[tuple[str, Any]] = []
        """The plugin's requests to the host: method and params."""
        self.notifications: list[tuple[str, Any]] = []
        """The plugin's notifications to the host: method and params."""
        self.events: list[tuple[int, Any]] = []
        """Progress events of calls before their answers: call number and payload."""
        self.dropped: list[Any] = []
        """Messages that were dropped because the protocol gives them no meaning."""
        self.traffic = Traffic(origin)
        self.failure: BaseException | None = None
        """The exception that the plugin's `run` raised."""
        self._thread = threading.Thread(target=self._run, args=(plugin,), name="plugin", daemon=True)

    def _run(self, plugin: Drivable) -> None:
        try:
            plugin.run(plugin.wire(self._out.read, self._in.write))
        except BaseException as error:
            self.failure = error
        finally:
            self._in.close()
            self._out.close()

    def start(self, first: str | None = None) -> None:
        """Starts the plugin and completes the handshake; `first` is the method, for contracts with one call
        per process."""
        self._thread.start()
        for message in self._session.on_start(first):
            self._send(message)
        self._until(lambda: self._session.ready, "the handshake")
        for message in self._session.on_ready():
            self._send(message)

    def call(self, method: str, params: Any = ABSENT, *, timeout: float = DEFAULT_TIMEOUT) -> Any:
        """Calls a method and returns the result. Raises CallFailed when the plugin answers with an error."""
        check_seconds("timeout", timeout)
        number = self._ledger.mint()
        self._send(self._session.encode_call(number, method, params, None))
        self._until(lambda: number in self._answers, f"the answer to {method!r}", timeout)
        answer = self._answers.pop(number)
        if answer.error is not NOTHING:
            raise self._session.to_exception(method, answer)
        return decode(answer.result)

    def notify(self, method: str, params: Any = ABSENT) -> None:
        """Sends a notification."""
        self._send(self._session.encode_notification(method, params))

    def event(self, topic: str, payload: bytes) -> None:
        """Sends an event of a topic that the plugin is subscribed to."""
        self._send(self._session.encode_publication(topic, payload))

    def drain(self, quiet: float = 0.05) -> None:
        """Handles the plugin's messages until it has been quiet for `quiet` seconds."""
        while self._take(quiet):
            pass

    def close(self) -> None:
        """Sends the shutdown request, closes the plugin's stdin and waits until the plugin ends."""
        shutdown = self._session.shutdown_request()
        try:
            if shutdown is not None and self._session.ready and not self._ended:
                self.call(*shutdown)
        except PluginError:
            pass  # an error is an answer too; whether the plugin ends is checked below
        if self._session.ready and not self._ended:
            for message in self._session.shutdown_messages():
                self._send(message)
        self._out.close()
        self._thread.join(DEFAULT_TIMEOUT)
        if self._thread.is_alive():
            raise Timeout(f"the plugin did not end within {DEFAULT_TIMEOUT:g} s of the end of its stdin")
        if self.failure is not None and not isinstance(self.failure, SystemExit):
            raise Crashed("the plugin's own code failed") from self.failure

    def _send(self, message: bytes) -> None:
        frame = self._framing.encode(message)
        self.traffic.add("out", frame)
        try:
            self._out.write(frame)
        except BrokenPipeError:
            raise Crashed("the plugin has ended") from self.failure

    def _until(self, condition: Callable[[], bool], what: str, timeout: float = DEFAULT_TIMEOUT) -> None:
        end, deadline = time.monotonic() + timeout, self.clock.time() + timeout
        while not condition():
            left = end - time.monotonic()
            if left <= 0 or not self._take(left, deadline):
                if self._ended:
                    raise Crashed(f"the plugin ended before {what}") from self.failure
                raise Timeout(f"{what} did not come within {timeout:g} s")

    def _take(self, timeout: float, deadline: float | None = None) -> bool:
        """Handles the next bytes; False when none come."""
        try:
            data = self._in.read(65536, timeout, deadline)
        except TimeoutError:
            return False
        if not data:
            self._end()
            return False
        self.traffic.add("in", data)
        for frame in self._framing.feed(data):
            if isinstance(frame, FrameError):
                self._handle(self._session.on_bad_frame(frame))
            else:
                self._handle(self._session.receive(frame))
        return True

    def _end(self) -> None:
        """Handles the end of stdout: a last line without its line end still counts, half a frame does not."""
        self._ended = True
        for frame in self._framing.end():
            incoming = None if isinstance(frame, FrameError) else self._session.receive(frame)
            if incoming is None or isinstance(incoming, Malformed):
                self.dropped.append(incoming or frame)
            else:
                self._handle(incoming)

    def _handle(self, incoming: Incoming) -> None:
        if isinstance(incoming, Response):
            self._answers[incoming.id] = incoming
        elif isinstance(incoming, Progress):
            self.events.append((incoming.id, _value(incoming.payload)))
        elif isinstance(incoming, Request):
            self._serve(incoming)
        elif isinstance(incoming, Notification):
            self.notifications.append((incoming.method, _value(incoming.params)))
        elif isinstance(incoming, Malformed):
            raise incoming
        elif incoming is not None:
            self.dropped.append(incoming)

    def _serve(self, request: Request) -> None:
        params = _value(request.params)
        self.requests.append((request.method, params))
        try:
            if request.method not in self.answers:
                raise UnknownMethod(f"method not found: {request.method}")
            scripted = self.answers[request.method]
            if isinstance(scripted, PluginError):
                raise scripted
            result = scripted(params) if callable(scripted) else scripted
        except PluginError as error:
            self._send(self._session.encode_error(request.id, error))
        else:
            self._send(self._session.encode_response(request.id, result))


def _value(params: msgspec.Raw) -> Any:
    return msgspec.json.decode(params) if params else None


@contextmanager
def drive(
    plugin: Drivable,
    target: PluginSpec | str | Path | None = None,
    *,
    grants: Sequence[str] | None = None,
    answers: Mapping[str, Scripted] | None = None,
    first: str | None = None,
    to_plugin: Fault | None = None,
    from_plugin: Fault | None = None,
    clock: VirtualClock | None = None,
) -> Iterator[Driver]:
    """Drives `plugin` in this process. `target` is its folder or spec; by default it is an mcptest plugin. A
    folder cannot grant capabilities to itself: pass them as `grants`."""
    if target is None:
        target = PluginSpec(contract="mcptest", name="plugin", command=["in-process"])
    spec = target if isinstance(target, PluginSpec) else config.load_folder(Path(target))
    if grants is not None:
        spec = msgspec.structs.replace(spec, grants=tuple(grants))
    kind = get_contract(spec.contract)
    session = kind.session(spec, kind.resolve(spec))
    origin = Origin(spec.name, spec.contract, type(session.framing()).__name__)
    driver = Driver(
        plugin,
        session,
        origin,
        answers=answers or {},
        to_plugin=to_plugin,
        from_plugin=from_plugin,
        clock=clock,
    )
    driver.start(first)
    try:
        yield driver
    except BaseException:
        driver._out.close()
        raise
    driver.close()
