"""One process with one state machine: carries out what the supervisor's table decides."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any

from plughost.clock import Clock
from plughost.engine.caller import Caller
from plughost.engine.channel import PipeChannel
from plughost.engine.delegate import InstanceDelegate
from plughost.engine.health import HealthCheck
from plughost.engine.launcher.errors import NO_WATCHES, as_launch_failure, launch_failure
from plughost.engine.launcher.launch import Launch
from plughost.engine.peer import Peer
from plughost.engine.pending_call import PendingCall
from plughost.engine.policy import LifecyclePolicy
from plughost.engine.process import KILL_PATIENCE, Process
from plughost.engine.reporter import Reporter, describe_exit
from plughost.engine.session import Session
from plughost.engine.supervisor import State, Supervisor, SupervisorAction, SupervisorEvent
from plughost.engine.tap import Tapping
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

EXIT_NOTICE = 2.0
"""A plugin whose pipe closed has so long to show its exit status before it is ended."""
_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
"""Also as a shell, or bubblewrap, tells it of its child."""

OVER = (State.QUARANTINED, State.STOPPED)

Submit = Callable[[str, Any, float | None, Mapping[str, str] | None, bool], PendingCall]


class Instance:
    """A plugin that may run, runs, or has run. All of it happens in callbacks of the event loop."""

    __slots__ = (
        "_caller",
        "_cause",
        "_channel",
        "_checkup",
        "_clock",
        "_due",
        "_executed",
        "_farewell",
        "_gone",
        "_held",
        "_home",
        "_launch",
        "_loop",
        "_peer",
        "_policy",
        "_preparing",
        "_process",
        "_processes",
        "_refusal",
        "_session",
        "_settling",
        "_sign",
        "_stdout_ended",
        "_supervisor",
        "_tapping",
        "_witness",
        "generation",
        "name",
        "submit",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        generation: int,
        launch: Launch | None,
        policy: LifecyclePolicy,
        session: Session,
        *,
        clock: Clock,
        events: EventHub,
        home: InstanceDelegate,
        processes: dict[Process, PipeChannel],
        tapping: Tapping | None = None,
    ) -> None:
        """`processes` is where everything that runs is known, for a host that is dropped unclosed. Without a
        `launch`, nothing is prepared yet: each start tries that first.
        """
        self.name = name
        self.generation = generation
        self._launch = launch
        self._policy = policy
        self._session = session
        self._clock = clock
        self._home = home
        self._processes = processes
        self._tapping = tapping
        self._loop = asyncio.get_running_loop()
        self._supervisor = Supervisor(policy)
        self._witness = Reporter(name, generation, session, events, clock, home.hidden)
        self._peer = Peer(session, policy, self, clock, self._loop, home.serve)
        self.submit: Submit = self._peer.submit
        """File a call; its future holds the answer or the error. Replaced once it takes no more calls."""
        self._process: Process | None = None
        self._preparing: asyncio.Task[None] | None = None
        self._caller: Caller | None = None
        self._channel: PipeChannel | None = None
        self._executed = False
        self._sign: Crashed | None = None
        self._stdout_ended = False
        self._cause: PluginError | None = None
        self._held: tuple[PendingCall, Response] | None = None
        self._farewell: PendingCall | None = None
        self._refusal: PluginError | None = None
        self._due = OneShotTimer(clock, self._loop)
        self._checkup: HealthCheck | None = None
        self._settling: asyncio.Future[None] | None = None
        self._gone: asyncio.Future[None] | None = None

    # What the outside asks

    @property
    def state(self) -> State:
        return self._supervisor.state

    @property
    def pid(self) -> int | None:
        """The launcher's process id."""
        return self._process.pid if self._process is not None else None

    @property
    def held_by(self) -> str:
        """What makes sure that no descendant survives: pidns or subreaper; empty while not running."""
        return self._process.mode if self._process is not None else ""

    @property
    def confined_by(self) -> tuple[str, ...]:
        """What was put around the plugin, as its launcher reported it; empty while not running."""
        return self._process.confined_by if self._process is not None else ()

    @property
    def in_flight(self) -> int:
        return self._peer.in_flight

    @property
    def waiting(self) -> int:
        return self._peer.waiting

    @property
    def stopping(self) -> int:
        """How many cancelled calls it still owes an answer to. Meanwhile it takes no further one."""
        return len(self._peer.stopping)

    @property
    def accepting_calls(self) -> bool:
        return self._supervisor.state not in OVER and not self._peer.stopping

    @property
    def dropped(self) -> int:
        """How many things the plugin sent that were not used."""
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
        return self._witness.error(self._session.to_exception(pending.method, answer))

    def garbled(self, error: Malformed) -> PluginError:
        """A result that was JSON, but is no value."""
        return self._witness.error(error)

    def withdraw(self, pending: PendingCall, reason: str) -> None:
        """The caller has gone. With one process per call, so has the reason for the process."""
        self._peer.withdraw(pending, reason)
        if self._policy.one_shot:
            self._held = None
            self._doom(Stopped("its caller has gone"))

    def notify(self, method: str, params: Any, *, urgent: bool = False) -> bool:
        """Tell the plugin something; False when it is not running."""
        return self._peer.notify(method, params, urgent=urgent)

    def start(self) -> None:
        """Start now, without a call."""
        self._step(SupervisorEvent.WANTED)

    def drain(self, successor: Instance | None) -> None:
        """Take no more calls, finish those in flight within the grace, then end."""
        waiting = self._peer.take_waiting()
        self._peer.pause_calls()
        if successor is not None:
            successor._peer.take_over(waiting)
        self._step(SupervisorEvent.DRAIN)
        if self.state is State.DRAINING:
            self._due.after(self._policy.grace, self.stop)
            self.on_settled()

    def stop(self) -> None:
        """End it gracefully; open calls fail first."""
        self._turn_away(Stopped, "the host has stopped it")
        held, self._held = self._held, None
        for pending in [
            *self._peer.take_waiting(),
            *self._peer.in_flight_calls(),
            *((held[0],) if held else ()),
        ]:
            if pending is not self._farewell:
                pending.fail(
                    self._witness.error(Stopped(f"it was stopped before it answered {pending.method!r}"))
                )
                self._peer.withdraw(pending)
        self._step(SupervisorEvent.STOP)

    def kill(self) -> None:
        """End it by force, now."""
        self.stop()
        if self._process is not None:
            self._kill()

    async def wait_ready(self) -> None:
        """Wait until it is ready, or raise why it is not."""
        while self.state in (State.SPAWNING, State.BACKOFF):
            if self._settling is None:
                self._settling = self._loop.create_future()
            await asyncio.shield(self._settling)
        if self.state is not State.RUNNING:
            raise (self._refusal or self._cause or Stopped("it did not start", plugin=self.name)).copy()

    def _wake_settled(self) -> None:
        if self._settling is not None and not self._settling.done():
            self._settling.set_result(None)
        self._settling = None

    async def gone(self) -> None:
        """Wait until nothing of it is left."""
        if self.state is State.STOPPED:
            return
        if self._gone is None:
            self._gone = self._loop.create_future()
        await asyncio.shield(self._gone)

    # The table

    def _step(self, event: SupervisorEvent, why: str = "") -> None:
        old = self._supervisor.state
        action = self._supervisor.on(event)
        new = self._supervisor.state
        if new is old:
            return
        self._witness.tell(StateChanged, old=old.value, new=new.value, why=why or event.value)
        self._end_checkup()
        if new in (State.DRAINING, State.SHUTTING_DOWN, State.STOPPED):
            self._retire()
        if action is SupervisorAction.START:
            self._start()
        elif action is SupervisorAction.OPEN:
            self._open()
        elif action is SupervisorAction.DELAY:
            self._due.after(self._supervisor.delay, lambda: self._step(SupervisorEvent.DELAY_OVER))
        elif action is SupervisorAction.REFUSE:
            self._refuse()
        elif action is SupervisorAction.CLOSE:
            self._close()
        elif action is SupervisorAction.KILL:
            self._kill()
        elif action is SupervisorAction.END:
            self._end()
        self._wake_settled()

    def _start(self) -> None:
        self._cause = None
        self._executed = False
        self._sign = None
        self._stdout_ended = False
        if self._launch is None:
            self._preparing = self._loop.create_task(self._prepare())
        else:
            self._attempt(self._launch)

    async def _prepare(self) -> None:
        try:
            with as_launch_failure("cannot prepare it"):
                self._launch = await self._home.prepare()
        except PluginError as error:
            self._cause = error
        self._preparing = None
        if self._launch is None or self._cause is not None or self.state is not State.SPAWNING:
            self._on_exit()
        else:
            self._attempt(self._launch)

    def _attempt(self, launch: Launch) -> None:
        """Whatever goes wrong while it is launched is a failure of this instance, and of nobody else."""
        try:
            with as_launch_failure("cannot start it"):
                self._spawn(launch)
        except PluginError as error:
            if self._process is not None:
                self._doom(error)
                return
            # Not from inside the caller's own call: every failure arrives the same way.
            self._cause = error
            self._loop.call_soon(self._on_exit)

    def _spawn(self, launch: Launch) -> None:
        untapped = self._peer.feed, os.write
        on_data, send = untapped if self._tapping is None else self._tapping.ends(self._peer.feed)
        self._process = Process(
            launch,
            self._loop,
            self._on_executed,
            self._on_exit,
            self._on_stderr,
            self._on_refused,
            self._home.hidden,
        )
        self._channel = PipeChannel(
            self._loop,
            self._process.stdout,
            self._process.stdin,
            on_data=on_data,
            on_end=self._on_stdout_end,
            on_broken=self._on_stdin_broken,
            on_room=self._peer.on_room,
            on_unwatched=self._on_unwatched,
            send=send,
        )
        self._processes[self._process] = self._channel
        self._witness.last_words = self._process.stderr
        self._caller = Caller(self.name, self.generation, self._peer.deliver, self._warn)
        self._peer.expect_process()
        self._home.joined(self._caller)
        if self._policy.launch_timeout is not None:
            limit = self._policy.launch_timeout
            self._due.after(
                limit, lambda: self._doom(LaunchFailed(f"it was not executed within {limit:g} s"))
            )
        self._witness.tell(Spawned, pid=self._process.pid)

    def _open(self) -> None:
        self._rest()
        for lint in self._session.lints:
            self._witness.tell(Linted, what=lint)
        self._peer.open()

    def _retire(self) -> None:
        """Nobody publishes to it any more, and nobody calls it."""
        if self._caller is not None:
            self._caller.end()
        self._home.retired(self)

    def _refuse(self) -> None:
        """It failed for good, or could not be executed: nobody waits any longer."""
        cause = self._cause or Crashed("it ended")
        for pending in self._peer.take_waiting():
            pending.fail(cause.copy())
        if self.state is State.QUARANTINED:
            self._peer.close()
            refusal = self._turn_away(
                Quarantined,
                f"it has failed and is not started again; the failure was: {cause.message}",
                hint=f"{cause.hint}; then reload it" if cause.hint else "fix what failed, then reload it",
                exit_status=cause.exit_status,
                stderr_tail=cause.stderr_tail,
            )
            refusal.__cause__ = cause

    def _turn_away(self, kind: type[PluginError], message: str, **context: Any) -> PluginError:
        """No further call is taken; each is told the same, the first reason there was."""
        if self._refusal is None:
            self._refusal = self._witness.error(kind(message, **context))
            self.submit = self._refuse_call
        return self._refusal

    def _close(self) -> None:
        """Say goodbye, close stdin, wait, then end it by force."""
        times = self._policy.shutdown(unresponsive=self._peer.unresponsive)
        self._due.after(times.before_term, lambda: self._lose_patience(times.after_term))
        goodbye = self._session.shutdown_request()
        if goodbye is None:
            self._close_stdin()
            return
        self._farewell = self._peer.ask_now(*goodbye, timeout=times.before_term)
        if self._farewell is None:
            self._close_stdin()
        else:
            self._farewell.add_done_callback(lambda _: self._close_stdin())

    def _close_stdin(self) -> None:
        if self._farewell is not None and not self._farewell.cancelled():
            self._farewell.exception()  # an error reply is a reply
        self._peer.pause_calls()
        self._peer.send_shutdown()
        if self._channel is not None:
            self._channel.close_write()

    def _lose_patience(self, after_term: float) -> None:
        if self._held is not None:
            self._doom(Crashed(f"it did not end within {self._policy.grace:g} s after its answer"))
        elif after_term > 0 and self._process is not None:
            self._process.ask_to_end()
            self._due.after(after_term, self._kill)
        else:
            self._kill()

    def _kill(self) -> None:
        process = self._process
        if process is None:
            return
        process.kill()

        def insist() -> None:
            process.kill_launcher()
            self._due.soon(KILL_PATIENCE, self._on_exit)  # it is given up

        self._due.soon(KILL_PATIENCE, insist)

    def _end(self) -> None:
        self._due.cancel()
        self._peer.close()
        refusal = self._turn_away(Stopped, "the host has stopped it")
        for pending in self._peer.take_waiting():
            pending.fail((self._cause or refusal).copy())
        self._home.gone(self)
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    # What the process does

    def _on_executed(self, failure: LaunchFailed | None) -> None:
        if self._cause is not None or self.state is not State.SPAWNING:
            return
        if failure is not None:
            self._cause = failure  # the launcher ends by itself
            return
        self._executed = True
        limit = self._policy.ready_timeout
        if limit is not None:
            self._due.after(limit, lambda: self._doom(Timeout(f"no handshake within {limit:g} s")))
        else:
            self._due.cancel()
        assert self._channel is not None
        assert self._caller is not None
        self._peer.attach(self._channel, self._caller)

    def _on_stderr(self, lines: list[str]) -> None:
        if self._caller is not None:
            self._home.overhear(self._caller, lines)

    def _on_refused(self, records: list[bytes]) -> None:
        if self._caller is not None:
            self._home.refused(self._caller, records)

    def _on_stdout_end(self) -> None:
        self._stdout_ended = True
        self._peer.end()
        self._await_exit("it closed its stdout")

    def _on_stdin_broken(self, error: OSError) -> None:
        self._await_exit(f"it does not read its stdin any more ({error.strerror})")

    def _on_unwatched(self, error: OSError) -> None:
        """The loop cannot watch its pipes: no answer could be read, and no call written."""
        failure = launch_failure("the host cannot watch its pipes", error)
        if error.errno == errno.ENOSPC:
            failure.hint = NO_WATCHES
        self._doom(failure)

    def _await_exit(self, sign: str) -> None:
        """A pipe has closed: most likely it is about to exit, and its status tells more than the sign."""
        if (
            self._sign is not None
            or self._held is not None
            or self._process is None
            or not self._process.alive
        ):
            return
        if self.state is not State.SHUTTING_DOWN:
            self._sign = unexplained = Crashed(sign)
            self._end_checkup()
            self._due.soon(EXIT_NOTICE, lambda: self._doom(unexplained))

    def _doom(self, cause: PluginError) -> None:
        """The process cannot be used any more: end it; callers learn `cause` once it is gone."""
        if self._cause is None:
            self._cause = cause
        self._end_checkup()
        self._peer.mute()
        self._kill()

    def _on_exit(self) -> None:
        """Everything of this process is gone, or had its time to go."""
        self._due.cancel()
        process, self._process = self._process, None
        status: int | None = None
        self._peer.last_words()
        if process is not None:
            if self._channel is not None:
                self._channel.drain()
            status = process.exit_status
        if self._cause is self._sign and status not in (None, -signal.SIGKILL):
            self._cause = None  # it had exited by itself, only nobody had heard of it yet
        if self._cause is None and status in _KILLED:
            self._cause = self._home.held_to_account()
        cause = self._witness.error(self._cause or Crashed(describe_exit(status)))
        cause.exit_status = status if self._executed else None
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if process is not None:
            self._processes.pop(process, None)
            process.release()
        hopeless = isinstance(cause, HandshakeFailed) and cause.final
        event = self._supervisor.judge(self._clock.time(), executed=self._executed, hopeless=hopeless)
        self._witness.rest_of_drops()
        if process is not None:
            self._witness.tell(
                Exited,
                expected=self.state in (State.SHUTTING_DOWN, State.DRAINING),
                exit_status=status,
                stderr_tail=process.stderr.text(),
            )
        if self._caller is not None:
            self._caller.end()
            self._caller = None
        self._settle_all(cause, status)
        self._witness.last_words = None
        self._cause = cause
        self._step(event, why=cause.message)

    def _settle_all(self, cause: PluginError, status: int | None) -> None:
        held, self._held = self._held, None
        taken_along = self._peer.detach()
        if held is not None:
            pending, answer = held
            if answer.error is not NOTHING or (self._cause is None and status == 0):
                if not pending.done():
                    pending.set_result(answer)
            elif self._cause is not None:
                pending.fail(cause)
            else:
                pending.fail(self._crashed_after_answer(cause, status))
        for pending in taken_along:
            pending.fail(cause.copy())

    def _crashed_after_answer(self, cause: PluginError, status: int | None) -> PluginError:
        message = f"{describe_exit(status)} after its answer"
        return self._witness.error(Crashed(message, exit_status=status, stderr_tail=cause.stderr_tail))

    # What the conversation does

    def on_wanted(self) -> None:
        self._step(SupervisorEvent.WANTED)

    def on_ready(self) -> None:
        if self._cause is None:
            self._step(SupervisorEvent.READY)

    def on_answer(self, pending: PendingCall, answer: Response) -> None:
        """One process per call: the answer counts once the process has ended as it should."""
        self._held = (pending, answer)
        self._peer.keep_waiting(pending)
        if answer.error is not NOTHING:
            self._kill()
        else:
            self._step(SupervisorEvent.FINISHED)

    def on_timeout(self, pending: PendingCall) -> None:
        error = self._witness.error(Timeout(f"no answer to {pending.method!r} within {pending.timeout:g} s"))
        if self.state is State.BACKOFF and self._cause is not None:
            error.message += f"; it waits to be started again after a failure: {self._cause.message}"
        if not self._policy.one_shot or self._process is None:
            pending.fail(error)
            return
        self._held = (pending, Response(pending.number))
        self._doom(error)

    def on_excess(self, pending: PendingCall, why: str) -> None:
        pending.fail(self._witness.error(Overloaded(f"{why} before its answer to {pending.method!r}")))
        self._peer.withdraw(pending, "budget_exceeded")

    def on_stopping(self, until: float | None) -> None:
        if self.state is not State.RUNNING or self._sign is not None or self._cause is not None:
            return  # it is about to end anyway
        if until is None:
            self._rest()
        else:
            self._end_checkup()
            self._due.at(until, self._end_unstoppable)

    def _end_unstoppable(self) -> None:
        grace = self._policy.cancel_grace
        self._doom(
            CollateralFailure(
                f"it was ended with all its calls: one had not stopped {grace:g} s after it was told to",
                hint="let it answer a cancelled call at once, or call it with fewer at a time",
            )
        )

    def on_settled(self) -> None:
        if self.state is State.DRAINING and not self._peer.busy:
            self._step(SupervisorEvent.FINISHED)

    def on_fatal(self, error: PluginError) -> None:
        if not self._stdout_ended:
            self._doom(error)
        elif self._cause is None:
            self._cause = error  # it is about to exit, with a status that is worth telling

    def on_malformed(self, pending: PendingCall, error: Malformed) -> None:
        pending.fail(self._witness.error(error))

    def on_dropped(self, what: str, head: bytes) -> None:
        self._witness.dropped(what, head)

    def on_notification(self, notification: Notification) -> None:
        if self._caller is not None and self._home.on_notification(self._caller, notification):
            return
        self._witness.tell(Notified, method=notification.method, params=notification.params)

    def _warn(self, what: str) -> None:
        self.on_dropped(what, b"")

    # Small things

    def _rest(self) -> None:
        """Running, with nothing due but, perhaps, a look at its health or the end of its idle time."""
        self._due.cancel()
        if self._policy.health is not None:
            self._checkup = HealthCheck(
                self._policy.health, self._session, self._peer, self._due, self._clock, self._doom
            )
        elif self._policy.idle_reap is not None:
            self._due.at(self._peer.last_frame + self._policy.idle_reap, self._idle)

    def _end_checkup(self) -> None:
        if self._checkup is not None:
            self._checkup.end()
            self._checkup = None

    def _idle(self) -> None:
        assert self._policy.idle_reap is not None
        idle_for = self._clock.time() - self._peer.last_frame
        if self.state is not State.RUNNING:
            return
        if idle_for >= self._policy.idle_reap and not (self._peer.busy or self._home.pinned()):
            self._step(SupervisorEvent.IDLE)
        elif self._peer.busy or self._home.pinned():
            self._due.after(self._policy.idle_reap, self._idle)
        else:
            self._rest()
