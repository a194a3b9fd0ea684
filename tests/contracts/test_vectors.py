"""The golden vectors hold on both sides: the host's sessions, and the reference plugins in every language."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

import plughost
from plughost import config
from plughost.contracts.ainb.contract import Ainb
from tests.support import ROOT
from tests.support.vectors import (
    HostSide,
    PluginSide,
    Vectors,
    framing,
    load,
    replay_plugin,
    same,
    staged,
    wire,
    without_words,
)

VECTORS = {name: load(name) for name in ("ainb", "kaged", "mcptest", "rune", "vai")}
LANGUAGES = {
    "python": "Python",
    "c": "a C compiler",
    "go": "Go",
    "node": "Node",
    "rust": "Rust",
    "sh": "a POSIX shell",
}


class Reference(NamedTuple):
    """A plugin in plugins/, by contract and language."""

    contract: str
    language: str

    def __str__(self) -> str:
        return f"echo-{self.contract}" + ("" if self.language == "python" else f"-{self.language}")

    @property
    def plays(self) -> str:
        """Which of the vectors' plugins it is."""
        return "plain" if str(self) == "echo-rune-c" else "echo"

    @property
    def spec(self) -> plughost.PluginSpec:
        folder = ROOT / "plugins" / str(self)
        spec = msgspec.structs.replace(config.load_folder(folder), sandbox="none")
        program, *arguments = spec.command
        if program == "python3":
            return msgspec.structs.replace(spec, command=[sys.executable, *arguments])
        if not (folder / program).exists() and not shutil.which(program):
            missing = f"{self} cannot run here: there is no {program}; it takes {LANGUAGES[self.language]}"
            if os.environ.get("CI"):
                pytest.fail(missing)
            pytest.skip(missing)
        return spec


REFERENCES = [
    Reference("ainb", "python"),
    Reference("kaged", "python"),
    Reference("kaged", "node"),
    Reference("vai", "python"),
    *(Reference(contract, language) for contract in ("mcptest", "rune") for language in LANGUAGES),
]


@pytest.fixture(autouse=True)
def _data_of_its_own(tmp_path, monkeypatch):
    """Plugins that keep data keep none of it in the home of whoever runs this."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def params(cases):
    return [
        pytest.param(*case, id=" | ".join(getattr(part, "name", str(part)) for part in case))
        for case in cases
    ]


@pytest.mark.clause("AINB-10", "AINB-11", "AINB-12", "AINB-15", "AINB-16", "AINB-18", "AINB-20", "AINB-23")
@pytest.mark.clause("AINB-42", "AINB-74")
@pytest.mark.clause(
    "KAGED-08", "KAGED-20", "KAGED-21", "KAGED-22", "KAGED-24", "KAGED-25", "KAGED-26", "KAGED-27"
)
@pytest.mark.clause("KAGED-28", "KAGED-29", "KAGED-31", "KAGED-34", "KAGED-35")
@pytest.mark.clause("MCPT-01", "MCPT-02", "MCPT-04", "MCPT-05", "MCPT-06", "MCPT-07", "MCPT-24", "MCPT-28")
@pytest.mark.clause("VAI-30", "VAI-31", "VAI-32", "VAI-33", "VAI-34", "VAI-35", "VAI-36", "VAI-37", "VAI-38")
@pytest.mark.clause("RUNE-03", "RUNE-10", "RUNE-11", "RUNE-12", "RUNE-13", "RUNE-15", "RUNE-16", "RUNE-24")
@pytest.mark.parametrize(
    ("contract", "conversation"),
    params((name, told) for name, vectors in VECTORS.items() for told in vectors.for_a_host()),
)
def test_the_hosts_session_says_and_hears_what_the_vectors_say(contract, conversation):
    vectors = VECTORS[contract]
    HostSide(vectors, conversation.spec or vectors.spec).replay(conversation.steps)


@pytest.mark.parametrize(
    ("reference", "conversation"),
    params(
        (reference, told)
        for reference in REFERENCES
        for told in VECTORS[reference.contract].for_a_plugin(reference.plays)
    ),
)
def test_a_reference_plugin_answers_as_the_vectors_say(reference, conversation):
    replay_plugin(conversation, VECTORS[reference.contract].spec.name, reference.spec)


@pytest.mark.parametrize("reference", REFERENCES, ids=str)
async def test_calls_of_a_reference_plugin_come_to_what_the_vectors_say(host, reference):
    vectors = VECTORS[reference.contract]
    own = reference.spec
    told = [
        told
        for told in vectors.conversations
        if told.plugin == reference.plays and not any(step.cancel for step in told.steps)
    ]
    assert told
    for conversation in told:
        spec = conversation.spec or vectors.spec
        options = {**own.options, **PATIENT[reference.contract], **spec.options}
        plugin = await host.add(msgspec.structs.replace(own, grants=spec.grants, options=options))
        calls = deque()
        for step in conversation.steps:
            if step.call:
                calls.append(step.call)
            if step.tell:
                assert plugin.notify(step.tell.method, step.tell.params)
            if not step.stop and step.outcome().keys() & ANSWERS:
                came = await outcome(plugin, calls.popleft())
                assert same(came, answered(step)), f"{conversation.name}: {step}"
        assert not calls
        await host.remove(own.name)


PATIENT = {
    "ainb": {"init_timeout": 60, "call_timeout": 60},
    "kaged": {"init_timeout": 60, "call_timeout": 60},
    "mcptest": {},
    "vai": {"hello_timeout": 60},
    "rune": {"timeout": 60, "launch_timeout": 30, "handshake_timeout": 30, "teardown_timeout": 30},
}
"""Times are not what these tests are about."""


async def outcome(plugin, call):
    try:
        return {"result": await plugin.call(call.method, call.params, context=call.context)}
    except plughost.CallFailed as error:
        return {"error": without_words(error.error)}
    except plughost.PluginError as error:
        return {"failure": type(error).__name__}


ANSWERS = {"result", "error", "failure"}


def answered(step):
    """What comes of the call that is answered in this step."""
    told = {kind: value for kind, value in step.outcome().items() if kind in ANSWERS}
    return {"error": without_words(told["error"])} if "error" in told else told


PLAYER = """#!{python} -ISE
import os, sys

