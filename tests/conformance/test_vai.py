"""vai: every canary conforms, and of each that is broken just its own axis fails."""

from __future__ import annotations

import asyncio
import re
import shutil
from types import SimpleNamespace

import pytest

from plughost._util.json_schema.validation import Checker
from plughost.conformance.plugin_under_test import Sample
from plughost.conformance.runner import ConformanceReport, run_axes
from plughost.conformance.vai import AXES
from plughost.conformance.vai.requests import schema_of
from plughost.conformance.vai.schema_examples import example, marked
from tests.support import ROOT, unconfined
from tests.support.conformance import CANARIES, failed
from tests.support.shared import computed_once

NAMES = [axis.name for axis in AXES]
AT_A_TIME = 6
pytestmark = pytest.mark.timeout(
    300
)  # all are tried in the first test's setup; a busy machine takes its time

REASONS = {
    "manifest": "schemas/input.json, the input_schema of work, is not a JSON Schema",
    "hello": "the program says that it is 'canary/hello 0.9.0', but its package is 'canary/hello 1.0.0'",
    "frames": "a request without a body was not answered with `ok: false`",
    "events": "req_1 was answered, and it sent another event of it",
    "cancel": "work had not answered 5 s after it was cancelled: a host would kill it",
    "deadline": "it closed its stdout instead of sending the response.*ValueError: time data",
    "schema": 'the output of work does not match its output_schema: n: "1" is not of type "integer"',
    "secrets": "a secret that it was given is in its stderr",
    "scratch": "work used the scratch folder of an invocation that was over: 0-",
    "tenants": "work revealed data of one tenant to another",
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ConformanceReport]:
    """By their folders. All at once: most of the time is spent waiting."""
    turn = asyncio.Semaphore(AT_A_TIME)
    folders = [
        path.parent for kind in ("vai", "broken/vai") for path in (CANARIES / kind).glob("*/vai-plugin.toml")
    ]

    async def one(folder):
        async with turn:
            return str(folder.relative_to(CANARIES)), await run_axes(unconfined(folder))

    async def every():
        return dict(await asyncio.gather(*map(one, folders)))

    return computed_once(tmp_path_factory, "conformance-vai", lambda: asyncio.run(every()))


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
    report = await run_axes(unconfined(ROOT / "plugins/echo-vai"), sample=Sample("echo", {"say": 2}))
    assert failed(report) == {}
    skipped = [verdict.axis for verdict in report.verdicts if verdict.outcome == "skipped"]
    assert sorted(skipped) == ["scratch", "secrets"]


@pytest.mark.parametrize(
    ("canary", "before", "after", "reason"),
    [
        (
            "tenants",
            "    succeed(id, made[key])",
            "    said.append(body['input'])\n    succeed(id, str(said))",
            "work revealed data of one tenant to another",
        ),
        (
            "scratch",
            "    place = ",
            "    for tmp in filter(None, [os.environ.get('TMPDIR')]):\n"
            "        Path(tmp, 'x').write_text('')\n"
            "    place = ",
            "it wrote outside its scratch folder: tmpdir/x",
        ),
    ],
)
async def test_what_is_kept_of_a_request_and_what_is_written_elsewhere_is_found(
    tmp_path, canary, before, after, reason
):
    folder = tmp_path / canary
    shutil.copytree(CANARIES / "vai" / canary, folder)
    program = folder / "bin/plugin"
    text = program.read_text().replace(before, after).replace("import sys", "import os, sys\nsaid = []", 1)
    program.write_text(text)
    input = '{"type": "object", "properties": {"query": {"type": "string"}}}'
    (folder / "schemas/input.json").write_text(input)
    assert failed(await run_axes(unconfined(folder))) == {canary: reason}


def test_a_mark_is_in_every_text_that_may_have_one():
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"enum": ["x"]},
            "c": {"maxLength": 1},
            "d": {"type": "string"},
        },
    }
    value = {"a": "one", "b": "x", "c": "y", "e": ["z", {"f": "w"}]}
    assert marked(value, schema, "MARK", Checker(schema).fits) == {
        "a": "one MARK", "b": "x", "c": "y", "d": "MARK", "e": ["z MARK", {"f": "w MARK"}],
    }  # fmt: skip


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


def test_a_schema_that_no_host_takes_for_its_size_is_not_read_on_trial_either(tmp_path):
    (tmp_path / "small.json").write_text("{}")
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(1 << 40)  # of holes; what reads it whole has no memory left
    subject = SimpleNamespace(spec=SimpleNamespace(cwd=str(tmp_path)))
    assert schema_of(subject, "small.json") == {}
    assert schema_of(subject, "large.json") is None
