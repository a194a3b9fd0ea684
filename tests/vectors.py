"""Golden vectors: their shape, and a replay of each side. docs/vectors.md explains the format."""

from __future__ import annotations

import importlib.resources
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import msgspec

from plughost.base.errors import Malformed, PluginError
from plughost.contracts.contract import PluginSpec, contract
from plughost.wire.envelope import ABSENT, NOTHING, Answer, Noise, Request, decode
from plughost.wire.framing import Frame, FrameError

PATIENCE = 20.0
"""Seconds for a whole conversation with a process: far more than any needs, also on a busy machine."""


class Shape(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A misspelt member is an error, not a vector that checks nothing."""


class Piece(Shape):
    """Bytes that are no text, or too many to write down."""

    hex: str = ""
    repeat: str = ""
    times: int = 1


Text = str | list[str | Piece]


class Call(Shape):
    method: str
    params: Any = ABSENT
    context: dict[str, str] | None = None


class Step(Shape):
    """A call, what the host writes, what the plugin writes, what comes of it: in this order, each optional."""

    name: str = ""
    call: Call | None = None
    out: Text = ""
    in_: Text = msgspec.field(name="in", default="")
    eof: bool = False
    result: Any = ABSENT
    error: Any = ABSENT
    failure: str | msgspec.UnsetType = ABSENT
    dropped: bool | msgspec.UnsetType = ABSENT
    asks: dict[str, Any] | msgspec.UnsetType = ABSENT
    answer: Any = ABSENT
    """What the host's own side says to that."""

    def outcome(self) -> dict[str, Any]:
        """What comes of it; empty when nothing does yet."""
        kinds = ("result", "error", "failure", "dropped", "asks")
        return {kind: value for kind in kinds if (value := getattr(self, kind)) is not ABSENT}


class Spec(Shape):
    name: str
    grants: list[str] = []
    options: dict[str, Any] = {}


class Conversation(Shape):
    name: str
    steps: list[Step]
    clauses: list[str] = []
    plugin: str | None = None
    spec: Spec | None = None


class Group(Shape):
    """As many conversations as there are frames: the steps before, the frame, the steps after."""

    name: str
    frames: list[Step]
    before: list[Step] = []
    after: list[Step] = []
    clauses: list[str] = []
    plugin: str | None = None
    spec: Spec | None = None

    def conversations(self) -> Iterator[Conversation]:
        for frame in self.frames:
            yield Conversation(
                name=f"{self.name}: {frame.name}",
                steps=[*self.before, frame, *self.after],
                clauses=self.clauses,
                plugin=self.plugin,
                spec=self.spec,
            )


class Vectors(Shape):
    format: int
    contract: str
    spec: Spec
    failures: dict[str, int | str]
    conversations: list[Conversation]
    host: list[Group] = []
    plugin: list[Group] = []
    minted: dict[str, str] = {}
    about: str = ""

    def for_a_host(self) -> list[Conversation]:
        return [*self.conversations, *(told for group in self.host for told in group.conversations())]

    def for_a_plugin(self, plays: str) -> list[Conversation]:
        """Those of the plugin called `plays` in the file."""
        told = [*self.conversations, *(told for group in self.plugin for told in group.conversations())]
        return [conversation for conversation in told if conversation.plugin == plays]


def load(name: str) -> Vectors:
    """The vectors of a contract, from where its package has them."""
    path = importlib.resources.files(f"plughost.contracts.{name}") / "vectors.json"
    vectors = msgspec.json.decode(path.read_bytes(), type=Vectors)
    assert (vectors.format, vectors.contract) == (1, name)
    return vectors


def wire(text: Text) -> bytes:
    pieces = [text] if isinstance(text, str) else text
    return b"".join(
        piece.encode()
        if isinstance(piece, str)
        else bytes.fromhex(piece.hex) + piece.repeat.encode() * piece.times
        for piece in pieces
    )


def same(one: Any, other: Any) -> bool:
    """Equal as JSON: 1 is 1.0, but true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def without_words(error: Any) -> Any:
    """An error without what a plugin may put as it likes."""
    assert isinstance(error["message"], str)
    return {"code": error["code"]}


class HostSide:
    """A contract's session, used as the engine uses it, without any I/O."""

    def __init__(self, vectors: Vectors, spec: Spec) -> None:
        self._vectors = vectors
        kind = contract(vectors.contract)
        plugin = PluginSpec(
            contract=vectors.contract, name=spec.name, command=["x"], grants=spec.grants, options=spec.options
        )
        self._session = kind.session(plugin, kind.bind(plugin))
        self._framing = self._session.framing()
        self._first = self._next = self._session.first_id
        self._open: dict[int, str] = {}
        self._held: list[bytes] = []
        """Calls that wait for the handshake."""
        self._asked: Request | None = None
        self._written = b""
        self._minted: dict[bytes, bytes] = {}
        """What the host has minted, by what stands for it in the vectors."""

    def replay(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if step.call is not None:
                self._call(step.call)
            self._expect_out(wire(step.out))
            outcome = self._receive(wire(step.in_), eof=step.eof)
            assert same(outcome, step.outcome()), f"{outcome} came of {step}"
            if self._asked is not None:
                self._written += self._framing.encode(self._session.answer(self._asked.id, step.answer))
                self._asked = None
        assert not self._written, f"wrote also {self._written!r}"

    def _call(self, call: Call) -> None:
        number = self._next
        self._next += 1
        message = self._session.call(number, call.method, call.params, call.context)
        self._held.append(self._framing.encode(message))
        if number == self._first:
            for opening in self._session.begin(call.method):
                self._written += self._framing.encode(opening)
            if self._session.ready:
                self._greet()
        self._open[number] = call.method
        self._write_held()

    def _greet(self) -> None:
        for message in self._session.greet():
            self._written += self._framing.encode(message)

    def _write_held(self) -> None:
        if self._session.ready:
            self._written += b"".join(self._held)
            self._held.clear()

    def _expect_out(self, out: bytes) -> None:
        pattern = re.escape(out)
        stand_ins = [name.encode() for name in self._vectors.minted if name.encode() in out]
        for name in stand_ins:
            form = self._vectors.minted[name.decode()].encode()
            pattern = pattern.replace(re.escape(name), b"(" + form + b")")
        match = re.fullmatch(pattern, self._written)
        assert match, f"wrote {self._written!r}, not {out!r}"
        self._minted.update(zip(stand_ins, match.groups(), strict=True))
        self._written = b""

    def _receive(self, data: bytes, *, eof: bool) -> dict[str, Any]:
        for name, minted in self._minted.items():
            data = data.replace(name, minted)
        outcome: dict[str, Any] = {}
        for frame in self._framing.feed(data) if data else []:
            outcome |= self._take(frame)
        for frame in self._framing.end() if eof else []:
            outcome |= self._take(frame, last=True)
        return outcome

    def _take(self, frame: Frame | FrameError, *, last: bool = False) -> dict[str, Any]:
        if last and isinstance(frame, FrameError):
            return {"dropped": True}
        was_ready = self._session.ready
        try:
            if isinstance(frame, FrameError):
                incoming = self._session.broken(frame)
            else:
                incoming = self._session.receive(frame)
            if isinstance(incoming, Answer) and not self._was_minted(incoming.id):
                incoming = self._session.unasked(incoming, b"")
        except PluginError as error:  # the end of the conversation
            return self._failure(error)
        if self._session.ready and not was_ready:
            self._greet()
            self._write_held()
        if isinstance(incoming, Answer):
            return self._settle(incoming)
        if isinstance(incoming, Malformed):
            if not self._open or last:
                return {"dropped": True}
            del self._open[min(self._open)]
            return self._failure(incoming)
        if isinstance(incoming, Noise):
            return {"dropped": True}
        if isinstance(incoming, Request):
            self._asked = incoming
            return {"asks": {"method": incoming.method, "params": decode(incoming.params)}}
        assert incoming is None
        return {}

    def _was_minted(self, number: int) -> bool:
        return self._first <= number < self._next

    def _settle(self, answer: Answer) -> dict[str, Any]:
        method = self._open.pop(answer.id, None)
        if method is None:
            return {"dropped": True}
        if answer.error is not NOTHING:
            return {"error": self._session.failure(method, answer).error}
        try:
            return {"result": decode(answer.result)}
        except Malformed as error:
            return self._failure(error)

    def _failure(self, error: PluginError) -> dict[str, Any]:
        error = error.spelled(self._session.errors.get(type(error), type(error)))
        name = type(error).__name__
        assert getattr(error, "rpc_code", error.code) == self._vectors.failures[name]
        return {"failure": name}


class PluginSide:
    """A plugin as a bare process, started in the way its contract says."""

    def __init__(self, spec: PluginSpec) -> None:
        program, *arguments = spec.command
        self._process = subprocess.Popen(
            [shutil.which(program) or program, *arguments],
            cwd=spec.cwd,
            env=contract(spec.contract).bind(spec).env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._watchdog = threading.Timer(PATIENCE, self._process.kill)
        self._watchdog.start()

    def __enter__(self) -> PluginSide:
        return self

    def __exit__(self, *_: object) -> None:
        self._watchdog.cancel()
        self._watchdog.join()
        self._process.kill()
        with self._process:
            pass

    def ask(self, out: bytes) -> bytes:
        """The line that it answers to `out`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(out)
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line.endswith(b"\n"), f"no line, but {line!r} in answer to {out!r}"
        return line

    def end(self) -> int:
        """Its exit code once its stdin is closed; it has nothing more to say."""
        rest, _ = self._process.communicate()
        assert rest == b""
        return self._process.returncode


def replay_plugin(conversation: Conversation, stand_in: str, plugin: PluginSpec) -> None:
    """The plugin's side of a conversation; `stand_in` is what the vectors call it."""
    with PluginSide(plugin) as process:
        for step in conversation.steps:
            if not step.out:
                continue
            line = process.ask(wire(step.out))
            expected = wire(step.in_).replace(_quoted(stand_in), _quoted(plugin.name))
            assert same(_message(line), _message(expected)), f"{line!r}, not {expected!r}"
        assert process.end() == 0


def _quoted(name: str) -> bytes:
    return json.dumps(name).encode()


def _message(line: bytes) -> Any:
    message = json.loads(line.decode(), parse_constant=_not_json)
    if message.get("error"):
        message["error"] = without_words(message["error"])
    return message


def _not_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")
