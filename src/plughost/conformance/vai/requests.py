"""What the exports of a package are asked on trial: bodies with nothing in them that anybody needs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from plughost.base import json_schema
from plughost.base.regular_file import read_authors
from plughost.conformance.subject import Subject
from plughost.conformance.vai.examples import example, marked
from plughost.contracts.vai.manifest import Export, Manifest
from plughost.contracts.vai.messages import OPS
from plughost.invocations.schemas import LARGEST

Body = dict[str, Any]
TENANT = "conformance"


def manifest_of(subject: Subject) -> Manifest:
    told: Manifest = subject.binding.settings.manifest
    return told


def folder_of(subject: Subject) -> Path:
    return Path(subject.spec.cwd or ".").resolve()


def schema_of(subject: Subject, path: str | None) -> Any:
    """A schema file of its package; None when there is none, or when a host would not take it."""
    if path is None:
        return None
    try:
        return msgspec.json.decode(read_authors(folder_of(subject) / path, LARGEST))
    except (OSError, ValueError, RecursionError):
        return None


def context(export: Export, tenant: str = TENANT, **changes: Any) -> Body:
    deadline = datetime.now(UTC) + timedelta(milliseconds=export.default_timeout_ms)
    scopes = export.permissions.gateway_api_scopes
    return {
        "invocation_id": f"inv_{tenant}",
        "trace_id": f"tr_{tenant}",
        "org_id": f"org_{tenant}",
        "project_id": f"proj_{tenant}",
        "session_id": f"sess_{tenant}",
        "chain_id": f"ch_{tenant}",
        "run_id": f"run_{tenant}",
        "deadline_at": deadline.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "scratch_dir": None,
        "gateway": {
            "base_url": "http://gateway.invalid",
            "delegation_token": f"vai_dlg_{tenant}" if scopes else None,
            "scopes": list(scopes),
        },
        **changes,
    }


def request(
    subject: Subject, export: Export, told: Body | None = None, tenant: str = TENANT, mark: str = ""
) -> tuple[str, Body]:
    """The op and the body for an export, with this context or the usual one, and a mark in what is said."""
    body: Body = {
        "export_id": export.id,
        "context": context(export, tenant) if told is None else told,
        "config": example(schema_of(subject, export.config_schema)),
        "secrets": {slot: f"secret_{slot}_{tenant}" for slot in export.permissions.secret_slots},
    }
    return OPS[export.kind], body | _own(subject, export, tenant, mark)


def _own(subject: Subject, export: Export, tenant: str, mark: str) -> Body:
    """The members that are its kind's own."""
    match export.kind:
        case "tool":
            assert export.tool is not None
            schema = schema_of(subject, export.tool.input_schema)
            given = example(schema)
            if subject.sample is not None and subject.sample.method == export.id:
                given = subject.sample.params
            if mark:
                given = marked(given, schema, mark, _fits(schema))
            return {"tool_execution_id": f"toolx_{tenant}", "input": given}
        case "hook":
            assert export.hook is not None
            event = {
                "type": export.hook.subscribes_to[0],
                "occurred_at": "2026-03-12T19:00:00Z",
                "subject": {"kind": "run", "id": f"run_{tenant}"},
                "summary": {"task": mark} if mark else {},
            }
            return {"delivery_id": f"del_{tenant}", "attempt": 1, "event": event}
        case "compactor":
            said = {"kind": "input", "content": [_text("Fix the redirect.", mark)]}
            projection = {"transport": "inline", "blocks": [said], "pinned_items": [], "token_estimate": 8}
            return {
                "compaction_id": f"cmp_{tenant}",
                "source": {"chain_id": f"ch_{tenant}", "projection": projection},
                "target": {"max_input_tokens": 1000, "target_model": "any"},
                "policy": {"retain_system": True, "retain_open_tasks": True},
            }
    ids = {"session_id": f"sess_{tenant}", "chain_id": f"ch_{tenant}", "execution_id": f"exec_{tenant}"}
    return {
        "mode": "start",
        "target": ids,
        "trigger": {"type": "user_request", "input": [_text("Do nothing.", mark)]},
        "policy": {"max_depth": 1, "max_child_runs": 0, "allow_compaction": False},
    }


def _text(words: str, mark: str) -> Body:
    return {"type": "text", "text": f"{words} {mark}".strip()}


def _fits(schema: Any) -> Callable[[Any], bool]:
    """Whether a value is what a schema takes; anything, where there is no schema that could tell."""

    def fits(value: Any) -> bool:
        try:
            return not json_schema.problems_at_once(schema or {}, value)
        except ValueError:
            return True

    return fits
