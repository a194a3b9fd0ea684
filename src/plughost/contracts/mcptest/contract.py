"""The mcptest contract, subprocess plugin protocol v1: NDJSON, no handshake, started by the first call."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Annotated

import msgspec

from plughost.contracts.base import BaseContract, Permissions, ResolvedSpec
from plughost.contracts.mcptest.client import Mcptest, PluginResponse
from plughost.contracts.mcptest.errors import (
    InvalidJson,
    InvalidResponse,
    PluginCrashed,
    SpawnFailed,
    TimedOut,
)
from plughost.contracts.mcptest.session import McptestSession
from plughost.contracts.resolve import from_host, read_options
from plughost.contracts.settings import AUTHOR_MAY_LOWER, author_may_set_up_to
from plughost.engine.policy import LifecyclePolicy
from plughost.errors import InvalidSpec
from plughost.spec import PluginSpec

PROTOCOL_VERSION = "v1"

__all__ = [
    "CONTRACT",
    "PROTOCOL_VERSION",
    "InvalidJson",
    "InvalidResponse",
    "Mcptest",
    "McptestContract",
    "PluginCrashed",
    "PluginResponse",
    "SpawnFailed",
    "TimedOut",
]


_NO_PERMISSIONS = Permissions(asked=())


class McptestOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of an mcptest plugin in plughost.toml."""

    call_timeout: Annotated[float, msgspec.Meta(gt=0), AUTHOR_MAY_LOWER] = 30.0
    """Seconds for a response, measured from the write of the request; also the grace period at shutdown."""
    max_in_flight: Annotated[int, msgspec.Meta(ge=1), author_may_set_up_to(64)] = 1
    """Maximum number of outstanding requests, for plugins that accept more than one."""
    max_line: Annotated[int, msgspec.Meta(ge=1), AUTHOR_MAY_LOWER] = 16 << 20
    """Maximum bytes of a response line."""


class McptestContract(BaseContract):
    """The contract of mcptest plugins; it has neither manifests nor capabilities."""

    name = "mcptest"
    options: type[msgspec.Struct] = McptestOptions
    resolves_without_files = True

    def read_folder(self, folder: Path) -> PluginSpec | None:
        return None  # the contract knows no manifest

    def resolve(self, spec: PluginSpec) -> ResolvedSpec:
        if spec.grants:
            raise InvalidSpec(
                f"mcptest has no capabilities, so {spec.grants[0]!r} cannot be granted", plugin=spec.name
            )
        options: McptestOptions = read_options(McptestOptions, spec)
        env = {**from_host("PATH", "HOME", "LANG", "TERM"), **spec.env}
        return ResolvedSpec(_policy(options), env, _NO_PERMISSIONS, settings=options)

    def session(self, spec: PluginSpec, resolved: ResolvedSpec) -> McptestSession:
        return McptestSession(resolved.settings.max_line)


@lru_cache(maxsize=64)
def _policy(options: McptestOptions) -> LifecyclePolicy:
    """The policy for these options, which are the same for most plugins."""
    return LifecyclePolicy(
        call_timeout=options.call_timeout,
        timeout_from_write=True,
        max_in_flight=options.max_in_flight,
        grace=options.call_timeout,
        forget_launch_failures=True,
    )


CONTRACT = McptestContract()
