"""The command line as a user types it: real commands, real exit codes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from plughost.cli import main
from plughost.cli.main import COMMANDS
from tests.support import PLUGINS, PYTHON, ROOT, all_gone, processes, until
from tests.support.command_line import run_here

PLUGHOST = [sys.executable, "-m", "plughost.cli"]
ECHO = ["python3", "plugins/echo-mcptest/echo.py"]
PUPPET = [*PYTHON, str(PLUGINS / "puppet.py")]


def plughost(*words, stdin=None, cwd=ROOT, env=None):
    command = [*PLUGHOST, *words]
    return patient(
        lambda: subprocess.run(
            command, input=stdin, capture_output=True, text=True, cwd=cwd, timeout=60, env=env
        )
    )


def here(*words, cwd=ROOT):
    """Without a process of its own, where that is not the point."""
    return patient(lambda: run_here(*words, cwd=cwd))


def patient(run):
    for _ in range(3):
        ran = run()
        if "did not end within 0.5 s" not in ran.stdout + ran.stderr:  # rune's own time, on a busy machine
            break
    return ran


def mcptest(*words, command=PUPPET):
    return here("call", "--contract", "mcptest", *words, "--", *command)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "plughost.toml").write_text(
        f"""
[plugins.my-plugin]
contract = "mcptest"
command = {json.dumps(PUPPET)}
env = {{ FROM_FILE = "${{HOME}}" }}

