"""The axes of isolation between invocations: scratch folders and tenants."""

from __future__ import annotations

import os
import secrets
import stat
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from plughost.conformance.axis import Axis, Failed, require
from plughost.conformance.plugin_under_test import PluginUnderTest
from plughost.conformance.vai.requests import context, folder_of, manifest_of, request
from plughost.conformance.vai.stub_host import VaiStubHost, body_of, open_stub
from plughost.contracts.vai.manifest import Export
from plughost.errors import LaunchFailed
from plughost.sandbox.untrusted_temp_dir import PASSABLE, make_folder, temporary_folder
from plughost.vai.invocations.scratch import Scratch
from plughost.wire.messages import encode

ANYBODYS = 0o777
"""Under a root host, a sandboxed plugin runs as another user, unknown before it starts."""
MOST_LISTED = 100_000
"""Maximum number of files and folders that are listed."""


async def scratch(subject: PluginUnderTest) -> None:
    """Checks that the plugin writes only in the scratch folder of the current invocation."""
    before = _listing(folder_of(subject))
    with temporary_folder("plughost-conform-", PASSABLE) as private:
        outside = os.path.join(private, secrets.token_hex(16))  # which other users cannot guess
        make_folder(outside, PASSABLE)
        elsewhere = {name: os.path.join(outside, name.lower()) for name in ("TMPDIR", "HOME")}
        for place in elsewhere.values():
            make_folder(place, ANYBODYS)
        folders = Scratch()
        try:
            root = folders.root()
            async with open_stub(subject, elsewhere, tuple(elsewhere.values()), scratch=root) as stub:
                for export in manifest_of(subject).exports:
                    if export.permissions.filesystem == "scratch":
                        await _twice(subject, stub, export, folders, root)
        finally:
            await folders.close()
        strewn = ", ".join(sorted(_listing(Path(outside))))
        require(not strewn, f"it wrote outside its scratch folder: {strewn:.300}")
    changed = sorted(before.items() ^ _listing(folder_of(subject)).items())
    require(not changed, f"it changed its own package: {changed[0][0] if changed else ''}")


async def _twice(
    subject: PluginUnderTest, stub: VaiStubHost, export: Export, folders: Scratch, root: str
) -> None:
    """Invokes the export twice, each time in another scratch folder, which is removed afterwards as a host
    does."""
    statuses = []
    for number in range(2):
        async with _place(export, folders, root, number) as place:
            request_context = context(export, scratch_dir=place)
            body = body_of(export, await stub.ask(*request(subject, export, request_context)))
            statuses.append(body.get("status"))
            await stub.drain()
    left = ", ".join(sorted(map(os.path.basename, folders.stray_paths(root))))
    require(not left, f"{export.id} used the scratch folder of an invocation that was over: {left}")
    first, second = statuses
    require(
        first == second,
        f"{export.id} ended with status {first!r:.100}, but its second invocation, in a new scratch folder, "
        f"with {second!r:.100}",
    )


@asynccontextmanager
async def _place(export: Export, folders: Scratch, root: str, number: int) -> AsyncIterator[str]:
    """A scratch folder in the root, which the plugin may change at any moment; created and removed as a host
    does."""
    try:
        place = folders.make(root, f"{number}-{secrets.token_hex(8)}")
    except LaunchFailed as error:
        raise Failed(
            f"{export.id} replaced the scratch folder that was made for it: {error.message}"
        ) from None
    try:
        yield place
    finally:
        await folders.remove(place)


def _listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file below a folder, and folders that cannot be read; symlinks are not followed.

    An interpreter's cache beside its modules is ignored: the plugin did not write it.
    """
    found: dict[str, tuple[int, int]] = {}
    waiting, looked = [str(folder)], 0
    while waiting and looked < MOST_LISTED:
        here = waiting.pop()
        try:
            for name in os.listdir(here):
                looked += 1
                path = os.path.join(here, name)
                about = os.lstat(path)
                if not stat.S_ISDIR(about.st_mode):
                    found[os.path.relpath(path, folder)] = (about.st_size, about.st_mtime_ns)
                elif name != "__pycache__":
                    waiting.append(path)
        except FileNotFoundError:
            continue  # gone meanwhile
        except OSError:
            found[os.path.relpath(here, folder)] = (0, 0)
    return found


def _asks_for_none(subject: PluginUnderTest) -> str | None:
    asked = any(export.permissions.filesystem == "scratch" for export in manifest_of(subject).exports)
    return None if asked else "it asks for no scratch folder"


async def tenants(subject: PluginUnderTest) -> None:
    """Sends the same and different requests for two tenants, and checks that nothing of the first reaches the
    second."""
    first, second = (uuid.uuid4().hex for _ in range(2))
    async with open_stub(subject) as stub:
        for export in manifest_of(subject).exports:
            for mark in ("", first):
                await stub.ask(*request(subject, export, tenant=first, mark=mark))
            for mark in ("", "", second):
                id = stub.request(*request(subject, export, tenant=second, mark=mark))
                received = [await stub.response(id, export.id), *stub.events(id)]
                leaked = first.encode() in encode(received)
                require(not leaked, f"{export.id} revealed data of one tenant to another")


AXES = (
    Axis(
        name="scratch",
        promise="writes only in the scratch folder of the current invocation: not in an earlier one's, "
        "its own "
        "package, TMPDIR or HOME (the sandbox denies other places)",
        test=scratch,
        skip_reason=_asks_for_none,
    ),
    Axis(
        name="tenants",
        promise="keeps nothing of one tenant's request for another's: neither its identity nor its data",
        test=tenants,
    ),
)
