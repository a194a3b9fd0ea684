"""vai: every canary conforms, and of each that is broken just its own axis fails."""

from __future__ import annotations

import asyncio
import re

import pytest

from plughost import config
from plughost.conformance.subject import Sample
from plughost.conformance.suite import Report, examine
from plughost.conformance.vai import AXES
from plughost.conformance.vai.examples import example
from tests.conformance.support import CANARIES, failed
from tests.support import ROOT

NAMES = [axis.name for axis in AXES]
AT_A_TIME = 6
pytestmark = pytest.mark.timeout(
    300
)  # all are tried in the first test's setup; a busy machine takes its time

REASONS = {
    "manifest": "schemas/input.json, the input_schema of work, is no JSON Schema",
    "hello": "it says that it is 'canary/hello 0.9.0', but what is installed is 'canary/hello 1.0.0'",
    "frames": "a request without a body was not answered with `ok: false`",
    "events": "req_1 was answered, and it sent an event of it after that",
    "cancel": "work had not answered 5 s after it was cancelled: a host kills it then",
    "deadline": "it ended its stdout instead of sending the response.*ValueError: time data",
    "schema": 'what work gives does not fit its output_schema: n: "1" is not of type "integer"',
    "secrets": "a secret that it was given is in its stderr",
    "scratch": "work used the scratch folder of an invocation that was over: 0-",
    "tenants": "work told one tenant something of another",
}


@pytest.fixture(scope="module")
def reports() -> dict[str, Report]:
    """By their folders. All at once: most of the time is spent waiting."""
    turn = asyncio.Semaphore(AT_A_TIME)
    folders = [
        path.parent for kind in ("vai", "broken/vai") for path in (CANARIES / kind).glob("*/vai-plugin.toml")
    ]

    async def one(folder):
        async with turn:
            return str(folder.relative_to(CANARIES)), await examine(config.of_folder(folder))

    async def every():
        return dict(await asyncio.gather(*map(one, folders)))

    return asyncio.run(every())


def test_each_axis_has_its_canary_and_a_broken_one():
    for place in (CANARIES / "vai", CANARIES / "broken/vai"):
        assert sorted(path.parent.name for path in place.glob("*/vai-plugin.toml")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_canary_conforms_and_is_asked_for_its_own_axis(reports, name):
    report = reports[f"vai/{name}"]
    assert failed(report) == {}
    assert {verdict.axis: verdict.outcome for verdict in report.verdicts}[name] == "passed"


@pytest.mark.parametrize("name", NAMES)
def test_of_a_broken_canary_just_its_own_axis_fails_and_says_why(reports, name):
    report = reports[f"broken/vai/{name}"]
    assert list(failed(report)) == [name], failed(report)
    assert re.search(REASONS[name], failed(report)[name], re.S), failed(report)[name]


async def test_the_reference_plugin_conforms():
    report = await examine(config.of_folder(ROOT / "plugins/echo-vai"), sample=Sample("echo", {"say": 2}))
    assert failed(report) == {}
    skipped = [verdict.axis for verdict in report.verdicts if verdict.outcome == "skipped"]
    assert sorted(skipped) == ["scratch", "secrets"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({}, {}),
        (
            {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
            {"a": "example"},
        ),
        ({"type": "array", "items": {"type": "integer", "minimum": 3}, "minItems": 2}, [3, 3]),
        ({"enum": ["x", "y"]}, "x"),
        ({"type": ["string", "null"], "default": "d"}, "d"),
        ({"type": "boolean"}, False),
        (True, {}),
    ],
)
def test_an_example_fits_a_plain_schema(schema, value):
    assert example(schema) == value
