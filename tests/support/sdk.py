"""Plugins written with the SDK, as tests run them."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

from plughost.contracts.ainb import manifest as manifests
from tests.support import ROOT

SDK = ROOT / "sdk/python/src"


def program(path: Path, source: str, *flags: str) -> Path:
    """An executable Python program that finds the SDK."""
    shebang = f"#!{sys.executable} {''.join(flags) or '-ISE'}\n"
    path.write_text(f"{shebang}import sys\nsys.path.insert(0, {str(SDK)!r})\n{textwrap.dedent(source)}")
    path.chmod(0o755)
    return path


def ainb_folder(root: Path, source: str, name: str = "made", **sections: dict[str, object]) -> Path:
    place = root / name
    place.mkdir(parents=True)
    told = manifests.AinbManifest(
        manifests.AinbAbout(name, "1.0.0", 2),
        manifests.Capabilities(event_bus=True, read_sessions=True),
        manifests.Provides(**sections.get("provides", {})),
        manifests.Subscribes(**sections.get("subscribes", {})),
    )
    (place / "manifest.toml").write_text(manifests.write(told))
    program(place / name, source)
    return place


class Said(NamedTuple):
    """What a plugin said until its end."""

    messages: list[Any]
    stderr: str
    code: int


def frames(*messages: dict[str, Any]) -> bytes:
    bodies = [json.dumps({"jsonrpc": "2.0", **message}).encode() for message in messages]
    return b"".join(b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in bodies)


def unframed(stream: bytes) -> list[Any]:
    """The messages that a stream is made of; it is made of nothing else."""
    messages = []
    while stream:
        head, _, stream = stream.partition(b"\r\n\r\n")
        length = int(head.removeprefix(b"Content-Length: "))
        messages.append(json.loads(stream[:length]))
        stream = stream[length:]
    return messages


def session(place: Path, *messages: dict[str, Any]) -> Said:
    """Play an ainb host by hand: everything is said at once, then stdin ends."""
    ran = subprocess.run([place / place.name], input=frames(*messages), capture_output=True, timeout=20)
    return Said(unframed(ran.stdout), ran.stderr.decode(), ran.returncode)


def lines(path: Path, *messages: dict[str, Any]) -> Said:
    """The same for contracts with a message a line."""
    told = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
    ran = subprocess.run([path], input=told, capture_output=True, timeout=20)
    return Said([json.loads(line) for line in ran.stdout.splitlines()], ran.stderr.decode(), ran.returncode)


HANDSHAKE = {"type": "handshake", "protocol_version": "rterm.plugin.v1"}
INIT = {
    "id": 1,
    "method": "plugin/init",
    "params": {"manifest_path": "", "granted_capabilities": [], "abi_version": 2},
}


def execute(tool: str, given: Any = None) -> dict[str, Any]:
    return {"type": "request", "request_id": "r", "tool_name": tool, "context": {}, "input": given}
