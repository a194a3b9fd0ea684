"""Diff of two versions of a package: files, permissions, other manifest fields, and schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from plughost.contracts.vai.manifest import VaiManifest
from plughost.vai.packages.archive import archive_file
from plughost.vai.packages.archive.source_tree import list_files
from plughost.vai.packages.store.installed import InstalledRelease

Change = Literal["added", "removed", "changed", "mode"]
FileInfo = tuple[bool, str]
"""Whether a file is executable, and its digest."""
Files = dict[str, FileInfo]


class File(msgspec.Struct, frozen=True):
    """A file that was added, removed or changed."""

    path: str
    change: Change


class Value(msgspec.Struct, frozen=True):
    """A changed field of the manifest; None where there is no such field."""

    field: str
    before: Any
    after: Any


class SchemaChange(msgspec.Struct, frozen=True):
    """A changed schema of an export."""

    export: str
    field: str
    path: str
    change: Change


class Difference(msgspec.Struct, frozen=True):
    """All differences between two versions."""

    before: str
    after: str
    files: list[File]
    permissions: list[Value]
    manifest: list[Value]
    """The changed fields other than permissions."""
    schemas: list[SchemaChange]


def diff(before: InstalledRelease, after: InstalledRelease) -> Difference:
    """Compares two installed releases."""
    old, new = _files(before), _files(after)
    values = list(_values(_flatten(before.manifest), _flatten(after.manifest)))
    return Difference(
        str(before.release),
        str(after.release),
        list(_file_changes(old, new)),
        [value for value in values if ".permissions." in value.field],
        [value for value in values if ".permissions." not in value.field],
        list(_schemas(before.manifest, after.manifest, old, new)),
    )


def _files(installed: InstalledRelease) -> Files:
    folder = list_files(installed.package)
    found = {}
    for member in folder.members:
        with folder.open(member) as file:
            found[member.name] = (member.executable, archive_file.hash_file(file).digest)
    return found


def _file_changes(old: Files, new: Files) -> Iterator[File]:
    for path in sorted({*old, *new}):
        if change := _change(old.get(path), new.get(path)):
            yield File(path, change)


def _change(was: FileInfo | None, now: FileInfo | None) -> Change | None:
    if was == now:
        return None
    if was is None or now is None:
        return "added" if was is None else "removed"
    return "mode" if was[1] == now[1] else "changed"


def _flatten(manifest: VaiManifest) -> dict[str, Any]:
    """Manifest fields by dotted name; exports by id, so that their order in the file does not matter."""
    fields: dict[str, Any] = msgspec.to_builtins(manifest)
    fields["exports"] = {export["id"]: export for export in fields["exports"]}
    return dict(_leaves("", fields))


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(f"{name}.{key}" if name else key, inner)
    else:
        yield name, value


def _values(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Value]:
    for field in sorted({*old, *new}):
        if old.get(field) != new.get(field):
            yield Value(field, old.get(field), new.get(field))


def _schemas(before: VaiManifest, after: VaiManifest, old: Files, new: Files) -> Iterator[SchemaChange]:
    first, second = _schema_paths(before), _schema_paths(after)
    for export, field in sorted({*first, *second}):
        was, now = first.get((export, field), ""), second.get((export, field), "")
        if change := _change(old.get(was), new.get(now)):
            yield SchemaChange(export, field, now or was, change)


def _schema_paths(manifest: VaiManifest) -> dict[tuple[str, str], str]:
    return {
        (export.id, field): path.removeprefix("./")
        for export in manifest.exports
        for field, path in export.schemas.items()
    }
