"""Session logs in memory, a host that reads them, and lines as agents write them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import msgspec

import plughost
from plughost import config
from plughost_sdk.ainb import Error
from plughost_sdk.host import Entry
from tests.support import ROOT

HOME = "/home/ada"
SAMPLES = ROOT / "plugins/session-reader/samples"
COUNTS = ("input_tokens", "cache_creation_tokens", "cache_read_tokens", "output_tokens", "reasoning_tokens")


class MemoryFiles:
    """What a host gives out of files, by their paths. A value that is an Error is raised."""

    def __init__(self, **logs: bytes) -> None:
        self.content: dict[str, Any] = {}
        self.modified: dict[str, int] = {}
        self.asked: list[tuple[str, int]] = []
        self.closed: set[str] = set()
        """Files and folders that are there, and not given out for now."""
        self.under_way: list[str] = []
        """What was asked for and not yet taken."""
        self.most_under_way = 0
        self._time = 0
        for name, content in logs.items():
            self.write(claude(name), content)

    def write(self, path: str, content: Any) -> None:
        self._time += 1
        self.content[path], self.modified[path] = content, self._time

    def read_dir(self, folder: str) -> list[Entry]:
        if folder in self.closed:
            raise Error(-32602, f"read_dir {folder}: Permission denied")
        entries = {}
        for path, content in self.content.items():
            if path.startswith(f"{folder}/"):
                name, deeper, _ = path[len(folder) + 1 :].partition("/")
                size = len(content) if isinstance(content, bytes) else 1
                entries[name] = Entry(name, bool(deeper), 0 if deeper else size, self.modified[path])
        if not entries:
            raise Error(-32602, f"read_dir {folder}: No such file or directory")
        return [*entries.values()]

    def reading(self, path: str, offset: int = 0, length: int | None = None):
        self.asked.append((path, offset))
        self.under_way.append(path)
        self.most_under_way = max(self.most_under_way, len(self.under_way))
        content = self.content[path]

        def take() -> bytes:
            self.under_way.remove(path)
            if isinstance(content, Error):
                raise content
            if path in self.closed:
                raise Error(-32602, f"read {path}: Permission denied")
            return content[offset:] if length is None else content[offset : offset + length]

        return take


def claude(name: str, project: str = "-home-ada-tea") -> str:
    return f"{HOME}/.claude/projects/{project}/{name}.jsonl"


def codex(name: str) -> str:
    return f"{HOME}/.codex/sessions/2025/11/10/rollout-{name}.jsonl"


class Heard:
    """A host as the reader knows it, which keeps what is published."""

    def __init__(self, files: MemoryFiles) -> None:
        self.fs = files
        self.snapshot = self
        self.log = SimpleNamespace(warn=lambda *told: None)
        self.published: list[tuple[str, dict[str, Any]]] = []

    def publish(self, topic: str, payload: bytes) -> None:
        self.published.append((topic, msgspec.msgpack.decode(payload)))

    def usage(self) -> list[dict[str, Any]]:
        """The chunks of usage data since the last time."""
        told = [chunk for topic, chunk in self.published if topic == "sessions.usage_data"]
        self.published.clear()
        return told


def answer(number: int = 1, *, output: int = 10, **changes: Any) -> dict[str, Any]:
    """A line of Claude Code with usage; `usage`, `message` and members of the line can be changed."""
    usage = {"input_tokens": 2, "output_tokens": output, "cache_read_input_tokens": 5} | changes.pop(
        "usage", {}
    )
    told = {"id": f"msg_{number}", "model": "claude-sonnet-4-5", "usage": usage} | changes.pop("message", {})
    line = {
        "type": "assistant",
        "timestamp": "2025-11-10T09:00:00.000Z",
        "sessionId": "s",
        "requestId": f"req_{number}",
        "cwd": "/home/ada/tea",
        "message": told,
    }
    return line | changes


def counters(
    total: tuple[int, int, int, int], last: tuple[int, int, int, int] | None = None, second: int = 0
) -> dict[str, Any]:
    """A line of Codex with counters."""
    names = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens")
    info = {"total_token_usage": dict(zip(names, total, strict=True))}
    if last is not None:
        info["last_token_usage"] = dict(zip(names, last, strict=True))
    time = f"2025-11-10T10:{second // 60:02}:{second % 60:02}.000Z"
    return {"timestamp": time, "type": "event_msg", "payload": {"type": "token_count", "info": info}}


def context(model: str, cwd: str = "/home/ada/wx") -> dict[str, Any]:
    payload = {"model": model, "cwd": cwd}
    return {"timestamp": "2025-11-10T10:00:00.000Z", "type": "turn_context", "payload": payload}


def log(*lines: Any) -> bytes:
    return b"".join(
        (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines
    )


def tokens(bucket: dict[str, Any]) -> list[int]:
    return [bucket[name] for name in COUNTS]


def reader_spec() -> plughost.PluginSpec:
    """session-reader as an operator binds it who lets it read logs that other users cannot."""
    spec = config.load_folder(ROOT / "plugins/session-reader")
    return msgspec.structs.replace(spec, grants=("declared", "read_claude_logs", "read_codex_logs"))
