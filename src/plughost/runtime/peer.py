"""Calls as futures over the ledger, in both directions, on whatever channel is attached.

The peer outlives processes: calls that wait for their turn stay when a process ends, calls that were
written to it do not. Time is kept by one sweeper, never by a timer per call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec

from plughost.base.clock import Clock
from plughost.base.errors import InvalidSpec, Malformed, Overloaded, PluginError
from plughost.runtime.bucket import Bucket
from plughost.runtime.caller import Caller, Publication
from plughost.runtime.channel import CHUNK, Channel
from plughost.runtime.line import Held, Line
from plughost.runtime.listener import Listener
from plughost.runtime.pending import Pending
from plughost.runtime.policy import Policy
from plughost.runtime.serving import Serve, Serving
from plughost.runtime.session import Incoming, Session
from plughost.runtime.sweeper import Sweeper
from plughost.wire.envelope import ABSENT, Answer, Noise, Notification, Progress, Request, encode
from plughost.wire.framing import HEAD, Frame, FrameError, Frames, FrameTooLarge
from plughost.wire.ledger import FOREVER, Ledger, expire, next_deadline

MANY = 16
SMALL_BITE = 512
"""A plugin that sends many unasked messages at once is read in small bites: its neighbours wait less."""
DEADLINE_EXCEEDED = "deadline_exceeded"
_NONE: dict[int, float] = {}
HIGH_WATER = 256 * 1024
"""With so many bytes unread by the plugin, further calls wait their turn."""


class Owner(Protocol):
    """Who decides what the peer only sees."""

    def on_wanted(self) -> None:
        """A call waits and nothing is running."""

    def on_ready(self) -> None:
        """The handshake is done."""

    def on_answer(self, pending: Pending, answer: Answer) -> None:
        """The answer to a call came in (one-shot policies only: others are settled at once)."""

    def on_timeout(self, pending: Pending) -> None:
        """A call's time is over."""

    def on_excess(self, pending: Pending, why: str) -> None:
        """A call has said more than it may before its answer."""

    def on_stopping(self, until: float | None) -> None:
        """By then it must have answered the first of the calls that it was told to stop; None when it has
        answered all of them."""

    def on_settled(self) -> None:
        """A call has left the ledger while nothing else waits."""

    def on_fatal(self, error: PluginError) -> None:
        """The conversation cannot go on."""

    def on_malformed(self, pending: Pending, error: Malformed) -> None:
        """Something unusable came while a call was open."""

    def on_dropped(self, what: str, head: bytes) -> None:
        """Something the plugin sent was not used."""

    def on_notification(self, notification: Notification) -> None: ...


