"""The options --record and --redact: record the traffic of plugins in a file."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from plughost.cli.ui import output
from plughost.engine.io.tap import Tap


def options(function: Callable[..., None]) -> Callable[..., None]:
    """A decorator that adds the options; the command gets a `recording`."""

    @functools.wraps(function)
    def command(record: Path | None, redact: tuple[str, ...], **given: Any) -> None:
        if redact and record is None:
            raise click.UsageError("--redact needs --record FILE")
        if record is not None and not record.parent.is_dir():
            raise click.UsageError(f"there is no folder {record.parent} to record in")
        function(recording=TrafficRecording(record, redact), **given)

    record = click.option(
        "--record",
        type=click.Path(dir_okay=False, writable=True, path_type=Path),
        help="Record all messages in this file, for `plughost replay`.",
    )
    redact = click.option(
        "--redact",
        multiple=True,
        metavar="NAME",
        help="Leave the values of JSON members with this name out of the recording.",
    )
    return record(redact(command))


class TrafficRecording:
    """The recording that the options ask for, if any."""

    def __init__(self, path: Path | None, redact: tuple[str, ...]) -> None:
        self._path = path
        self._redact = redact

    @property
    def wanted(self) -> bool:
        """Whether traffic is recorded."""
        return self._path is not None

    @contextmanager
    def tap(self) -> Iterator[Tap | None]:
        """A tap for a host. The traffic is saved at the end, also after a failure: that is what one wants to
        see."""
        if self._path is None:
            yield None
            return
        from plughost.testing.traffic import Recorder

        recorder = Recorder()
        try:
            yield recorder
        finally:
            for path, traffic in recorder.save(self._path, self._redact):
                output.say(f"recorded {traffic.origin.plugin} in {path}")
            if recorder.full:
                output.say("only the beginning was recorded: there was too much traffic")