[plugins.my-tool]
contract = "rune"
command = {json.dumps([*PYTHON, str(PLUGINS / "rune_puppet.py"), "{}"])}
"""
    )
    return tmp_path


def test_the_examples_of_the_documentation_work_as_written():
    lines = re.findall(r"^plughost call .*$", (ROOT / "docs/cli.md").read_text(), re.M)
    assert len(lines) >= 4
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        ran = plughost(*words)
        assert ran.returncode == 0, (line, ran.stderr)
        json.loads(ran.stdout)


def test_a_bare_mcptest_command():
    ran = plughost("call", "--contract", "mcptest", "echo", '{"text":"hi"}', "--", *ECHO)
    assert (json.loads(ran.stdout), ran.stderr, ran.returncode) == ({"text": "hi"}, "", 0)


def test_a_bare_rune_command():
    words = [
        "--contract",
        "rune",
        "--name",
        "example.echo",
        "--grant",
        "tool.execute",
        "echo",
        '{"text":"hi"}',
    ]
    ran = plughost("call", *words, "--", "python3", "plugins/echo-rune/echo.py", "--ignored")
    assert (json.loads(ran.stdout), ran.returncode) == ({"text": "hi"}, 0), ran.stderr


def test_a_name_from_a_file_and_the_file_of_this_folder(folder):
    ran = plughost("call", "-c", str(folder / "plughost.toml"), "my-plugin", "ping")
    assert (ran.stdout, ran.returncode) == ('"pong"\n', 0)
    ran = plughost("call", "my-plugin", "about", cwd=folder)
    assert json.loads(ran.stdout)["env"]["FROM_FILE"] == os.environ["HOME"]
    assert json.loads(ran.stdout)["cwd"] == str(folder)


def test_a_plugin_folder():
    ran = plughost(
        "call",
        "--grant",
        "tool.execute",
        "plugins/echo-rune",
        "echo",
        '{"a": 1}',
        "--context",
        "workspace_id=w",
    )
    assert json.loads(ran.stdout) == {"a": 1}


def test_params_may_come_from_stdin_and_the_environment_from_the_command_line():
    ran = plughost("call", "--contract", "mcptest", "echo", "-", "--", *PUPPET, stdin='["from", "stdin"]')
    assert json.loads(ran.stdout) == ["from", "stdin"]
    ran = mcptest("--env", "A=1=2", "--env", "B=", "about")
    env = json.loads(ran.stdout)["env"]
    assert (env["A"], env["B"]) == ("1=2", "")


def test_inspect_makes_no_folder(tmp_path):
    """Not the data folder either, which a kaged plugin gets before its first start."""
    env = {
        **os.environ,
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_STATE_HOME": str(tmp_path),
    }
    ran = plughost("inspect", "--sandbox", "none", "plugins/echo-kaged", env=env)
    assert (ran.returncode, "echo-kaged" in ran.stdout) == (0, True), ran.stderr
    assert [*tmp_path.rglob("*")] == []


def test_inspect_shows_a_binding_without_starting_it(folder):
    ran = here("inspect", "-c", str(folder / "plughost.toml"), "my-plugin", "--json")
    shown = json.loads(ran.stdout)
    assert (shown["name"], shown["contract"], shown["state"]) == ("my-plugin", "mcptest", "Idle")
    assert "FROM_FILE" in shown["env"]
    assert os.environ["HOME"] + '"' not in ran.stdout.replace(shown["cwd"], "")
    assert "my-tool" in here("inspect", "my-tool", cwd=folder).stdout


@pytest.mark.parametrize(
    ("method", "params", "code", "status"),
    [
        ("exit", "3", "crashed", 3),
        ("half", "null", "crashed", 0),
        ("raw", '["noise\\n"]', "invalid_json", None),
        ("raw", '["{}\\n"]', "invalid_response", None),
        ("silent", "null", "timeout", None),
    ],
)
def test_a_failure_of_mcptest_as_json(method, params, code, status):
    ran = mcptest("--json", "--timeout", "0.3" if code == "timeout" else "60", method, params)
    (document,) = ran.stdout.splitlines()
    error = json.loads(document)["error"]
    assert set(error) == {"code", "plugin", "message", "exit_status", "stderr_tail", "hint"}
    assert (error["code"], error["exit_status"], ran.returncode) == (code, status, 3)
    assert ran.stderr == ""


def test_a_spawn_failure_as_json_and_for_people():
    ran = mcptest("--json", "ping", command=["/no/such/thing"])
    assert json.loads(ran.stdout)["error"]["code"] == "spawn_failed"
    assert ran.returncode == 3
    ran = mcptest("ping", command=["/no/such/thing"])
    assert ran.stdout == ""
    assert "/no/such/thing" in ran.stderr
    assert "hint:" in ran.stderr


def test_a_crash_for_people_tells_the_last_words():
    ran = mcptest("x", command=[*PYTHON, "-c", "import sys; sys.exit('the reason')"])
    assert "exited with code 1" in ran.stderr
    assert "  the reason" in ran.stderr
    assert ran.returncode == 3


def test_the_plugins_own_error_goes_to_stdout_and_exits_1():
    ran = mcptest("error", '{"code":5,"message":"no","data":[1]}')
    assert json.loads(ran.stdout) == {"error": {"code": 5, "message": "no", "data": [1]}}
    assert ran.returncode == 1


RUNE = [*PYTHON, str(PLUGINS / "rune_puppet.py")]


@pytest.mark.parametrize(
    ("script", "words", "code", "exit_code"),
    [
        ({"before_handshake": "hang"}, ["--timeout", "0.3"], "timeout", 3),
        ({"before_handshake": "exit 2"}, [], "crashed", 3),
        ({"type": "x"}, [], "handshake_failed", 3),
        ({"response": "bad\n"}, [], "malformed_response", 3),
        ({"handshake": {"exposed_tools": ["x"]}}, [], "tool_not_exposed", 3),
        ({"handshake": {"protocol_version": "x"}}, [], "protocol_version_mismatch", 3),
        ({}, ["--grant", "a"], "capability_not_declared", 3),
        ({"handshake": {"capabilities": ["a"]}}, [], "capability_not_allowed", 3),
        ({"response": {"status": "error", "error": {"code": "c", "message": "m"}}}, [], "execution_error", 1),
        ({}, ["--grant", " a"], "invalid_spec", 2),
    ],
)
def test_a_failure_of_rune_as_json(script, words, code, exit_code):
    command = [*RUNE, json.dumps(script)]
    ran = here("call", "--json", "--contract", "rune", "--name", "puppet", *words, "echo", "--", *command)
    error = json.loads(ran.stdout)["error"]
    assert (error["code"], error["plugin"], ran.returncode) == (code, "puppet", exit_code)


def test_a_program_that_is_not_there_is_a_failed_launch_of_rune():
    ran = here("call", "--json", "--contract", "rune", "--name", "p", "echo", "--", "/no/such")
    assert json.loads(ran.stdout)["error"]["code"] == "launch_failed"


@pytest.mark.parametrize(
    "words",
    [
        ["call"],
        ["call", "--contract", "mcptest", "ping"],
        ["call", "--contract", "nope", "ping", "--", "x"],
        ["call", "ping", "--", "x"],
        ["call", "no-such-plugin", "ping"],
        ["call", "plugins/echo-mcptest"],
        ["call", "plugins/echo-mcptest", "echo", "{bad"],
        ["call", "plugins/echo-mcptest", "echo", "1", "2"],
        ["call", "plugins/echo-mcptest", "echo", "1", "--env", "novalue"],
        ["call", "plugins/echo-mcptest", "echo", "1", "--timeout", "0"],
        ["call", "plugins/echo-mcptest", "echo", "1", "--timeout", "nan"],
        ["call", "plugins/echo-mcptest", "echo", "1", "--timeout", "inf"],
        ["replay", "no-such-file", "--timeout", "nan"],
        ["conform", "plugins/echo-mcptest", "--timeout", "nan"],
        ["call", "plugins/echo-mcptest", "echo", "1", "--grant", "power"],
        ["call", "-c", "no/such.toml", "x", "y"],
        ["call", "docs", "x"],
        ["inspect", "plugins/echo-rune", "more"],
        ["no-such-command"],
    ],
)
def test_wrong_usage_exits_2_and_says_why(words):
    ran = here(*words)
    assert ran.returncode == 2, ran.stdout + ran.stderr
    assert ran.stderr
    assert "Traceback" not in ran.stderr
    assert ran.stdout == ""


def test_a_broken_file_tells_every_problem_with_its_line(tmp_path):
    (tmp_path / "plughost.toml").write_text('[plugins.a]\ncontract = "nope"\ncommand = 1\n[plugins.b]\n')
    ran = here("call", "a", "x", cwd=tmp_path)
    assert ran.returncode == 2
    for line in (1, 2, 3, 4):
        assert f"plughost.toml:{line}: " in ran.stderr or line == 1


def test_doctor_tells_what_works():
    ran = plughost("doctor", "--json")
    told = json.loads(ran.stdout)
    assert (told["ok"], ran.returncode) == (True, 0)
    findings = {finding["check"]: finding for finding in told["findings"]}
    assert "guaranteed by the kernel" in findings["no orphans"]["detail"]
    assert "mcptest, " in findings["contracts"]["detail"]
    assert "no orphans" in plughost("doctor").stdout


async def test_run_watches_plugins_until_it_is_told_to_end(folder, mark):
    text = (
        (folder / "plughost.toml")
        .read_text()
        .replace(str(PLUGINS / "puppet.py") + '"', str(PLUGINS / "puppet.py") + f'", "{mark}"')
    )
    (folder / "plughost.toml").write_text(text)
    process = await asyncio.create_subprocess_exec(
        *PLUGHOST, "run", "--json", cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    seen = []
    while not seen or seen[-1].get("new") != "Running":
        seen.append(json.loads(await process.stdout.readline()))
    assert [event["event"] for event in seen] == ["statechanged", "spawned", "statechanged"]
    victim = max(processes(mark))
    os.kill(victim, signal.SIGKILL)
    died = json.loads(await process.stdout.readline())
    assert (died["event"], died["exit_status"], died["expected"]) == ("exited", -9, False)
    process.send_signal(signal.SIGTERM)
    await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    await all_gone(mark)


async def test_run_says_ready_and_ends_on_ctrl_c(mark):
    process = await asyncio.create_subprocess_exec(
        *PLUGHOST,
        "run",
        "--contract",
        "mcptest",
        "--name",
        "p",
        "--",
        *PUPPET,
        mark,
        stderr=asyncio.subprocess.PIPE,
    )
    said = b""
    while b"ready: p" not in said:
        said += await process.stderr.readline()
    process.send_signal(signal.SIGINT)
    await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    await all_gone(mark)


async def test_ctrl_c_during_a_call_leaves_nothing(mark):
    process = await asyncio.create_subprocess_exec(
        *PLUGHOST,
        "call",
        "--contract",
        "mcptest",
        "silent",
        "--",
        *PUPPET,
        mark,
        stderr=asyncio.subprocess.PIPE,
    )
    await until(lambda: len(processes(mark)) >= 4)  # ourselves, launcher, keeper, plugin
    process.send_signal(signal.SIGINT)
    _, said = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 130
    assert b"Traceback" not in said
    await all_gone(mark)


HEAVY = ("asyncio", "msgspec", "click", "rich", "yaml", "httpx", "tomllib")


@pytest.mark.parametrize(
    ("script", "there"),
    [
        ("import plughost", []),
        ("from plughost import Host", ["asyncio", "msgspec"]),
        ("import plughost.cli.main", ["msgspec", "click"]),
    ],
)
def test_only_what_is_needed_is_imported(script, there):
    script += f"; import sys; print([name for name in {HEAVY} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == f"{there}\n"


def test_every_command_is_where_it_is_looked_for():
    listed = plughost("--help").stdout.partition("Options:")[2].partition("\n\n")[2]
    assert sorted(re.findall(r"^  (\w+) +\S", listed, re.MULTILINE)) == sorted(COMMANDS)


def test_the_console_script_is_installed():
    assert Path(sys.executable).with_name("plughost").exists()


def run_in_shell(line):
    return subprocess.run(["/bin/bash", "-c", line], capture_output=True, text=True, cwd=ROOT, timeout=60)


CALL = f"{shlex.join(PLUGHOST)} call plugins/echo-mcptest"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (f"{CALL} ping >&-", 3),
        (f"{CALL} ping >/dev/full", 3),
        (f"{CALL} echo $'\"\\xff\"'", 2),
        (f"{CALL} echo $(printf '[%.0s' $(seq 5000))", 2),
        (f"{CALL} --timeout 1e300 ping", 0),
    ],
)
def test_our_own_trouble_is_never_taken_for_the_plugins_answer(line, code):
    ran = run_in_shell(line)
    assert ran.returncode == code, ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("words", [["nobody", "ping"], ["plugins/echo-mcptest"], ["--no-such-option"]])
def test_wrong_usage_is_json_too_when_asked(words):
    ran = plughost("call", "--json", *words)
    assert (json.loads(ran.stdout)["error"]["code"], ran.returncode) == ("usage", 2)


@pytest.mark.parametrize("text", ["a = " + "9" * 5000, "a = " + "[" * 3000])
def test_a_file_past_all_bounds_is_a_broken_file(tmp_path, text):
    (tmp_path / "plughost.toml").write_text(text)
    ran = plughost("call", "a", "x", cwd=tmp_path)
    assert ran.returncode == 2
    assert "plughost.toml" in ran.stderr


def test_run_ends_when_nobody_reads_its_events(mark):
    line = f"timeout 50 {shlex.join(PLUGHOST)} run --json --contract mcptest -- {shlex.join(PUPPET)} {mark} | head -1"
    start = time.monotonic()
    assert json.loads(run_in_shell(f"{line}").stdout)["event"] == "statechanged"
    assert time.monotonic() - start < 45
    ran = plughost("run", "--contract", "mcptest", "stray", "--", *PUPPET)
    assert ran.returncode == 2


def test_a_reader_that_has_seen_enough_is_no_answer_of_the_plugins():
    ran = run_in_shell(f"exec 3> >(exec 0<&-); wait $!; {CALL} ping >&3; echo $?")
    assert (ran.stdout, ran.stderr) == ("141\n", "")


def test_traffic_is_recorded_without_secrets_and_replayed_as_either_side(tmp_path):
    path = tmp_path / "t"
    ran = mcptest("--record", str(path), "--redact", "token", "echo", '{"token": "hunter2", "n": 1}')
    assert (ran.returncode, ran.stderr) == (0, f"recorded {Path(PUPPET[0]).name} in {path}\n")
    assert "hunter2" not in path.read_text()
    ran = plughost("replay", str(path), "--as-host", "--", *PUPPET)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    ran = plughost("replay", str(path), "--as-host", "plugins/echo-rune", "--timeout", "5")
    assert ran.returncode == 1
    assert "the plugin" in ran.stderr
    request = '{"id": 1, "method": "echo", "params": {"n": 1, "token": "any"}}\n'
    ran = plughost("replay", str(path), stdin=request)
    assert (json.loads(ran.stdout)["result"], ran.returncode) == ({"token": "***", "n": 1}, 0)
    ran = plughost("replay", str(path), stdin=request.replace("echo", "ping"))
    assert (ran.stdout, ran.returncode) == ("", 1)
    assert 'method was "echo" and is now "ping"' in ran.stderr


def test_a_failure_is_recorded_too_and_wrong_words_are_usage(tmp_path):
    ran = mcptest("--record", str(tmp_path / "t"), "exit", "3")
    assert ran.returncode == 3
    assert '"method\\":\\"exit' in (tmp_path / "t").read_text().replace("\\\\", "\\")
    assert mcptest("--redact", "token", "ping").returncode == 2
    assert plughost("replay", str(tmp_path / "t"), "--", *PUPPET).returncode == 2
    assert plughost("replay", str(tmp_path / "t"), "--as-host").returncode == 2
    (tmp_path / "t").write_text("no")
    ran = plughost("replay", str(tmp_path / "t"))
    assert (ran.returncode, "is not recorded traffic" in ran.stderr) == (2, True)


def commands(group, *path):
    """Every command below a click group, with the words that call it."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


EVERY_COMMAND = [*commands(main.plughost)]


def test_the_help_is_in_sections_with_every_command_on_one_whole_line_of_80_columns():
    help_text = plughost("--help", env={**os.environ, "COLUMNS": "80"}).stdout
    assert "..." not in help_text.partition("Options:")[2]
    for name in COMMANDS:
        [line] = re.findall(rf"^  {name} +(.*\.)?$", help_text, re.M)
        assert line, f"the summary of {name} does not fit"
    for title in main.SECTIONS:
        assert f"\n{title}:\n" in help_text
    assert {name for names in main.SECTIONS.values() for name in names} <= set(COMMANDS)


@pytest.mark.parametrize(
    ("path", "command"), EVERY_COMMAND, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_options_mean_the_same_in_every_command_and_each_has_a_help_text(path, command):
    for option in command.params:
        if not isinstance(option, click.Option):
            continue
        assert option.help, f"{option.opts} has no help"
        if "--json" in option.opts:
            assert option.is_flag
        assert ("-c" in option.opts) == ("--config" in option.opts)
        assert "--output" not in option.opts
    text = command.get_help(click.Context(command)).lower()
    for words in ("if not said", "is no ", "are no ", "cannot be had", "told", "mend"):
        assert words not in text