class Peer:
    """The other side of one instance's conversation."""

    __slots__ = (
        "_abandoned", "_bucket", "_call_timeout", "_caller", "_channel", "_deaf", "_ending", "_framing",
        "_held", "_ledger", "_loop", "_max_buffered", "_max_in_flight", "_one_shot", "_open", "_owner",
        "_policy", "_said", "_serve", "_serving", "_session", "_small_bites", "_sweeper", "_time",
        "_timeout_from_write", "_waiting", "_warn", "_watches_idleness", "dropped", "last_frame", "stopping",
        "unresponsive",
    )  # fmt: skip

    def __init__(
        self,
        session: Session,
        policy: Policy,
        owner: Owner,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        serve: Serve | None,
    ) -> None:
        self._session = session
        self._policy = policy
        # What every call asks of the policy, one step nearer.
        self._max_in_flight = policy.max_in_flight
        self._call_timeout = policy.call_timeout
        self._max_buffered = policy.max_buffered
        self._timeout_from_write = policy.timeout_from_write
        self._one_shot = policy.one_shot
        self._watches_idleness = policy.idle_reap is not None
        self._owner = owner
        self._time = clock.time
        self._loop = loop
        self._serve = serve
        self._serving: Serving | None = None  # made at need
        self._bucket = None if policy.max_told is None else Bucket(policy.max_told, clock.time)
        self._framing = session.framing()
        self._ledger: Ledger[Pending] = Ledger(session.first_id)
        self._waiting: Line | None = None  # made at need
        self._held: Held | None = None  # while it is being started
        self._said: list[tuple[Pending, msgspec.Raw]] | None = None
        """What open calls have said in this read; None when nothing."""
        self.stopping: dict[int, float] = _NONE
        """Calls that nobody waits for and that it was told to stop: until when it must answer them. Meanwhile
        no further one is written."""
        self._abandoned: dict[int, float] = _NONE
        """Calls that nobody waits for and that it may still be busy with: until when."""
        self.unresponsive = False
        """It owes an answer that nobody waits for any more, and has answered nothing since."""
        self._caller: Caller | None = None
        self._channel: Channel | None = None
        self._open = False
        self._deaf = False
        self._ending = False
        self._small_bites = False
        self._warn = False
        self._sweeper = Sweeper(clock, self._sweep)
        self.dropped = 0
        self.last_frame = clock.time()

    # What goes out

    @property
    def in_flight(self) -> int:
        return len(self._ledger)

    @property
    def waiting(self) -> int:
        return len(self._waiting or ())

    def taken(self) -> list[Pending]:
        """The calls that were written and wait for their answers."""
        return list(self._ledger.values())

    def busy_until(self) -> float:
        """By when it should have done all that it was given and that nobody waits for any more."""
        now = self._time()
        self._abandoned = {number: until for number, until in self._abandoned.items() if until > now} or _NONE
        return max(self._abandoned.values(), default=now)

    @property
    def busy(self) -> bool:
        return bool(self._ledger or self._waiting or self._serving)

    def first_waiting(self) -> str | None:
        """The method of the call whose turn is next."""
        first = self._waiting.first() if self._waiting else None
        return first.method if first is not None else None

    def submit(
        self,
        method: str,
        params: Any,
        timeout: float | None,
        context: Mapping[str, str] | None,
        ahead: bool = False,
    ) -> Pending:
        """File a call: written at once if it may be, else when its turn comes; `ahead` of what waits."""
        number = self._ledger.mint()
        try:
            frame = self._framing.encode(self._session.call(number, method, params, context))
        except (FrameTooLarge, TypeError, ValueError, RecursionError) as error:
            raise InvalidSpec(f"the call of {method!r} cannot be sent: {error}") from error
        starts_at_write = False
        if timeout is None:
            timeout, starts_at_write = self._call_timeout, self._timeout_from_write
        now = self._time()
        pending = Pending(loop=self._loop)
        pending.file(
            self._owner, number, method, frame, timeout, FOREVER if timeout is None else now + timeout
        )
        if self._open and (ahead or not self._waiting) and self._has_room(ahead):
            self._send(pending, now, ahead)
        else:
            if starts_at_write:
                pending.deadline = FOREVER
            # As it is now: the caller may change its params while they wait.
            pending.params = params if params is ABSENT else msgspec.Raw(encode(params))
            pending.context = context
            self._wait(pending)
        return pending

    def _has_room(self, ahead: bool = False) -> bool:
        channel = self._channel
        return (
            channel is not None
            and (channel.buffered < HIGH_WATER or ahead)
            and len(self._ledger) < self._max_in_flight
        )

    def _send(self, pending: Pending, now: float, ahead: bool = False) -> None:
        ledger = self._ledger
        ledger[pending.number] = pending
        if pending.deadline < self._sweeper.when:
            self._sweeper.by(pending.deadline)
        self.last_frame = now
        channel = self._channel
        assert channel is not None
        if ahead and channel.buffered:
            channel.write_ahead(pending.frame)
        elif len(ledger) == 1:
            channel.write_now(pending.frame)
        else:
            channel.write(pending.frame)
        pending.frame = b""

    def _wait(self, pending: Pending) -> None:
        if self._waiting is None:
            self._waiting = Line(self._policy.max_waiting)
        self._waiting.join(pending)
        self._sweeper.by(pending.deadline)
        self._start_clocks()
        if not self._open:
            self._owner.on_wanted()

    def _start_clocks(self) -> None:
        if self._waiting:
            turns = self._max_in_flight - len(self._ledger)
            self._sweeper.by(self._waiting.start_clocks(turns, self._time()))

    def pump(self) -> None:
        """Let waiting calls through as far as there is room."""
        while self._waiting and self._open and self._has_room():
            now = self._time()
            pending = self._waiting.next(now)
            if pending is not None:
                if self._held is not None:
                    self._release(self._held.before(pending.number))
                self._send(pending, now)

    def on_room(self) -> None:
        """What was written has left."""
        if self._serving is not None:
            self._serving.on_room()
        if self._waiting:
            self.pump()

    def notify(self, method: str, params: Any, *, urgent: bool = False) -> bool:
        """Send a notification; False when nobody is there to hear it."""
        if not self._open and self._held is None:
            return False
        try:
            frame = self._framing.encode(self._session.notify(method, params))
        except (FrameTooLarge, TypeError, ValueError, RecursionError) as error:
            raise InvalidSpec(f"{method!r} cannot be told: {error}") from error
        return self._tell(frame, urgent)

    def deliver(self, publication: Publication) -> bool:
        """Tell what was published; False when nobody is there to hear it."""
        if not self._open and self._held is None:
            return False
        frame = publication.frames.get(self._session.__class__)
        if frame is None:
            frame = publication.frame(self._session, self._framing)
        return self._tell(frame, urgent=False)

    def _tell(self, frame: bytes, urgent: bool) -> bool:
        channel, held = self._channel, self._held
        unheard = (channel.buffered if channel is not None else 0) + (held.size if held is not None else 0)
        if unheard + len(frame) > self._max_buffered:
            self._owner.on_fatal(Overloaded(f"it left {unheard} bytes unread, more than max_buffered allows"))
            return False
        self.last_frame = self._time()
        if held is not None:
            held.add(self._ledger.following, frame, urgent)
        elif channel is not None:
            channel.write(frame, urgent=urgent)
        return True

    def expect(self) -> None:
        """A process is being started: what it is told until it is ready waits for that."""
        self._held = Held()

    def _release(self, held: Iterable[tuple[bytes, bool]]) -> None:
        assert self._channel is not None
        for frame, urgent in held:
            self._channel.write(frame, urgent=urgent)

    def ask_now(self, method: str, params: Any, timeout: float) -> Pending | None:
        """A call of the session's own, past every queue; None when nobody is there to hear it."""
        if not self._session.ready or self._channel is None:
            return None
        number = self._ledger.mint()
        frame = self._framing.encode(self._session.call(number, method, params, None))
        now = self._time()
        pending = Pending(loop=self._loop)
        pending.file(self._owner, number, method, frame, timeout, now + timeout)
        self._send(pending, now)
        return pending

    def keep_waiting(self, pending: Pending) -> None:
        """Its answer is here, but its time still runs."""
        self._ledger[pending.number] = pending

    def withdraw(self, pending: Pending, reason: str | None = None) -> None:
        """The caller no longer wants the answer; if one comes, it is dropped as late. With a `reason` the
        plugin is told to stop, where its contract has a word for that."""
        number = pending.number
        if self._ledger.get(number) is pending:
            del self._ledger[number]
            if self._policy.health is not None:
                if self._abandoned is _NONE:
                    self._abandoned = {}
                self._abandoned[number] = pending.deadline
            if reason is not None:
                self.unresponsive = True
                self._tell_to_stop(number, reason)
        elif self._waiting and self._waiting.get(number) is pending:
            del self._waiting[number]
        self._after_settling()

    def _tell_to_stop(self, number: int, reason: str) -> None:
        message = self._session.cancel(number, reason)
        if message is None or self._channel is None:
            return
        self._channel.write(self._framing.encode(message))
        if self.stopping is _NONE:
            self.stopping = {}
        self.stopping[number] = self._time() + self._policy.cancel_grace
        self._max_in_flight = 0  # what else is called waits, until it is known whether the process lives on
        self._owner.on_stopping(self._first_to_stop())

    def _first_to_stop(self) -> float:
        return next(iter(self.stopping.values()))  # all have the same grace, so the oldest is due first

    def _has_stopped(self, number: int) -> None:
        del self.stopping[number]
        if self.stopping:
            self._owner.on_stopping(self._first_to_stop())
        else:
            self.stopping = _NONE
            self._max_in_flight = self._policy.max_in_flight
            self._owner.on_stopping(None)

    def part(self) -> None:
        """The last words to it, before its stdin closes."""
        if self._session.ready and self._channel is not None:
            for message in self._session.parting():
                self._channel.write(self._framing.encode(message))

    # Attaching and detaching

    def attach(self, channel: Channel, caller: Caller) -> None:
        """A new process: start its conversation."""
        self._channel = channel
        self._caller = caller
        self._framing = self._session.framing()
        self._deaf = self._ending = self._small_bites = False
        for message in self._session.begin(self.first_waiting()):
            channel.write(self._framing.encode(message))
        channel.resume()
        if self._session.ready:
            self._owner.on_ready()

    def open(self) -> None:
        """Calls may be written from now on."""
        if self._channel is not None:
            for message in self._session.greet():
                self._channel.write(self._framing.encode(message))
        self._open = True
        self.pump()
        if self._held is not None and self._channel is not None:
            self._release(self._held.before(None))
        self._held = None

    def hold(self) -> None:
        """No further call is written; those that are keep waiting for their answers."""
        self._open = False

    def hush(self) -> None:
        """Nothing the plugin says from now on counts."""
        self._deaf = True

    def last_words(self) -> None:
        """What comes now is the rest: its callers are told by the loop, not in the middle of the end."""
        self._ending = True

    def detach(self) -> list[Pending]:
        """The process is gone: the calls it took along."""
        self._open = False
        self._channel = self._held = None
        self.stopping = self._abandoned = _NONE
        self.unresponsive = False
        self._max_in_flight = self._policy.max_in_flight
        if self._serving is not None:
            self._serving.close()
            self._serving = None
        return self._ledger.close()

    def take_waiting(self) -> list[Pending]:
        """Everything that waits for its turn, no longer waiting here."""
        waiting, self._waiting = self._waiting, None
        return list((waiting or {}).values())

    def adopt(self, waiting: list[Pending]) -> None:
        """Take over calls that waited at another instance; their callers notice nothing."""
        for pending in waiting:
            if pending.done():
                continue
            pending.number = self._ledger.mint()
            pending.owner = self._owner
            try:
                message = self._session.call(pending.number, pending.method, pending.params, pending.context)
                pending.frame = self._framing.encode(message)
                self._wait(pending)
            except (PluginError, FrameTooLarge) as error:
                pending.fail(InvalidSpec(f"the call of {pending.method!r} cannot be sent: {error}"))
        self.pump()

    # What comes in

    def feed(self, data: bytes) -> None:
        """Bytes from the plugin."""
        if self._deaf:
            self._discard(data)
            return
        if self._watches_idleness:
            self.last_frame = self._time()
        frames = self._framing.feed(data)
        answered = self._handle(frames)
        if answered:
            self.unresponsive = False
        if self._small_bites:
            if len(data) < SMALL_BITE or not frames:  # it has said all it had, or begins something large
                self._bite(small=False)
        elif len(frames) - len(answered) > MANY:
            self._bite(small=True)
        if self._waiting or not self._open:
            self._after_settling()
        if self._said is not None:
            self._pass_on(self._said)
        if self._ending:
            _tell(answered)
        elif len(answered) == 1:
            answered[0].settle()
        elif answered:
            self._wake(answered)

    def _bite(self, *, small: bool) -> None:
        self._small_bites = small
        if self._channel is not None:
            self._channel.bite = SMALL_BITE if small else CHUNK

    def end(self) -> None:
        """The plugin's stream has ended: a last frame without its line end still counts."""
        frames: Frames = []
        for frame in self._framing.end():
            if isinstance(frame, FrameError):
                self._cut_off(frame.head)
            else:
                frames.append(frame)
        answered = self._handle(frames, last=True)
        if self._said is not None:
            self._pass_on(self._said)
        _tell(answered)

    def _wake(self, answered: list[Pending]) -> None:
        """Let the callers run, now that nothing is in between; what they send leaves in one write."""
        channel = self._channel
        if channel is not None:
            channel.cork()
        woken = 0
        try:
            for pending in answered:
                woken += 1
                pending.settle()
        finally:
            _tell(answered[woken:])  # a caller has ended the program; the others are still told
            if channel is not None:
                channel.uncork()

    def _handle(self, frames: Frames, *, last: bool = False) -> list[Pending]:
        """Take frames. The calls they answer are returned, for their callers to be woken at the end."""
        answered: list[Pending] = []
        receive = self._session.receive
        for frame in frames:
            if self._deaf:
                self._discard(_head(frame))
                break
            try:
                incoming = self._session.broken(frame) if isinstance(frame, FrameError) else receive(frame)
            except PluginError as error:
                self._fatal(error)
                break
            except Exception as error:  # a contract's own fault must not leave its callers waiting
                self._fatal(Malformed(f"its contract could not read it: {error!r}", head=_head(frame)))
                break
            if not isinstance(incoming, Answer):
                if last and isinstance(incoming, Malformed):
                    self._cut_off(incoming.head)
                else:
                    self._take(incoming)
                continue
            pending = self._ledger.pop(incoming.id, None)
            if pending is None:
                self._stray(incoming, frame)
            elif self._one_shot:
                self._deaf = self._warn = True
                self._owner.on_answer(pending, incoming)
            else:
                pending.answer = incoming
                answered.append(pending)
        return answered

    def _fatal(self, error: PluginError) -> None:
        self._deaf = True
        self._owner.on_fatal(error)

    def _take(self, incoming: Incoming) -> None:
        """Everything that is not an answer to an open call."""
        if isinstance(incoming, Progress):
            self._hear_out(incoming)
        elif isinstance(incoming, Request):
            self._serve_request(incoming)
        elif isinstance(incoming, Notification):
            self._hear(incoming)
        elif isinstance(incoming, Malformed):
            self._blame(incoming)
        elif isinstance(incoming, Noise):
            self._drop(incoming.reason, incoming.head)
            if incoming.meant_for is not None:
                self._give_up(incoming, incoming.meant_for)
        elif not self._open and self._session.ready:
            self._owner.on_ready()

    def _hear_out(self, progress: Progress) -> None:
        """What an open call says is kept until the end of the read; what another says is no use."""
        pending = self._ledger.get(progress.id)
        if pending is None:
            if progress.id not in self.stopping:  # those may not know yet that nobody listens
                settled = self._ledger.was_minted(progress.id)
                what = "an event after the end of" if settled else "an event of an unknown"
                self._drop(f"{what} call {progress.id}", bytes(progress.payload)[:HEAD])
            return
        listener = getattr(pending, "listener", None)
        if listener is None:
            listener = pending.listener = Listener(pending.on_event)
        policy = self._policy
        excess = listener.excess(progress.payload, policy.max_events, policy.max_event_bytes)
        if excess is not None:
            self._owner.on_excess(pending, excess)
        elif listener.on_event is not None:
            if self._said is None:
                self._said = []
            self._said.append((pending, progress.payload))

    def _pass_on(self, said: list[tuple[Pending, msgspec.Raw]]) -> None:
        """Let callers hear what their calls say, now that nothing is in between."""
        self._said = None
        for pending, payload in said:
            if pending.done():
                continue
            try:
                assert pending.listener.on_event is not None
                pending.listener.on_event(payload)
            except Exception as error:  # the caller's own fault, so the caller is told
                if not pending.done():
                    pending.set_exception(error)
                self.withdraw(pending, "caller_failed")

    def _hear(self, notification: Notification) -> None:
        if self._bucket is None or self._bucket.take():
            self._owner.on_notification(notification)
        elif self._bucket.overflows():
            self._drop(f"notifications beyond {self._policy.max_told} a second", notification.method.encode())
        else:
            self.dropped += 1

    def _serve_request(self, request: Request) -> None:
        if self._channel is None or self._caller is None:
            return
        if self._serving is None:
            limit = self._policy.max_reverse
            self._serving = Serving(
                self._caller, self._session, self._framing, self._channel, self._serve, limit
            )
        self._serving.take(request)

    def _stray(self, answer: Answer, frame: Frame | FrameError) -> None:
        if answer.id in self.stopping:
            self.unresponsive = False
            self._has_stopped(answer.id)
        elif self._ledger.was_minted(answer.id):
            self.unresponsive = False
            self._abandoned.pop(answer.id, None)
            self._drop(f"a late or doubled answer to {answer.id}", b"")
        else:
            self._take(self._session.unasked(answer, _head(frame)))

    def _blame(self, error: Malformed) -> None:
        """Nothing tells which call it belongs to: the oldest open one fails."""
        oldest = self._ledger.oldest()
        if oldest is None:
            self._drop(error.message, error.head)
        else:
            del self._ledger[oldest.number]
            self.unresponsive = True
            self._owner.on_malformed(oldest, error)

    def _give_up(self, noise: Noise, number: int) -> None:
        """A call with a time to end may still be answered in it."""
        pending = self._ledger.get(number)
        if pending is not None and (noise.final or pending.deadline == FOREVER):
            del self._ledger[number]
            self.unresponsive = True
            self._owner.on_malformed(pending, Malformed(noise.reason, head=noise.head))

    def _discard(self, data: bytes) -> None:
        """Output after the only answer: one warning, whatever its length."""
        if self._warn and data.strip():
            self._warn = False
            self._drop("output after the answer", _head(data))

    def _cut_off(self, head: bytes) -> None:
        self._drop("the stream ended inside a message", head)

    def _drop(self, what: str, head: bytes) -> None:
        self.dropped += 1
        self._owner.on_dropped(what, head)

    def _after_settling(self) -> None:
        if self._waiting:
            self.pump()
            self._start_clocks()
        if not self._open and not self._ledger:
            self._owner.on_settled()

    def _sweep(self) -> float:
        """End what is late; the next deadline."""
        now = self._time()
        waiting: dict[int, Pending] = self._waiting or {}
        taken = expire(self._ledger, now)
        late = taken + expire(waiting, now)
        for pending in late:
            if not pending.done():
                self._owner.on_timeout(pending)
        for pending in taken:
            self.unresponsive = True
            self._tell_to_stop(pending.number, DEADLINE_EXCEEDED)
        if late:
            self._after_settling()
        return min(next_deadline(self._ledger), next_deadline(self._waiting or {}))

    def close(self) -> None:
        """Stop keeping time."""
        self._sweeper.cancel()


def _tell(answered: list[Pending]) -> None:
    """Let the loop tell the callers."""
    for pending in answered:
        if not pending.done():
            pending.set_result(pending.answer)


def _head(frame: Frame | FrameError) -> bytes:
    return frame.head if isinstance(frame, FrameError) else bytes(frame[:HEAD])
