"""`vai-plugin.toml` and `schemas/` written from the functions, the same for the same functions.

What stands in the manifest before the first export, who the package is and how it runs, is left as it is.
"""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from plughost_sdk.vai.export import Export
    from plughost_sdk.vai.plugin import Plugin

WIDTH = 72
"""Columns of a list on one line; a longer one has two entries a line."""
TIMEOUTS = {"tool": 20_000, "hook": 15_000, "compactor": 120_000, "harness": 1_800_000}
CLASSES = {"tool": "isolated", "hook": "worker", "compactor": "worker", "harness": "isolated"}
HEAD = """\
api_version = "vai.plugin.v1"
package_id = {package_id}
version = "0.1.0"
name = {name}

[runtime]
protocol = "vai.rpc.v1"
transport = "stdio"
entrypoint = ["./bin/plugin"]
os = ["linux"]
arch = ["amd64", "arm64"]
"""


class NoSchema(TypeError):
    """A function's types cannot be said in JSON Schema."""


def head(package_id: str) -> str:
    """A manifest's beginning, for a package that has none yet."""
    name = package_id.rpartition("/")[2].replace("-", " ").title()
    return HEAD.format(package_id=json.dumps(package_id), name=json.dumps(name))


def files(plugin: Plugin, before: str) -> dict[str, str]:
    """What belongs into the package's folder, by path. `before` is the manifest as it is."""
    written: dict[str, str] = {}
    blocks = [_head_of(before)]
    for export in plugin.exports.values():
        try:
            schemas = _schemas(export)
        except TypeError as error:
            raise NoSchema(f"{export.id}: {error}") from error
        for part, schema in schemas.items():
            written[_path(export, part)] = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        blocks.append(_export(export, {f"{part}_schema": _path(export, part) for part in schemas}))
    return {"vai-plugin.toml": "\n".join(blocks), **dict(sorted(written.items()))}


def stale(folder: Path, written: dict[str, str], before: str) -> list[str]:
    """The files that are not as they would be written, and the schemas that no function has any more."""
    wrong = [path for path, text in written.items() if _text(folder / path) != text]
    return sorted(wrong + left_over(folder, written, before))


def left_over(folder: Path, written: dict[str, str], before: str) -> list[str]:
    """Only what the manifest named for an export: whatever else lies there is the author's own."""
    named = re.findall(r'_schema = "(schemas/[^"/]+\.json)"', before)
    return sorted(path for path in {*named} - written.keys() if (folder / path).exists())


def _text(path: Path) -> str | None:
    return path.read_text("utf-8") if path.exists() else None


def _head_of(manifest: str) -> str:
    """Up to the first export, without the comment above that."""
    lines = manifest.partition("[[exports]]")[0].splitlines()
    while lines and (not lines[-1].strip() or lines[-1].startswith("#")):
        lines.pop()
    return "\n".join(lines) + "\n"


def _path(export: Export, part: str) -> str:
    return f"schemas/{export.id}_{part}.json"


def _schemas(export: Export) -> dict[str, Any]:
    from plughost_sdk.vai.schema import document

    found: dict[str, Any] = {}
    if export.options.get("config") is not None:
        found["config"] = document(export.options["config"])
    if export.kind == "tool":
        found["input"] = export.signature.input_schema()
        if (output := export.signature.output_schema()) is not None:
            found["output"] = output
    return found


def _export(export: Export, schemas: dict[str, str]) -> str:
    options = export.options
    about = {
        "id": export.id,
        "kind": export.kind,
        "display_name": options.get("display_name") or re.sub(r"[_-]", " ", export.id).title(),
        "description": options.get("description", _said(export)) or None,
        "execution_class": options.get("execution_class", CLASSES[export.kind]),
        "default_timeout_ms": options.get("timeout_ms", TIMEOUTS[export.kind]),
        "max_concurrency": options.get("max_concurrency"),
        "config_schema": schemas.get("config_schema"),
    }
    permissions = {
        "network": options.get("network", "none"),
        "filesystem": options.get("filesystem", "none"),
        "gateway_api_scopes": [*options.get("scopes", ())],
        "secret_slots": [*options.get("secrets", ())],
    }
    tables = [
        f"# --- {export.kind.title()} export ---\n[[exports]]\n{_lines(about)}",
        f"[exports.permissions]\n{_lines(permissions)}",
        f"[exports.{export.kind}]\n{_lines(_own(export, schemas))}",
    ]
    return "\n".join(tables)


def _said(export: Export) -> str:
    return (export.handler.function.__doc__ or "").strip().partition("\n")[0].strip()


def _own(export: Export, schemas: dict[str, str]) -> dict[str, Any]:
    options = export.options
    if export.kind == "tool":
        return {
            "effect_class": options.get("effect_class", "unknown"),
            "streaming": options.get("streaming", False),
            "input_schema": schemas.get("input_schema"),
            "output_schema": schemas.get("output_schema"),
        }
    if export.kind == "hook":
        return {"subscribes_to": [*options.get("subscribes_to", ())]}
    if export.kind == "compactor":
        return {
            "target_context": options.get("target_context", "coding"),
            "supports_pinned_items": options.get("supports_pinned_items", False),
        }
    return {
        "mode": options.get("mode", "composite"),
        "fidelity": options.get("fidelity", "checkpoint"),
        "supports": [*options.get("supports", ())],
    }


def _lines(table: dict[str, Any]) -> str:
    return "".join(f"{_line(name, value)}\n" for name, value in table.items() if value is not None)


def _line(name: str, value: Any) -> str:
    """JSON's words for text, numbers and booleans are TOML's, too."""
    line = f"{name} = {json.dumps(value, ensure_ascii=False)}"
    if len(line) <= WIDTH or not isinstance(value, list):
        return line
    words = [json.dumps(each, ensure_ascii=False) for each in value]
    pairs = [", ".join(words[at : at + 2]) for at in range(0, len(words), 2)]
    return f"{name} = [\n  " + ",\n  ".join(pairs) + "\n]"
