"""`plughost dev`: a plugin that is being written."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from plughost._util.rmtree import rmtree
from plughost.cli.dev import file_watch
from plughost.cli.dev.build import Build
from plughost.cli.dev.frame_log import FrameLog
from plughost.cli.ui.dev_output import DevOutput
from plughost.engine.io.tap import Origin
from tests.support import PYTHON, ROOT, all_gone

DEV = [sys.executable, "-m", "plughost.cli", "dev"]
PLUGIN = """
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps({"id": request["id"], "result": VERSION}), flush=True)
"""


def plugin(folder: Path, mark: str, version: str = '"one"', env: str = "{}") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "plughost.toml").write_text(
        f'[plugins.p]\ncontract = "mcptest"\ncommand = {json.dumps([*PYTHON, "p.py", mark])}\nenv = {env}\n'
    )
    source(folder, version)
    return folder


def source(folder: Path, version: str) -> None:
    write(folder / "p.py", PLUGIN.replace("VERSION", version))


def write(path: Path, text: str) -> None:
    """At once: whoever watches never sees half of it."""
    new = path.with_name(f"{path.name}.tmp")
    new.write_text(text)
    new.replace(path)


def unhurried(folder: Path) -> Path:
    """A rune plugin's settings in a file of the operator's, with more time than a busy machine takes."""
    file = folder.parent / "mine.toml"
    times = "launch_timeout = 60\nhandshake_timeout = 60\nteardown_timeout = 60\ntimeout = 60\n"
    file.write_text(f"{(folder / 'plughost.toml').read_text()}cwd = {json.dumps(str(folder))}\n{times}")
    return file


class Dev:
    """The command, its events and its stdin."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.seen: list[dict] = []

    async def until(self, kind: str, **fields) -> dict:
        """The next event of this kind that has these fields."""
        while True:
            try:
                line = await asyncio.wait_for(self.process.stdout.readline(), 60)
            except TimeoutError:
                pytest.fail(f"no {kind} {fields} after {self.seen[-5:]}")
            assert line, (await self.process.stderr.read()).decode()
            event = json.loads(line)
            self.seen.append(event)
            if event["event"] == kind and all(event.get(name) == value for name, value in fields.items()):
                return event

    async def call(self, line: str, kind: str = "answer") -> dict:
        self.process.stdin.write(line.encode() + b"\n")
        return await self.until(kind)


@asynccontextmanager
async def dev(*words, mark):
    process = await asyncio.create_subprocess_exec(
        *DEV, "--json", *map(str, words), stdin=-1, stdout=-1, stderr=-1, limit=1 << 20
    )
    try:
        yield Dev(process)
        process.send_signal(signal.SIGINT)
        _, said = await asyncio.wait_for(process.communicate(), 20)
        assert (process.returncode, said) == (0, b"")
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    await all_gone(mark, within=30)


async def test_a_change_shows_in_the_next_answer_and_a_broken_plugin_is_told_and_mended(tmp_path, mark):
    folder = plugin(tmp_path / "p", mark)
    async with dev(folder, mark=mark) as at:
        await at.until("ready", plugin="p")
        assert (await at.call("ping"))["result"] == "one"
        source(folder, '"two"')
        assert (await at.until("changed"))["files"] == ["p.py"]
        await at.until("ready")
        assert (await at.call('ping {"a": 1}'))["result"] == "two"
        write(folder / "p.py", "raise SystemExit('broken')")
        await at.until("logged", source="stderr", message="broken")
        await at.until("exited", exit_status=1)
        assert (await at.call("ping", "error"))["error"]["code"] == "crashed"
        (folder / "plughost.toml").rename(folder / "gone.toml")
        while "is not a plugin folder" not in (await at.until("error"))["error"]["message"]:
            pass  # what the broken one's restart came to may be told only now
        assert (await at.call("ping", "error"))["error"]["hint"].startswith("fix the plugin")
        source(folder, '"three"')
        await at.until("error")
        (folder / "gone.toml").rename(folder / "plughost.toml")
        await at.until("ready")
        assert (await at.call("ping"))["result"] == "three"


