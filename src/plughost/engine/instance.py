"""Instance: one plugin process at a time, with its state machine. Carries out the supervisor's decisions."""

from __future__ import annotations

import asyncio
import errno
import signal
from collections.abc import Callable, Mapping
from typing import Any

from plughost.clock import Clock
from plughost.engine.caller import Caller
from plughost.engine.delegate import InstanceDelegate
from plughost.engine.health import HealthCheck
from plughost.engine.io.process import KILL_TIMEOUT
from plughost.engine.io.tap import Tapping
from plughost.engine.launcher.errors import NO_WATCHES, as_launch_failure, launch_failure
from plughost.engine.link import Link, LinkCallbacks, OpenLink
from plughost.engine.peer import AFTER_STDIN, Peer
from plughost.engine.pending_call import PendingCall
from plughost.engine.policy import LifecyclePolicy
from plughost.engine.reporter import Reporter, describe_exit
from plughost.engine.session import Session
from plughost.engine.supervisor import State, Supervisor, SupervisorAction, SupervisorEvent
from plughost.engine.timer import OneShotTimer
from plughost.errors import (
    CollateralFailure,
    Crashed,
    HandshakeFailed,
    LaunchFailed,
    Malformed,
    Overloaded,
    PluginError,
    Quarantined,
    Stopped,
    Timeout,
)
from plughost.events import EventHub, Exited, Linted, Notified, Spawned, StateChanged
from plughost.wire.messages import NOTHING, Notification, Response

EXIT_STATUS_TIMEOUT = 2.0
"""Seconds between a closed pipe and the kill: an exit status that arrives by then tells more."""
FLUSH_TIME = 0.25
"""Seconds between the end of stdin and the kill of a process that did not answer in time: unflushed output is
written by then."""
NO_HANDSHAKE = (
    "it was stopped; `plughost dev` shows what it received and wrote: every message must be flushed"
)
_KILLED_STATUSES = (-signal.SIGKILL, 128 + signal.SIGKILL)
"""Exit statuses of a process killed by SIGKILL: its own, and as a shell or bubblewrap reports its child's."""

_ENDING_STATES = (State.SHUTTING_DOWN, State.DRAINING)
ENDED_STATES = (State.QUARANTINED, State.STOPPED)

Submit = Callable[[str, Any, float | None, Mapping[str, str] | None, bool], PendingCall]


