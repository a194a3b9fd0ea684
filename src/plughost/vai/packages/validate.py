"""Validates the content of a package: before its author publishes it, and again before it is installed."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from plughost._util.json_schema.validation import schema_problem
from plughost._util.located.document import LocatedProblem
from plughost._util.text import escape_controls
from plughost.contracts.vai import manifest
from plughost.errors import InvalidConfig
from plughost.vai.packages import secret_scan
from plughost.vai.packages.archive.archive_file import ArchiveFile
from plughost.vai.packages.archive.limits import MAX_DOCUMENT_BYTES
from plughost.vai.packages.errors import HoldsSecret


def validate_contents(layer: ArchiveFile, shown: Path) -> manifest.VaiManifest:
    """Checks manifest, entrypoint, schemas and secrets. Returns the manifest; raises InvalidConfig or
    HoldsSecret.

    `shown` is the folder to name in messages.
    """
    if manifest.FILE not in layer.members:
        raise InvalidConfig([LocatedProblem(str(shown), 0, "", f"there is no {manifest.FILE}")])
    text = _read_small(layer, manifest.FILE, shown, manifest.LARGEST)
    package_manifest = manifest.parse(text, str(shown / manifest.FILE), layer.members.__contains__)
    problems = [
        *_entrypoint_problems(layer, package_manifest, shown),
        *_schema_problems(layer, package_manifest, shown),
    ]
    if problems:
        raise InvalidConfig(problems)
    _refuse_secrets(layer, shown)
    return package_manifest


def _refuse_secrets(layer: ArchiveFile, shown: Path) -> None:
    found: list[str] = []
    for name, member in layer.members.items():
        hits = secret_scan.scan(layer.open(member))
        found += [f"{escape_controls(str(shown / name))}:{hit.line}: {hit.kind}" for hit in hits]
        if len(found) >= secret_scan.MAX_FINDINGS:
            break
    if found:
        raise HoldsSecret(
            "\n  ".join(["the package contains a secret:", *found[: secret_scan.MAX_FINDINGS]]),
            hint="remove and revoke it; plugins get secrets through secret_slots when they are called",
        )


def _entrypoint_problems(
    layer: ArchiveFile, package_manifest: manifest.VaiManifest, shown: Path
) -> Iterator[LocatedProblem]:
    program = posixpath.normpath(package_manifest.runtime.entrypoint[0])
    if not layer.members[program].executable:
        yield LocatedProblem(str(shown / program), 0, "", "the entrypoint is not executable: chmod +x")


def _schema_problems(
    layer: ArchiveFile, package_manifest: manifest.VaiManifest, shown: Path
) -> Iterator[LocatedProblem]:
    named = {
        posixpath.normpath(path) for export in package_manifest.exports for path in export.schemas.values()
    }
    for path in sorted(named):
        if why := _schema_problem(_read_small(layer, path, shown, MAX_DOCUMENT_BYTES)):
            yield LocatedProblem(str(shown / path), 0, "", why)


def _schema_problem(text: bytes) -> str | None:
    try:
        document: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        return f"not JSON: {error}"
    if not isinstance(document, dict):
        return "a schema is an object"
    try:
        return schema_problem(document)
    except RecursionError:
        return "too many levels deep"


def _read_small(layer: ArchiveFile, name: str, shown: Path, largest: int) -> bytes:
    member = layer.members[name]
    if member.size > largest:
        raise InvalidConfig([LocatedProblem(str(shown / name), 0, "", f"larger than {largest} bytes")])
    return layer.read(member)