async def test_frames_are_shown_both_ways_with_their_size_and_their_time(tmp_path, mark):
    folder = plugin(tmp_path / "p", mark, 'request["params"]')
    async with dev(folder, mark=mark) as at:
        await at.call('echo {"n": 1}')
        out, back = (event for event in at.seen if event["event"] == "frame")
        request = {"method": "echo", "id": 1, "params": {"n": 1}}
        size = len('{"method":"echo","id":1,"params":{"n":1}}')
        assert (out["way"], out["frame"], out["size"], out["ms"]) == ("out", request, size, None)
        assert (back["way"], back["method"], back["id"]) == ("in", "echo", 1)
        assert 0 < back["ms"] < 60_000
        states = [(event["old"], event["new"]) for event in at.seen if event["event"] == "statechanged"]
        assert states == [("Idle", "Spawning"), ("Spawning", "Running")]
        assert (await at.call("echo {x", "error"))["error"]["code"] == "invalid_spec"


async def test_one_process_per_call_and_the_end_of_stdin(tmp_path):
    folder = tmp_path / "p"
    shutil.copytree(ROOT / "plugins/echo-rune", folder)
    given = ("-c", unhurried(folder), "--grant", "tool.execute")
    process = await asyncio.create_subprocess_exec(
        *DEV, folder, "--until-eof", "--json", *given, stdin=-1, stdout=-1, stderr=-1
    )
    said, problem = await asyncio.wait_for(process.communicate(b'echo {"n": 1}\necho {"n": 2}'), 60)
    events = [json.loads(line) for line in said.splitlines()]
    answers = [event["result"] for event in events if event["event"] == "answer"]
    assert sorted(answers, key=str) == [{"n": 1}, {"n": 2}]
    assert len([event for event in events if event["event"] == "spawned"]) == 2
    assert (process.returncode, problem) == (0, b"")


async def test_what_is_granted_and_confined_on_the_command_line_holds_at_every_start(tmp_path, mark):
    folder = plugin(tmp_path / "p", mark, 'os.environ["word"]')
    for name in ("echo.py", "plughost.toml"):
        shutil.copy(ROOT / "plugins/echo-rune" / name, folder)
    mine = ("-c", unhurried(folder))
    async with dev(folder, *mine, mark=mark) as at:
        assert (await at.call("echo 1", "error"))["error"]["code"] == "capability_not_allowed"
    async with dev(folder, *mine, "--grant", "tool.execute", mark=mark) as at:
        assert (await at.call("echo 1"))["result"] == 1
        write(folder / "another.py", "")
        await at.until("changed")
        await at.until("ready")
        assert (await at.call("echo 2"))["result"] == 2
    async with dev(folder, "--sandbox", "strict", "--limit", "memory=nonsense", mark=mark) as at:
        assert "nonsense" in str((await at.until("error"))["error"])


async def test_with_nothing_to_call_it_is_started_all_the_same(tmp_path, mark):
    folder = plugin(tmp_path / "p", mark)
    line = f"{shlex.join(DEV)} {folder} --until-eof"
    for stdin in ("</dev/null", "<&-"):
        ran = await asyncio.to_thread(
            subprocess.run, ["/bin/sh", "-c", f"{line} {stdin}"], capture_output=True, text=True, timeout=60
        )
        assert ("ready: p (mcptest)" in ran.stdout, ran.stderr, ran.returncode) == (True, "", 0)
    await all_gone(mark)


async def test_the_end_of_a_pipe_is_not_the_end(tmp_path, mark):
    folder = plugin(tmp_path / "p", mark)
    async with dev(folder, mark=mark) as at:
        at.process.stdin.write(b"ping\n")
        at.process.stdin.write_eof()
        await at.until("answer")
        source(folder, '"two"')
        await at.until("changed")
        await at.until("ready")


async def test_no_value_of_a_variable_and_nothing_that_a_terminal_obeys_is_shown(tmp_path, mark):
    evil = '[os.environ["TOKEN"], print("\\x1b[2J" + os.environ["TOKEN"], file=sys.stderr), "\\x1b[31m\\x9b"]'
    folder = plugin(tmp_path / "p", mark, evil, '{ TOKEN = "hünter\\"2" }')
    for flag in ([], ["--json"]):
        process = await asyncio.create_subprocess_exec(
            *DEV, folder, "--until-eof", *flag, stdin=-1, stdout=-1, stderr=-1
        )
        said, problem = await asyncio.wait_for(process.communicate(b"ping\n"), 60)
        assert (process.returncode, problem) == (0, b"")
        text = said.decode()
        assert "nter" not in text, text
        assert text.count("***") >= 3
        assert text.replace("\n", "").isprintable()
        if flag:
            answer = next(event for event in map(json.loads, text.splitlines()) if event["event"] == "answer")
            assert answer["result"] == ["***", None, "\x1b[31m\x9b"]


