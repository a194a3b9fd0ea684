"""A minimal kaged host for conformance tests: it has a storage, and refuses everything else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from plughost.conformance.axis import require
from plughost.conformance.conversation import Message
from plughost.conformance.jsonrpc_client import Answers, JsonRpcClient, error, params_of
from plughost.conformance.plugin_under_test import PluginUnderTest
from plughost.conformance.raw_process import RawProcess
from plughost.contracts.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from plughost.contracts.kaged.contract import API_VERSION, KagedManifest
from plughost.contracts.kaged.grants import DECLARED
from plughost.sandbox.untrusted_temp_dir import READABLE, temporary_folder
from plughost.spec import PluginSpec
from plughost.wire.messages import encode

NO_SUCH_METHOD = "conformance.no-such-method"
UNKNOWN = {"added later": {"by": ["another", "version"]}}


class KagedStubHost(JsonRpcClient):
    """The stub host's conversation with one process."""

    def __init__(self, subject: PluginUnderTest, wire: RawProcess, answers: Answers, *, stores: bool) -> None:
        super().__init__(wire, answers)
        self._subject = subject
        self._stores = stores

    async def initialize(self) -> Message:
        """Sends initialize and returns the response."""
        config = self._subject.resolved.settings.config
        params = {
            "daemon_version": "1.0.0",
            "api_version": API_VERSION,
            "plugin_name": self._subject.spec.name,
            "storage_available": self._stores,
            "projects": [],
            **({} if config is None else {"config": config}),
            **UNKNOWN,
        }
        return await self.ask("initialize", params)

    async def begin(self) -> Message:
        """Completes the handshake up to `initialized`; returns the result of initialize, which must be an
        object."""
        result = (await self.initialize()).get("result")
        require(isinstance(result, dict), "the result in its answer to initialize is not an object")
        self.notify("initialized", {})
        return dict(result or {})

    async def answers_on(self) -> None:
        """Waits until the plugin answers an unknown method: proof that it is alive."""
        await self.ask(NO_SUCH_METHOD, {})

    def _take(self, message: Message) -> None:
        number = message.get("id")
        integer = number is None or type(number) is int
        require(integer or "method" in message, f"it answered id {number!r}: the host's ids are integers")
        super()._take(message)


LARGEST_VALUE = 1 << 20
MOST_KEYS = 1000


class StubStorage:
    """An in-memory storage service for one process."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def __call__(self, method: str, params: Any) -> Message:
        given = params_of({"params": params})
        key = str(given.get("key"))
        match method:
            case "kaged.storage.get":
                return {"result": {"value": self._values.get(key), "found": key in self._values}}
            case "kaged.storage.list":
                return {"result": {"keys": sorted(self._values), "more": False}}
            case "kaged.storage.set":
                if len(encode(given)) > LARGEST_VALUE or len(self._values) >= MOST_KEYS:
                    return error(INVALID_PARAMS, "that is too much")
                self._values[key] = given.get("value")
                return {"result": {}}
            case "kaged.storage.delete":
                return {"result": {"deleted": self._values.pop(key, self) is not self}}
        return error(METHOD_NOT_FOUND, f"method not found: {method}")


@asynccontextmanager
async def open_stub(
    subject: PluginUnderTest, answers: Answers | None = None, *, stores: bool = True
) -> AsyncIterator[KagedStubHost]:
    """Starts a new process with all declared capabilities granted, and a data folder of its own."""
    with temporary_folder("plughost-conform-", READABLE) as folder:
        spec = with_all_declared(subject.spec, options={**subject.spec.options, "data_root": folder})
        async with subject.wire(spec=spec) as wire:
            yield KagedStubHost(subject, wire, answers or StubStorage(), stores=stores)


async def exercise(
    subject: PluginUnderTest, ask: Callable[[str, Any], Awaitable[Any]], context: Message | None = None
) -> dict[str, Any]:
    """Calls every method and hook that the manifest declares; returns the responses by method."""
    more = {} if context is None else {"_context": context}
    return {
        method: await ask(method, {**params_for(subject, method), **more})
        for method in sorted(subject.resolved.methods or ())
    }


def params_for(subject: PluginUnderTest, method: str) -> Message:
    """The params for a method: those of the sample call, otherwise none, which a plugin may refuse."""
    sample = subject.sample
    if sample is None or sample.method != method or not isinstance(sample.params, dict):
        return {}
    return sample.params


def manifest_of(subject: PluginUnderTest) -> KagedManifest:
    """The manifest of the plugin under test."""
    manifest: KagedManifest = subject.resolved.settings.manifest
    return manifest


def with_all_declared(spec: PluginSpec, **changes: Any) -> PluginSpec:
    """The spec with everything granted that the manifest declares, beside the operator's grants."""
    return msgspec.structs.replace(spec, grants=(*spec.grants, DECLARED), **changes)
