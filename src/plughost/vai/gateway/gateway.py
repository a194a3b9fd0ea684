"""The gateway on its socket: a token, a route, the route's scope, and then the endpoint.

The socket is reached through a sandbox's proxy. Who connects is nobody until a token of a running invocation
says otherwise; what is refused to a running one stands in its record.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

from plughost._util.rmtree import rmtree
from plughost._util.temp_dir import shared_temp_dir
from plughost.errors import Denied, Stopped
from plughost.sandbox.run_dir import create_locked_dir, remove_abandoned
from plughost.vai.bindings.bindings import Bindings
from plughost.vai.gateway.child_runs import ChildRuns
from plughost.vai.gateway.compactions import Compactions
from plughost.vai.gateway.guest import Guest, over
from plughost.vai.gateway.http import HttpLimits, HttpServer
from plughost.vai.gateway.messages import HttpAnswer, HttpProblem, RequestHead
from plughost.vai.gateway.reading import Reading
from plughost.vai.gateway.refusals import Refusals
from plughost.vai.gateway.routes import ROUTES, Endpoint, find
from plughost.vai.invocations.execution import Execution
from plughost.vai.invocations.invocation import Invoker
from plughost.vai.invocations.signing_key import SigningKeys
from plughost.vai.invocations.tokens import Delegation, InvalidToken, OutOfScope, SigningIssuer
from plughost.vai.records.record import RecordSink
from plughost.vai.state.runs import CANCELLED
from plughost.vai.state.state import TenantState

PREFIX = "plughost-gateway-"
SOCKET = "api"


class Gateway:
    """A `Delegator`. Nothing is made before the first `open`."""

    def __init__(
        self,
        state: TenantState,
        records: RecordSink,
        bindings: Bindings,
        invoker: Invoker,
        signing_keys: SigningKeys,
        *,
        bounds: HttpLimits | None = None,
    ) -> None:
        self._state = state
        self._refusals = Refusals(records)
        self._signing_keys = signing_keys
        self._bounds = bounds
        self._issuer: SigningIssuer | None = None
        self._server: HttpServer | None = None
        self._opening = asyncio.Lock()
        self._folder, self._lock = "", -1
        self._guests: dict[str, Guest] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        reading, runs = Reading(state), ChildRuns(state, bindings, invoker)
        self._endpoints: dict[str, Endpoint] = {
            "session": reading.session,
            "chain": reading.chain,
            "append": reading.append,
            "start_run": runs.start,
            "run": runs.look,
            "finish_run": runs.finish,
            "compact": Compactions(state, bindings, invoker).compact,
        }

    @property
    def is_open(self) -> bool:
        return self._server is not None

    @property
    def guests(self) -> frozenset[str]:
        """The invocations whose tokens are good."""
        return frozenset(self._guests)

    async def open(self) -> str:
        async with self._opening:
            if self._server is None:
                self._issuer = self._issuer or SigningIssuer(await self._signing_keys.load())
                if self._lock < 0:
                    self._folder, self._lock = _place()
                server = HttpServer(self._admit, self._bounds)
                await server.start(os.path.join(self._folder, SOCKET))
                self._server = server
        return os.path.join(self._folder, SOCKET)

    def admit(self, run: Execution) -> str:
        if self._issuer is None:
            raise Stopped("the gateway is closed")
        scope = run.scope
        self._guests[run.id] = Guest(run)
        return self._issuer.mint(
            Delegation(
                invocation_id=run.id,
                org_id=scope.org_id,
                project_id=scope.project_id,
                scopes=run.prepared.granted.scopes,
                expires_at=time.time() + run.left,
            )
        )

    def dismiss(self, run: Execution) -> None:
        guest = self._guests.pop(run.id, None)
        if guest is None or self._issuer is None:
            return
        self._issuer.revoke(run.id)
        self._refusals.ended(run.id)
        task = asyncio.get_running_loop().create_task(self._see_off(guest, guest.end()))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def close(self) -> None:
        """When no invocation runs any more."""
        if self._server is not None:
            await self._server.close()
        await asyncio.gather(*self._leaving, return_exceptions=True)
        self._issuer = self._server = None
        if self._lock >= 0:
            rmtree(self._folder)
            os.close(self._lock)
            self._lock = -1

    async def _see_off(self, guest: Guest, begun: list[asyncio.Task[Any]]) -> None:
        """What an invocation left unfinished ends after it."""
        await asyncio.gather(*begun, return_exceptions=True)
        if guest.has_runs:
            await self._state.runs.end_all_of(guest.run.id, CANCELLED, "parent_ended")

    # The way of one request

    def _admit(self, head: RequestHead) -> Callable[[bytes], Awaitable[HttpAnswer]]:
        """Everything about a request that can be refused before its body is read."""
        name, id = find(head)
        guest = self._guest(head, ROUTES[name].scope)

        async def answer(body: bytes) -> HttpAnswer:
            guest.enter()
            try:
                return await self._endpoints[name](guest, id, head, body)
            except HttpProblem as problem:
                self._refusals.of(guest, head, problem)
                raise
            except Exception as error:  # ours: the guest learns no more than that
                context = {"message": f"the gateway failed at {head!r}", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)
                raise HttpProblem(500, "host_failure", "the gateway failed to handle the request") from error
            finally:
                guest.leave()

        return answer

    def _guest(self, head: RequestHead, scope: str) -> Guest:
        try:
            if self._issuer is None:
                raise Denied("the gateway is closed")
            known = self._guests.get(self._issuer.verify(head.token, scope).invocation_id)
        except OutOfScope as refused:
            problem = HttpProblem(403, "scope_missing", f"this needs the scope {scope}")
            self._refusals.of(self._guests[refused.delegation.invocation_id], head, problem)
            raise problem from refused
        except Denied as error:
            problem = HttpProblem(401, "unauthenticated", error.message)
            if isinstance(error, InvalidToken):
                self._refuse(error.invocation_id, head, problem)
            raise problem from error
        if known is None:
            raise over()
        return known

    def _refuse(self, invocation_id: str, head: RequestHead, problem: HttpProblem) -> None:
        """Whatever is done with a token that names it."""
        if (guest := self._guests.get(invocation_id)) is not None:
            self._refusals.of(guest, head, problem)
        else:
            self._refusals.after(invocation_id, head, problem)


def _place() -> tuple[str, int]:
    """A folder for the socket that nobody else can enter, and its lock."""
    base = os.path.realpath(shared_temp_dir())
    remove_abandoned(base, PREFIX)
    path, lock = create_locked_dir(base, PREFIX)
    os.fchmod(lock, 0o700)
    return path, lock