@pytest.mark.parametrize("flag", [[], ["--json"]])
async def test_where_a_text_is_cut_no_part_of_a_variable_is_shown(tmp_path, mark, flag):
    token = "hunter2-of-25-characters!"
    evil = '["q" * 455 + os.environ["TOKEN"], print("q" * 8175 + os.environ["TOKEN"], file=sys.stderr)][0]'
    folder = plugin(tmp_path / "p", mark, evil, f'{{ TOKEN = "{token}" }}')
    build = f"printf 'b%.0s' $(seq 8175); echo '{token}'"
    (tmp_path / "build").write_text(build)
    options = ["--until-eof", "--build", f"sh {tmp_path}/build", *flag]
    process = await asyncio.create_subprocess_exec(*DEV, folder, *options, stdin=-1, stdout=-1, stderr=-1)
    said, problem = await asyncio.wait_for(process.communicate(b"ping\n"), 60)
    assert (process.returncode, problem) == (0, b"")
    text = said.decode()
    assert "hun" not in text
    assert text.count("qqq***") >= 2
    assert "bbb***" in text


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("before", range(470, 501))
def test_a_frame_that_is_cut_inside_a_secret_shows_nothing_of_it(as_json, before):
    told = Lines()
    screen = DevOutput(told, as_json=as_json)
    screen.hide({"TOKEN": "hunter2-of-25-characters!"})
    listen = FrameLog(screen)(Origin("p", "mcptest", "Lines"))
    listen("in", b"q" * before + b"hunter2-of-25-characters!" + b"q" * 70_000 + b"\n")
    assert told.lines
    assert not any("qh" in line for line in told.lines)


async def test_a_plugin_that_does_not_launch_is_started_once_it_can_be(tmp_path, mark):
    folder = tmp_path / "p"
    folder.mkdir()
    program = folder / "prog"
    program.write_text(f"#!{sys.executable}{PLUGIN.replace('VERSION', '1')}")
    (folder / "plughost.toml").write_text(
        f'[plugins.p]\ncontract = "mcptest"\ncommand = ["./prog", "{mark}"]\n'
    )
    async with dev(folder, mark=mark) as at:
        failed = await at.until("error")
        assert "chmod +x" in failed["error"]["hint"]
        program.chmod(0o755)
        await at.until("ready")
        assert (await at.call("ping"))["result"] == 1


async def test_a_build_is_run_before_every_start_and_its_own_files_are_no_change(tmp_path, mark):
    folder = plugin(tmp_path / "p", mark)
    (folder / "p.py").rename(folder / "p.src")
    build = "test ! -e broken || { echo no way >&2; exit 4; }; cp p.src p.py; echo done"
    async with dev(folder, "--build", build, mark=mark) as at:
        await at.until("build_output", line="done")
        await at.until("built", exit_code=0)
        await at.until("ready")
        write(folder / "p.src", PLUGIN.replace("VERSION", '"two"'))
        assert (await at.until("changed"))["files"] == ["p.src"]
        await at.until("ready")
        assert (await at.call("ping"))["result"] == "two"
        (folder / "broken").touch()
        await at.until("build_output", line="no way")
        await at.until("built", exit_code=4)
        assert (await at.call("ping"))["result"] == "two"
        assert len([event for event in at.seen if event["event"] == "ready"]) == 2
        (folder / "broken").unlink()
        await at.until("ready")
        changes = [event["files"] for event in at.seen if event["event"] == "changed"]
        assert changes == [["p.src"], ["broken"], ["broken"]]


async def test_ctrl_c_ends_a_build_that_hangs(tmp_path, mark):
    folder = plugin(tmp_path / "p", mark)
    async with dev(folder, "--build", f"sleep 600 # {mark}", mark=mark) as at:
        await at.until("building")