def read():
    length = int(sys.stdin.buffer.readline().partition(b":")[2] or sys.exit())
    sys.stdin.buffer.readline()
    body = sys.stdin.buffer.read(length)
    heard.write(body + b"\\n")
    heard.flush()
    return body

heard = open(os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "heard"), "wb")
for count, says in {steps!r}:
    for _ in range(count):
        read()
    sys.stdout.buffer.write(says)
    sys.stdout.buffer.flush()
while b"plugin/shutdown" not in read():
    pass
"""


@pytest.mark.clause(
    "AINB-15", "AINB-16", "AINB-17", "AINB-20", "AINB-28", "AINB-30", "AINB-31", "AINB-33", "AINB-42"
)
@pytest.mark.parametrize(
    "conversation",
    [
        pytest.param(told, id=told.name)
        for told in VECTORS["ainb"].for_a_host()
        if told in VECTORS["ainb"].conversations or any(step.asks for step in told.steps)
    ],
)
async def test_a_whole_host_says_and_hears_what_the_vectors_say(conversation):
    """Not a session alone: its own services answer what a plugin asks, and its own grants refuse it."""
    vectors = VECTORS["ainb"]
    with staged("ainb", conversation.spec or vectors.spec) as plugin:
        folder = Path(plugin.folder)
        values = dict.fromkeys(vectors.minted, str(folder / "manifest.toml"))
        out = [framing(plugin).feed(wire(step.out, values)) for step in conversation.steps]
        says = [wire(step.in_) for step in conversation.steps]
        steps = [*zip(map(len, out), says, strict=True)]
        Path(plugin.command[0]).write_text(PLAYER.format(python=sys.executable, steps=steps))
        async with plughost.Host() as host:
            host.service("actions").register("repeat", repeat)
            host.service("actions").register("never", never)
            await converse(await host.add(plugin), conversation)
        heard = [json.loads(line) for line in (folder / "heard").read_bytes().splitlines()]
    expected = [json.loads(body) for bodies in out for body in bodies]
    assert same([*map(known, heard[: len(expected)])], [*map(known, expected)])
    assert [message["method"] for message in heard[len(expected) :]] in ([], ["plugin/shutdown"])


async def repeat(caller, payload):
    return payload


async def never(caller, payload):
    await asyncio.Event().wait()


async def converse(plugin, conversation):
    """What the host's user does in a conversation, and what comes of it."""
    answers = asyncio.Queue()
    calls = []

    async def make(call):
        answers.put_nowait(await outcome(plugin, call))

    for step in conversation.steps:
        if step.call:
            calls.append(asyncio.create_task(make(step.call)))
            await asyncio.sleep(0)
        if step.tell:
            assert plugin.notify(step.tell.method, step.tell.params)
        if step.event:
            assert Ainb(plugin).event(step.event.topic, wire(step.event.payload))
        if step.stop:
            await plugin.stop()
        elif step.outcome().keys() & ANSWERS:
            assert same(await answers.get(), answered(step)), step
    await asyncio.gather(*calls)
    assert answers.empty()


def known(message):
    """A message without the words for params that are wrong: those are the decoder's."""
    error = message.get("error", {})
    return {**message, "error": error["code"]} if error.get("code") == -32602 else message


NUMBERS = "[12345678901234567890,1e400,1.0,-0,1E+2,0.10]"


@pytest.mark.parametrize(
    "language", [language for language in LANGUAGES if language not in ("python", "node")]
)
def test_numbers_come_back_as_they_stand(language):
    """Python and Node make values of them, and lose what a value cannot hold."""
    with PluginSide(Reference("mcptest", language).spec) as plugin:
        answer = plugin.ask(b'{"method":"echo","id":1,"params":%s}\n' % NUMBERS.encode())
        assert answer == b'{"id":1,"result":%s}' % NUMBERS.encode()
        assert plugin.end() == 0


