"""Invocations beside each other: what one leaves is not there for the next."""

from __future__ import annotations

import os
import tempfile
import uuid
from pathlib import Path

from plughost.conformance.axis import Axis, demand
from plughost.conformance.subject import Subject
from plughost.conformance.vai.requests import context, folder_of, manifest_of, request
from plughost.conformance.vai.stub import Stub, body_of, greeted
from plughost.contracts.vai.manifest import Export
from plughost.wire.envelope import encode

ANYBODYS = 0o777
"""Of a root host, a confined plugin is another user."""


async def scratch(subject: Subject) -> None:
    before = _listing(folder_of(subject))
    with (
        tempfile.TemporaryDirectory(prefix="plughost-conform-") as root,
        tempfile.TemporaryDirectory(prefix="plughost-conform-") as outside,
    ):
        elsewhere = {name: os.path.join(outside, name.lower()) for name in ("TMPDIR", "HOME")}
        for place in elsewhere.values():
            os.mkdir(place)
        for place in (root, outside, *elsewhere.values()):
            os.chmod(place, ANYBODYS)
        async with greeted(subject, elsewhere, writable=(root, *elsewhere.values())) as stub:
            for export in manifest_of(subject).exports:
                if export.permissions.filesystem == "scratch":
                    await _twice(subject, stub, export, root)
        strewn = ", ".join(sorted(_listing(Path(outside))))
        demand(not strewn, f"it wrote outside its scratch folder: {strewn:.300}")
    changed = sorted(before.items() ^ _listing(folder_of(subject)).items())
    demand(not changed, f"it changed its own package: {changed[0][0] if changed else ''}")


async def _twice(subject: Subject, stub: Stub, export: Export, root: str) -> None:
    """Each time in another folder, which is gone afterwards as it is after every invocation."""
    statuses = []
    for number in range(2):
        with tempfile.TemporaryDirectory(prefix=f"{number}-", dir=root) as place:
            os.chmod(place, ANYBODYS)
            told = context(export, scratch_dir=place)
            body = body_of(export, await stub.ask(*request(subject, export, told)))
            statuses.append(body.get("status"))
            await stub.drain()
    left = ", ".join(sorted(os.listdir(root)))
    demand(not left, f"{export.id} used the scratch folder of an invocation that was over: {left}")
    first, second = statuses
    demand(first == second, f"{export.id} ended {first}, and {second} once its first scratch folder was gone")


def _listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file of a package; what an interpreter caches beside its modules is not the plugin's doing."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in folder.rglob("*")
        if "__pycache__" not in path.parts and not path.is_dir()
    }


def _asks_for_none(subject: Subject) -> str | None:
    asked = any(export.permissions.filesystem == "scratch" for export in manifest_of(subject).exports)
    return None if asked else "it asks for no scratch folder"


async def tenants(subject: Subject) -> None:
    """The same is asked for two tenants, and then something of their own, the second time too."""
    first, second = (uuid.uuid4().hex for _ in range(2))
    async with greeted(subject) as stub:
        for export in manifest_of(subject).exports:
            for mark in ("", first):
                await stub.ask(*request(subject, export, tenant=first, mark=mark))
            for mark in ("", "", second):
                id = stub.request(*request(subject, export, tenant=second, mark=mark))
                said = [await stub.response(id, export.id), *stub.events(id)]
                leaked = first.encode() in encode(said)
                demand(not leaked, f"{export.id} told one tenant something of another")


AXES = (
    Axis(
        name="scratch",
        promise="writes in the scratch folder of the invocation at hand: not in an earlier one's, not in its "
        "own package, not in TMPDIR and not in HOME (other places are the sandbox's to keep from it)",
        test=scratch,
        spares=_asks_for_none,
    ),
    Axis(
        name="tenants",
        promise="keeps nothing of one tenant's request for another's: not who it is, not what it said",
        test=tenants,
    ),
)