async def test_a_plugin_in_go(tmp_path, mark):
    if shutil.which("go") is None:
        if os.environ.get("CI"):
            pytest.fail("Go is missing")
        pytest.skip("needs Go")
    folder = tmp_path / "p"
    shutil.copytree(ROOT / "plugins/echo-mcptest-go", folder, ignore=shutil.ignore_patterns("bin"))
    async with dev(folder, "--build", "go build -o bin/echo echo.go", mark=mark) as at:
        await at.until("ready")
        assert (await at.call("ping"))["result"] == "pong"
        code = (folder / "echo.go").read_text()
        (folder / "echo.go").write_text(code.replace('"pong"', '"pang"'))
        await at.until("ready")
        assert (await at.call("ping"))["result"] == "pang"


# The parts


def test_what_counts_as_a_change(tmp_path):
    def changes(do, ignored=()):
        before = file_watch.look(tmp_path, ignored)
        do()
        return file_watch.changed(before, file_watch.look(tmp_path, ignored))

    (tmp_path / "deep").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "itself").symlink_to("itself")
    assert changes(lambda: (tmp_path / "deep/a").write_text("1")) == ["deep/a"]
    assert changes(lambda: (tmp_path / "deep/a").chmod(0o700)) == ["deep/a"]
    assert changes(lambda: (tmp_path / "deep/a").rename(tmp_path / "b")) == ["b", "deep/a"]
    assert changes(lambda: (tmp_path / "b").read_text()) == []
    assert changes(lambda: (tmp_path / "data.db").touch(), ["*.db"]) == []
    for name in (".git", "__pycache__", "node_modules", "target"):
        (tmp_path / name).mkdir()
        assert changes(lambda: (tmp_path / name / "x").touch()) == []


def test_only_so_many_files_are_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(file_watch, "MOST", 3)
    for n in range(5):
        (tmp_path / str(n)).touch()
    assert list(file_watch.look(tmp_path)) == ["0", "1", "2"]


def test_folders_may_lie_in_each_other_however_deep_and_are_counted_too(tmp_path, monkeypatch):
    (tmp_path / "z").touch()
    here = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(1500):  # deeper than Python recurses
        os.mkdir("d", dir_fd=here)
        here, above = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=here), here
        os.close(above)
    os.close(here)
    try:
        assert list(file_watch.look(tmp_path)) == ["z"]
    finally:
        rmtree(str(tmp_path / "d"))
    monkeypatch.setattr(file_watch, "MOST", 3)
    for n in range(5):
        (tmp_path / f"{n}").mkdir()
        (tmp_path / f"{n}/file").touch()
    assert list(file_watch.look(tmp_path)) == ["z", "0/file", "1/file"]


def test_which_files_are_the_builds_own(tmp_path):
    build = Build("make", tmp_path, None)
    before = {"a.c": (1, 1, 1), "a.o": (1, 1, 1)}
    built = {"a.c": (1, 1, 1), "a.o": (2, 2, 1), "new": (2, 2, 2), "bin/a": (2, 2, 2)}
    assert build.others(before, built) == ["a.o"]  # somebody may have edited it
    again = {**built, "a.o": (3, 3, 1), "new": (3, 3, 3)}
    assert build.others(built, again) == []
    assert build.only_sources(["a.c", "a.o", "new", "bin/a", "src/bin/a.rs"]) == ["a.c", "src/bin/a.rs"]
    assert build.others(again, {**again, "a.c": (4, 4, 4)}) == ["a.c"]
    assert build.others(again, again) == []
    assert build.others(again, {**again, "a.c": (5, 5, 5)}) == ["a.c"]


class Lines:
    def __init__(self):
        self.lines = []

    def tell(self, line):
        self.lines.append(line.decode())


