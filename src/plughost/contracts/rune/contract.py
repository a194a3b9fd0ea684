"""The rune contract, protocol rterm.plugin.v1: NDJSON, one process per call, a handshake and one execute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from plughost.contracts.base import BaseContract, Permissions, ResolvedSpec
from plughost.contracts.resolve import read_options
from plughost.contracts.rune.client import Rune, RuneResult
from plughost.contracts.rune.errors import (
    CapabilityNotAllowed,
    CapabilityNotDeclared,
    ExecutionError,
    MalformedResponse,
    ProtocolVersionMismatch,
    ToolNotExposed,
)
from plughost.contracts.rune.session import MAX_LINE, RuneSession, RuneSettings
from plughost.contracts.settings import AUTHOR_MAY_LOWER, AUTHOR_MAY_SET
from plughost.engine.policy import LifecyclePolicy
from plughost.errors import InvalidSpec
from plughost.permissions.capability import Capability
from plughost.spec import PluginSpec

PROTOCOL_VERSION = "rterm.plugin.v1"
MOST_REQUEST = 64 << 20

__all__ = [
    "CONTRACT",
    "PROTOCOL_VERSION",
    "CapabilityNotAllowed",
    "CapabilityNotDeclared",
    "ExecutionError",
    "MalformedResponse",
    "ProtocolVersionMismatch",
    "Rune",
    "RuneContract",
    "RuneResult",
    "ToolNotExposed",
]


class RuneOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a rune plugin in plughost.toml, in seconds; zero or less means the default."""

    timeout: Annotated[float, AUTHOR_MAY_LOWER] = 5.0
    """Seconds for the whole invocation, from before the spawn to the exit."""
    launch_timeout: Annotated[float, AUTHOR_MAY_LOWER] = 2.0
    handshake_timeout: Annotated[float, AUTHOR_MAY_LOWER] = 2.0
    teardown_timeout: Annotated[float, AUTHOR_MAY_LOWER] = 0.5
    """Seconds from the response to the exit."""
    protocol: Annotated[str, AUTHOR_MAY_SET] = PROTOCOL_VERSION
    max_request: Annotated[int, msgspec.Meta(ge=1, le=MOST_REQUEST), AUTHOR_MAY_LOWER] = MAX_LINE
    """Maximum bytes of a request line, up to 64 MiB. A response always has at most 1 MiB."""


class RuneContract(BaseContract):
    """The contract of rune plugins; the manifest arrives in the handshake, not from a file."""

    name = "rune"
    options: type[msgspec.Struct] = RuneOptions
    resolves_without_files = True

    def read_folder(self, folder: Path) -> PluginSpec | None:
        return None  # the manifest comes over the wire, in the handshake

    def resolve(self, spec: PluginSpec) -> ResolvedSpec:
        problems = [*_blank(spec), *_bad_grants(spec.grants)]
        if problems:
            raise InvalidSpec("; ".join(problems), plugin=spec.name)
        given: RuneOptions = read_options(RuneOptions, spec)
        defaults = RuneOptions()
        policy = LifecyclePolicy(
            one_shot=True,
            call_timeout=_positive_or(given.timeout, defaults.timeout),
            launch_timeout=_positive_or(given.launch_timeout, defaults.launch_timeout),
            ready_timeout=_positive_or(given.handshake_timeout, defaults.handshake_timeout),
            grace=_positive_or(given.teardown_timeout, defaults.teardown_timeout),
            max_in_flight=1,
        )
        granted = frozenset(Capability(word) for word in spec.grants)
        settings = RuneSettings(given.protocol.strip() or PROTOCOL_VERSION, given.max_request)
        return ResolvedSpec(policy, dict(spec.env), Permissions(granted), settings=settings)

    def session(self, spec: PluginSpec, resolved: ResolvedSpec) -> RuneSession:
        return RuneSession(spec.name, resolved.settings, resolved.permissions.capabilities)


def _blank(spec: PluginSpec) -> list[str]:
    command = spec.command[0] if spec.command else ""
    return [
        f"the {what} is blank"
        for what, text in (("name", spec.name), ("command", command))
        if not text.strip()
    ]


def _bad_grants(grants: object) -> list[str]:
    problems = []
    seen = set()
    for word in grants:  # type: ignore[attr-defined]
        if not word or word != word.strip():
            problems.append(f"the granted capability {word!r} is empty or has spaces around it")
        elif word in seen:
            problems.append(f"the granted capability {word!r} is listed twice")
        seen.add(word)
    return problems


def _positive_or(value: float, default: float) -> float:
    return value if value > 0 else default


CONTRACT = RuneContract()
