"""What a host sees of the session reader."""

from __future__ import annotations

import json
import os
import time
from argparse import ArgumentParser
from typing import Any

import msgspec

from plughost_sdk import ainb
from plughost_sdk.chunks import split
from session_reader.prices import load
from session_reader.reader import Reader

LONGEST_WAIT = 600.0


def make(manifest: str | None = None, home: str | None = None) -> ainb.Plugin:
    """The plugin, reading the logs below a home; the user's own by default."""
    plugin = ainb.Plugin(manifest)
    held: list[Reader] = []

    @plugin.on_init
    def start() -> None:
        held[:] = [Reader(plugin.host, home or os.path.expanduser("~"), load())]
        held[0].start()

    @plugin.on_shutdown
    def end() -> None:
        for reader in held:
            reader.end()

    @plugin.on("sessions.refresh_request")
    def refresh(payload: bytes) -> None:
        for reader in held:
            reader.refresh(hard=_wants(payload).get("hard") is True)

    @plugin.action("sessions")
    def totals(payload: bytes) -> bytes:
        """What all logs add up to, as one chunk without calls. `wait` is how long it may take, in seconds."""
        wait = _wants(payload).get("wait", LONGEST_WAIT)
        complete = _wait(held[0], wait) and not held[0].read_nothing
        (chunk,) = split(held[0].aggregates(), time.time_ns(), partial=not complete, target=1 << 40)
        return chunk

    @plugin.cli("sessions")
    def sessions(argv: list[str]) -> int:
        parser = ArgumentParser(
            prog="sessions", description="What the session reader reads, and what it left out."
        )
        parser.add_argument("--json", action="store_true", help="as one JSON document")
        parser.add_argument(
            "--wait", type=float, default=60.0, metavar="SECONDS", help="for all logs to be read [60]"
        )
        asked = parser.parse_args(argv)
        complete = _wait(held[0], asked.wait)
        _tell(_report(held[0], complete), asked.json)
        return 0

    return plugin


def _wants(payload: bytes) -> dict[str, Any]:
    """Options of a request, in JSON or msgpack; none when it is empty or anything else."""
    for decode in (msgspec.json.decode, msgspec.msgpack.decode):
        try:
            wanted = decode(payload)
        except (ValueError, RecursionError):
            continue
        if isinstance(wanted, dict):
            return wanted
    return {}


def _wait(reader: Reader, seconds: object) -> bool:
    wait = float(seconds) if isinstance(seconds, int | float) else LONGEST_WAIT
    return reader.complete.wait(min(max(wait, 0.0), LONGEST_WAIT))


def _report(reader: Reader, complete: bool) -> dict[str, Any]:
    counted = reader.counted
    return {
        "complete": complete,
        "files": reader.file_count,
        "bytes": counted.bytes,
        "skipped_lines": counted.skipped,
        "unreadable": dict(sorted(counted.unreadable.items())),
        "prices_as_of": reader.prices.as_of,
    }


def _tell(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(report))
        return
    print(f"{report['files']} files, {report['bytes']:,} bytes{'' if report['complete'] else ' so far'}")
    print(f"{report['skipped_lines']} lines left out: broken, too long, or with numbers that cannot be")
    print(f"prices as of {report['prices_as_of']}")
    for path, reason in report["unreadable"].items():
        print(_plain(f"not read: {path}: {reason}"))


def _plain(text: str) -> str:
    """Without anything that a terminal obeys: anybody may have named a file."""
    return "".join(character if character.isprintable() else "·" for character in text)