def test_a_frame_for_people_is_one_line_and_not_too_long():
    told = Lines()
    listen = FrameLog(DevOutput(told, as_json=False))(Origin("p", "mcptest", "Lines"))
    listen("out", b'{"method":"big","id":7}\n')
    listen("in", b'{"result":"' + b"x" * 100_000 + b'","id":')
    listen("in", b"7}\n" + b"[" * 300 + b"]" * 300 + b"\n" + b"[" * 100_000 + b"\nno \x1b[1mJSON \xff\n")
    out, back, _, _, noise = (line.split(" ", 1)[1] for line in told.lines)
    assert out == 'p → big #7 23 B {"method":"big","id":7}'
    assert back.startswith("p ← big #7 100020 B ")
    assert " ms " in back[:40]
    assert len(back) < 600
    assert noise == "p ← 13 B no \\x1b[1mJSON \\xff"


def test_what_is_nested_beyond_reason_is_left_out():
    told = Lines()
    deep: list = []
    for _ in range(2000):
        deep = [deep]
    DevOutput(told, as_json=True).show("logged", "words", fields=deep)
    assert "nested too deeply" in json.loads(told.lines[0])["left_out"]


@pytest.mark.parametrize("as_json", [True, False])
def test_a_key_of_several_lines_is_hidden_line_by_line(as_json):
    told = Lines()
    screen = DevOutput(told, as_json=as_json)
    screen.hide({"KEY": "-----BEGIN-----\nabcdefgh\n", "SHORT": "1"})
    key = "-----BEGIN-----\nabcdefgh\n"
    for said in ("line abcdefgh", json.dumps(key), repr(key), key):
        screen.show("x", said, said=[{said: said}], n=1)
    assert not any("abcd" in line or "BEGIN" in line for line in told.lines), told.lines


def test_bytes_that_make_no_frame_are_shown_as_such():
    told = Lines()
    listen = FrameLog(DevOutput(told, as_json=True))(Origin("p", "ainb", "ContentLength"))
    listen("in", b"hello\r\n\r\n")
    event = json.loads(told.lines[0])
    assert (event["event"], event["way"], event["head"]) == ("no_frame", "in", "hello\r\n\r\n")


@pytest.mark.parametrize("contract", ["mcptest", "kaged"])
def test_a_plugin_that_fails_at_its_start_shows_its_traceback_once_and_is_never_called_ready(
    contract, tmp_path
):
    made = subprocess.run(
        [*DEV[:-1], "new", contract, "greeter"], cwd=tmp_path, capture_output=True, timeout=60
    )
    assert made.returncode == 0
    (tmp_path / "greeter/plugin.py").write_text("raise RuntimeError('boom')\n")
    mine = tmp_path / "mine.toml"
    mine.write_text(
        f'[plugins.greeter]\ncontract = "{contract}"\ncwd = "greeter"\ncommand = ["python3", "plugin.py"]\n'
        + ("" if contract == "mcptest" else "failure_limit = 1\n")
    )
    words = ["-c", str(mine), "--sandbox", "none", "--until-eof", "greeter"]
    ran = subprocess.run(
        [*DEV, *words], cwd=tmp_path, input=b"greeter.greet\n", capture_output=True, timeout=60
    )
    told = ran.stdout.decode()
    assert (ran.returncode, told.count("RuntimeError: boom")) == (0, 1), told
    assert "ready" not in told
    assert "hint: fix the plugin; it is restarted when a file changes" in told
    assert "plughost reload" not in told


async def test_dev_takes_the_grants_and_the_sandbox_of_the_command_line(tmp_path, mark):
    folder = plugin(tmp_path / "p", mark, env='{ A = "b" }')
    async with dev(folder, "--sandbox", "none", "--env", "A=c", "--allow", "read=/tmp", mark=mark) as at:
        await at.until("ready", plugin="p")


@pytest.mark.parametrize(
    ("contract", "means"),
    [
        ("mcptest", "it has run for 0.4 s; mcptest has no handshake, so only a call shows whether it works"),
        ("kaged", "its handshake is done"),
        ("rune", "each call starts a process"),
    ],
)
def test_ready_says_what_is_known_of_the_plugin(contract, means, tmp_path):
    made = [*DEV[:-1], "new", contract, "greeter"]
    assert subprocess.run(made, cwd=tmp_path, capture_output=True, timeout=60).returncode == 0
    grants = ["--grant", "tool.execute"] if contract == "rune" else []
    ran = subprocess.run(
        [*DEV, "--sandbox", "none", *grants, "--until-eof", "greeter"],
        cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert f"ready: greeter ({contract}): {means}\n" in ran.stdout, ran
