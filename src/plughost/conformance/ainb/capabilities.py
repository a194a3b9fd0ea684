"""The axes of permissions: capabilities, and file access through the host."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from plughost.conformance.ainb.hosted_plugin import exercise_hosted, exercise_stub, hosted
from plughost.conformance.ainb.stub_host import NO_SUCH_METHOD, AinbStubHost, bare, manifest_of, open_stub
from plughost.conformance.axis import Axis, require
from plughost.conformance.conversation import Message
from plughost.conformance.jsonrpc_client import error, params_of
from plughost.conformance.plugin_under_test import PluginUnderTest
from plughost.contracts.ainb.default_roots import default_roots
from plughost.contracts.jsonrpc import CAPABILITY_DENIED
from plughost.engine.caller import Caller
from plughost.sandbox.untrusted_temp_dir import temporary_folder
from plughost.services.files.reader import FileContent, FolderEntry
from plughost.services.files.service import FileService, OnFile, OnPath

T = TypeVar("T", bound=OnPath)

INSIDE = "session.jsonl"
OUTSIDE = "outside.jsonl"


def _refusing(method: str, params: Any) -> Message:
    """Answers as a host that granted nothing."""
    if method.startswith("host/snapshot/"):
        return error(CAPABILITY_DENIED, "capability denied: event_bus")
    return bare(method, params)


async def capabilities(subject: PluginUnderTest) -> None:
    """Checks that the plugin uses only declared capabilities, and survives or refuses when none is
    granted."""
    declared = {capability.name for capability in manifest_of(subject).capabilities.granted()}
    async with open_stub(subject) as host:
        await host.init()
        await exercise_stub(subject, host)
        for message in host.incoming:
            host_method = subject.contract.host_methods.get(message["method"])
            needs = (
                () if host_method is None else host_method.checks or filter(None, [host_method.capability])
            )
            names = set(needs)
            require(
                not names or names & declared,
                f"it uses {message['method']}: its manifest must declare {' or '.join(sorted(names))}",
            )
    async with open_stub(subject, _refusing) as host:
        if await _refuses_init(host):
            require(declared, "it refuses plugin/init, although its manifest declares no capability")
            return  # it needs its capabilities and says so: nothing more can be tested without them
        await exercise_stub(subject, host)
        await host.ask(NO_SUCH_METHOD, {})
    async with hosted(subject, grants=()) as scene:
        await exercise_hosted(subject, scene, ())
        require(scene.plugin.state == "Running", "it stops running when nothing is granted")


async def _refuses_init(host: AinbStubHost) -> bool:
    """Whether the plugin answers plugin/init with an error when nothing is granted."""
    response = await host.ask("plugin/init", host.init_params(granted=()))
    if "result" in response:
        return False
    code, message = (response.get("error") or {}).get("code"), (response.get("error") or {}).get("message")
    require(
        type(code) is int and isinstance(message, str) and message,
        f"when nothing is granted, it answers plugin/init with {response.get('error')!r:.200}: an error "
        "needs a code "
        "and a message",
    )
    return True


class StagedFiles(FileService):
    """A file service that serves prepared folders under the usual paths, so that the user's own files stay
    unread."""

    def __init__(self, folder: Path, roots: Mapping[str, str]) -> None:
        self._places = {root: folder / name for name, root in roots.items()}
        self.asked: list[str] = []
        super().__init__({name: folder / name for name in roots})

    async def read_dir(self, caller: Caller, params: OnPath) -> list[FolderEntry]:
        return await super().read_dir(caller, self._moved(params))

    async def read_file(self, caller: Caller, params: OnFile) -> FileContent:
        return await super().read_file(caller, self._moved(params))

    def _moved(self, params: T) -> T:
        self.asked.append(params.path)
        for root, place in self._places.items():
            if _beneath(params.path, root):
                params.path = f"{place}{params.path[len(root) :]}"
                break
        return params


@contextmanager
def _staged(roots: Mapping[str, str]) -> Iterator[StagedFiles]:
    """Prepares folders with symlinks and a pipe that the file service must refuse."""
    with temporary_folder("plughost-conform-") as name:
        folder = Path(name)
        (folder / OUTSIDE).write_text("not for plugins\n")
        for root in roots:
            (folder / root / "project").mkdir(parents=True)
            (folder / root / INSIDE).write_text('{"type": "user"}\n')
            (folder / root / "project" / INSIDE).write_text('{"type": "assistant"}\n')
            (folder / root / "leads-out.jsonl").symlink_to(folder / OUTSIDE)
            (folder / root / "leads-nowhere.jsonl").symlink_to(folder / "nothing")
            os.mkfifo(folder / root / "pipe.jsonl")
        yield StagedFiles(folder, roots)


def _roots(subject: PluginUnderTest) -> dict[str, str]:
    """The folders of the file capabilities that the plugin declares."""
    declared = {capability.name for capability in manifest_of(subject).capabilities.granted()}
    return {name: os.path.expanduser(root) for name, root in default_roots().items() if name in declared}


def _allowed(roots: Mapping[str, str], home: str) -> list[str]:
    """The same folders in every spelling: AINB_HOME stands for `~/.agents-in-a-box`."""
    moved = [f"{home}/sessions"] if "read_sessions" in roots else []
    return [*roots.values(), *moved]


async def files(subject: PluginUnderTest) -> None:
    """Checks the paths that the plugin requests, and that it survives refused and unreadable files."""
    roots = _roots(subject)
    async with open_stub(subject) as host:
        await host.init()
        await exercise_stub(subject, host)
        for message in [*host.received("host/fs/read_dir"), *host.received("host/fs/read_file")]:
            _check_path(params_of(message).get("path"), _allowed(roots, host.home))
        await host.ask(NO_SUCH_METHOD, {})
    with _staged(roots) as desk:
        async with hosted(subject, prepare=lambda host: host.provide("fs", desk)) as scene:
            await exercise_hosted(subject, scene, subject.resolved.topics)
            for path in desk.asked:
                _check_path(path, _allowed(roots, scene.home))
            require(
                scene.plugin.state == "Running", "it stopped running after the answers to its file requests"
            )


def _beneath(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")


def _check_path(path: Any, allowed: list[str]) -> None:
    require(isinstance(path, str), f"it asks for the file {path!r:.100}: a path must be a string")
    require(os.path.isabs(path), f"it asks for {path!r:.200}: a path must be absolute, without ~")
    inside = any(_beneath(os.path.normpath(path), root) for root in allowed)
    require(inside, f"it asks for {path!r:.200}, which is not inside any of {', '.join(allowed)}")


def _no_files(subject: PluginUnderTest) -> str | None:
    return None if _roots(subject) else f"its manifest declares none of {', '.join(default_roots())}"


AXES = (
    Axis(
        name="capabilities",
        promise="asks only for what its manifest declares; when all of it is denied, refuses plugin/init or "
        "keeps running",
        test=capabilities,
    ),
    Axis(
        name="files",
        promise="asks only for absolute paths inside the folders of its capabilities, and keeps running when "
        "one is refused or cannot be read",
        test=files,
        skip_reason=_no_files,
    ),
)
