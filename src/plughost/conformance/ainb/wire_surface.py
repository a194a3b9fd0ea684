"""The wire surface of ainb as a listing, one fact per line, generated from the code that implements it.

`wire-surface.lock` is the recorded listing. An unintended change shows as a difference; an intended one is
recorded by `make surface`, and is then visible in review.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, get_type_hints

import msgspec

from plughost import errors
from plughost.conformance.ainb.type_names import TypeNames
from plughost.contracts import jsonrpc
from plughost.contracts.ainb import chunks, client, contract, manifest, messages, session
from plughost.contracts.ainb.contract import Ainb
from plughost.contracts.ainb.services import NAMESPACES
from plughost.errors import PluginError
from plughost.services import snapshots
from plughost.services.actions import Actions
from plughost.services.files import reader
from plughost.services.files.service import FileService
from plughost.services.host_method import HostMethod
from plughost.services.logs import Logs
from plughost.services.network.service import NetworkService
from plughost.testing import VirtualClock

LOCK = Path(__file__).with_name("wire-surface.lock")
SPEAKERS = (contract, manifest, jsonrpc, session, chunks, messages, client, reader, snapshots)
SERVICES: dict[str, type] = {
    "snapshots": snapshots.Snapshots,
    "actions": Actions,
    "logs": Logs,
    "fs": FileService,
    "network": NetworkService,
}


def listing() -> str:
    """The whole listing, as recorded in `wire-surface.lock`."""
    type_names = TypeNames()
    spoken: list[type[msgspec.Struct]] = [
        *_structs(jsonrpc),
        *_structs(messages),
        manifest.AinbManifest,
        chunks.Chunk,
    ]
    sections = {
        "constants": sorted(_constants(*SPEAKERS)),
        "errors that the host answers with": list(_codes()),
        "from the host to a plugin": sorted(asyncio.run(_host_to_plugin(type_names))),
        "from a plugin to the host": [
            _plugin_to_host(method, host_method, type_names)
            for method, host_method in sorted(contract.CONTRACT.host_methods.items())
        ],
        "settings": list(type_names.members(contract.AinbOptions)),
    }
    for struct in spoken:
        type_names.add(struct)
    sections["messages"] = [line for struct in type_names.structs() for line in type_names.members(struct)]
    head = "# The wire surface of ainb. A change here changes the contract: `make surface` records it.\n"
    return head + "".join(f"\n# {title}\n" + "\n".join(lines) + "\n" for title, lines in sections.items())


def _constants(*modules: ModuleType) -> Iterator[str]:
    for module in modules:
        for name in _assigned(module):
            value = getattr(module, name, None)
            if name.isupper() and name[0] != "_" and isinstance(value, int | float | str):
                yield f"{module.__name__.rpartition('.')[2]}.{name} = {value!r}"


def _assigned(module: ModuleType) -> set[str]:
    """The names that a module assigns itself, as opposed to imports."""
    tree = ast.parse(inspect.getsource(module))
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


def _codes() -> Iterator[str]:
    kinds: list[type[PluginError]] = [PluginError, *PluginError.__subclasses__()]
    for kind in kinds:
        if kind.__module__ == errors.__name__:
            refusal = msgspec.json.decode(jsonrpc.JsonRpc().encode_error(1, kind("x")))
            yield f"{kind.__name__}: {refusal['error']['code']}"


def _structs(module: ModuleType) -> list[type[msgspec.Struct]]:
    return [
        value
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, msgspec.Struct)
        and name[0] != "_"
        and value.__module__ == module.__name__
    ]


# From the host to a plugin: the actual calls and notifications, as a fake plugin records them


class _Scribe:
    """A fake plugin that records what it is called and notified with."""

    def __init__(self) -> None:
        self.name = "scribe"
        self.provides = {"cli_namespaces": ("an action",)}
        self.clock = VirtualClock()
        self.plugins = {self.name: self}
        self.noted: list[tuple[str, str, Any, Any]] = []

    async def call(self, method: str, params: Any = None, *, type: Any = None, **options: Any) -> Any:
        self.noted.append((method, "request", params, type))
        raise PluginError("noted")

    def notify(self, method: str, params: Any = None, *, urgent: bool = False) -> bool:
        self.noted.append((method, "notification", params, None))
        return True

    def pin(self, reason: object) -> None: ...

    def unpin(self, reason: object) -> None: ...


async def _host_to_plugin(type_names: TypeNames) -> list[str]:
    scribe = _Scribe()
    plugin = Ainb(scribe)
    plugin.key("screen", messages.KeyEvent(messages.Enter()))
    plugin.mouse("screen", messages.MouseEvent(messages.Moved(), 0, 0))
    plugin.event("topic", b"")
    invoked = messages.ActionInvokeParams("an action", b"")
    another: Any = SimpleNamespace(name="another", plugin=scribe)
    actions = Actions(scribe, kind=NAMESPACES, method="host/action/invoke")
    asked = (plugin.render(1, 1), plugin.cli("namespace", []), actions.invoke(another, invoked))
    await asyncio.gather(*asked, return_exceptions=True)
    speaker = session.AinbSession(
        manifest.AinbManifest(manifest.AinbAbout("p", "1.0.0", 2)), "manifest.toml", ()
    )
    (opening,) = map(msgspec.json.decode, speaker.on_start(None))
    method, params = speaker.shutdown_request() or ("", None)
    scribe.noted += [
        (opening["method"], "request, first", opening["params"], messages.InitResult),
        (method, "request, last", params, None),
    ]
    return [_line(type_names, *noted) for noted in scribe.noted]


def _line(type_names: TypeNames, method: str, kind: str, params: Any, result: Any) -> str:
    given = _name_of(params) if isinstance(params, dict) else type(params).__name__
    answered = (
        "" if kind == "notification" else f", result {type_names.name(result) if result else 'anything'}"
    )
    return f"{method}: {kind}, params {given}{answered}"


def _name_of(params: dict[str, Any]) -> str:
    """The name of the message struct that has exactly these members."""
    for struct in _structs(messages):
        if params and set(struct.__struct_encode_fields__) == set(params):
            return struct.__name__
    return TypeNames.shape({name: type(value).__name__ for name, value in params.items()})


# From a plugin to the host: the table of host methods, and the shape of the services' answers on the wire


def _plugin_to_host(method: str, host_method: HostMethod, type_names: TypeNames) -> str:
    needs = host_method.capability or " or ".join(host_method.checks) or "nothing"
    kind = "notification" if host_method.notification else "request"
    answered = "" if host_method.notification else f", result {_answer(host_method, type_names)}"
    return f"{method}: {kind}, needs {needs}, params {type_names.name(host_method.params)}{answered}"


def _answer(host_method: HostMethod, type_names: TypeNames) -> str:
    """The shape of an answer: type names as values, passed through the code that encodes real answers."""
    service, _, part = host_method.service.partition(".")
    kind = get_type_hints(getattr(SERVICES[service], part))["return"]
    answer = _filled(kind, type_names)
    if host_method.result is not None:
        answer = host_method.result(answer)
    return TypeNames.shape(msgspec.json.decode(jsonrpc.JsonRpc().encode_response(1, answer))["result"])


def _filled(kind: Any, type_names: TypeNames) -> Any:
    if kind is type(None):
        return None
    if isinstance(kind, type) and issubclass(kind, tuple):
        return kind(*(type_names.name(hint) for hint in get_type_hints(kind).values()))
    return type_names.name(kind)


if __name__ == "__main__":
    LOCK.write_text(listing())
