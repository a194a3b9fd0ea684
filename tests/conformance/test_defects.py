"""What else may be wrong with a plugin: each defect is caught by the axis that should, and told in words."""

from __future__ import annotations

import asyncio

import pytest

import plughost
from plughost.conformance.runner import run_axes
from tests.support import PYTHON
from tests.support.conformance import CANARIES, ECHO, failed

SLOW = 5.0
"""Seconds for plugins that never answer: those that do are not asked anything else."""

MCPTEST = [
    ("responses", "def send(message): print(json.dumps(message))", "did not come within 5 s"),
    ("responses", "def send(message): plain.send(message); plain.send(message)", "carries id 1"),
    ("responses", "def send(message): plain.send({**message, 'result': 1, 'error': {}})", "exactly one of"),
    ("responses", "def send(message): plain.send({'id': message['id']})", "exactly one of"),
    ("responses", "def send(message): plain.send({'id': message['id'], 'error': None})", "exactly one of"),
    ("responses", "def send(message): plain.send({'id': message['id'], 'error': 'no'})", "`error` needs"),
    ("responses", "def send(message): print(json.dumps(message, indent=1), flush=True)", "is not JSON"),
    ("responses", "def send(message): print('hello'); plain.send(message)", "is not JSON"),
    ("responses", "def send(message): plain.send([message])", "is not a JSON object"),
    ("responses", "def answer(line): return plain.refusal(json.loads(line)['id'], 1, 'no')", "sample call"),
    (
        "responses",
        "def send(m): print(json.dumps(m) + ('\\nbye' if m['id'] == 4 else ''), flush=True)",
        "it wrote to stdout though nothing was asked",
    ),
    (
        "framing",
        "def answer(line): assert len(line) < 65536; return plain.answer(line)",
        "instead of sending the response to id 5",
    ),
    ("framing", "def answer(line): assert line.startswith(b'{'); return plain.answer(line)", "to id 4"),
    ("ids", "def send(m): plain.send({**m, 'id': str(m['id'])})", "id 7 carries id '7'"),
    ("ids", "def send(m): plain.send({**m, 'id': m['id'] if m['id'] != '7' else 7})", "id '7' carries id 7"),
    (
        "ids",
        "def send(m): plain.send({**m, 'id': m['id'] % 2**53 if m['id'] == 2**53 else m['id']})",
        "carries id 0",
    ),
    (
        "dispatch",
        "def answer(line): assert json.loads(line).get('params', 0) is not None; return plain.answer(line)",
        "instead of sending the response to id 2",
    ),
    ("garbage", "def send(m): plain.send({**m, 'id': m['id'] or 0})", "answered with id 0"),
    (
        "garbage",
        "def send(m): plain.send(m if m.get('id') else plain.refusal(None, -32600, 'x'))",
        "with -32600, not -32700",
    ),
    (
        "shutdown",
        "import atexit; atexit.register(print, 'bye')",
        "it wrote to stdout after the end of its stdin",
    ),
    (
        "shutdown",
        "import atexit, time; atexit.register(time.sleep, 60)",
        "it was still running 5 s after it should",
    ),
]

