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
@click.option(
    "--axis", "only", multiple=True, metavar="NAME", help="Run only this group of checks; can be repeated."
)
@click.option(
    "--list", "listing", is_flag=True, help="List the groups of checks (axes) for the plugin's contract."
)
@click.option(
    "--sample",
    metavar="'METHOD [JSON]'",
    help="A call that the plugin answers with a result, for checks that need one.",
)
@click.option(
    "--timeout",
    "timeout",
    type=SECONDS,
    default=DEFAULT_TIMEOUT,
    show_default=True,
    metavar="SECONDS",
    help="Time for each answer.",
)
@click.option(
    "--lenient",
    is_flag=True,
    help="Turn failures into warnings for rules of the contract that no existing plugin follows.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--out", "json_file", metavar="FILE", help="Write the report as JSON to this file.")
@click.option(
    "--junit",
    "junit_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the report as JUnit XML.",
)
@click.option(
    "--host",
    metavar="COMMAND",
    help="Command line of another ainb host to check. {root} stands for the folder of plugins.",
)
@click.option(
    "--cli",
    metavar="COMMAND",
    help="With --host: command line of that host which passes {args} to the plugin that provides "
    "{namespace}, as `plughost x` does. {root} stands for the folder of plugins.",
)
@click.option(
    "--wait",
    type=SECONDS,
    metavar="SECONDS",
    help="With --host: time limit for all test plugins together. Default: 60.",
)
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
    as_json: bool,
    json_file: str | None,
    junit_file: Path | None,
    words: tuple[str, ...],
) -> None:
    """Check whether a plugin follows its contract.

    Exits with 1 if it does not. With --host, another ainb host is checked instead.

    \b
    Examples:
      plughost conform plugins/echo-mcptest --sample 'echo {"text": "hi"}'
      plughost conform . --axis shutdown --junit report.xml
      plughost conform --host 'my-host --plugins {root}'
    """
    on_verdict = (lambda _: None) if as_json else _print_verdict
    if host is not None:
        if words or target.bare:
            raise click.UsageError("--host checks a host with plughost's own test plugins: omit TARGET")
        from plughost.conformance.ainb.host_under_test import HostTrial

        report = interrupt.run(HostTrial(host, cli, wait).run(only, on_verdict))
        _conclude(report, as_json, json_file, junit_file)
        return
    if cli is not None or wait is not None:
        raise click.UsageError("--cli and --wait need --host")
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
    _conclude(report, as_json, json_file, junit_file)


def _conclude(
    report: ConformanceReport, as_json: bool, json_file: str | None, junit_file: Path | None
) -> None:
    _save(report, as_json, json_file, junit_file)
    if not as_json:
        output.print_line(_summary(report))
    if not report.conforms:
        sys.exit(1)


def _sample(text: str | None) -> Sample | None:
    if text is None:
        return None
    method, _, params = text.strip().partition(" ")
    if not method:
        raise click.UsageError("--sample takes a method and, optionally, JSON params")
    try:
        return Sample(method, msgspec.json.decode(params) if params.strip() else msgspec.UNSET)
    except ValueError as error:
        raise click.UsageError(f"the params of --sample are not JSON: {error}") from error


def _print_verdict(verdict: AxisVerdict) -> None:
    first, *more = verdict.reason.splitlines() or [""]
    output.print_line(f"{MARKS[verdict.outcome]}  {verdict.axis:12} {first}".rstrip())
    for line in (*more, *verdict.frames):
        output.print_line(f"        {line}")


def _summary(report: ConformanceReport) -> str:
    counted = [f"{n} {word}" for word in MARKS if (n := report.count(word)) or word == "passed"]
    return f"{report.plugin} ({report.contract}): {', '.join(counted)}"


def _save(report: ConformanceReport, as_json: bool, json_file: str | None, junit_file: Path | None) -> None:
    document = {"conforms": report.conforms, **msgspec.to_builtins(report)}
    try:
        if as_json:
            output.answer(document)
        if json_file is not None:
            Path(json_file).write_bytes(msgspec.json.format(msgspec.json.encode(document)) + b"\n")
        if junit_file is not None:
            junit_file.write_bytes(junit(report))
    except OSError as error:
        raise InvalidSpec(f"the report could not be written: {error}") from error
