"""The gateway's API on its socket: a token opens what it stands for, and whatever else is sent opens nothing."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import httpx
import msgspec
import pytest

from plughost.contracts.vai.request_bodies import (
    EventSubject,
    HarnessPolicy,
    HarnessTarget,
    HookEvent,
    Trigger,
)
from plughost.vai.bindings.binding import Scope
from plughost.vai.bindings.bindings import FixedBindings
from plughost.vai.database.database import Database, Steps
from plughost.vai.gateway import refusals
from plughost.vai.gateway.gateway import Gateway
from plughost.vai.gateway.guest import MOST_AT_ONCE
from plughost.vai.gateway.http import HttpLimits
from plughost.vai.gateway.messages import HttpProblem
from plughost.vai.gateway.routes import ROUTES
from plughost.vai.gateway.tenancy import bound as find_bound
from plughost.vai.invocations.execution import Execution, start_execution
from plughost.vai.invocations.invocation import Invocation
from plughost.vai.invocations.requests import HarnessRequest, HookRequest
from plughost.vai.records.record import EventLogged
from plughost.vai.state.chains import Block, Chain
from plughost.vai.state.runs import RunRecord
from plughost.vai.state.sessions import TenantSession
from tests.support import until
from tests.unit.vai.invocations.test_tokens import PREFIX, forged
from tests.vai.invocations.conftest import SECRET, TENANT, Kept, bound, running_runs

TEXT = [{"type": "text", "text": "hello"}]
OTHERS = [Scope("org_2", "proj_1"), Scope("org_1", "proj_2"), Scope("org_1"), Scope("org_2")]
SCOPES = sorted({route.scope for route in ROUTES.values()})
WORK = HarnessRequest(
    target=HarnessTarget(session_id="sess_1", execution_id="exec_1"),
    trigger=Trigger("user_request"),
    policy=HarnessPolicy(max_depth=2, max_child_runs=2, allow_compaction=True),
)


class Desk:
    """A gateway, what it records, and invocations that are there without any process."""

    client: httpx.AsyncClient

    def __init__(self, runtime: Any, bounds: HttpLimits) -> None:
        self.runtime = runtime
        self.state = runtime.state
        self.kept = Kept()
        self.gateway = Gateway(
            self.state, self.kept, runtime._bindings, runtime, runtime.signing_keys, bounds=bounds
        )
        self.runs: list[Execution] = []

    async def furnish(self, scope: Scope, mark: str = "") -> None:
        """A session, a chain and a run."""
        where = {"org_id": scope.org_id, "project_id": scope.project_id}
        await self.state.sessions.create(TenantSession(session_id=f"sess{mark}", **where))
        chain = Chain(chain_id=f"ch{mark}", session_id=f"sess{mark}", **where)
        await self.state.chains.create(chain, [Block("input", TEXT)] * 3)
        await self.state.runs.start(RunRecord(run_id=f"run{mark}", **where))

    async def guest(self, scope: Scope = TENANT, work: Any = WORK, **policy: Any) -> str:
        export = "triage" if isinstance(work, HarnessRequest) else "watches"
        binding = bound(export, scope, f"bind_{len(self.runs)}", **policy)
        run = start_execution(
            f"inv_{len(self.runs)}",
            Invocation(binding=binding, work=work),
            await self.runtime.invoker.prepare(binding),
            self.runtime.host._clock,
            self.kept,
            None,
        )
        run.redactor.add([SECRET])
        self.runs.append(run)
        return self.gateway.admit(run)

    async def ask(self, token: str, method: str, path: str, **how: Any) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token}", **how.pop("headers", {})}
        answer = await self.client.request(method, f"http://gateway{path}", headers=headers, **how)
        kind = "application/json" if answer.is_success else "application/problem+json"
        assert answer.headers["content-type"] == kind
        return answer.status_code, answer.json() if answer.is_success else answer.json()["code"]

    async def raw(self, data: bytes) -> bytes:
        """All that is answered to some bytes."""
        reader, writer = await asyncio.open_unix_connection(await self.gateway.open())
        writer.write(data)
        async with asyncio.timeout(30):
            answer = await reader.read()
        writer.close()
        return answer

    def refused(self) -> list[str]:
        return [each.event["code"] for each in self.kept.of(EventLogged)]


@pytest.fixture
async def desk(runtime_of):
    runtime = await runtime_of(bound("shortens"), bound("reads"))
    desk = Desk(runtime, HttpLimits(connections=24, body=64 << 10, request_seconds=0.5))
    transport = httpx.AsyncHTTPTransport(uds=await desk.gateway.open(), verify=False)
    desk.client = httpx.AsyncClient(transport=transport)
    await desk.furnish(TENANT)
    yield desk
    await desk.client.aclose()
    for run in desk.runs:
        desk.gateway.dismiss(run)
    await desk.gateway.close()


CALLS: dict[str, tuple[str, str, Any]] = {
    "session": ("GET", "/v1/sessions/sess{}", None),
    "chain": ("GET", "/v1/chains/ch{}", None),
    "append": ("POST", "/v1/chains/ch{}/blocks", {"blocks": [{"kind": "output", "content": TEXT}]}),
    "start_run": ("POST", "/v1/runs", {"task": "look"}),
    "run": ("GET", "/v1/runs/run{}", None),
    "finish_run": ("PATCH", "/v1/runs/run{}", {"status": "succeeded"}),
    "compact": (
        "POST",
        "/v1/compactions",
        {"chain_id": "ch{}", "export": "shortens", "target": {"max_input_tokens": 10, "target_model": "m"}},
    ),
}


def call(name: str, mark: str = "") -> tuple[str, str, dict[str, Any]]:
    method, path, document = CALLS[name]
    text = "" if document is None else json.dumps(document).replace("ch{}", f"ch{mark}")
    return method, path.format(mark), {"content": text}


@pytest.mark.clause("VAI-45", "VAI-41", "VAI-42")
async def test_each_endpoint_needs_its_one_scope(desk: Desk) -> None:
    assert {*CALLS} == {*ROUTES}
    for name, route in ROUTES.items():
        method, path, how = call(name)
        status, code = await desk.ask(
            await desk.guest(scopes=frozenset({*SCOPES} - {route.scope})), method, path, **how
        )
        assert (status, code) == (403, "scope_missing"), name
        status, told = await desk.ask(await desk.guest(scopes=frozenset({route.scope})), method, path, **how)
        expected = (403, "not_its_own") if name == "finish_run" else (200 if method == "GET" else 201, told)
        assert (status, told) == expected, name
    assert desk.refused() == ["scope_missing"] * 6 + ["not_its_own"] + ["scope_missing"]
    assert (
        sorted(
            ["sessions:read", "chains:read", "chains:write", "runs:read", "runs:write", "compactions:write"]
        )
        == SCOPES
    )


@pytest.mark.clause("VAI-41")
async def test_what_is_another_tenants_is_not_there(desk: Desk) -> None:
    token = await desk.guest()
    for number, scope in enumerate(OTHERS, 1):
        await desk.furnish(scope, f"_other_{number}")
    for name in CALLS:
        if name == "start_run":
            continue
        for mark in ("_other_1", "_other_2", "_other_3", "_other_4", "_unknown"):
            method, path, how = call(name, mark)
            assert await desk.ask(token, method, path, **how) == (404, "not_found"), (name, mark)
    for where in ({"chain_id": "ch_other_1"}, {"session_id": "sess_other_2"}):
        assert await desk.ask(token, "POST", "/v1/runs", json=where) == (404, "not_found")
    assert {*desk.refused()} == {"not_found"}
    assert await desk.ask(token, "POST", "/v1/runs", json={"parent_run_id": "run"}) == (403, "not_its_own")
    assert len(await desk.state.chains.blocks("ch_other_1")) == 3


@pytest.mark.clause("VAI-41")
async def test_a_forged_token_is_nobodys(desk: Desk) -> None:
    for attack, token in forged(await desk.guest(scopes=frozenset({"chains:read"}))).items():
        if attack == "huge":
            continue  # of heads that are too large, see below
        for method, path in (("GET", "/v1/chains/ch"), ("POST", "/v1/chains/ch/blocks")):
            assert await desk.ask(PREFIX + token, method, path) == (401, "unauthenticated"), attack
    told = [(each.invocation_id, each.event["message"]) for each in desk.kept.of(EventLogged)]
    assert told == [("inv_0", "the delegation token was not issued by this host")] * 2 * 9, (
        "the empty one names nobody"
    )


@pytest.mark.clause("VAI-41")
async def test_what_somebody_tries_with_a_token_of_the_past_is_recorded(desk: Desk) -> None:
    """After the end, and without a word of what was sent; a bounded number of times, of the last ones."""
    token = await desk.guest()
    desk.gateway.dismiss(desk.runs[0])
    for _ in range(refusals.MOST + 5):
        assert await desk.ask(token, "GET", f"/v1/chains/{SECRET}") == (401, "unauthenticated")
    said = desk.kept.of(EventLogged)
    assert len(said) == len({each.number for each in said}) == refusals.MOST
    assert {each.invocation_id for each in said} == {"inv_0"}
    assert said[0].event == {
        "type": "gateway.refused", "method": "GET", "status": 401, "code": "unauthenticated",
        "message": "the invocation of this delegation token has ended",
    }  # fmt: skip
    for number in range(refusals.REMEMBERED):
        desk.gateway._refusals.ended(f"inv_x{number}")
    await desk.ask(token, "GET", "/v1/chains/ch")
    assert len(desk.gateway._refusals._ended) == refusals.REMEMBERED
    assert len(desk.kept.of(EventLogged)) == refusals.MOST, "it is forgotten"


@pytest.mark.clause("VAI-41")
async def test_a_token_is_good_while_its_invocation_runs(desk: Desk) -> None:
    token, other = await desk.guest(), await desk.guest()
    assert (await desk.ask(token, "GET", "/v1/chains/ch"))[0] == 200
    desk.gateway.dismiss(desk.runs[0])
    assert await desk.ask(token, "GET", "/v1/chains/ch") == (401, "unauthenticated")
    assert desk.gateway._issuer.running == desk.gateway.guests == {"inv_1"}
    assert (await desk.ask(other, "GET", "/v1/chains/ch"))[0] == 200
    for header in ("", "Basic " + other, other, "Bearer"):
        answered = await desk.ask("", "GET", "/v1/chains/ch", headers={"Authorization": header})
        assert answered == (401, "unauthenticated")


@pytest.mark.clause("VAI-41")
async def test_a_token_ends_at_its_deadline(desk: Desk) -> None:
    token = await desk.guest(timeout_ms=1)
    await until(lambda: time.time() >= desk.gateway._issuer._running["inv_0"].expires_at)
    assert await desk.ask(token, "GET", "/v1/chains/ch") == (401, "unauthenticated")


async def test_pages(desk: Desk) -> None:
    token = await desk.guest()
    await desk.state.chains.create(
        Chain(chain_id="large", org_id="org_1", project_id="proj_1"),
        [Block("input", [{"type": "text", "text": "x" * (3 << 20)}])] * 2,
    )
    _, page = await desk.ask(token, "GET", "/v1/chains/large")
    assert ([block["number"] for block in page["blocks"]], page["next"]) == ([1], 1), "as much as is bearable"
    _, page = await desk.ask(token, "GET", "/v1/chains/large?after=1")
    assert ([block["number"] for block in page["blocks"]], page["next"]) == ([2], None)
    numbers, after = [], 0
    while after is not None:
        _, page = await desk.ask(token, "GET", f"/v1/chains/ch?after={after}&limit=2")
        numbers += [block["number"] for block in page["blocks"]]
        after = page["next"]
    assert numbers == [1, 2, 3]
    _, page = await desk.ask(token, "GET", "/v1/sessions/sess?limit=1")
    assert (page["chain_ids"], page["next"]) == (["ch"], "ch")
    assert (await desk.ask(token, "GET", "/v1/sessions/sess?after=ch"))[1]["chain_ids"] == []
    for wrong in ("limit=-1", "limit=0", "after=x", "after=1e3", "&".join(f"a{n}=1" for n in range(20))):
        assert await desk.ask(token, "GET", f"/v1/chains/ch?{wrong}") == (400, "invalid_request")


@pytest.mark.clause("VAI-51", "VAI-90")
async def test_blocks_are_added_without_secrets_and_a_tools_result_is_the_hosts_alone(desk: Desk) -> None:
    token = await desk.guest()

    def blocks(kind: str, text: str) -> dict[str, Any]:
        return {"json": {"blocks": [{"kind": kind, "content": [{"type": "text", "text": text}]}]}}

    path = "/v1/chains/ch/blocks"
    assert await desk.ask(token, "POST", path, **blocks("tool_result", "x")) == (403, "hosts_own")
    assert await desk.ask(token, "POST", path, **blocks("output", SECRET)) == (
        201,
        {"chain_id": "ch", "last": 4},
    )
    _, run = await desk.ask(token, "POST", "/v1/runs", json={"task": f"use {SECRET}"})
    _, run = await desk.ask(
        token, "PATCH", f"/v1/runs/{run['run_id']}", json={"status": "failed", "output": f"{SECRET}!"}
    )
    assert (run["task"], run["output"]) == ("use ***", "***!")
    assert (await desk.state.chains.blocks("ch"))[-1].content[0]["text"] == "***"
    again = await desk.ask(token, "PATCH", f"/v1/runs/{run['run_id']}", json={"status": "succeeded"})
    assert again == (409, "run_is_over")


async def test_a_write_with_a_key_is_done_once(desk: Desk) -> None:
    """Also for another invocation of the project, as when a harness resumes; never across projects."""
    await desk.furnish(OTHERS[0], "_other")
    for name, expected in (("start_run", "run_id"), ("append", "last"), ("compact", "compaction_id")):
        method, path, how = call(name)
        keyed = {**how, "headers": {"Idempotency-Key": "exec_1:0"}}
        (first, told), (again, same) = [
            await desk.ask(await desk.guest(), method, path, **keyed) for _ in range(2)
        ]
        assert (first, again in (200, 201)) == (201, True), (name, told, same)
        assert told[expected] == same[expected]
        other = {**keyed, "headers": {"Idempotency-Key": "exec_1:1"}}
        assert (await desk.ask(await desk.guest(), method, path, **other))[1][expected] != told[expected]
    assert len(await desk.state.chains.blocks("ch")) == 5
    keyed = {"json": {}, "headers": {"Idempotency-Key": "exec_1:0"}}
    _, own = await desk.ask(await desk.guest(), "POST", "/v1/runs", **keyed)
    _, foreign = await desk.ask(await desk.guest(OTHERS[0]), "POST", "/v1/runs", **keyed)
    assert own["run_id"] != foreign["run_id"]
    long = {"json": {}, "headers": {"Idempotency-Key": "k" * 256}}
    assert await desk.ask(await desk.guest(), "POST", "/v1/runs", **long) == (400, "invalid_request")


@pytest.mark.clause("VAI-59")
async def test_only_a_harness_begins_anything(desk: Desk) -> None:
    event = HookEvent(
        type="run.completed", occurred_at="2026-03-12T19:00:00Z", subject=EventSubject("run", "run")
    )
    token = await desk.guest(work=HookRequest(delivery_id="del_1", attempt=1, event=event))
    assert (await desk.ask(token, "GET", "/v1/runs/run"))[0] == 200
    assert await desk.ask(token, "POST", "/v1/runs", json={}) == (403, "harness_only")
    assert desk.refused() == ["harness_only"]


async def test_a_body_of_another_shape(desk: Desk) -> None:
    token = await desk.guest()
    for body in (
        b"", b"{", b"[]", b'{"blocks": []}', b'{"blocks": [{"kind": 1}]}', b"[" * 60_000,
        b'{"blocks": [], "more": 1}', b"\xff",
    ):  # fmt: skip
        answered = await desk.ask(token, "POST", "/v1/chains/ch/blocks", content=body)
        assert answered == (400, "invalid_request"), body[:50]


async def test_a_path_means_what_it_says(desk: Desk) -> None:
    headers = f"Host: gateway\r\nAuthorization: Bearer {await desk.guest()}\r\nConnection: close\r\n\r\n"
    for path in (
        "/", "/v1", "/v1/chains/", "/v1/chains/../chains/ch", "/v1/chains/..", "/v1/chains/%2e%2e/ch",
        "/v1/chains/ch/", "/v1//chains/ch", "/v1/chains/ch%00", "/v1/chains/ch/blocks/1", "/V1/chains/ch",
        "/v1/chains/" + "a" * 200, "http://gateway/v1/chains/ch",
    ):  # fmt: skip
        answer = await desk.raw(f"GET {path} HTTP/1.1\r\n{headers}".encode())
        assert answer.startswith(b"HTTP/1.1 404"), path


async def test_a_compaction_that_fails(desk: Desk) -> None:
    method, path, how = call("compact")
    wrong = {"content": how["content"].replace("shortens", "reads")}
    assert await desk.ask(await desk.guest(), method, path, **wrong) == (422, "compaction_failed")


async def test_other_methods(desk: Desk) -> None:
    for method, path in (("DELETE", "/v1/chains/ch"), ("PUT", "/v1/runs/run"), ("GET", "/v1/runs")):
        assert await desk.ask(await desk.guest(), method, path) == (405, "method_not_allowed")


# Bytes


def post(token: str, *headers: str, body: bytes = b"") -> bytes:
    lines = [
        "POST /v1/chains/ch/blocks HTTP/1.1",
        "Host: gateway",
        f"Authorization: Bearer {token}",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


SMUGGLED = b"GET /v1/chains/ch HTTP/1.1\r\nHost: gateway\r\n\r\n"


TWO_MEANINGS: list[tuple[list[str], bytes]] = [
    (["Content-Length: 5", "Content-Length: 0"], b"hello"),
    (["Content-Length: 5, 0"], b"hello"),
    (["Content-Length: 5", "Transfer-Encoding: chunked"], b"0\r\n\r\n"),
    (["Transfer-Encoding: chunked", "Content-Length: 0"], b"5\r\nhello\r\n0\r\n\r\n"),
    (["Transfer-Encoding: gzip, chunked"], b"0\r\n\r\n"),
    (["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], b"0\r\n\r\n"),
    (["Content-Length: +5"], b"hello"),
    (["Content-Length: -1"], b""),
    (["Content-Length : 5"], b"hello"),
    (["Transfer-Encoding: chunked"], b"zz\r\n"),
    (["Transfer-Encoding: chunked"], b"5\r\nhelloXX0\r\n\r\n"),
    (["Content-Length: 5", "Authorization: Bearer other"], b"hello"),
    (["Host: other", "Content-Length: 5"], b"hello"),
]


async def test_a_request_that_could_mean_two_is_none(desk: Desk) -> None:
    token = await desk.guest()
    for headers, body in TWO_MEANINGS:
        answer = await desk.raw(post(token, *headers, body=body + SMUGGLED))
        assert answer.count(b"HTTP/1.1") == 1, f"what follows {headers} is not read"
        assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 501")), (headers, answer)
        assert b"Connection: close" in answer
    assert len(await desk.state.chains.blocks("ch")) == 3


async def test_what_is_too_large_is_not_read(desk: Desk) -> None:
    token = await desk.guest()
    assert (await desk.raw(post(token, "Content-Length: 65537"))).startswith(b"HTTP/1.1 413")
    assert (await desk.raw(post(token, "Content-Length: " + "9" * 19))).startswith(b"HTTP/1.1 413")
    chunks = b"1000\r\n" + b"a" * 4096 + b"\r\n"
    answer = await desk.raw(post(token, "Transfer-Encoding: chunked", body=chunks * 17))
    assert answer.startswith(b"HTTP/1.1 413")
    assert (await desk.raw(b"GET /" + b"a" * 20_000)).startswith(b"HTTP/1.1 431")
    assert (await desk.raw(post(token, *[f"X-{n}: {'a' * 100}" for n in range(400)]))).startswith(
        b"HTTP/1.1 431"
    )
    nobody = await desk.raw(post("nobody", "Content-Length: 60000"))
    assert nobody.startswith(b"HTTP/1.1 401"), "without a token no body is waited for"


async def test_a_client_that_waits_to_be_told_to_go_on(desk: Desk) -> None:
    reader, writer = await asyncio.open_unix_connection(await desk.gateway.open())
    body = json.dumps({"blocks": [{"kind": "output", "content": TEXT}]}).encode()
    head = post(
        await desk.guest(), f"Content-Length: {len(body)}", "Expect: 100-continue", "Connection: close"
    )
    writer.write(head)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
    writer.write(body)
    assert (await reader.read()).startswith(b"HTTP/1.1 201")
    writer.close()


async def test_several_requests_on_one_connection(desk: Desk) -> None:
    head = f"GET /v1/chains/ch HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {await desk.guest()}\r\n"
    answer = await desk.raw(f"{head}\r\n{head}\r\n{head}Connection: close\r\n\r\n".encode())
    assert answer.count(b"HTTP/1.1 200") == 3


async def test_slow_clients_are_cut_off_and_keep_nobody_out(desk: Desk) -> None:
    path, token, slow = await desk.gateway.open(), await desk.guest(), []
    for _ in range(60):
        slow.append(socket.socket(socket.AF_UNIX))
        slow[-1].connect(path)
        slow[-1].send(b"GET /v1/chains/ch HTTP/1.1\r\n")
    assert (await desk.ask(token, "GET", "/v1/chains/ch"))[0] == 200, "there is always a place for one more"
    assert len(desk.gateway._server._connections) <= 24
    answers = set()
    for each in slow:
        with each:
            each.settimeout(30)
            try:
                answers.add(await asyncio.to_thread(each.recv, 12))
            except ConnectionResetError:
                answers.add(b"")
    assert answers == {b"", b"HTTP/1.1 408"}


async def test_who_ends_while_it_is_served_begins_nothing(desk: Desk, monkeypatch) -> None:
    hold, reached = asyncio.Event(), asyncio.Event()

    def held(do: Any) -> Any:
        async def hold_and_do(*args: Any) -> Any:
            reached.set()
            await hold.wait()
            return await do(*args)

        return hold_and_do

    monkeypatch.setattr(desk.state.chains, "blocks", held(desk.state.chains.blocks))
    monkeypatch.setattr(desk.state.runs, "start", held(desk.state.runs.start))
    for call_of in ("compact", "start_run"):
        token = await desk.guest()
        method, path, how = call(call_of)
        asked = asyncio.create_task(desk.ask(token, method, path, **how))
        await reached.wait()
        desk.gateway.dismiss(desk.runs[-1])
        await until(lambda: not desk.gateway._leaving)
        hold.set()
        assert await asked == (401, "unauthenticated")
        hold.clear()
        reached.clear()
    assert desk.runtime.invoker.running == []
    assert await running_runs(desk.runtime) == []


async def test_one_invocation_does_not_take_all_places(desk: Desk, monkeypatch) -> None:
    token, other = await desk.guest(), await desk.guest()
    hold = asyncio.Event()
    blocks = desk.state.chains.page

    async def held(*args: Any) -> Any:
        await hold.wait()
        return await blocks(*args)

    monkeypatch.setattr(desk.state.chains, "page", held)
    asked = [asyncio.create_task(desk.ask(token, "GET", "/v1/chains/ch")) for _ in range(MOST_AT_ONCE)]
    guest = desk.gateway._guests["inv_0"]
    await until(lambda: guest._at_once == MOST_AT_ONCE)
    assert await desk.ask(token, "GET", "/v1/runs/run") == (429, "too_many_requests")
    assert (await desk.ask(other, "GET", "/v1/runs/run"))[0] == 200
    path = await desk.gateway.open()
    silent = [await asyncio.open_unix_connection(path) for _ in range(30)]
    assert (await desk.ask(other, "GET", "/v1/runs/run"))[0] == 200
    hold.set()
    assert {status for status, _ in await asyncio.gather(*asked)} == {200}, (
        "who is served makes way for nobody"
    )
    for _, writer in silent:
        writer.close()


async def test_a_fault_of_the_hosts_own_tells_nothing(desk: Desk, monkeypatch) -> None:
    async def broken(*_: Any) -> None:
        raise RuntimeError("/the/path of a secret")

    seen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: seen.append(told))
    monkeypatch.setattr(desk.state.chains, "page", broken)
    assert await desk.ask(await desk.guest(), "GET", "/v1/chains/ch") == (500, "host_failure")
    assert isinstance(seen[0]["exception"], RuntimeError)


async def test_records_do_not_grow_without_end(desk: Desk) -> None:
    head = (
        f"GET /v1/chains/no HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {await desk.guest()}\r\n\r\n"
    )
    answer = await desk.raw(head.encode() * 120 + b"\r\n")
    assert answer.count(b"HTTP/1.1 404") == 120
    assert len(desk.refused()) == 100


async def test_one_invocation_does_not_fill_the_disk(desk: Desk, monkeypatch) -> None:
    monkeypatch.setattr("plughost.vai.gateway.guest.MOST_WRITTEN", 200)
    token = await desk.guest()
    method, path, how = call("append")
    told = [await desk.ask(token, method, path, **how) for _ in range(3)]
    assert [status for status, _ in told] == [201, 201, 403]
    assert told[-1][1] == "budget_exceeded"
    assert (await desk.ask(await desk.guest(), method, path, **how))[0] == 201, "others may"


@contextmanager
def held_writer(database: Database) -> Iterator[None]:
    """The thread that writes does nothing else meanwhile. A server takes longer than its caller looks anyway."""
    if database.dialect == "postgresql":
        yield
        return
    release = threading.Event()

    def hold() -> Steps[None]:
        release.wait()
        yield from ()

    held = asyncio.ensure_future(database.write(hold))
    yield
    release.set()
    assert not held.done()


async def test_what_was_begun_to_be_written_is_written_and_told(desk: Desk) -> None:
    """A caller that goes away in the middle of a transaction does not undo it, nor its event."""
    heard = asyncio.Event()
    desk.state.outbox.announce = heard.set
    with held_writer(desk.runtime.database):
        task = asyncio.create_task(desk.state.runs.finish("run", "succeeded"))
        await asyncio.sleep(0)
        task.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not heard.is_set(), "it is not done yet"
    await asyncio.wait([task])
    assert task.cancelled()
    assert heard.is_set()
    assert (await desk.state.runs.run("run")).status == "succeeded"
    assert len(await desk.state.outbox.waiting()) == 1


def test_an_export_is_found_by_its_name_and_if_need_be_its_package() -> None:
    related = SimpleNamespace(session_id=None)
    run = SimpleNamespace(id="inv_1", invocation=SimpleNamespace(related=related))
    guest: Any = SimpleNamespace(scope=TENANT, run=run)
    other = msgspec.structs.replace(bound("triage", TENANT, "other"), package_id="acme/other")
    bindings = FixedBindings([bound("triage"), other, bound("reads", OTHERS[0], "foreign")])
    assert find_bound(bindings, guest, "triage", "acme/other") is other
    for export, package, code in (
        ("triage", None, "ambiguous"),
        ("reads", None, "not_bound"),
        ("triage", "x", "not_bound"),
    ):
        with pytest.raises(HttpProblem) as raised:
            find_bound(bindings, guest, export, package)
        assert raised.value.code == code