class Instance:
    """One instance of a plugin over its life: starts its process, restarts it, stops it. Everything happens
    in callbacks of the event loop."""

    __slots__ = (
        "_caller", "_cause", "_clock", "_delegate", "_end_waiter", "_executed", "_health_check", "_link",
        "_links", "_loop", "_one_shot_answer", "_open_link", "_peer", "_pipe_closed", "_policy",
        "_preparing", "_refusal", "_reporter", "_session", "_shutdown_call", "_start_waiter",
        "_stdout_ended", "_supervisor", "_tapping", "_timer", "generation", "name", "submit",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        generation: int,
        open_link: OpenLink | None,
        policy: LifecyclePolicy,
        session: Session,
        *,
        clock: Clock,
        events: EventHub,
        delegate: InstanceDelegate,
        links: set[Link],
        tapping: Tapping | None = None,
    ) -> None:
        """`links` holds all open links of the host, for a host that is dropped unclosed. If `open_link` is
        None, the sandbox could not be prepared yet: each start tries that first.
        """
        self.name = name
        self.generation = generation
        self._open_link = open_link
        self._policy = policy
        self._session = session
        self._clock = clock
        self._delegate = delegate
        self._links = links
        self._tapping = tapping
        self._loop = asyncio.get_running_loop()
        self._supervisor = Supervisor(policy)
        self._reporter = Reporter(name, generation, session, events, clock, delegate.redactor)
        self._peer = Peer(session, policy, self, clock, self._loop, delegate.serve)
        self.submit: Submit = self._peer.submit
        """Submit a call: a future of its response. It is replaced by a function that raises, once the
        instance takes no more calls."""
        self._link: Link | None = None
        self._preparing: asyncio.Task[None] | None = None
        self._caller: Caller | None = None
        self._executed = False
        self._pipe_closed: Crashed | None = None
        self._stdout_ended = False
        self._cause: PluginError | None = None
        self._one_shot_answer: tuple[PendingCall, Response] | None = None
        self._shutdown_call: PendingCall | None = None
        self._refusal: PluginError | None = None
        self._timer = OneShotTimer(clock, self._loop)
        self._health_check: HealthCheck | None = None
        self._start_waiter: asyncio.Future[None] | None = None
        self._end_waiter: asyncio.Future[None] | None = None

    # Interface for the plugin

    def __repr__(self) -> str:
        return f"<Instance {self.name}#{self.generation} {self.state.value}>"

    @property
    def state(self) -> State:
        return self._supervisor.state

    @property
    def pid(self) -> int | None:
        """The process id of the launcher."""
        return self._link.pid if self._link is not None else None

    @property
    def held_by(self) -> str:
        """How descendants of the process are ended with it: pidns or subreaper; empty while not running."""
        return self._link.held_by if self._link is not None else ""

    @property
    def confined_by(self) -> tuple[str, ...]:
        """The sandbox mechanisms of the process, as its launcher reported them; empty while not running."""
        return self._link.confined_by if self._link is not None else ()

    @property
    def in_flight(self) -> int:
        return self._peer.in_flight

    @property
    def waiting(self) -> int:
        return self._peer.waiting

    @property
    def stopping(self) -> int:
        """How many cancelled calls the process has not answered yet. Until then no further call is sent to
        it."""
        return len(self._peer.cancelled)

    @property
    def accepting_calls(self) -> bool:
        return self._supervisor.state not in ENDED_STATES and not self._peer.cancelled

    @property
    def dropped(self) -> int:
        """How many messages of the plugin were dropped."""
        return self._peer.dropped

    @property
    def last_failure(self) -> PluginError | None:
        """Why its last process failed or could not be started; None while one runs, or before the first."""
        return self._cause

    @property
    def failures(self) -> int:
        return self._supervisor.failures

    def _refuse_call(self, *call: object) -> PendingCall:
        assert self._refusal is not None
        raise self._refusal.copy()

    def failure(self, pending: PendingCall, answer: Response) -> PluginError:
        """The plugin's own error in an answer, as an exception."""
        try:
            return self._reporter.error(self._session.to_exception(pending.method, answer))
        except RecursionError:
            return self._reporter.error(Malformed("its error is nested too deeply to be decoded"))

    def undecodable(self, error: Malformed) -> PluginError:
        """The error of a result that cannot be decoded as the type that was asked for."""
        return self._reporter.error(error)

    def withdraw(self, pending: PendingCall, reason: str) -> None:
        """Cancel a call whose caller has gone. With one process per call, the process is killed, too."""
        self._peer.withdraw(pending, reason)
        if self._policy.one_shot:
            self._one_shot_answer = None
            self._fail(Stopped("its caller has gone"))

    def notify(self, method: str, params: Any, *, urgent: bool = False) -> bool:
        """Send a notification; False when the process is not running."""
        return self._peer.notify(method, params, urgent=urgent)

    def start(self) -> None:
        """Start the process without a call."""
        self._step(SupervisorEvent.WANTED)

    def drain(self, successor: Instance | None) -> None:
        """Take no more calls, finish those in flight within the grace period, then end. Waiting calls move to
        `successor`."""
        waiting = self._peer.take_waiting()
        self._peer.pause_calls()
        if successor is not None:
            successor._peer.take_over(waiting)
        self._step(SupervisorEvent.DRAIN)
        if self.state is State.DRAINING:
            self._timer.after(self._policy.grace, self.stop)
            self.on_settled()

    def stop(self) -> None:
        """Stop gracefully. Open calls fail first."""
        self._reject_calls(Stopped, "the host has stopped it")
        held, self._one_shot_answer = self._one_shot_answer, None
        for pending in [
            *self._peer.take_waiting(),
            *self._peer.in_flight_calls(),
            *((held[0],) if held else ()),
        ]:
            if pending is not self._shutdown_call:
                pending.fail(
                    self._reporter.error(Stopped(f"it was stopped before it answered {pending.method!r}"))
                )
                self._peer.withdraw(pending)
        self._step(SupervisorEvent.STOP)

    def kill(self) -> None:
        """Kill the process now."""
        self.stop()
        if self._link is not None:
            self._kill()

    async def wait_ready(self) -> None:
        """Wait until it is ready, or raise why it is not."""
        while self.state in (State.SPAWNING, State.BACKOFF):
            if self._start_waiter is None:
                self._start_waiter = self._loop.create_future()
            await asyncio.shield(self._start_waiter)
        if self.state is not State.RUNNING:
            raise (self._refusal or self._cause or Stopped("it did not start", plugin=self.name)).copy()

    def _wake_start_waiter(self) -> None:
        if self._start_waiter is not None and not self._start_waiter.done():
            self._start_waiter.set_result(None)
        self._start_waiter = None

    async def gone(self) -> None:
        """Wait until the instance has ended with all its processes."""
        if self.state is State.STOPPED:
            return
        if self._end_waiter is None:
            self._end_waiter = self._loop.create_future()
        await asyncio.shield(self._end_waiter)

    # Actions of the supervisor's table

    def _step(self, event: SupervisorEvent, why: str = "") -> None:
        old = self._supervisor.state
        action = self._supervisor.on(event)
        new = self._supervisor.state
        if new is old:
            return
        self._reporter.emit(StateChanged, old=old.value, new=new.value, why=why or event.value)
        self._end_health_check()
        if new in (State.DRAINING, State.SHUTTING_DOWN, State.STOPPED):
            self._stop_taking_calls()
        if action is SupervisorAction.START:
            self._start()
        elif action is SupervisorAction.OPEN:
            self._open_calls()
        elif action is SupervisorAction.DELAY:
            self._timer.after(self._supervisor.delay, lambda: self._step(SupervisorEvent.DELAY_OVER))
        elif action is SupervisorAction.REFUSE:
            self._fail_waiting()
        elif action is SupervisorAction.CLOSE:
            self._close()
        elif action is SupervisorAction.KILL:
            self._kill()
        elif action is SupervisorAction.END:
            self._end()
        self._wake_start_waiter()

    def _start(self) -> None:
        self._cause = None
        self._executed = False
        self._pipe_closed = None
        self._stdout_ended = False
        if self._open_link is None:
            self._preparing = self._loop.create_task(self._prepare())
        else:
            self._connect(self._open_link)

    async def _prepare(self) -> None:
        try:
            with as_launch_failure("cannot prepare it"):
                self._open_link = await self._delegate.prepare()
        except PluginError as error:
            self._cause = error
        self._preparing = None
        if self._open_link is None or self._cause is not None or self.state is not State.SPAWNING:
            self._on_exit()
        else:
            self._connect(self._open_link)

    def _connect(self, open_link: OpenLink) -> None:
        """Start the process, or connect otherwise. Whatever goes wrong fails this instance only."""
        try:
            with as_launch_failure("cannot start it"):
                self._start_link(open_link)
        except PluginError as error:
            if self._link is not None:
                self._fail(error)
                return
            # Not inside the caller's `submit`: every failure arrives through the pending call.
            self._cause = error
            self._loop.call_soon(self._on_exit)

    def _start_link(self, open_link: OpenLink) -> None:
        on_data, on_sent = (
            (self._peer.feed, None) if self._tapping is None else self._tapping.wrap(self._peer.feed)
        )
        self._link = open_link(
            LinkCallbacks(
                on_open=self._on_open,
                on_data=on_data,
                on_end=self._on_stdout_end,
                on_broken=self._on_stdin_broken,
                on_room=self._peer.on_room,
                on_call_failed=self._peer.fail_call,
                on_watch_failed=self._on_watch_failed,
                on_exit=self._on_exit,
                on_stderr=self._on_stderr,
                on_denials=self._on_denials,
                redactor=self._delegate.redactor,
                on_sent=on_sent,
            )
        )
        self._links.add(self._link)
        self._reporter.stderr_tail = self._link.stderr
        self._caller = Caller(self.name, self.generation, self._peer.deliver, self._warn)
        self._peer.expect_process()
        self._delegate.on_started(self._caller)
        if self._policy.launch_timeout is not None:
            limit = self._policy.launch_timeout
            self._timer.after(
                limit, lambda: self._fail(LaunchFailed(f"its program was not executed within {limit:g} s"))
            )
        if self._link.pid is not None:
            self._reporter.emit(Spawned, pid=self._link.pid)

    def _open_calls(self) -> None:
        self._schedule_idle_work()
        self._report_described()
        for lint in self._session.lints:
            self._reporter.emit(Linted, what=lint)
        self._peer.open()

    def _report_described(self) -> None:
        if self._session.described:
            self._delegate.on_described(self._session.described)

    def _stop_taking_calls(self) -> None:
        """No calls and no publications from now on."""
        if self._caller is not None:
            self._caller.end()
        self._delegate.on_retired(self)

    def _fail_waiting(self) -> None:
        """Fail the waiting calls: the plugin failed for good, or could not be executed."""
        cause = self._cause or Crashed("it ended")
        for pending in self._peer.take_waiting():
            pending.fail(cause.copy())
        if self.state is State.QUARANTINED:
            self._peer.close()
            refusal = self._reject_calls(
                Quarantined,
                f"it is quarantined after a failure and will not be restarted: {cause.message}",
                hint=f"{cause.hint}; then reload it" if cause.hint else Quarantined.remedy,
                exit_status=cause.exit_status,
                stderr_tail=cause.stderr_tail,
            )
            refusal.__cause__ = cause

    def _reject_calls(self, kind: type[PluginError], message: str, **context: Any) -> PluginError:
        """Make `submit` raise from now on. If this is called twice, the first reason stays."""
        if self._refusal is None:
            self._refusal = self._reporter.error(kind(message, **context))
            self.submit = self._refuse_call
        return self._refusal

    def _close(self) -> None:
        """Shut down: send the shutdown request, close stdin, wait for the grace period, then kill."""
        times = self._policy.shutdown(unresponsive=self._peer.unresponsive)
        self._timer.after(times.before_term, lambda: self._on_grace_over(times.after_term))
        request = self._session.shutdown_request()
        if request is None:
            self._close_stdin()
            return
        self._shutdown_call = self._peer.ask_now(*request, timeout=times.before_term)
        if self._shutdown_call is None:
            self._close_stdin()
        else:
            self._shutdown_call.add_done_callback(lambda _: self._close_stdin())

    def _close_stdin(self) -> None:
        if self._shutdown_call is not None and not self._shutdown_call.cancelled():
            self._shutdown_call.exception()  # an error response is a response
        self._peer.pause_calls()
        self._peer.send_shutdown()
        if self._link is not None:
            self._link.channel.close_write()

    def _on_grace_over(self, after_term: float) -> None:
        if self._one_shot_answer is not None:
            self._fail(Crashed(f"it did not exit within {self._policy.grace:g} s after its answer"))
        elif after_term > 0 and self._link is not None:
            self._link.terminate()
            self._timer.after(after_term, self._kill)
        else:
            self._kill()

    def _kill(self) -> None:
        link = self._link
        if link is None:
            return
        link.kill()

        def kill_launcher() -> None:
            link.kill_launcher()
            self._timer.soon(KILL_TIMEOUT, self._on_exit)  # the exit is no longer waited for

        self._timer.soon(KILL_TIMEOUT, kill_launcher)

    def _end(self) -> None:
        self._timer.cancel()
        self._peer.close()
        refusal = self._reject_calls(Stopped, "the host has stopped it")
        for pending in self._peer.take_waiting():
            pending.fail((self._cause or refusal).copy())
        self._delegate.on_gone(self)
        if self._end_waiter is not None and not self._end_waiter.done():
            self._end_waiter.set_result(None)

    # Callbacks of the link

    def _on_open(self, failure: LaunchFailed | None) -> None:
        if self._cause is not None or self.state is not State.SPAWNING:
            return
        if failure is not None:
            self._cause = failure  # the launcher exits by itself
            return
        self._executed = True
        limit = self._policy.ready_timeout
        if limit is not None:
            late = Timeout(f"no handshake within {limit:g} s", hint=NO_HANDSHAKE)
            self._timer.after(limit, lambda: self._fail_unanswered(late))
        else:
            self._timer.cancel()
        assert self._link is not None
        assert self._caller is not None
        self._peer.attach(self._link.channel, self._caller)

    def _on_stderr(self, lines: list[str]) -> None:
        if self._caller is not None:
            self._delegate.on_stderr(self._caller, lines)

    def _on_denials(self, records: list[bytes]) -> None:
        if self._caller is not None:
            self._delegate.on_denials(self._caller, records)

    def _on_stdout_end(self) -> None:
        self._stdout_ended = True
        self._peer.end()
        self._await_exit("it closed its stdout")

    def _on_stdin_broken(self, error: OSError) -> None:
        self._await_exit(f"it closed its stdin ({error.strerror})")

    def _on_watch_failed(self, error: OSError) -> None:
        """The event loop cannot watch the pipes: nothing could be read or written."""
        failure = launch_failure("the host cannot watch its pipes", error)
        if error.errno == errno.ENOSPC:
            failure.hint = NO_WATCHES
        self._fail(failure)

    def _await_exit(self, reason: str) -> None:
        """A pipe was closed: the process is most likely about to exit, and its exit status tells more."""
        if (
            self._pipe_closed is not None
            or self._one_shot_answer is not None
            or self._link is None
            or not self._link.alive
        ):
            return
        if self.state is not State.SHUTTING_DOWN:
            self._pipe_closed = unexplained = Crashed(reason)
            self._end_health_check()
            self._timer.soon(EXIT_STATUS_TIMEOUT, lambda: self._fail(unexplained))

    def _fail(self, cause: PluginError) -> None:
        """Kill a process that cannot be used any more. Its calls fail with `cause` once it is gone."""
        if self._cause is None:
            self._cause = cause
        self._end_health_check()
        self._peer.mute()
        self._kill()

    def _fail_unanswered(self, cause: PluginError) -> None:
        """Kill a process that did not answer in time. Its stdin is closed `FLUSH_TIME` before that: if an
        answer comes then, the plugin does not flush its output, and the error says so."""
        if self._cause is not None or self._link is None:
            self._fail(cause)
            return
        self._cause = cause
        self._pipe_closed = Crashed("the host has closed its stdin")  # from here its exit is awaited
        self._end_health_check()
        self._peer.await_unflushed()
        self._link.channel.close_write()
        self._timer.soon(FLUSH_TIME, self._kill)

    def _on_exit(self) -> None:
        """The process and its descendants have ended, or did not end in time: fail its calls, and step on."""
        self._timer.cancel()
        link, self._link = self._link, None
        status: int | None = None
        self._peer.start_final_read()
        if link is not None:
            link.channel.drain()
            status = link.exit_status
        if self._cause is self._pipe_closed and status not in (None, -signal.SIGKILL):
            self._cause = None  # it had exited by itself before it was killed
        if self._cause is None and status in _KILLED_STATUSES:
            self._cause = self._delegate.kill_reason()
        self._report_described()  # also of a handshake that was refused
        cause = self._reporter.error(self._cause or Crashed(describe_exit(status)))
        cause.exit_status = status if self._executed else None
        if link is not None:
            link.channel.close()
            self._links.discard(link)
            link.release()
        is_final = isinstance(cause, HandshakeFailed) and cause.final
        event = self._supervisor.classify_exit(self._clock.time(), executed=self._executed, final=is_final)
        self._reporter.emit_drop_count()
        if link is not None:
            self._reporter.emit(
                Exited,
                expected=self.state in _ENDING_STATES,
                exit_status=status,
                stderr_tail="" if link.stderr is None else link.stderr.text(),
            )
        self._delegate.on_exited(self, None if self._exit_was_wanted(cause) else cause)
        if self._caller is not None:
            self._caller.end()
            self._caller = None
        self._resolve_all(cause, status)
        self._reporter.stderr_tail = None
        self._cause = cause
        self._step(event, why=cause.message)

    def _exit_was_wanted(self, cause: PluginError) -> bool:
        """Whether the host had asked for the exit, or has no more use for the process."""
        answer = self._one_shot_answer
        answered = answer is not None and answer[1].error is not NOTHING
        return self.state in _ENDING_STATES or answered or isinstance(cause, Stopped)

    def _resolve_all(self, cause: PluginError, status: int | None) -> None:
        held, self._one_shot_answer = self._one_shot_answer, None
        lost = self._peer.detach()
        if held is not None:
            pending, answer = held
            if answer.error is not NOTHING or (self._cause is None and status == 0):
                if not pending.done():
                    pending.set_result(answer)
            elif self._cause is not None:
                pending.fail(cause)
            else:
                pending.fail(self._crashed_after_answer(cause, status))
        for pending in lost:
            pending.fail(cause.copy())

    def _crashed_after_answer(self, cause: PluginError, status: int | None) -> PluginError:
        message = f"{describe_exit(status)} after its answer"
        return self._reporter.error(Crashed(message, exit_status=status, stderr_tail=cause.stderr_tail))

    # Callbacks of the peer (`PeerOwner`)

    def on_wanted(self) -> None:
        self._step(SupervisorEvent.WANTED)

    def on_ready(self) -> None:
        if self._cause is None:
            self._step(SupervisorEvent.READY)

    def on_answer(self, pending: PendingCall, answer: Response) -> None:
        """One process per call: its answer counts once the process has exited with code 0."""
        self._one_shot_answer = (pending, answer)
        self._peer.keep_waiting(pending)
        if answer.error is not NOTHING:
            self._kill()
        else:
            self._step(SupervisorEvent.FINISHED)

    def on_timeout(self, pending: PendingCall) -> None:
        error = self._reporter.error(Timeout(f"no answer to {pending.method!r} within {pending.timeout:g} s"))
        if self.state is State.BACKOFF and self._cause is not None:
            error.message += f"; it is waiting to be restarted after a failure: {self._cause.message}"
        if not self._policy.one_shot or self._link is None:
            pending.fail(error)
            return
        self._one_shot_answer = (pending, Response(pending.number))
        self._fail_unanswered(error)

    def on_call_failed(self, pending: PendingCall, error: PluginError) -> None:
        pending.fail(self._reporter.error(error))

    def on_excess(self, pending: PendingCall, why: str) -> None:
        pending.fail(self._reporter.error(Overloaded(f"{why} before its answer to {pending.method!r}")))
        self._peer.withdraw(pending, "budget_exceeded")

    def on_stopping(self, until: float | None) -> None:
        if self.state is not State.RUNNING or self._pipe_closed is not None or self._cause is not None:
            return  # the process is about to end anyway
        if until is None:
            self._schedule_idle_work()
        else:
            self._end_health_check()
            self._timer.at(until, self._on_cancel_grace_over)

    def _on_cancel_grace_over(self) -> None:
        grace = self._policy.cancel_grace
        self._fail(
            CollateralFailure(
                f"it was killed, with all its open calls: one of them was still running {grace:g} s after "
                "it was cancelled",
                hint="make the plugin answer cancelled calls at once, or make fewer calls at a time",
            )
        )

    def on_settled(self) -> None:
        if self.state is State.DRAINING and not self._peer.busy:
            self._step(SupervisorEvent.FINISHED)

    def on_fatal(self, error: PluginError) -> None:
        if not self._stdout_ended:
            self._fail(error)
        elif self._cause is None:
            self._cause = error  # it is about to exit, and its exit status will be in the error

    def on_malformed(self, pending: PendingCall, error: Malformed) -> None:
        pending.fail(self._reporter.error(error))

    def on_dropped(self, what: str, head: bytes) -> None:
        if what is AFTER_STDIN and self._cause is not None:
            self._cause.hint = f"the host dropped {what}"
        self._reporter.dropped(what, head)

    def on_notification(self, notification: Notification) -> None:
        if self._caller is not None and self._delegate.on_notification(self._caller, notification):
            return
        self._reporter.emit(Notified, method=notification.method, params=notification.params)

    def _warn(self, what: str) -> None:
        self.on_dropped(what, b"")

    # Health checks and idleness

    def _schedule_idle_work(self) -> None:
        """While it is running: start health checks, or else the idle timer."""
        self._timer.cancel()
        if self._policy.health is not None:
            self._health_check = HealthCheck(
                self._policy.health, self._session, self._peer, self._timer, self._clock, self._fail
            )
        elif self._policy.idle_reap is not None:
            self._timer.at(self._peer.last_frame + self._policy.idle_reap, self._on_idle_timer)

    def _end_health_check(self) -> None:
        if self._health_check is not None:
            self._health_check.end()
            self._health_check = None

    def _on_idle_timer(self) -> None:
        assert self._policy.idle_reap is not None
        idle_for = self._clock.time() - self._peer.last_frame
        if self.state is not State.RUNNING:
            return
        if idle_for >= self._policy.idle_reap and not (self._peer.busy or self._delegate.pinned()):
            self._step(SupervisorEvent.IDLE)
        elif self._peer.busy or self._delegate.pinned():
            self._timer.after(self._policy.idle_reap, self._on_idle_timer)
        else:
            self._schedule_idle_work()
