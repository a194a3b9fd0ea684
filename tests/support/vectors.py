"""Golden vectors: their shape, and a replay of each side. docs/vectors.md explains the format."""

from __future__ import annotations

import importlib.resources
import json
import re
import shutil
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from plughost import errors
from plughost.contracts.registry import get_contract
from plughost.errors import Malformed, PluginError
from plughost.spec import PluginSpec
from plughost.wire.framing import Frame, FrameError, Framing
from plughost.wire.messages import (
    ABSENT,
    NOTHING,
    Notification,
    Progress,
    Request,
    Response,
    Unusable,
    decode,
)

PATIENCE = 20.0
"""Seconds for a whole conversation with a process: far more than any needs, also on a busy machine."""


class Shape(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A misspelt member is an error, not a vector that checks nothing."""


class Piece(Shape):
    """Bytes that are no text, or too many to write down, or that follow a header with their length."""

    hex: str = ""
    repeat: str = ""
    times: int = 1
    body: str | None = None


Text = str | Piece | list[str | Piece]


class Call(Shape):
    method: str
    params: Any = ABSENT
    context: dict[str, str] | None = None


class Tell(Shape):
    method: str
    params: Any = ABSENT


class Event(Shape):
    topic: str
    payload: Text


class Refusal(Shape):
    error: str
    message: str


class Step(Shape):
    """What the host does and writes, what the plugin writes, what comes of it: in this order, each optional."""

    name: str = ""
    call: Call | None = None
    tell: Tell | None = None
    event: Event | None = None
    cancel: str | None = None
    """Why nobody waits for the oldest open call any more."""
    stop: bool = False
    out: Text = ""
    in_: Text = msgspec.field(name="in", default="")
    eof: bool = False
    result: Any = ABSENT
    error: Any = ABSENT
    failure: str | msgspec.UnsetType = ABSENT
    dropped: bool | msgspec.UnsetType = ABSENT
    asks: dict[str, Any] | msgspec.UnsetType = ABSENT
    tells: dict[str, Any] | msgspec.UnsetType = ABSENT
    says: list[Any] | msgspec.UnsetType = ABSENT
    """What the plugin says of open calls before their answers."""
    answer: Any = ABSENT
    """What the host's own side says to what the plugin asks."""
    refusal: Refusal | None = None
    """Or why it says no."""

    def outcome(self) -> dict[str, Any]:
        """What comes of it; empty when nothing does yet."""
        kinds = ("result", "error", "failure", "dropped", "asks", "tells", "says")
        return {kind: value for kind in kinds if (value := getattr(self, kind)) is not ABSENT}


class Spec(Shape):
    name: str
    grants: list[str] = []
    options: dict[str, Any] = {}
    folder: dict[str, str] = {}
    """The files of its folder, beside its program."""
    program: str = ""
    """Where that is in its folder; without it, it has the plugin's name."""


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


def wire(text: Text, values: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a text, with `values` in the place of what stands for them."""

    def filled(text: str) -> bytes:
        for stand_in, value in (values or {}).items():
            text = text.replace(stand_in, value)
        return text.encode()

    data = b""
    for piece in text if isinstance(text, list) else [text]:
        if isinstance(piece, str):
            data += filled(piece)
        elif piece.body is not None:
            body = filled(piece.body)
            data += b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        else:
            data += bytes.fromhex(piece.hex) + piece.repeat.encode() * piece.times
    return data


@contextmanager
def staged(contract_name: str, spec: Spec, program: str = "") -> Iterator[PluginSpec]:
    """The plugin of a spec. If it has a folder, that is there meanwhile: its files and `program`."""
    with tempfile.TemporaryDirectory(prefix="plughost-vectors-") as root:
        plugin = PluginSpec(contract=contract_name, name=spec.name, command=["x"])
        if spec.folder:
            folder = Path(root, spec.name)
            place = spec.program or spec.name
            for name, text in {**spec.folder, place: program}.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text)
            (folder / place).chmod(0o755)
            read = get_contract(contract_name).read_folder(folder)
            assert read is not None
            plugin = read
        options = {**plugin.options, **spec.options}
        yield msgspec.structs.replace(plugin, grants=spec.grants, options=options)


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


def framing(plugin: PluginSpec) -> Framing:
    """How messages go to and from a plugin."""
    kind = get_contract(plugin.contract)
    return kind.session(plugin, kind.resolve(plugin)).framing()


class HostSide:
    """A contract's session, used as the engine uses it, without any I/O."""

    def __init__(self, vectors: Vectors, spec: Spec) -> None:
        self._vectors = vectors
        kind = get_contract(vectors.contract)
        with staged(vectors.contract, spec) as plugin:
            self._session = kind.session(plugin, kind.resolve(plugin))
        self._framing = self._session.framing()
        self._first = self._next = self._session.first_id
        self._open: dict[int, str] = {}
        self._stopping: set[int] = set()
        """Calls that it was told to stop, and that it has not answered."""
        self._held: list[tuple[bytes, dict[int, str]]] = []
        """What waits for the handshake, and the call that it is."""
        self._asked: Request | None = None
        self._written = b""
        self._minted: dict[str, str] = {}
        """What the host has minted, by what stands for it in the vectors."""

    def replay(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._do(step)
            self._expect_out(step.out)
            outcome = self._receive(wire(step.in_, self._minted), eof=step.eof)
            assert same(outcome, step.outcome()), f"{outcome} came of {step}"
            if self._asked is not None:
                self._written += self._framing.encode(self._reply(self._asked.id, step))
                self._asked = None
        assert not self._written, f"wrote also {self._written!r}"

    def _do(self, step: Step) -> None:
        """What the host does of its own accord."""
        if step.call is not None:
            self._call(step.call)
        if step.tell is not None:
            self._tell(self._session.encode_notification(step.tell.method, step.tell.params))
        if step.event is not None:
            self._tell(self._session.encode_publication(step.event.topic, wire(step.event.payload)))
        if step.cancel is not None:
            self._cancel(step.cancel)
        if step.stop:
            if (farewell := self._session.shutdown_request()) is not None:
                self._call(Call(method=farewell[0], params=farewell[1]))
            self._written += b"".join(map(self._framing.encode, self._session.shutdown_messages()))

    def _cancel(self, reason: str) -> None:
        number = min(self._open)
        del self._open[number]
        message = self._session.encode_cancel(number, reason)
        assert message is not None
        self._written += self._framing.encode(message)
        self._stopping.add(number)

    def _reply(self, number: int | str, step: Step) -> bytes:
        if step.refusal is None:
            return self._session.encode_response(number, step.answer)
        error = getattr(errors, step.refusal.error)
        return self._session.encode_error(number, error(step.refusal.message))

    def _tell(self, message: bytes) -> None:
        self._held.append((self._framing.encode(message), {}))
        self._write_held()

    def _call(self, call: Call) -> None:
        number = self._next
        self._next += 1
        message = self._session.encode_call(number, call.method, call.params, call.context)
        self._held.append((self._framing.encode(message), {number: call.method}))
        if number == self._first:
            for opening in self._session.on_start(call.method):
                self._written += self._framing.encode(opening)
            if self._session.ready:
                self._greet()
        self._write_held()

    def _greet(self) -> None:
        for message in self._session.on_ready():
            self._written += self._framing.encode(message)

    def _write_held(self) -> None:
        if self._session.ready:
            for frame, call in self._held:
                self._written += frame
                self._open |= call
            self._held.clear()

    def _expect_out(self, out: Text) -> None:
        for stand_in, form in self._vectors.minted.items():
            found = re.search(form.encode(), self._written)
            if found and stand_in.encode() in wire(out):
                self._minted[stand_in] = found[0].decode()
        expected = wire(out, self._minted)
        assert self._written == expected, f"wrote {self._written!r}, not {expected!r}"
        self._written = b""

    def _receive(self, data: bytes, *, eof: bool) -> dict[str, Any]:
        outcome: dict[str, Any] = {}
        for frame in self._framing.feed(data) if data else []:
            came = self._take(frame)
            outcome |= {**came, "says": [*outcome.get("says", ()), *came["says"]]} if "says" in came else came
        for frame in self._framing.end() if eof else []:
            outcome |= self._take(frame, last=True)
        return outcome

    def _take(self, frame: Frame | FrameError, *, last: bool = False) -> dict[str, Any]:
        if last and isinstance(frame, FrameError):
            return {"dropped": True}
        was_ready = self._session.ready
        try:
            if isinstance(frame, FrameError):
                incoming = self._session.on_bad_frame(frame)
            else:
                incoming = self._session.receive(frame)
            if isinstance(incoming, Response) and not self._was_minted(incoming.id):
                incoming = self._session.on_unknown_response(incoming, b"")
        except PluginError as error:  # the end of the conversation
            return self._failure(error)
        if self._session.ready and not was_ready:
            self._greet()
            self._write_held()
        if isinstance(incoming, Response):
            return self._settle(incoming)
        if isinstance(incoming, Malformed):
            if not self._open or last:
                return {"dropped": True}
            del self._open[min(self._open)]
            return self._failure(incoming)
        if isinstance(incoming, Unusable):
            return {"dropped": True}
        if isinstance(incoming, Progress):
            return {"says": [decode(incoming.payload)]} if incoming.id in self._open else {"dropped": True}
        if isinstance(incoming, Request):
            self._asked = incoming
            return {"asks": _said(incoming)}
        if isinstance(incoming, Notification):
            return {"tells": _said(incoming)}
        assert incoming is None
        return {}

    def _was_minted(self, number: int) -> bool:
        return self._first <= number < self._next

    def _settle(self, answer: Response) -> dict[str, Any]:
        if answer.id in self._stopping:
            self._stopping.remove(answer.id)
            return {}
        method = self._open.pop(answer.id, None)
        if method is None:
            return {"dropped": True}
        if answer.error is not NOTHING:
            return {"error": self._session.to_exception(method, answer).error}
        try:
            return {"result": decode(answer.result)}
        except Malformed as error:
            return self._failure(error)

    def _failure(self, error: PluginError) -> dict[str, Any]:
        error = error.as_type(self._session.errors.get(type(error), type(error)))
        name = type(error).__name__
        assert getattr(error, "rpc_code", error.code) == self._vectors.failures[name]
        return {"failure": name}


def _said(message: Request | Notification) -> dict[str, Any]:
    params = {} if message.params is NOTHING else {"params": decode(message.params)}
    return {"method": message.method, **params}


class PluginSide:
    """A plugin as a bare process, started in the way its contract says."""

    def __init__(self, spec: PluginSpec) -> None:
        self._framing = framing(spec)
        self._frames: deque[Frame | FrameError] = deque()
        program, *arguments = spec.command
        self._process = subprocess.Popen(
            [shutil.which(program) or program, *arguments],
            cwd=spec.cwd,
            env=get_contract(spec.contract).resolve(spec).env,
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

    def say(self, out: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(out)
        self._process.stdin.flush()

    def hear(self) -> Frame:
        """The next message that it says."""
        assert self._process.stdout is not None
        while not self._frames:
            data = self._process.stdout.read1()  # type: ignore[attr-defined]
            assert data, "it has ended, or was ended for saying nothing"
            self._frames += self._framing.feed(data)
        frame = self._frames.popleft()
        assert not isinstance(frame, FrameError), frame
        return frame

    def ask(self, out: bytes) -> Frame:
        self.say(out)
        return self.hear()

    def end(self) -> int:
        """Its exit code once its stdin is closed; it has nothing more to say."""
        rest, _ = self._process.communicate()
        assert (rest, [*self._frames], self._framing.end()) == (b"", [], [])
        return self._process.returncode


def replay_plugin(conversation: Conversation, stand_in: str, plugin: PluginSpec) -> None:
    """The plugin's side of a conversation; `stand_in` is what the vectors call it."""
    with PluginSide(plugin) as process:
        for step in conversation.steps:
            if not step.out:
                continue
            process.say(wire(step.out))
            for expected in framing(plugin).feed(wire(step.in_, {_quoted(stand_in): _quoted(plugin.name)})):
                assert not isinstance(expected, FrameError)
                said = process.hear()
                assert same(_message(said), _message(expected)), f"{said!r}, not {expected!r}"
        assert process.end() == 0


def _quoted(name: str) -> str:
    return json.dumps(name)


def _message(frame: Frame) -> Any:
    message = json.loads(frame.decode(), parse_constant=_not_json)
    if message.get("error"):
        message["error"] = without_words(message["error"])
    return message


def _not_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")
