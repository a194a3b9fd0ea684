"""Sample requests for the exports of a package: bodies with example data only."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from plughost._util.json_schema import validation
from plughost._util.untrusted_file import read_authors
from plughost.conformance.plugin_under_test import PluginUnderTest
from plughost.conformance.vai.schema_examples import example, marked
from plughost.contracts.vai.manifest import Export, VaiManifest
from plughost.contracts.vai.messages import OPS
from plughost.vai.bindings.schemas import MAX_BYTES

Body = dict[str, Any]
TENANT = "conformance"


def manifest_of(subject: PluginUnderTest) -> VaiManifest:
    """The manifest of the package under test."""
    manifest: VaiManifest = subject.resolved.settings.manifest
    return manifest


def folder_of(subject: PluginUnderTest) -> Path:
    """The folder of the package under test."""
    return Path(subject.spec.cwd or ".").resolve()


def schema_of(subject: PluginUnderTest, path: str | None) -> Any:
    """A schema file of the package; None when it is missing, or when a host would not accept it."""
    if path is None:
        return None
    try:
        return msgspec.json.decode(read_authors(folder_of(subject) / path, MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return None


def context(export: Export, tenant: str = TENANT, **changes: Any) -> Body:
    """The context of a sample request, with `changes`."""
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
    subject: PluginUnderTest,
    export: Export,
    given_context: Body | None = None,
    tenant: str = TENANT,
    mark: str = "",
) -> tuple[str, Body]:
    """The op and the body for an export, with the given context or the default one, and `mark` in its
    texts."""
    body: Body = {
        "export_id": export.id,
        "context": context(export, tenant) if given_context is None else given_context,
        "config": example(schema_of(subject, export.config_schema)),
        "secrets": {slot: f"secret_{slot}_{tenant}" for slot in export.permissions.secret_slots},
    }
    return OPS[export.kind], body | _own(subject, export, tenant, mark)


def _own(subject: PluginUnderTest, export: Export, tenant: str, mark: str) -> Body:
    """The members of the body that are specific to the export's kind."""
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
            block = {"kind": "input", "content": [_text("Fix the redirect.", mark)]}
            projection = {"transport": "inline", "blocks": [block], "pinned_items": [], "token_estimate": 8}
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
    """A predicate: whether a value fits the schema; always true without a usable schema."""

    def fits(value: Any) -> bool:
        try:
            return not validation.quick_problems(schema or {}, value)
        except ValueError:
            return True

    return fits