RUNE = [
    ("handshake", "plain.MANIFEST['plugin_id'] = ' '", "its manifest has no plugin_id"),
    ("handshake", "del plain.MANIFEST['exposed_tools']", "its manifest has no exposed_tools"),
    ("handshake", "plain.send({'type': 'hello'})", "its first line is of type 'hello', not 'handshake'"),
    ("handshake", "plain.send({'type': 'handshake'})", "its handshake has no manifest"),
    ("handshake", "import time; time.sleep(60)", "the handshake did not come within 5 s"),
    (
        "handshake",
        "plain.greet(); print('ready', flush=True)",
        "it wrote to stdout before it was given a request",
    ),
    ("version", "plain.MANIFEST['protocol_version'] = 'rterm.plugin.v0'", "it speaks 'rterm.plugin.v0', not"),
    ("version", "plain.MANIFEST['protocol_version'] = None", "it speaks None, not"),
    ("request", "changes = {'request_id': 'plugin_req_0'}", "it answered request 'plugin_req_0', not"),
    ("request", "changes = {'type': 'result'}", "its answer is of type 'result'"),
    ("request", "changes = {'status': 'fine'}", "its answer has the status 'fine'"),
    (
        "request",
        "changes = {'error': {'code': '', 'message': 'x'}}",
        "its answer has status ok and also an error",
    ),
    ("request", "changes = {'status': 'error', 'error': None}", "an error without an error object"),
    ("request", "changes = {'status': 'error', 'error': {'message': ' '}}", "its error has no message"),
    ("request", "changes = {'status': 'error', 'error': {'message': 'x', 'code': 5}}", "code is not text"),
    ("request", "changes = {'status': 'error', 'error': {'message': 'x'}}", "the sample call was answered"),
    ("request", "changes = {'metadata': []}", "its answer's metadata is not an object"),
    (
        "tools",
        "plain.MANIFEST['exposed_tools'] = ['echo', 'echo']",
        "one of its exposed_tools is listed twice",
    ),
    ("tools", "plain.MANIFEST['exposed_tools'] = ['echo ']", "is blank or has spaces around it"),
    ("tools", "plain.MANIFEST['exposed_tools'] = ['echo', 5]", "not a list of names"),
    ("tools", "plain.MANIFEST['exposed_tools'] = ['other']", "it does not expose 'echo'; it exposes: other"),
    ("tools", "changes = {'error': {}}", "its error has no message"),
    (
        "capabilities",
        "plain.MANIFEST['capabilities'] = ['']",
        "its capability '' is empty or has spaces around it",
    ),
    (
        "capabilities",
        "plain.MANIFEST['capabilities'] = ['a ']",
        "its capability 'a ' is empty or has spaces around it",
    ),
    ("capabilities", "plain.MANIFEST['capabilities'] = 'a'", "its capabilities are not a list of words"),
    (
        "errors",
        "plain.greet(); import time; time.sleep(60)",
        "it was still running 5 s after it should have exited",
    ),
    ("errors", "plain.greet(); print('what?', flush=True); sys.exit()", "is not JSON"),
    ("exit", "import atexit; atexit.register(print, 'bye')", "it wrote to stdout after its response"),
    ("exit", "import atexit, time; atexit.register(time.sleep, 0.7)", "the teardown time is 0.5 s"),
    ("exit", "changes = {'type': 'handshake'}", "its second line is not a response"),
]

PLUGINS = {
    "mcptest": "answer, send, lines = plain.answer, plain.send, sys.stdin.buffer\n%s\nplain.serve(answer, send, lines)",
    "rune": "changes = {}\n%s\nplain.greet()\nplain.answer(lambda request: {**plain.execute(request), **changes})",
}


async def reason(contract: str, axis: str, defect: str) -> str | None:
    shared = f"import json, os, sys\nsys.path.insert(0, {str(CANARIES / contract)!r})\nimport plain\n"
    spec = plughost.PluginSpec(
        contract=contract,
        name="canary.rune",
        command=[*PYTHON, "-B", "-c", shared + PLUGINS[contract] % defect],
        cwd=str(CANARIES / contract),
        grants=["tool.execute"] if contract == "rune" else [],
    )
    waits = any(word in defect for word in ("60)", "print(json.dumps(message))"))
    report = await run_axes(spec, only=[axis], sample=ECHO, timeout=SLOW if waits else 20)
    return failed(report).get(axis)


@pytest.mark.parametrize(("contract", "defects"), [("mcptest", MCPTEST), ("rune", RUNE)])
async def test_every_defect_is_told_in_words(contract, defects):
    room = asyncio.Semaphore(4)

    async def check(axis: str, defect: str, why: str) -> str | None:
        async with room:
            told = await reason(contract, axis, defect)
        return None if told is not None and why in told else f"{axis}: {defect}: {told!r}, not {why!r}"

    wrong = await asyncio.gather(*(check(*defect) for defect in defects))
    assert list(filter(None, wrong)) == []


@pytest.mark.parametrize("contract", ["mcptest", "rune"])
async def test_without_a_defect_nothing_is_told(contract):
    axes = {axis for axis, *_ in (MCPTEST if contract == "mcptest" else RUNE)}
    assert {axis: await reason(contract, axis, "") for axis in axes} == dict.fromkeys(axes)
