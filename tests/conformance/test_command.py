"""`plughost conform` as a user types it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from plughost.conformance.runner import axes_of
from tests.support import PLUGINS, PYTHON, ROOT, all_gone, processes, until
from tests.support.command_line import run_here

CONFORM = [sys.executable, "-m", "plughost.cli", "conform"]
GOOD = "plugins/canaries/mcptest/ids"
BROKEN = "plugins/canaries/broken/mcptest/ids"
OUTSIDE = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "tests/outside"), *sys.path])}
SAMPLE = ["--sample", 'echo {"text": "hi"}']


def conform(*words, cwd=ROOT, env=None):
    return subprocess.run([*CONFORM, *words], capture_output=True, cwd=cwd, timeout=60, env=env)


def lines(ran):
    return ran.stdout.decode().splitlines()


def test_a_plugin_that_conforms():
    ran = conform(GOOD, "--axis", "ids", "--axis", "dispatch")
    assert lines(ran) == ["ok    ids", "ok    dispatch", "ids (mcptest): 2 passed"]
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_a_plugin_that_does_not(tmp_path):
    ran = conform(BROKEN, "--out", str(tmp_path / "r.json"), "--junit", str(tmp_path / "r.xml"), *SAMPLE)
    assert (ran.returncode, ran.stderr) == (1, b"")
    reason = "the response to id 0 carries id None"
    shown = lines(ran)
    assert shown[2] == f"FAIL  ids          {reason}"
    assert '        > {"method":"conformance/no-such-method","id":0}' in shown
    assert shown[-1] == "ids (mcptest): 5 passed, 1 failed"
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["conforms"], report["plugin"], report["contract"]) == (False, "ids", "mcptest")
    (verdict,) = (verdict for verdict in report["verdicts"] if verdict["outcome"] != "passed")
    assert (verdict["axis"], verdict["outcome"], verdict["reason"]) == ("ids", "failed", reason)
    tree = ElementTree.parse(tmp_path / "r.xml").getroot()
    assert [case.get("name") for case in tree.iterfind("testcase[failure]")] == ["ids"]


def test_the_report_alone_on_stdout():
    ran = conform(BROKEN, "--axis", "ids", "--json")
    (document,) = lines(ran)
    assert json.loads(document)["conforms"] is False
    assert ran.returncode == 1


def test_the_list_of_axes_of_any_contract(tmp_path):
    assert [line.split()[0] for line in lines(conform("plugins/echo-rune", "--list"))] == [
        "handshake", "version", "request", "tools", "capabilities", "errors", "exit",
    ]  # fmt: skip
    command = [*PYTHON, str(PLUGINS / "parley_puppet.py")]
    ran = conform("--contract", "parley", "--list", "--", *command, env=OUTSIDE)
    assert lines(ran) == [
        "hello        answers the greeting",
        "calls        answers the sample call under a host",
    ]


def test_an_outside_contract_and_a_sample():
    command = [*PYTHON, str(PLUGINS / "parley_puppet.py")]
    ran = conform("--contract", "parley", "--sample", "echo [1]", "--", *command, env=OUTSIDE)
    assert (lines(ran)[:2], ran.returncode) == (["ok    hello", "ok    calls"], 0), ran.stderr
    ran = conform("--contract", "parley", "--", *command, env=OUTSIDE)
    assert lines(ran)[1:] == [
        "skip  calls        no --sample was given",
        "parley_puppet.py (parley): 1 passed, 1 skipped".replace("parley_puppet.py", Path(command[0]).name),
    ]
    assert ran.returncode == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "which plugin?"),
        ([GOOD, "more"], "unexpected: more"),
        ([GOOD, "--axis", "colour"], "unknown axis 'colour'; known: dispatch, "),
        ([GOOD, "--sample", " "], "--sample takes a method and, optionally, JSON params"),
        ([GOOD, "--sample", "echo {bad"], "the params of --sample are not JSON"),
        ([GOOD, "--timeout", "0"], "--timeout"),
        ([GOOD, "--axis", "ids", "--out", "/no/such/folder/x"], "the report could not be written"),
        (["--contract", "nobody", "--", "x"], "nobody"),
    ],
)
def test_wrong_usage_exits_2_and_says_why(words, why):
    ran = run_here("conform", *words, cwd=ROOT)
    assert ran.returncode == 2
    assert why in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_plugin_that_cannot_be_started_is_no_verdict():
    bare = ["--contract", "mcptest", "--", "/no/such/program"]
    ran = conform("--out", "report.json", *bare)
    assert (ran.stdout, ran.returncode) == (b"", 3)
    assert b"launch_failed" in ran.stderr
    assert b"/no/such/program" in ran.stderr
    ran = conform("--json", *bare)
    assert json.loads(ran.stdout)["error"]["code"] == "launch_failed"
    assert (ran.stderr, ran.returncode) == (b"", 3)


def test_nothing_that_a_plugin_says_is_obeyed_by_the_terminal():
    says = r"for _ in sys.stdin: os.write(2, b'\x1b[5mlog\n'); os.write(1, b'\x1b]0;t\x07\x9b2J\r\xe2\x80\xae\n')"
    dies = r"sys.exit('\x1b[2J')"
    for script in (says, dies):
        ran = conform("--contract", "mcptest", "--", *PYTHON, "-c", f"import os, sys\n{script}")
        assert ran.returncode == 1
        assert all(line.isprintable() for line in (ran.stdout + ran.stderr).decode().split("\n"))
        assert b"x1b" in ran.stdout


async def test_ctrl_c_ends_the_plugin_too(mark):
    hangs = [*PYTHON, "-c", "import time; time.sleep(600)", mark]
    process = await asyncio.create_subprocess_exec(
        *CONFORM, "--contract", "mcptest", "--", *hangs, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    await until(lambda: len(processes(mark)) >= 4)  # the command itself, launcher, keeper, plugin
    process.send_signal(signal.SIGINT)
    await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 130
    await all_gone(mark)


def test_the_examples_of_the_documentation_work_as_written(tmp_path):
    examples = re.findall(r"^plughost conform .*$", (ROOT / "docs/conformance.md").read_text(), re.M)
    assert len(examples) >= 3
    for name in ("plugins", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    for line in examples:
        ran = conform(*shlex.split(line, comments=True)[2:], cwd=tmp_path)
        assert ran.returncode == 0, (line, ran.stdout, ran.stderr)


def test_the_documentation_lists_the_axes_that_there_are():
    sections = (ROOT / "docs/conformance.md").read_text().split("\n## ")
    told = {
        section.split()[3]: re.findall(r"^\| `([\w-]+)` \| (.*) \|$", section, re.M)
        for section in sections
        if section.startswith("The axes of ")
    }
    assert {"mcptest", "rune"} <= set(told)
    for contract, rows in told.items():
        assert rows == [(axis.name, axis.promise) for axis in axes_of(contract)]


def test_the_axis_of_the_documentation_is_the_one_that_is_tested():
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/conformance.md").read_text(), re.S)
    body = example[example.index("async def hello") : example.index("AXES =")].strip()
    assert body in (ROOT / "tests/outside/parley_axes.py").read_text()
