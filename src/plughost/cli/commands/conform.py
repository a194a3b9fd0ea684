"""`plughost conform`: runs the conformance axes of a plugin's contract."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from plughost import interrupt
from plughost.cli.options import targets
from plughost.cli.options.numbers import SECONDS
from plughost.cli.ui import output
from plughost.conformance.axis import AxisVerdict
from plughost.conformance.junit import junit
from plughost.conformance.plugin_under_test import Sample
from plughost.conformance.raw_process import DEFAULT_TIMEOUT
from plughost.conformance.runner import ConformanceReport, axes_of, run_axes
from plughost.errors import InvalidSpec

MARKS = {"passed": "ok  ", "warned": "warn", "failed": "FAIL", "skipped": "skip"}


@click.command()
@targets.options
@click.option("--axis", "only", multiple=True, metavar="NAME", help="Only this axis; may be repeated.")
@click.option("--list", "listing", is_flag=True, help="The axes of the plugin's contract, and what they ask.")
@click.option("--sample", metavar="'METHOD [JSON]'", help="A call that the plugin answers with a result.")
@click.option(
    "--timeout",
    "timeout",
    type=SECONDS,
    default=DEFAULT_TIMEOUT,
    show_default=True,
    help="Seconds for whatever the plugin owes.",
)
@click.option(
    "--lenient",
    is_flag=True,
    help="Warn, and do not fail, where existing plugins of the contract all do less than its text asks for.",
)
@click.option("--json", "json_file", metavar="FILE", help="The report as JSON; - is stdout.")
@click.option("--junit", "junit_file", type=click.Path(path_type=Path), help="The report as JUnit XML.")
@click.option("--host", metavar="COMMAND", help="Another ainb host: {root} is its folder of plugins.")
@click.option("--cli", metavar="COMMAND", help="With --host: how it runs {namespace} {args} of {root}.")
@click.option("--wait", type=SECONDS, metavar="SECONDS", help="With --host: the time for all canaries. [60]")
@click.argument("words", nargs=-1, metavar="[TARGET]")
def conform(
    target: targets.Target,
    host: str | None,
    cli: str | None,
    wait: float | None,
    only: tuple[str, ...],
    listing: bool,
    sample: str | None,
    timeout: float,
    lenient: bool,
    json_file: str | None,
    junit_file: Path | None,
    words: tuple[str, ...],
) -> None:
    """Find out whether a plugin, or another host, keeps its contract. Exit 1 when it does not.

    \b
    plughost conform plugins/echo-mcptest --sample 'echo {"text": "hi"}'
    plughost conform . --axis shutdown --junit report.xml
    plughost conform --host 'my-host --plugins {root}'
    """
    quiet = json_file == "-"
    on_verdict = (lambda _: None) if quiet else _print_verdict
    if host is not None:
        if words or target.bare:
            raise click.UsageError("--host tries a host with plugins of our own: name no plugin")
        from plughost.conformance.ainb.host_under_test import HostTrial

        _conclude(interrupt.run(HostTrial(host, cli, wait).run(only, on_verdict)), json_file, junit_file)
        return
    if cli is not None or wait is not None:
        raise click.UsageError("--cli and --wait go with --host")
    spec, rest = target.take(words)
    if rest:
        raise click.UsageError(f"unexpected: {' '.join(rest)}")
    if listing:
        for axis in axes_of(spec.contract):
            output.print_line(f"{axis.name:12} {axis.promise}")
        return
    report = interrupt.run(
        run_axes(
            spec, only=only, sample=_sample(sample), timeout=timeout, lenient=lenient, on_verdict=on_verdict
        )
    )
    _conclude(report, json_file, junit_file)


def _conclude(report: ConformanceReport, json_file: str | None, junit_file: Path | None) -> None:
    _save(report, json_file, junit_file)
    if json_file != "-":
        output.print_line(_summary(report))
    if not report.conforms:
        sys.exit(1)


def _sample(text: str | None) -> Sample | None:
    if text is None:
        return None
    method, _, params = text.strip().partition(" ")
    if not method:
        raise click.UsageError("--sample takes a method and JSON")
    try:
        return Sample(method, msgspec.json.decode(params) if params.strip() else msgspec.UNSET)
    except ValueError as error:
        raise click.UsageError(f"--sample takes a method and JSON: {error}") from error


def _print_verdict(verdict: AxisVerdict) -> None:
    first, *more = verdict.reason.splitlines() or [""]
    output.print_line(f"{MARKS[verdict.outcome]}  {verdict.axis:12} {first}".rstrip())
    for line in (*more, *verdict.frames):
        output.print_line(f"        {line}")


def _summary(report: ConformanceReport) -> str:
    counted = [f"{n} {word}" for word in MARKS if (n := report.count(word)) or word == "passed"]
    return f"{report.plugin} ({report.contract}): {', '.join(counted)}"


def _save(report: ConformanceReport, json_file: str | None, junit_file: Path | None) -> None:
    document = {"conforms": report.conforms, **msgspec.to_builtins(report)}
    try:
        if json_file == "-":
            output.answer(document)
        elif json_file is not None:
            Path(json_file).write_bytes(msgspec.json.format(msgspec.json.encode(document)) + b"\n")
        if junit_file is not None:
            junit_file.write_bytes(junit(report))
    except OSError as error:
        raise InvalidSpec(f"the report could not be written: {error}") from error
