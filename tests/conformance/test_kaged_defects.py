"""kaged: more that its axes find, one plugin with one thing wrong at a time."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from plughost import PluginSpec, config
from plughost.conformance.kaged import AXES
from plughost.conformance.raw_process import DEFAULT_TIMEOUT
from plughost.conformance.runner import ConformanceReport, run_axes
from tests.support.confinable import needs, open_folder
from tests.support.conformance import failed
from tests.support.shared import computed_once

MANIFEST = {
    "name": "sound",
    "version": "1.0.0",
    "kaged_api": 1,
    "description": "one thing is wrong with it",
    "command": ["/usr/bin/python3", "-ISB", "plugin.py"],
    "methods": ["sound.echo", "sound.other"],
    "shutdown_timeout_sec": 1,
}
SOUND = """
import json, os, sys

def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

ABOUT = {"name": "sound", "version": "1.0.0", "api_version": 1, "methods": ["sound.echo", "sound.other"]}
for line in sys.stdin.buffer:
    message = json.loads(line)
    method, number, params = message["method"], message.get("id"), message["params"]
    known = {"initialize": ABOUT, "shutdown": {}, "health.check": {}, "sound.echo": params, "sound.other": 0}
    if number is not None and method in known:
        send(id=number, result=known[method])
    elif number is not None:
        send(id=number, error={"code": -32601, "message": "unknown"})
"""
ASK = """    if method == "sound.echo":
        send(id=1, method="kaged.storage.get", params={"key": "k"})
        sys.stdin.buffer.readline()
"""
TRIAL = "    if number is not None and method in known:\n"

DEFECTS = {
    "another-name": ("handshake", '"name": "sound"', '"name": "silence"', "of its name: it is 'silence'"),
    "another-api": ("handshake", '"api_version": 1', '"api_version": 2', "of its api_version: it speaks 2"),
    "a-method-less": ("handshake", ', "sound.other"]', "]", "of its methods: it lacks 'sound.other'"),
    "no-result": ("handshake", '"initialize": ABOUT', '"initialise": ABOUT', "it refused initialize: -32601"),
    "answers-a-notification": (
        "handshake",
        TRIAL,
        f'    if number is None: send(id=None, result=0)\n{TRIAL}',
        "it answered the notification initialized",
    ),
    "ids-are-texts": ("methods", "send(id=number", "send(id=str(number)", "it answered id '1'"),
    "a-method-is-not-there": (
        "methods",
        '"sound.other": 0',
        '"sound.another": 0',
        "its manifest declares sound.other, but it answers with -32601",
    ),
    "anything-is-known": ("methods", "-32601", "-32600", "an unknown method is answered with -32600"),
    "answers-twice": (
        "methods",
        TRIAL,
        f"    if method == 'sound.echo': send(id=number, result=1)\n{TRIAL}",
        "it answered a request twice",
    ),
    "both": ("methods", "result=known[method]", "result=known[method], error={}", "exactly one of"),
    "no-code": ("methods", '"code": -32601, ', "", "needs an integer code and a message"),
    "no-version": ("methods", '{"jsonrpc": "2.0", **message}', "message", "lacks `jsonrpc` 2.0"),
    "an-id-is-a-list": ("methods", "send(id=number", "send(id=[number]", r"it answered id [1]"),
    "does-not-want-to-end": ("shutdown", '"shutdown": {}', '"shut": {}', "it answered shutdown with the error"),
    "does-not-end": (
        "shutdown",
        "for line in sys.stdin.buffer:",
        "import itertools, time\nfor line in itertools.chain(sys.stdin.buffer, iter(lambda: time.sleep(60), 1)):",
        "it was still running",
    ),
    "says-too-much": (
        "size",
        "result=known[method]",
        "result=known[method] if len(line) < 5000 else 'x' * (4 << 20)",
        "a line is longer than 4194304 bytes",
    ),
    "floods-from-the-start": (
        "rate",
        "for line in",
        "for _ in range(4000): send(method='sound.tick')\nfor line in",
        "its start made it send 4000 notifications",
    ),
    "never-stops": (
        "rate",
        "for line in",
        "while True: send(method='sound.tick', params='x' * 2_000_000)\nfor line in",
        "it keeps sending",
    ),
    "announces-more": (
        "notifications",
        '"api_version": 1',
        '"api_version": 1, "notifications": ["sound.tick"]',
        "it announces 'sound.tick'",
    ),
    "stores-undeclared": (
        "storage",
        TRIAL,
        ASK + TRIAL,
        "it uses kaged.storage.get: its manifest must declare kaged:storage:read",
    ),
    "needs-undeclared": (
        "capabilities",
        TRIAL,
        f"    if method == 'sound.echo': os.stat('/usr/bin/id')\n{TRIAL}",
        "No such file or directory: '/usr/bin/id'",
    ),
}  # fmt: skip


NOTHING = ("", "", "", "")
IMPATIENT = {"does-not-end": 6.0}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ConformanceReport]:
    """All at once: most of the time is spent waiting."""
    turn = asyncio.Semaphore(6)

    async def one(defect: str, place: Path) -> tuple[str, ConformanceReport]:
        axis, old, new, _ = DEFECTS.get(defect, NOTHING)
        assert old in SOUND
        spec = plugin(place / defect, SOUND.replace(old, new))
        only = [axis] if axis else []
        async with turn:
            return defect, await run_axes(spec, only=only, timeout=IMPATIENT.get(defect, DEFAULT_TIMEOUT))

    async def every(place: Path) -> dict[str, ConformanceReport]:
        return dict(await asyncio.gather(*(one(defect, place) for defect in ("sound", *DEFECTS))))

    def tried() -> dict[str, ConformanceReport]:
        with open_folder() as place:
            return asyncio.run(every(place))

    return computed_once(tmp_path_factory, "conformance-kaged-defects", tried)


def plugin(place: Path, source: str) -> PluginSpec:
    place.mkdir()
    (place / "manifest.yaml").write_text(json.dumps(MANIFEST))  # JSON is YAML, too
    (place / "plugin.py").write_text(source)
    return config.load_folder(place)


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found_and_told(reports, defect):
    axis, _, _, reason = DEFECTS[defect]
    if axis == "capabilities":
        needs("strict")
    assert reason in failed(reports[defect])[axis]


def test_the_plugin_with_nothing_wrong_passes(reports):
    assert failed(reports["sound"]) == {}
    assert len(reports["sound"].verdicts) == len(AXES)
