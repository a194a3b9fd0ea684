"""Peer: the conversation with a plugin. Sends calls as futures, matches responses, serves the plugin's
requests.

The peer outlives processes: calls that wait to be sent stay when a process ends, calls that were written to
it do not. One timer watches the deadlines of all calls; a timer per call would cost too much.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from plughost.clock import Clock
from plughost.engine.call_queue import CallQueue, NotificationBacklog
from plughost.engine.caller import Caller, Publication
from plughost.engine.cancelled_calls import CancelledCalls
from plughost.engine.deadlines import DeadlineTimer
from plughost.engine.io.channel import CHUNK, Channel
from plughost.engine.peer_owner import PeerOwner
from plughost.engine.pending_call import PendingCall
from plughost.engine.policy import LifecyclePolicy
from plughost.engine.progress import ProgressBudget
from plughost.engine.rate_limit import TokenBucket
from plughost.engine.request_server import RequestServer, Serve
from plughost.engine.session import Incoming, Session
from plughost.errors import InvalidSpec, Malformed, Overloaded, PluginError
from plughost.wire.framing import HEAD, Frame, FrameError, Frames, FrameTooLarge
from plughost.wire.ledger import FOREVER, Ledger, expire, next_deadline
from plughost.wire.messages import ABSENT, Notification, Progress, Reply, Request, Response, Unusable, encode

FLOOD_FRAMES = 16
"""Frames in one read, other than responses, that count as a flood."""
SMALL_READ = 512
"""Bytes of one read from a plugin that floods the host with messages, so that the others wait less."""
DEADLINE_EXCEEDED = "deadline_exceeded"
AFTER_STDIN = (
    "output that arrived only after stdin was closed: the plugin is slow, or does not flush its "
    "output (in Python: print(..., flush=True))"
)
"""Output that waits in a buffer is written when the program ends."""
HIGH_WATER = 256 * 1024
"""Bytes that the plugin has not read; with more, further calls wait."""


class Peer:
    """The conversation of one instance with its current process: calls in flight, waiting calls, deadlines,
    cancellations, notifications and requests of the plugin."""

    __slots__ = (
        "_backlog",
        "_call_timeout",
        "_caller",
        "_channel",
        "_deadline_timer",
        "_discarded",
        "_framing",
        "_ledger",
        "_loop",
        "_max_buffered",
        "_max_in_flight",
        "_muted",
        "_notification_limit",
        "_one_shot",
        "_open",
        "_owner",
        "_policy",
        "_progress_events",
        "_request_server",
        "_serve",
        "_session",
        "_small_reads",
        "_stdin_closed",
        "_time",
        "_timeout_from_write",
        "_tracks_idleness",
        "_waiting",
        "_wake_later",
        "cancelled",
        "dropped",
        "last_frame",
        "unresponsive",
    )  # fmt: skip

    def __init__(
        self,
        session: Session,
        policy: LifecyclePolicy,
        owner: PeerOwner,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        serve: Serve | None,
    ) -> None:
        self._session = session
        self._policy = policy
        # Settings that every call needs, copied to save an attribute lookup.
        self._max_in_flight = policy.max_in_flight
        self._call_timeout = policy.call_timeout
        self._max_buffered = policy.max_buffered
        self._timeout_from_write = policy.timeout_from_write
        self._one_shot = policy.one_shot
        self._tracks_idleness = policy.idle_reap is not None
        self._owner = owner
        self._time = clock.time
        self._loop = loop
        self._serve = serve
        self._request_server: RequestServer | None = None  # created when needed
        self._notification_limit = (
            None if policy.max_notify_rate is None else TokenBucket(policy.max_notify_rate, clock.time)
        )
        self._framing = session.framing()
        self._ledger: Ledger[PendingCall] = Ledger(session.first_id)
        self._waiting: CallQueue | None = None  # created when needed
        self._backlog: NotificationBacklog | None = None  # only while a process is being started
        self._progress_events: list[tuple[PendingCall, msgspec.Raw]] | None = None
        """Progress events of open calls in this read; None when there are none."""
        self.cancelled = CancelledCalls(policy.cancel_grace)
        """Cancelled calls that the plugin must still answer. Meanwhile no further call is sent."""
        self.unresponsive = False
        """Whether the plugin has not answered an abandoned call, and nothing else since."""
        self._caller: Caller | None = None
        self._channel: Channel | None = None
        self._open = False
        self._muted = False
        self._wake_later = False
        self._small_reads = False
        self._stdin_closed = False
        self._discarded = ""
        self._deadline_timer = DeadlineTimer(clock, self._expire_calls)
        self.dropped = 0
        self.last_frame = clock.time()

    # Outgoing

    def __repr__(self) -> str:
        return f"<Peer: {self.in_flight} in flight, {self.waiting} waiting>"

    @property
    def in_flight(self) -> int:
        return len(self._ledger)

    @property
    def waiting(self) -> int:
        return len(self._waiting or ())

    def in_flight_calls(self) -> list[PendingCall]:
        """The calls that were sent and are not answered yet."""
        return list(self._ledger.values())

    def busy_until(self) -> float:
        """The latest deadline of all abandoned calls: until then the plugin may be busy."""
        return self.cancelled.busy_until(self._time())

    @property
    def busy(self) -> bool:
        return bool(self._ledger or self._waiting or self._request_server)

    def first_waiting(self) -> str | None:
        """The method of the next waiting call."""
        first = self._waiting.first() if self._waiting else None
        return first.method if first is not None else None

    def submit(
        self,
        method: str,
        params: Any,
        timeout: float | None,
        context: Mapping[str, str] | None,
        priority: bool = False,
    ) -> PendingCall:
        """Submit a call. It is sent at once if there is room, else it waits in the queue; `priority` goes
        first."""
        number = self._ledger.mint()
        try:
            frame = self._framing.encode(self._session.encode_call(number, method, params, context))
        except (FrameTooLarge, TypeError, ValueError, RecursionError) as error:
            raise InvalidSpec(f"the call of {method!r} cannot be sent: {error}") from error
        starts_at_write = False
        if timeout is None:
            timeout, starts_at_write = self._call_timeout, self._timeout_from_write
        now = self._time()
        pending = PendingCall(loop=self._loop)
        pending.fill(
            self._owner, number, method, frame, timeout, FOREVER if timeout is None else now + timeout
        )
        pending.began = now
        if self._open and (priority or not self._waiting) and self._has_room(priority):
            self._send(pending, now, priority)
        else:
            if starts_at_write:
                pending.deadline = FOREVER
            # Encoded now: the caller may change its params while the call waits.
            pending.params = params if params is ABSENT else msgspec.Raw(encode(params))
            pending.context = context
            self._enqueue(pending)
        return pending

    def _has_room(self, priority: bool = False) -> bool:
        channel = self._channel
        return (
            channel is not None
            and (channel.buffered < HIGH_WATER or priority)
            and len(self._ledger) < self._max_in_flight
        )

    def _send(self, pending: PendingCall, now: float, priority: bool = False) -> None:
        ledger = self._ledger
        ledger[pending.number] = pending
        if pending.deadline < self._deadline_timer.when:
            self._deadline_timer.by(pending.deadline)
        self.last_frame = now
        channel = self._channel
        assert channel is not None
        channel.send(pending.number, pending.method, pending.frame, alone=len(ledger) == 1, priority=priority)
        pending.frame = b""

    def _enqueue(self, pending: PendingCall) -> None:
        if self._waiting is None:
            self._waiting = CallQueue(self._policy.max_waiting)
        self._waiting.join(pending)
        self._deadline_timer.by(pending.deadline)
        self._start_timeouts()
        if not self._open:
            self._owner.on_wanted()

    def _start_timeouts(self) -> None:
        if self._waiting:
            turns = self._max_in_flight - len(self._ledger)
            self._deadline_timer.by(self._waiting.start_timeouts(turns, self._time()))

    def pump(self) -> None:
        """Send waiting calls as long as there is room."""
        while self._waiting and self._open and self._has_room():
            now = self._time()
            pending = self._waiting.next(now)
            if pending is not None:
                if self._backlog is not None:
                    self._write_backlog(self._backlog.before(pending.number))
                self._send(pending, now)
        if not self._waiting:
            self._waiting = None

    def on_room(self) -> None:
        """The channel has written all its frames: continue with waiting calls and requests."""
        if self._request_server is not None:
            self._request_server.on_room()
        if self._waiting:
            self.pump()

    def notify(self, method: str, params: Any, *, urgent: bool = False) -> bool:
        """Send a notification; False when no process is there."""
        if not self._open and self._backlog is None:
            return False
        try:
            frame = self._framing.encode(self._session.encode_notification(method, params))
        except (FrameTooLarge, TypeError, ValueError, RecursionError) as error:
            raise InvalidSpec(f"{method!r} cannot be sent: {error}") from error
        return self._write_notification(frame, urgent)

    def deliver(self, publication: Publication) -> bool:
        """Send a publication; False when no process is there."""
        if not self._open and self._backlog is None:
            return False
        frame = publication.frames.get(self._session.__class__)
        if frame is None:
            frame = publication.frame(self._session, self._framing)
        return self._write_notification(frame, urgent=False)

    def _write_notification(self, frame: bytes, urgent: bool) -> bool:
        if not self._fits(frame):
            return False
        channel, backlog = self._channel, self._backlog
        self.last_frame = self._time()
        if backlog is not None:
            backlog.add(self._ledger.following, frame, urgent)
        elif channel is not None:
            channel.write(frame, urgent=urgent)
        return True

    def _fits(self, frame: bytes) -> bool:
        """Whether the plugin has left so little unread that this frame may be added; if not, it has
        failed."""
        channel, backlog = self._channel, self._backlog
        unread = (channel.buffered if channel is not None else 0) + (
            backlog.size if backlog is not None else 0
        )
        if unread + len(frame) > self._max_buffered:
            self._owner.on_fatal(Overloaded(f"it left {unread} bytes unread, more than max_buffered allows"))
            return False
        return True

    def expect_process(self) -> None:
        """A process is being started: hold back notifications until it is ready."""
        self._backlog = NotificationBacklog()

    def _write_backlog(self, backlog: Iterable[tuple[bytes, bool]]) -> None:
        assert self._channel is not None
        for frame, urgent in backlog:
            self._channel.write(frame, urgent=urgent)

    def ask_now(self, method: str, params: Any, timeout: float) -> PendingCall | None:
        """Send a call of the session's own, such as a health request, past all queues; None when no process
        is ready."""
        if not self._session.ready or self._channel is None:
            return None
        number = self._ledger.mint()
        frame = self._framing.encode(self._session.encode_call(number, method, params, None))
        now = self._time()
        pending = PendingCall(loop=self._loop)
        pending.fill(self._owner, number, method, frame, timeout, now + timeout)
        self._send(pending, now)
        return pending

    def keep_waiting(self, pending: PendingCall) -> None:
        """Put an answered one-shot call back into the ledger: its deadline still applies."""
        self._ledger[pending.number] = pending

    def withdraw(self, pending: PendingCall, reason: str | None = None) -> None:
        """Cancel a call: an answer that still comes is dropped as late. With a `reason` the plugin gets a
        cancel message, if its contract has one."""
        number = pending.number
        if self._ledger.get(number) is pending:
            del self._ledger[number]
            if self._policy.health is not None:
                self.cancelled.abandon(number, pending.deadline)
            if reason is not None:
                self.unresponsive = True
                self._send_cancel(number, reason)
        elif self._waiting and self._waiting.get(number) is pending:
            del self._waiting[number]
        self._after_call_done()

    def _send_cancel(self, number: int, reason: str) -> None:
        """Tell the plugin that nobody waits for this call any more."""
        if self._channel is None:
            return
        message = self._session.encode_cancel(number, reason)
        if message is not None:
            self._channel.write(self._framing.encode(message))
        self._channel.abort(number)
        if message is None or not self._session.answers_cancelled_calls:
            return
        self.cancelled.add(number, self._time())
        self._max_in_flight = 0  # other calls wait until it is clear whether the process survives
        self._owner.on_stopping(self.cancelled.first_deadline())

    def _on_cancel_answered(self, number: int) -> None:
        self.cancelled.remove(number)
        if not self.cancelled:
            self._max_in_flight = self._policy.max_in_flight
        self._owner.on_stopping(self.cancelled.first_deadline())

    def send_shutdown(self) -> None:
        """Send the shutdown messages, before stdin is closed."""
        self._stdin_closed = True
        if self._session.ready and self._channel is not None:
            for message in self._session.shutdown_messages():
                self._channel.write(self._framing.encode(message))

    # Attaching and detaching

    def attach(self, channel: Channel, caller: Caller) -> None:
        """Start the conversation with a new process."""
        self._channel = channel
        self._caller = caller
        self._framing = self._session.framing()
        self._muted = self._small_reads = self._stdin_closed = False
        self._discarded = ""
        self._wake_later = not channel.reads_in_callbacks
        for message in self._session.on_start(self.first_waiting()):
            channel.write(self._framing.encode(message))
        channel.resume()
        if self._session.ready:
            self._owner.on_ready()

    def open(self) -> None:
        """The handshake is done: send waiting calls and held back notifications."""
        if self._channel is not None:
            for message in self._session.on_ready():
                self._channel.write(self._framing.encode(message))
        self._open = True
        self.pump()
        if self._backlog is not None and self._channel is not None:
            self._write_backlog(self._backlog.before(None))
        self._backlog = None

    def pause_calls(self) -> None:
        """Send no further calls; those in flight still wait for their answers."""
        self._open = False

    def mute(self) -> None:
        """Ignore everything that the plugin sends from now on."""
        self._muted = True

    def await_unflushed(self) -> None:
        """Ignore everything from now on, but report it: stdin is closed because no answer came in time."""
        self._muted, self._discarded = True, AFTER_STDIN

    def start_final_read(self) -> None:
        """The process has ended and the rest of its output follows. Callers are woken by the loop from now
        on, not while the instance handles the exit."""
        self._wake_later = True

    def detach(self) -> list[PendingCall]:
        """The process has ended: remove and return the calls that were sent to it."""
        self._open = False
        self._channel = self._backlog = None
        self.cancelled.clear()
        self.unresponsive = False
        self._max_in_flight = self._policy.max_in_flight
        if self._request_server is not None:
            self._request_server.close()
            self._request_server = None
        return self._ledger.close()

    def take_waiting(self) -> list[PendingCall]:
        """Remove and return all waiting calls."""
        waiting, self._waiting = self._waiting, None
        return list((waiting or {}).values())

    def take_over(self, waiting: list[PendingCall]) -> None:
        """Take over calls that waited at another instance; their callers do not notice."""
        for pending in waiting:
            if pending.done():
                continue
            pending.number = self._ledger.mint()
            pending.owner = self._owner
            try:
                message = self._session.encode_call(
                    pending.number, pending.method, pending.params, pending.context
                )
                pending.frame = self._framing.encode(message)
                self._enqueue(pending)
            except (PluginError, FrameTooLarge) as error:
                pending.fail(InvalidSpec(f"the call of {pending.method!r} cannot be sent: {error}"))
        self.pump()

    # Incoming

    def feed(self, data: bytes) -> None:
        """Take bytes that the plugin sent: decode frames, resolve calls, wake their callers."""
        if self._muted:
            self._discard(data)
            return
        if self._tracks_idleness:
            self.last_frame = self._time()
        frames = self._framing.feed(data)
        answered = self._handle(frames)
        if answered:
            self.unresponsive = False
        if self._small_reads:
            if len(data) < SMALL_READ or not frames:  # the flood is over, or a large frame begins
                self._set_read_size(small=False)
        elif len(frames) - len(answered) > FLOOD_FRAMES:
            self._set_read_size(small=True)
        if self._waiting or not self._open:
            self._after_call_done()
        if self._progress_events is not None:
            self._deliver_progress(self._progress_events)
        if self._wake_later:
            _schedule_results(answered)
        elif len(answered) == 1:
            answered[0].resolve_now()
        elif answered:
            self._wake_callers(answered)

    def _set_read_size(self, *, small: bool) -> None:
        self._small_reads = small
        if self._channel is not None:
            self._channel.read_size = SMALL_READ if small else CHUNK

    def end(self) -> None:
        """The plugin has closed its stdout. A last line without a newline still counts."""
        frames: Frames = []
        for frame in self._framing.end():
            if isinstance(frame, FrameError):
                self._drop_truncated(frame.head)
            else:
                frames.append(frame)
        answered = self._handle(frames, last=True)
        if self._progress_events is not None:
            self._deliver_progress(self._progress_events)
        _schedule_results(answered)

    def _wake_callers(self, answered: list[PendingCall]) -> None:
        """Wake the callers at the end of a read; what they send leaves in one write."""
        channel = self._channel
        if channel is not None:
            channel.cork()
        woken = 0
        try:
            for pending in answered:
                woken += 1
                pending.resolve_now()
        finally:
            _schedule_results(answered[woken:])  # if a caller raised SystemExit, the others still get results
            if channel is not None:
                channel.uncork()

    def _handle(self, frames: Frames, *, last: bool = False) -> list[PendingCall]:
        """Handle frames; returns the calls they answer, whose callers are woken at the end of the read."""
        answered: list[PendingCall] = []
        receive = self._session.receive
        for frame in frames:
            if self._muted:
                self._discard(_head(frame))
                break
            try:
                incoming = (
                    self._session.on_bad_frame(frame) if isinstance(frame, FrameError) else receive(frame)
                )
            except PluginError as error:
                self._fatal(error)
                break
            except Exception as error:  # a bug in a contract must not leave its callers waiting
                self._fatal(Malformed(f"the contract failed to decode it: {error!r}", head=_head(frame)))
                break
            if not isinstance(incoming, Response):
                if last and isinstance(incoming, Malformed):
                    self._drop_truncated(incoming.head)
                else:
                    self._take(incoming)
                continue
            pending = self._ledger.pop(incoming.id, None)
            if pending is None:
                self._take_unknown_response(incoming, frame)
            elif self._one_shot:
                self._muted, self._discarded = True, "output after the answer"
                self._owner.on_answer(pending, incoming)
            else:
                pending.answer = incoming
                answered.append(pending)
        return answered

    def _fatal(self, error: PluginError) -> None:
        self._muted = True
        self._owner.on_fatal(error)

    def _take(self, incoming: Incoming) -> None:
        """Handle everything but responses."""
        if isinstance(incoming, Progress):
            self._take_progress(incoming)
        elif isinstance(incoming, Request):
            self._serve_request(incoming)
        elif isinstance(incoming, Notification):
            self._take_notification(incoming)
        elif isinstance(incoming, Reply):
            self._send_reply(incoming)
        elif isinstance(incoming, Malformed):
            self._fail_oldest(incoming)
        elif isinstance(incoming, Unusable):
            self._drop(incoming.reason, incoming.head)
            if incoming.meant_for is not None:
                self._fail_unusable(incoming, incoming.meant_for)
        elif not self._open and self._session.ready:
            self._owner.on_ready()

    def _take_progress(self, progress: Progress) -> None:
        """Keep a progress event until the end of the read; drop one of a call that is not open."""
        pending = self._ledger.get(progress.id)
        if pending is None:
            if progress.id not in self.cancelled:  # the plugin may not have read the cancel message yet
                known = self._ledger.was_minted(progress.id)
                what = "an event after the end of" if known else "an event for an unknown"
                self._drop(f"{what} call {progress.id}", bytes(progress.payload)[:HEAD])
            return
        listener = getattr(pending, "listener", None)
        if listener is None:
            listener = pending.listener = ProgressBudget(pending.on_event)
        policy = self._policy
        excess = listener.excess(progress.payload, policy.max_events, policy.max_event_bytes)
        if excess is not None:
            self._owner.on_excess(pending, excess)
        elif listener.on_event is not None:
            if self._progress_events is None:
                self._progress_events = []
            self._progress_events.append((pending, progress.payload))

    def _deliver_progress(self, events: list[tuple[PendingCall, msgspec.Raw]]) -> None:
        """Call the `on_event` callbacks at the end of a read."""
        self._progress_events = None
        for pending, payload in events:
            if pending.done():
                continue
            try:
                assert pending.listener.on_event is not None
                pending.listener.on_event(payload)
            except Exception as error:  # a bug in the caller's callback, so the caller gets the error
                if not pending.done():
                    pending.set_exception(error)
                self.withdraw(pending, "caller_failed")

    def _take_notification(self, notification: Notification) -> None:
        if self._notification_limit is None or self._notification_limit.take():
            self._owner.on_notification(notification)
        elif self._notification_limit.overflows():
            self._drop(
                f"notifications beyond {self._policy.max_notify_rate} a second", notification.method.encode()
            )
        else:
            self.dropped += 1

    def _send_reply(self, reply: Reply) -> None:
        """Send the session's own answer. A plugin that sends much and reads nothing is killed."""
        if self._channel is not None and self._fits(frame := self._framing.encode(reply.message)):
            self._channel.write(frame)

    def _serve_request(self, request: Request) -> None:
        if self._channel is None or self._caller is None:
            return
        if self._request_server is None:
            limit = self._policy.max_reverse
            self._request_server = RequestServer(
                self._caller, self._session, self._framing, self._channel, self._serve, limit
            )
        self._request_server.take(request)

    def _take_unknown_response(self, answer: Response, frame: Frame | FrameError) -> None:
        if answer.id in self.cancelled:
            self.unresponsive = False
            self._on_cancel_answered(answer.id)
        elif self._ledger.was_minted(answer.id):
            self.unresponsive = False
            self.cancelled.answered_late(answer.id)
            if self._session.answers_cancelled_calls:
                late = AFTER_STDIN if self._stdin_closed else f"a late or duplicate answer to {answer.id}"
                self._drop(late, b"")
        else:
            self._take(self._session.on_unknown_response(answer, _head(frame)))

    def _fail_oldest(self, error: Malformed) -> None:
        """A malformed message names no call, so the oldest open call fails."""
        oldest = self._ledger.oldest()
        if oldest is None:
            self._drop(error.message, error.head)
        else:
            del self._ledger[oldest.number]
            self.unresponsive = True
            self._owner.on_malformed(oldest, error)

    def _fail_unusable(self, unusable: Unusable, number: int) -> None:
        """Fail the call that an unusable message seems to answer. A call with a deadline may still be
        answered, so it fails only when the message is final."""
        pending = self._ledger.get(number)
        if pending is not None and (unusable.final or pending.deadline == FOREVER):
            del self._ledger[number]
            self.unresponsive = True
            self._owner.on_malformed(pending, Malformed(unusable.reason, head=unusable.head))

    def fail_call(self, number: int, error: PluginError) -> None:
        """Fail one call: its own stream has failed, and the plugin cannot answer it any more."""
        if number in self.cancelled:
            self._on_cancel_answered(number)
        pending = self._ledger.pop(number, None)
        if pending is not None:
            self._owner.on_call_failed(pending, error)
            self._after_call_done()

    def _discard(self, data: bytes) -> None:
        """Ignore output that comes too late, with one warning."""
        if self._discarded and data.strip():
            what, self._discarded = self._discarded, ""
            self._drop(what, _head(data))

    def _drop_truncated(self, head: bytes) -> None:
        self._drop("the stream ended inside a message", head)

    def _drop(self, what: str, head: bytes) -> None:
        self.dropped += 1
        self._owner.on_dropped(what, head)

    def _after_call_done(self) -> None:
        if self._waiting:
            self.pump()
            self._start_timeouts()
        if not self._open and not self._ledger:
            self._owner.on_settled()

    def _expire_calls(self) -> float:
        """Time out calls whose deadline has passed; returns the next deadline."""
        now = self._time()
        waiting: dict[int, PendingCall] = self._waiting or {}
        sent = expire(self._ledger, now)
        expired = sent + expire(waiting, now)
        for pending in expired:
            if not pending.done():
                self._owner.on_timeout(pending)
        for pending in sent:
            self.unresponsive = True
            self._send_cancel(pending.number, DEADLINE_EXCEEDED)
        if expired:
            self._after_call_done()
        return min(next_deadline(self._ledger), next_deadline(self._waiting or {}))

    def close(self) -> None:
        """Cancel the deadline timer."""
        self._deadline_timer.cancel()


def _schedule_results(answered: list[PendingCall]) -> None:
    """Set results the ordinary way: the loop wakes the callers."""
    for pending in answered:
        if not pending.done():
            pending.set_result(pending.answer)


def _head(frame: Frame | FrameError) -> bytes:
    return frame.head if isinstance(frame, FrameError) else bytes(frame[:HEAD])
