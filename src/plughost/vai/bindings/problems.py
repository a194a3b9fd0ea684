"""Problems of a binding: what is wrong with its configuration, secret slots and policy, and where.

The host refuses a binding with these problems before its first invocation, and a control plane shows them to
whoever writes the binding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from plughost.contracts.vai.manifest import Export
from plughost.vai.bindings.schemas import CompiledSchema


class BindingProblem(msgspec.Struct, frozen=True):
    """Something wrong with a binding: a JSON pointer to the value, and a message about the value."""

    pointer: str
    message: str
    sentence: str
    """The problem for readers who do not see the pointer."""


def pointer(*parts: str | int) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def config_problems(config: Mapping[str, Any], schema: CompiledSchema | None) -> list[BindingProblem] | None:
    """The problems of a configuration. None where the check takes long and belongs into a worker process."""
    if schema is None:
        return []
    value = dict(config)
    if len(msgspec.json.encode(value)) > schema.explained_at_once:
        return None
    return [
        BindingProblem(
            pointer("config", *each.path), each.message.unhidden, f"config: {each.sentence.unhidden}"
        )
        for each in schema.located(value)
    ]


def unmapped_slots(export: Export, secrets: Mapping[str, str]) -> list[BindingProblem]:
    """The secret slots of an export for which a binding names no secret."""
    return [
        BindingProblem(
            pointer("secrets", slot), "the slot is not mapped", f"the secret slot {slot} is not mapped"
        )
        for slot in export.permissions.secret_slots
        if slot not in secrets
    ]


def unknown_slots(export: Export, secrets: Mapping[str, str]) -> list[BindingProblem]:
    """The slots of a binding that its export does not have. They do no harm to an invocation."""
    slots = ", ".join(export.permissions.secret_slots) or "none"
    return [
        BindingProblem(
            pointer("secrets", slot),
            f"the export has no such slot; its slots are: {slots}",
            f"there is no secret slot {slot}",
        )
        for slot in secrets
        if slot not in export.permissions.secret_slots
    ]
