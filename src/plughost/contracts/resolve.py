"""Helpers to turn a PluginSpec into a ResolvedSpec: options, folders, environment and checks."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from plughost._util.real_path import real_path
from plughost.contracts.base import Contract, ResolvedSpec
from plughost.errors import InvalidSpec
from plughost.spec import PluginSpec

if TYPE_CHECKING:  # import time that a program may not need to spend
    from pathlib import Path


def sandbox_class(spec: PluginSpec, contract: Contract) -> str:
    """The sandbox class of a plugin: the operator's choice, or else the contract's default."""
    return contract.sandbox if spec.sandbox is None else spec.sandbox


def unconfined_lints(spec: PluginSpec, contract: Contract) -> tuple[str, ...]:
    """What to say of a plugin that has grants, but no sandbox to enforce them."""
    if sandbox_class(spec, contract) != "none":
        return ()
    return (
        "without a sandbox nothing stops it from using files, programs and hosts that it was not granted",
    )


async def resolve_in_thread(contract: Contract, spec: PluginSpec) -> ResolvedSpec:
    """Runs `contract.resolve(spec)`, in a thread if it opens files."""
    if contract.resolves_without_files:
        return contract.resolve(spec)
    return await asyncio.to_thread(contract.resolve, spec)


def read_options(kind: type[msgspec.Struct], spec: PluginSpec) -> Any:
    """Decodes the contract's options from a spec. Raises InvalidSpec with every problem at once."""
    from plughost._util.located.document import Document

    document = Document("options", dict(spec.options), {})
    options = document.read(kind, (), dict(spec.options))
    if options is None:
        problems = "; ".join(str(problem).removeprefix("options: ") for problem in document.problems)
        raise InvalidSpec(problems, plugin=spec.name)
    return options


def folder_of(spec: PluginSpec) -> Path:
    """The working folder of a plugin. A folder that the operator did not name was resolved when it was
    discovered, and symlinks are not followed again: the sandbox refuses a symlink in it."""
    from pathlib import Path

    here = spec.cwd or "."
    return Path(os.path.abspath(here) if spec.command_from_manifest else real_path(here))


def check_runnable(spec: PluginSpec, resolved: ResolvedSpec) -> None:
    """Checks command, cwd and environment as the operating system would: InvalidSpec before any process
    exists."""
    words = [*spec.command, *resolved.env, *resolved.env.values(), spec.name, spec.cwd or ""]
    if resolved.open_link is not None:
        if spec.command or spec.sandbox not in (None, "none"):
            what = "a command" if spec.command else f"sandbox {spec.sandbox!r}"
            raise InvalidSpec(
                f"it has {what}, but it is not a process of this host", hint="leave it out", plugin=spec.name
            )
    elif not spec.command or not spec.command[0]:
        raise InvalidSpec("the command is empty", plugin=spec.name)
    if not all(isinstance(word, str) and "\0" not in word for word in words):
        raise InvalidSpec("command, cwd and env must be text without NUL characters", plugin=spec.name)
    if not all(name and "=" not in name for name in resolved.env):
        raise InvalidSpec("the name of an environment variable is empty or contains '='", plugin=spec.name)


def from_host(*variables: str) -> dict[str, str]:
    """The values of these environment variables of the host, as far as they are set."""
    # Interned: every plugin has them.
    return {name: sys.intern(os.environ[name]) for name in variables if name in os.environ}
