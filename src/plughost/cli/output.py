"""The command line's only way out to stdout and stderr: nothing that a terminal would obey gets past it.

Text is escaped here, whoever said it: names, messages, paths, log lines, words of the command line. One
string is one line, so that nobody can write lines that look like the host's. JSON gets \\u escapes, which
mean the same. Styles are made here from plain text; no markup is read. A test makes sure that the rest of
`cli/` has no other way to write.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, NewType, TextIO

import click

from plughost.base.errors import PluginError
from plughost.base.text import encoded_json, escaped_json, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

Line = NewType("Line", bytes)
"""Safe for a terminal, without its last newline: what `text_lines` and `json_line` make, and nobody else."""


class Styled(NamedTuple):
    """Plain text in a style of ours, such as `bold` or `red`."""

    text: str
    style: str


Cell = str | Styled | Sequence[str | Styled]
"""One line of a table's cell, or several."""


# Text and JSON, made safe


def text_lines(*lines: str) -> Line:
    """Each string becomes one line; a newline in it is shown, not obeyed."""
    return Line("\n".join(map(visible, lines)).encode(errors="backslashreplace"))


def json_line(document: Any) -> Line:
    """One JSON document on one line; a Raw one as the plugin wrote it, but for escapes."""
    return Line(escaped_json(encoded_json(document)))


# Writing


def answer(document: Any) -> None:
    """One JSON document on stdout."""
    data = json_line(document) + b"\n"
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError as error:
        _give_up(sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # whoever read it has seen enough
            raise SystemExit(141) from None
        raise


def write(stream: BinaryIO, data: bytes) -> None:
    """A plugin's own output for a program that reads it: bytes as they are. A terminal gets them as text."""
    if stream.isatty():
        lines = data.decode(errors="backslashreplace").split("\n")
        data = text_lines(*(line.removesuffix("\r") for line in lines))
    _write(stream, data)


def terminal() -> Callable[[bytes], None] | None:
    """What shows a stranger's bytes where stdout is a terminal; None where a program reads it."""
    stream = sys.stdout.buffer
    return partial(write, stream) if stream.isatty() else None


def print_line(*lines: str) -> None:
    """Lines for people that are an answer, and so go to stdout."""
    _write(sys.stdout.buffer, text_lines(*lines) + b"\n")


def say(*lines: str) -> None:
    """Lines for people on stderr."""
    try:
        print(text_lines(*lines).decode(), file=sys.stderr, flush=True)
    except OSError as error:  # nobody is left to tell but by the exit code
        _give_up(sys.stderr.fileno())
        raise SystemExit(3) from error


def failure(error: PluginError, *, as_json: bool) -> None:
    if as_json:
        answer({"error": error.report()})
    else:
        say(*error.lines())


def usage(error: click.ClickException) -> None:
    """What was wrong on the command line, as click words it."""
    lines: list[str] = []
    if isinstance(error, click.UsageError) and error.ctx is not None:
        lines += error.ctx.get_usage().split("\n")
        if error.ctx.command.get_help_option(error.ctx) is not None:
            lines += [f"Try '{error.ctx.command_path} {error.ctx.help_option_names[0]}' for help.", ""]
    say(*lines, f"Error: {error.format_message()}")


def table(rows: Iterable[Sequence[Cell]], heads: Sequence[str] = (), *, title: str = "") -> None:
    """A table on stdout; nothing when it has no rows."""
    listed = list(rows)
    if not listed:
        return
    from rich.table import Table
    from rich.text import Text

    console = _console(sys.stdout)
    shown = Table(show_header=bool(heads), box=None, padding=(0, 2, 0, 0), header_style="dim")
    for head in heads or ("",) * len(listed[0]):
        whole = max(map(len, head.split()), default=None)
        shown.add_column(Text(visible(head)), overflow="fold", min_width=whole)  # what is cut names nothing
    for row in listed:
        shown.add_row(*(Text("\n").join(map(_text, _lines(cell))) for cell in row))
    with console.capture() as rendered:
        if title:
            console.print(Text(f"\n{visible(title)}", style="bold"))
        console.print(shown)
    _write(sys.stdout.buffer, rendered.get().encode(errors="backslashreplace"))


def progress_bar(label: str, stream: TextIO) -> Progress:
    """For bytes that are on their way, drawn on `stream`; gone when it is stopped."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    return Progress(
        TextColumn(visible(label).replace("{", "{{").replace("}", "}}"), markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=_console(stream),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )


def errors() -> TextIO:
    """stderr, for what is drawn there."""
    return sys.stderr


# The streams themselves


class _Guarded:
    """A text stream through which only safe text goes: for click, tracebacks, warnings and logging."""

    def __init__(self, stream: TextIO) -> None:
        self.guarded = stream

    def write(self, text: str) -> int:
        self.guarded.write("\n".join(map(visible, text.split("\n"))))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.guarded, name)


def guard_streams() -> None:
    """Whatever is written to sys.stdout and sys.stderr from now on, by whomever, is escaped."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, _Guarded):
            setattr(sys, name, _Guarded(stream))


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    plain = stream.guarded if isinstance(stream, _Guarded) else stream
    return Console(file=plain, markup=False, highlight=False, emoji=False)


def _lines(cell: Cell) -> Sequence[str | Styled]:
    return (cell,) if isinstance(cell, str | Styled) else cell


def _text(line: str | Styled) -> Any:
    from rich.text import Text

    return Text(visible(line)) if isinstance(line, str) else Text(visible(line.text), style=line.style)


def _write(stream: BinaryIO, data: bytes) -> None:
    try:
        stream.write(data)
        stream.flush()
    except BrokenPipeError:
        _give_up(stream.fileno())
        raise SystemExit(141) from None


def _give_up(descriptor: int) -> None:
    """What is still buffered must not fail once more when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
