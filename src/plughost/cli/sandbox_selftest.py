"""A self-test of a sandbox class: a real sandboxed plugin attempts escapes that must fail.

The effects observed outside decide; the plugin's own report counts only where nothing can be observed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from plughost.errors import PluginError, SandboxUnavailable
from plughost.host import Host
from plughost.sandbox.untrusted_temp_dir import READABLE, temporary_folder
from plughost.spec import PluginSpec

ATTEMPT_TIMEOUT = 20.0
PROBE = """
import json, os, sys
def attempt(deed):
    try:
        return deed()
    except OSError as error:
        return "refused: " + (error.strerror or "")
    except ImportError as error:
        return "not tried: " + str(error)
def read(about):
    with open(about["secret"]) as file:
        return file.read()
def connect(about):
    import socket
    socket.create_connection(("127.0.0.1", about["port"]), 2).close()
    return "done"
def mount(about):
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0:
        return "done"
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
def signal(about):
    os.kill(about["bystander"], 9)
    return "done"
deeds = {deed.__name__: deed for deed in (read, connect, mount, signal)}
for line in sys.stdin:
    asked = json.loads(line)
    about = asked["params"]
    results = {name: attempt(lambda: deeds[name](about)) for name in about["deeds"]}
    print(json.dumps({"id": asked["id"], "result": results}), flush=True)
"""
DEEDS = ("read", "connect", "mount", "signal")


class SandboxTrial(msgspec.Struct, frozen=True):
    """The result of trying one sandbox class on this machine."""

    sandbox: str
    works: bool
    escaped: bool = False
    """The class is available, but an escape succeeded: worse than an unavailable class."""
    detail: str = ""
    remedy: str = ""
    attempts: dict[str, str] = {}
    """The result of each attempted escape."""
    confined_by: tuple[str, ...] = ()

    @classmethod
    def without(cls, confined: str, cause: str, remedy: str) -> SandboxTrial:
        """The result for an unavailable class."""
        return cls(confined, False, detail=cause, remedy=remedy)


async def try_sandbox(confined: str, deeds: tuple[str, ...] = DEEDS) -> SandboxTrial:
    """Tries whether the sandbox class works on this machine."""
    failure = SandboxTrial.without(
        confined, "no Python interpreter was found to test it with", "install python3"
    )
    for python in _pythons():
        try:
            return await _try_with(confined, python, deeds)
        except SandboxUnavailable as error:
            failure = SandboxTrial.without(confined, error.message, error.hint or "")
        except PluginError as error:
            tail = error.stderr_tail.strip().rpartition("\n")[2]
            detail = error.message + (f" ({tail})" if tail else "")
            return SandboxTrial.without(confined, detail, error.hint or "")
    return failure


async def _try_with(confined: str, python: str, deeds: tuple[str, ...]) -> SandboxTrial:
    spec = PluginSpec(
        contract="mcptest",
        name=f"doctor-{confined}",
        command=[python, "-I", "-S", "-c", PROBE],
        sandbox=confined,
    )
    with _outside() as (about, seen):
        async with Host() as host:
            plugin = await host.add(spec)
            asked = {**about, "deeds": deeds}
            attempts: dict[str, Any] = await plugin.call("attempt", asked, timeout=ATTEMPT_TIMEOUT)
            by = plugin.inspect()["instances"][-1]["confined_by"]
        escapes = await asyncio.to_thread(seen, attempts)
    if escapes:
        return SandboxTrial(
            confined, False, True, f"a plugin escaped: {', '.join(escapes)}", "report it: docs/security.md",
            attempts, tuple(by),
        )  # fmt: skip
    untried = [f"{name} {came}" for name, came in attempts.items() if came.startswith("not tried")]
    return SandboxTrial(confined, True, detail="; ".join(untried), attempts=attempts, confined_by=tuple(by))


@contextlib.contextmanager
def _outside() -> Iterator[Any]:
    """Creates a secret, a listener and a bystander process, and a function that reports which of them were
    reached."""
    secret_text = secrets.token_hex(8)
    with (
        temporary_folder("plughost-doctor-", READABLE) as folder,
        socket.create_server(("127.0.0.1", 0)) as listener,
        subprocess.Popen(
            ["/bin/sh", "-c", "read line"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        ) as bystander,
    ):
        # Open to every user: what keeps a plugin out must be its sandbox.
        secret = os.path.join(folder, "secret")
        with open(secret, "w", encoding="ascii") as file:
            file.write(secret_text)
            os.fchmod(file.fileno(), 0o644)

        def seen(attempts: dict[str, str]) -> list[str]:
            listener.settimeout(0)
            found = {
                "read": attempts.get("read") == secret_text,
                "connect": _was_connected(listener),
                "mount": attempts.get("mount") == "done",
                "signal": _was_killed(bystander, attempts.get("signal") == "done"),
            }
            return [name for name, escaped in found.items() if escaped]

        try:
            yield {"secret": secret, "port": listener.getsockname()[1], "bystander": bystander.pid}, seen
        finally:
            bystander.kill()


def _was_connected(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except OSError:
        return False
    return True


def _was_killed(bystander: subprocess.Popen[bytes], claimed: bool) -> bool:
    try:
        bystander.wait(1 if claimed else 0)
    except subprocess.TimeoutExpired:
        return False
    return True


def _pythons() -> list[str]:
    """The interpreters to try: the host's own first, since plugins run with it if their user can reach it."""
    found = [sys.executable, shutil.which("python3", path=os.defpath)]
    return list(dict.fromkeys(path for path in found if path))