@pytest.mark.parametrize("language", LANGUAGES)
def test_null_is_echoed_like_any_value(language):
    with PluginSide(Reference("mcptest", language).spec) as plugin:
        answer = plugin.ask(b'{"method":"echo","id":1,"params":null}\n')
        assert msgspec.json.decode(answer) == {"id": 1, "result": None}
        assert plugin.end() == 0


def frame(body):
    return f"Content-Length: {len(body)}\r\n\r\n{body}"


def test_other_framings_and_requests_of_the_plugin_fit_in():
    """A contract from outside, with headers as they stand on the wire."""
    steps = [
        {
            "call": {"method": "sum"},
            "out": frame('{"id":1,"method":"hello","params":{"greeting":"hi"}}'),
            "in": frame('{"id":1,"result":{}}'),
        },
        {
            "out": frame('{"method":"welcome"}') + frame('{"id":2,"method":"sum","params":{}}'),
            "in": frame('{"id":"r","method":"host/add","params":{"a":1,"b":2}}'),
            "asks": {"method": "host/add", "params": {"a": 1, "b": 2}},
            "answer": 3,
        },
        {"out": frame('{"id":"r","result":3}'), "in": frame('{"id":2,"result":"three"}'), "result": "three"},
    ]
    told = {"name": "a request of the plugin", "steps": steps}
    spec = {"name": "p", "options": {"greeting": "hi"}}
    file = {"format": 1, "contract": "parley", "spec": spec, "failures": {}, "conversations": [told]}
    vectors = msgspec.convert(file, Vectors)
    HostSide(vectors, vectors.spec).replay(vectors.conversations[0].steps)
    vectors.conversations[0].steps[1].answer = 4
    with pytest.raises(AssertionError, match="wrote"):
        HostSide(vectors, vectors.spec).replay(vectors.conversations[0].steps)


@pytest.mark.parametrize("contract", ["ainb", "kaged", "vai"])
def test_a_reference_plugin_has_the_manifest_of_the_vectors(contract):
    told = VECTORS[contract].spec.folder
    folder = ROOT / f"plugins/echo-{contract}"
    assert {name: (folder / name).read_text() for name in told} == told


@pytest.mark.clause("AINB-25")
@pytest.mark.parametrize(
    ("words", "status", "out"),
    [
        (["x", "plugins/echo-ainb", "echo", "hello", "-v"], 0, b"hello -v\n"),
        (["x", "plugins/echo-ainb", "echo", "--fail", "9"], 9, b""),
        (["call", "plugins/echo-ainb", "echo", '{"text":"hi"}'], 0, b'{"text": "hi"}\n'),
    ],
)
def test_the_reference_plugin_of_ainb_runs_from_the_command_line(words, status, out):
    ran = subprocess.run(
        [sys.executable, "-m", "plughost.cli", *words], cwd=ROOT, capture_output=True, timeout=60
    )
    assert (ran.returncode, ran.stdout) == (status, out), ran.stderr


@pytest.mark.parametrize("contract", VECTORS)
def test_names_are_told_apart_and_clauses_exist(contract):
    vectors = VECTORS[contract]
    promised = (ROOT / f"docs/contracts/{contract}.md").read_text()
    everything = [
        *vectors.for_a_host(),
        *(told for group in vectors.plugin for told in group.conversations()),
    ]
    assert len({told.name for told in everything}) == len(everything)
    for told in everything:
        assert told.clauses, told.name
        for clause in told.clauses:
            assert f"| {clause} |" in promised, told.name


@pytest.mark.parametrize("contract", VECTORS)
def test_every_failure_that_the_vectors_name_is_met(contract):
    vectors = VECTORS[contract]
    met = {step.failure for told in vectors.for_a_host() for step in told.steps if step.failure}
    assert met == set(vectors.failures)


@pytest.mark.parametrize(
    ("contract", "name", "status"),
    [
        ("ainb", "echo-ainb", 0),
        ("ainb", "somebody.else", 1),
        ("kaged", "echo-kaged", 0),
        ("kaged", "somebody.else", 1),
        ("mcptest", "any", 0),
        ("rune", "example.echo", 0),
        ("rune", "somebody.else", 1),
        ("vai", "plughost/echo-vai", 0),
        ("vai", "somebody.else", 1),
    ],
)
def test_the_example_in_the_documentation_runs_as_it_stands(tmp_path, contract, name, status):
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/vectors.md").read_text(), re.S)
    script = tmp_path / "replay.py"
    script.write_text(example)
    vectors = ROOT / "src/plughost/contracts" / contract / "vectors.json"
    program = {"ainb": "echo-ainb", "vai": "bin/echo-vai"}.get(contract, "echo.py")
    plugin = [sys.executable, ROOT / f"plugins/echo-{contract}/{program}"]
    ran = subprocess.run([sys.executable, script, vectors, name, *plugin], capture_output=True, timeout=60)
    assert ran.returncode == status, ran.stderr
    assert (b"somebody.else" in ran.stderr) == bool(status)
