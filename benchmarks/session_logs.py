"""Session logs like those of a busy year, made up: `python -m benchmarks.session_logs HOME MEGABYTES`."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

FILE = 4 << 20
"""Bytes of one session, about."""
CODEX_EVERY = 5
"""Of so many files one is Codex's."""
PROJECTS = [f"project-{number}" for number in range(30)]
CLAUDE = ("claude-sonnet-4-5-20250929", "claude-opus-4-5-20251101", "claude-haiku-4-5-20251001")
WORDS = [
    "the",
    "test",
    "fails",
    "when",
    "a",
    "file",
    '"name"',
    "holds",
    "a",
    "tab\tor\nends",
    "in",
    "def",
    "return",
    "self.items[key]",
    "if",
    "not",
    "None",
]


def make(home: Path, megabytes: int, seed: int = 1) -> int:
    """Logs of that size below a home; how many bytes they are."""
    dice = random.Random(seed)
    texts = [" ".join(dice.choices(WORDS, k=dice.choice((20, 60, 200, 600, 1500)))) for _ in range(300)]
    left, number = megabytes * 10**6, 0
    while left > 0:
        codex = number % CODEX_EVERY == 0
        day = datetime(2025, 1, 1) + timedelta(hours=7 * number)
        size = min(left, FILE)
        left -= _write(
            _path(home, codex, number, day), (_codex if codex else _claude)(dice, texts, number, day), size
        )
        number += 1
    return megabytes * 10**6 - left


def _path(home: Path, codex: bool, number: int, day: datetime) -> Path:
    if codex:
        return home / f".codex/sessions/{day:%Y/%m/%d}/rollout-{day:%Y-%m-%dT%H-%M-%S}-{number:08}.jsonl"
    return home / f".claude/projects/-home-ada-{PROJECTS[number % 30]}/{number:08}.jsonl"


def _write(path: Path, lines: Iterator[object], size: int) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with path.open("w") as file:
        while written < size:
            written += file.write(json.dumps(next(lines)) + "\n")
    return written


def _claude(dice: random.Random, texts: list[str], number: int, day: datetime) -> Iterator[object]:
    """A question or a tool's result, then an answer in one or two lines."""
    common = {"sessionId": f"{number:08}", "cwd": f"/home/ada/{PROJECTS[number % 30]}", "gitBranch": "main"}
    turn = 0
    while True:
        turn += 1
        day += timedelta(seconds=7)
        time = f"{day:%Y-%m-%dT%H:%M:%S}.000Z"
        said = {"role": "user", "content": [{"type": "tool_result", "content": dice.choice(texts)}]}
        yield {"type": "user", "timestamp": time, **common, "message": said}
        usage = {
            "input_tokens": dice.randrange(50),
            "cache_creation_input_tokens": dice.randrange(9000),
            "cache_read_input_tokens": dice.randrange(90000),
            "output_tokens": dice.randrange(1, 3000),
        }
        for _ in range(dice.choice((1, 2))):
            answer = {
                "id": f"msg_{number}_{turn}",
                "role": "assistant",
                "model": CLAUDE[number % 3],
                "content": [{"type": "text", "text": dice.choice(texts)}],
                "usage": usage,
            }
            told = {"type": "assistant", "timestamp": time, **common, "message": answer}
            yield {**told, "requestId": f"req_{number}_{turn}", "uuid": f"{turn}"}


def _codex(dice: random.Random, texts: list[str], number: int, day: datetime) -> Iterator[object]:
    cwd = f"/home/ada/{PROJECTS[number % 30]}"
    total = {"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0, "reasoning_output_tokens": 0}

    def line(kind: str, payload: object) -> object:
        return {"timestamp": f"{day:%Y-%m-%dT%H:%M:%S}.000Z", "type": kind, "payload": payload}

    yield line("session_meta", {"id": f"codex-{number}", "cwd": cwd})
    yield line("turn_context", {"cwd": cwd, "model": "gpt-5-codex"})
    while True:
        day += timedelta(seconds=9)
        for kind in ("reasoning", "message", "function_call_output"):
            yield line("response_item", {"type": kind, "content": [{"text": dice.choice(texts)}]})
        last = {name: dice.randrange(9000) for name in total}
        total = {name: total[name] + last[name] for name in total}
        info = {"total_token_usage": total, "last_token_usage": last}
        yield line("event_msg", {"type": "token_count", "info": info})


if __name__ == "__main__":
    print(make(Path(sys.argv[1]), int(sys.argv[2])), "bytes")
