r"""All output of the command line to stdout and stderr, with terminal control characters escaped.

Text is escaped here, wherever it comes from: names, messages, paths, log lines, arguments. One string is one
line, so that nobody can forge lines that look like the host's. JSON gets \u escapes, which mean the same.
Styles are applied here to plain text; no markup is interpreted. A test makes sure that the rest of `cli/` has
no other way to write.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, NewType, TextIO

import click

from plughost._util.text import encoded_json, escape_controls, escape_json_controls
from plughost.errors import PluginError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

Line = NewType("Line", bytes)
"""Bytes that are safe for a terminal, without the last newline: only `text_lines` and `json_line` make
them."""


class Styled(NamedTuple):
    """Plain text with a style, such as `bold` or `red`."""

    text: str
    style: str


UNLIMITED = 10_000
"""Columns of a table that a program reads."""

Cell = str | Styled | Sequence[str | Styled]
"""A table cell of one line, or of several."""


# Text and JSON, made safe


def text_lines(*lines: str) -> Line:
    """Escapes text: each string becomes one line, with newlines in it escaped too."""
    return Line("\n".join(map(escape_controls, lines)).encode(errors="backslashreplace"))


def json_line(document: Any) -> Line:
    """Encodes one JSON document on one line; a Raw one stays as the plugin wrote it, except for escapes."""
    return Line(escape_json_controls(encoded_json(document)))


# Writing


def answer(document: Any) -> None:
    """Prints one JSON document to stdout."""
    data = json_line(document) + b"\n"
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError as error:
        _give_up(sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # the reader closed the pipe, as `head` does
            raise SystemExit(141) from None
        raise


def write(stream: BinaryIO, data: bytes) -> None:
    """Writes a plugin's own output: unchanged bytes to a program, escaped text to a terminal."""
    if stream.isatty():
        lines = data.decode(errors="backslashreplace").split("\n")
        data = text_lines(*(line.removesuffix("\r") for line in lines))
    _write(stream, data)


def terminal() -> Callable[[bytes], None] | None:
    """What shows a stranger's bytes where stdout is a terminal; None where a program reads it."""
    stream = sys.stdout.buffer
    return partial(write, stream) if stream.isatty() else None


def print_line(*lines: str) -> None:
    """Prints lines to stdout, for a result."""
    _write(sys.stdout.buffer, text_lines(*lines) + b"\n")


def say(*lines: str) -> None:
    """Prints lines to stderr, for people."""
    try:
        print(text_lines(*lines).decode(), file=sys.stderr, flush=True)
    except OSError as error:  # only the exit code is left to report it
        _give_up(sys.stderr.fileno())
        raise SystemExit(3) from error


def failure(error: PluginError, *, as_json: bool) -> None:
    """Prints an error: as JSON to stdout, or as lines to stderr."""
    if as_json:
        answer({"error": error.report()})
    else:
        say(*error.lines())


def usage(error: click.ClickException) -> None:
    """Prints a usage error, as click formats it."""
    lines: list[str] = []
    if isinstance(error, click.UsageError) and error.ctx is not None:
        lines += error.ctx.get_usage().split("\n")
        if error.ctx.command.get_help_option(error.ctx) is not None:
            lines += [f"Try '{error.ctx.command_path} {error.ctx.help_option_names[0]}' for help.", ""]
    say(*lines, f"Error: {error.format_message()}")


def table(rows: Iterable[Sequence[Cell]], heads: Sequence[str] = (), *, title: str = "") -> None:
    """Prints a table to stdout; nothing when it has no rows."""
    listed = list(rows)
    if not listed:
        return
    from rich.table import Table
    from rich.text import Text

    console = _console(sys.stdout)
    shown = Table(show_header=bool(heads), box=None, padding=(0, 2, 0, 0), header_style="dim")
    for head in heads or ("",) * len(listed[0]):
        whole = max(map(len, head.split()), default=None)
        shown.add_column(
            Text(escape_controls(head)), overflow="fold", min_width=whole
        )  # a truncated heading is useless
    for row in listed:
        shown.add_row(*(Text("\n").join(map(_text, _lines(cell))) for cell in row))
    with console.capture() as rendered:
        if title:
            console.print(Text(f"\n{escape_controls(title)}", style="bold"))
        console.print(shown)
    lines = "\n".join(line.rstrip(" ") for line in rendered.get().split("\n"))
    _write(sys.stdout.buffer, lines.encode(errors="backslashreplace"))


def width() -> int | None:
    """The columns of stdout; None where a program reads it."""
    console = _console(sys.stdout)
    return None if console.width == UNLIMITED else console.width


def clear() -> None:
    """Clears the terminal of stdout; prints an empty line where a program reads it."""
    _write(sys.stdout.buffer, b"\x1b[H\x1b[2J" if sys.stdout.isatty() else b"\n")


def progress_bar(label: str, stream: TextIO) -> Progress:
    """A progress bar for a transfer of bytes, drawn on `stream`, and erased when it stops."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    return Progress(
        TextColumn(escape_controls(label).replace("{", "{{").replace("}", "}}"), markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=_console(stream),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )


def errors() -> TextIO:
    """The stderr stream, for progress bars."""
    return sys.stderr


# The streams themselves


class _Guarded:
    """A text stream that escapes everything written to it: for click, tracebacks, warnings and logging."""

    def __init__(self, stream: TextIO) -> None:
        self.guarded = stream

    def write(self, text: str) -> int:
        self.guarded.write("\n".join(map(escape_controls, text.split("\n"))))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.guarded, name)


def guard_streams() -> None:
    """Escapes everything that is written to sys.stdout and sys.stderr from now on, by any code."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, _Guarded):
            setattr(sys, name, _Guarded(stream))


def say_warnings() -> None:
    """Prints warnings as lines for people from now on, without the place in the code that they come from."""

    def show(message: Warning | str, *place: object, **more: object) -> None:
        say(f"warning: {message}")

    warnings.showwarning = show


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    plain = stream.guarded if isinstance(stream, _Guarded) else stream
    # A program that reads it wants all of it; rich would take 80 columns.
    columns = None if plain.isatty() else UNLIMITED
    return Console(file=plain, width=columns, markup=False, highlight=False, emoji=False)


def _lines(cell: Cell) -> Sequence[str | Styled]:
    return (cell,) if isinstance(cell, str | Styled) else cell


def _text(line: str | Styled) -> Any:
    from rich.text import Text

    return (
        Text(escape_controls(line))
        if isinstance(line, str)
        else Text(escape_controls(line.text), style=line.style)
    )


def _write(stream: BinaryIO, data: bytes) -> None:
    try:
        stream.write(data)
        stream.flush()
    except BrokenPipeError:
        _give_up(stream.fileno())
        raise SystemExit(141) from None


def _give_up(descriptor: int) -> None:
    """Redirects the stream to /dev/null, so that buffered data does not fail again at interpreter exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
