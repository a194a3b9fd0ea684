"""A minimal ainb host for conformance tests: it answers the plugin's requests, mostly with a refusal."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from plughost.conformance.axis import Failed, require
from plughost.conformance.conversation import Message
from plughost.conformance.jsonrpc_client import Answers, JsonRpcClient, error, params_of
from plughost.conformance.plugin_under_test import PluginUnderTest
from plughost.conformance.raw_process import RawProcess
from plughost.contracts.ainb.manifest import ABI_VERSION, AinbManifest
from plughost.contracts.jsonrpc import CAPABILITY_DENIED, METHOD_NOT_FOUND
from plughost.sandbox.untrusted_temp_dir import temporary_folder

NO_SUCH_METHOD = "cts/definitely_not_a_method"


def bare(method: str, params: Any) -> Message:
    """Answers as a host with an empty snapshot bus that refuses everything else."""
    if method == "host/snapshot/get":
        return {"result": {"payload": None, "version": 0}}
    if method == "host/snapshot/subscribe":
        return {"result": {}}
    kind = method.removeprefix("host/").partition("/")[0]
    if kind in ("fs", "network", "action"):
        return error(CAPABILITY_DENIED, f"capability denied: {kind}")
    return error(METHOD_NOT_FOUND, f"method not found: {method}")


class AinbStubHost(JsonRpcClient):
    """The stub host's conversation with one process."""

    def __init__(self, subject: PluginUnderTest, wire: RawProcess, answers: Answers, home: str) -> None:
        super().__init__(wire, answers)
        self.home = home
        """Its AINB_HOME."""
        self._subject = subject

    def topics(self) -> list[str]:
        """The topics to which the plugin is subscribed, by its manifest and by its requests."""
        asked = (params_of(message).get("topic") for message in self.received("host/snapshot/subscribe"))
        wanted = [*self._subject.resolved.topics, *(topic for topic in asked if isinstance(topic, str))]
        return list(dict.fromkeys(wanted))

    def init_params(self, granted: Sequence[str] | None = None, **more: Any) -> Message:
        settings = self._subject.resolved.settings
        names = settings.granted if granted is None else granted
        return {
            "manifest_path": settings.path,
            "granted_capabilities": list(names),
            "abi_version": ABI_VERSION,
            **more,
        }

    async def init(self, granted: Sequence[str] | None = None, **more: Any) -> Message:
        """Sends plugin/init and returns the result; an error fails the axis."""
        response = await self.ask("plugin/init", self.init_params(granted, **more))
        require("result" in response, f"it answered plugin/init with the error {response.get('error')}")
        result = response["result"]
        require(isinstance(result, dict), "its answer to plugin/init is not an object")
        return dict(result)


@asynccontextmanager
async def open_stub(subject: PluginUnderTest, answers: Answers = bare) -> AsyncIterator[AinbStubHost]:
    """Starts a new process with a home folder of its own, so that no axis finds what another left behind."""
    with temporary_folder("plughost-conform-") as home:
        data_root = os.path.join(home, "plugins")
        os.mkdir(data_root)
        options = {**subject.spec.options, "data_root": data_root}
        spec = msgspec.structs.replace(subject.spec, options=options)
        async with subject.wire({"AINB_HOME": home}, spec) as wire:
            yield AinbStubHost(subject, wire, answers, home)


def manifest_of(subject: PluginUnderTest) -> AinbManifest:
    """The manifest of the plugin under test."""
    manifest: AinbManifest = subject.resolved.settings.manifest
    return manifest


def read(value: Any, kind: type[Any], what: str) -> Any:
    """Decodes a value to a type of the contract; an invalid value fails the axis."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as problem:
        raise Failed(f"{what} is wrong: {problem}") from None
