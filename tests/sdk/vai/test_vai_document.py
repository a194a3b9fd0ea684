"""docs/vai.md: its example as it stands, generated, called and refused."""

from __future__ import annotations

import hmac
import re
import subprocess
import sys

import pytest

from plughost.conformance.runner import run_axes
from plughost.contracts.vai import manifest
from plughost.scaffold import writer
from plughost_sdk.vai import Context
from plughost_sdk.vai.export import COMMON, OWN
from tests.support import ROOT, unconfined
from tests.support.vai_http import serving
from tests.support.vai_wire import Talk, context

DOCUMENT = (ROOT / "docs/vai.md").read_text()
[EXAMPLE] = re.findall(r"```python\n(.*?)```", DOCUMENT, re.S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("document")
    place = made / "greeter"
    writer.write("vai", "greeter", "python", made)
    (place / "plugin.py").write_text(EXAMPLE)
    commands = re.findall(r"^PYTHONPATH=lib python3 (.*?)(?:  +#.*)?$", DOCUMENT, re.M)
    assert len(commands) == 2
    for command in commands:
        ran = subprocess.run(
            [sys.executable, *command.split()],
            cwd=place,
            env={"PYTHONPATH": "lib"},
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stderr
    return place


def test_its_manifest_is_one(folder):
    told = manifest.read(folder, manifest.in_folder(folder))
    assert {export.id: export.kind for export in told.exports} == {
        "greet": "tool", "remember": "hook", "newest": "compactor", "work": "harness",
    }  # fmt: skip
    assert told.package_id == "example/greeter"


def test_its_exports_do_what_it_says(folder):
    with Talk([sys.executable, "-ISE", folder / "bin/plugin"]) as talk:
        talk.hello()
        number = talk.request(
            "tool.invoke", "greet", input={"name": "Ada"}, config={}, secrets={"key": "Bob"}
        )
        assert talk.hear()["event"]["message"] == "1 of 1"
        assert talk.answer(number)["result"]["structured_output"] == {
            "text": "Hello, Ada!", "seal": hmac.digest(b"Bob", b"Hello, Ada!", "sha256").hex(),
        }  # fmt: skip
        failed = talk.ask("tool.invoke", "greet", input={"name": "Ada", "times": 101}, secrets={"key": ""})
        assert failed["error"]["message"] == "nobody wants to be greeted that often"
        event = {"type": "run.completed", "subject": {"kind": "run", "id": "run_1"}}
        assert talk.ask("hook.handle", "remember", delivery_id="d", attempt=2, event=event) == {
            "status": "ack"
        }
        blocks = [{"kind": "input", "content": []}] * 12
        source = {
            "chain_id": "c",
            "projection": {"transport": "inline", "blocks": blocks, "token_estimate": 7},
        }
        seeds = talk.ask("compactor.compact", "newest", compaction_id="x", source=source)["result"][
            "seed_blocks"
        ]
        assert len(seeds) == 10
        with serving(lambda asked: (200, {"chain_id": "ch_1", "run_id": "run_2"})) as gateway:
            lent = {"base_url": gateway.url, "delegation_token": "vai_dlg_1", "scopes": ["chains:read"]}
            target = {"session_id": "s", "chain_id": "ch_1", "execution_id": "e"}
            done = talk.ask("harness.run", "work", mode="start", target=target, context=context(gateway=lent))
        assert done["result"]["summary"]["text"] == "Step 1 is run run_2."
        assert talk.end() == 0
        assert talk.stderr == "done: run_1 attempt 2\n"


async def test_it_conforms(folder):
    report = await run_axes(unconfined(folder))
    assert {each.axis: each.reason for each in report.verdicts if each.outcome == "failed"} == {}
    assert "secrets" in {each.axis for each in report.verdicts if each.outcome == "passed"}


def test_every_option_and_attribute_that_it_names_is_there():
    options = {
        word for row in re.findall(r"^\|(.*)\|$", DOCUMENT, re.M) for word in re.findall(r"`(\w+)`", row)
    }
    assert COMMON | set().union(*OWN.values()) <= options
    made = Context({"context": {}}, print)
    section = DOCUMENT.partition("## The context")[2].partition("## What fails")[0]
    for first in re.findall(r"^\| (.*?) \|", section, re.M):
        for name in re.findall(r"`(\w+)", first):
            assert hasattr(made, name), name
