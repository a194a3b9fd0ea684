"""Reads drafts and patches of bindings from JSON, and lists everything that is wrong with their form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from plughost.gateway.bindings.documents import BindingContent, BindingDocument, BindingDraft
from plughost.gateway.bindings.merge_patch import merge
from plughost.gateway.problems import FieldError, Problem
from plughost.vai.bindings.binding import BindingPolicy
from plughost.vai.bindings.problems import pointer

T = TypeVar("T")

IDENTITY = ("package_id", "package_version", "export_id")
CONTENT = ("config", "secrets", "policy", "status", "rollout")
"""The members of a document that a patch may change."""
_FIXED = ("binding_id", *IDENTITY, "scope", "revision", "created_at", "updated_at")


def read_draft(body: Any) -> BindingDraft:
    """A draft from the body of a request. `invalid_request` lists all wrong members; `scope` is the caller's
    to read."""
    found = _members(body)
    errors = [
        FieldError(pointer(name), "there is no such member")
        for name in found
        if name not in (*IDENTITY, *CONTENT, "scope")
    ]
    identity = {name: _text(found, name, errors) for name in IDENTITY}
    content = _content(found, errors)
    _refuse(errors)
    return BindingDraft(**identity, content=content)


def patched(document: BindingDocument, patch: Any) -> BindingContent:
    """The content of a binding after a merge patch. `invalid_request` lists all wrong members.

    A member that cannot change may be present with its present value, as in a document that was read.
    """
    before: dict[str, Any] = msgspec.to_builtins(document, order="deterministic")
    after = merge(before, _members(patch))
    errors = [
        FieldError(pointer(name), "it cannot be changed; create another binding")
        for name in _FIXED
        if after.get(name) != before[name]
    ]
    errors += [FieldError(pointer(name), "there is no such member") for name in after if name not in before]
    for name in ("status", "rollout"):
        if name not in after:
            errors.append(FieldError(pointer(name), "it cannot be removed"))
    content = _content(after, errors)
    _refuse(errors)
    unchanged = content.traffic_percent == document.traffic_percent
    return msgspec.structs.replace(content, traffic_percent=None) if unchanged else content


def _content(found: Mapping[str, Any], errors: list[FieldError]) -> BindingContent:
    config = found.get("config", {})
    if not isinstance(config, dict):
        errors.append(FieldError("/config", "it must be an object"))
        config = {}
    status = found.get("status", "active")
    if status not in ("active", "disabled"):
        errors.append(FieldError("/status", "it must be active or disabled"))
    return BindingContent(
        config=config,
        secrets=_secrets(found.get("secrets", {}), errors),
        policy=_policy(found.get("policy", {}), errors),
        status="disabled" if status == "disabled" else "active",
        traffic_percent=_traffic_percent(found.get("rollout", {}), errors),
    )


def _secrets(found: Any, errors: list[FieldError]) -> dict[str, str]:
    if not isinstance(found, dict):
        errors.append(FieldError("/secrets", "it must be an object"))
        return {}
    errors += [
        FieldError(pointer("secrets", slot), "it must be a text such as secret://org/name")
        for slot, uri in found.items()
        if not isinstance(uri, str)
    ]
    return {slot: uri for slot, uri in found.items() if isinstance(uri, str)}


def _policy(found: Any, errors: list[FieldError]) -> BindingPolicy:
    if not isinstance(found, dict):
        errors.append(FieldError("/policy", "it must be an object"))
        return BindingPolicy()
    kinds = {field.name: field.type for field in msgspec.structs.fields(BindingPolicy)}
    values: dict[str, Any] = {}
    for name, value in found.items():
        if name not in kinds:
            errors.append(FieldError(pointer("policy", name), "there is no such member"))
            continue
        try:
            values[name] = msgspec.convert(value, kinds[name])
        except msgspec.ValidationError as error:
            errors.append(FieldError(pointer("policy", name), _sentence(error)))
    return BindingPolicy(**values)


def _traffic_percent(found: Any, errors: list[FieldError]) -> int | None:
    if not isinstance(found, dict):
        errors.append(FieldError("/rollout", "it must be an object"))
        return None
    errors += [
        FieldError(pointer("rollout", name), "there is no such member")
        for name in found
        if name != "traffic_percent"
    ]
    percent = found.get("traffic_percent")
    if percent is None:
        return None
    if type(percent) is not int or not 0 <= percent <= 100:
        errors.append(FieldError("/rollout/traffic_percent", "it must be a whole number from 0 to 100"))
        return None
    return percent


def _text(found: Mapping[str, Any], name: str, errors: list[FieldError]) -> str:
    value = found.get(name)
    if isinstance(value, str) and value:
        return value
    errors.append(FieldError(pointer(name), "it must be a text" if name in found else "it is missing"))
    return ""


def _members(body: Any) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise Problem("invalid_request", "the body must be a JSON object")
    return body


def _sentence(error: msgspec.ValidationError) -> str:
    """The message of msgspec, which starts with a capital letter and names its own path."""
    return str(error).partition(" - at ")[0]


def _refuse(errors: list[FieldError]) -> None:
    if errors:
        raise invalid(errors)


def invalid(errors: list[FieldError]) -> Problem:
    """The problem for a binding that has these errors."""
    count = "one value is" if len(errors) == 1 else f"{len(errors)} values are"
    return Problem("invalid_request", f"{count} not valid for a binding", errors=errors)
