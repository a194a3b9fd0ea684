"""What a sandbox does not give is found again by name, with the grant that gives it; and nothing else is."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tomllib

import pytest

import plughost
from plughost import control
from plughost.events import Logged
from plughost.permissions import parse
from plughost.permissions.access import NONE, Access
from plughost.sandbox.denials.collector import MOST_REPORTED
from tests.support import ROOT, until
from tests.support.access_probe import command
from tests.support.confinable import PATH

pytestmark = pytest.mark.usefixtures("strict")

CLASSES = ["strict", "landlock"]
PROGRAM = os.path.realpath(shutil.which("whoami", path=PATH) or "")


@pytest.fixture
async def host():
    async with plughost.Host() as host:
        yield host


@pytest.fixture
def notes(folder):
    path = folder / "notes.txt"
    path.write_text("tea")
    path.chmod(0o644)
    return path


def spec(folder, sandbox="strict", language="python", name="asking", allow=NONE):
    env = {"PATH": PATH}
    words = command(language, folder)
    return plughost.PluginSpec(
        contract="mcptest", name=name, command=words, sandbox=sandbox, allow=allow, env=env
    )


async def ask(plugin, method, path, **params):
    return await plugin.call(method, {"hex": os.fsencode(path).hex(), **params}, timeout=100)


def denied(host, name="asking"):
    return [line.message for line in host.service("logs").recent(name) if line.source == "denied"]


async def told(host, name="asking"):
    """What was told of it in all, once it has ended."""
    await host.remove(name)
    return denied(host, name)


def granted(line):
    """The grant that a line names, in both of its spellings."""
    toml, option = re.search(r"\(to allow it, (allow\.\w+ = \[.*\]) or (--allow .*)\)$", line).groups()
    kind, _, path = shlex.split(option)[1].partition("=")
    assert tomllib.loads(toml)["allow"] == {kind: [path]}
    return parse.parse_access({kind: [path]}, "/")


@pytest.mark.parametrize("sandbox", CLASSES)
@pytest.mark.parametrize("language", ["python", "node", "c"])
async def test_a_file_and_a_program_that_are_missing_are_told_and_their_grants_give_them(
    host, folder, notes, sandbox, language
):
    plugin = await host.add(spec(folder, sandbox, language))
    with host.events() as events:
        assert await ask(plugin, "open", notes) != "done"
        assert await ask(plugin, "run", os.path.basename(PROGRAM)) != "done"
        await until(lambda: len(denied(host)) == 2)
        heard = [event.message for event in iter(events.take, None) if isinstance(event, Logged)]
    lines = await told(host)
    assert heard == lines
    assert [line.partition(":")[0] for line in lines] == [f"read {notes}", f"execute {PROGRAM}"]

    allow = parse.union(*map(granted, lines))
    plugin = await host.add(spec(folder, sandbox, language, name="again", allow=allow))
    assert await ask(plugin, "open", notes) == "done"
    assert await ask(plugin, "run", os.path.basename(PROGRAM)) == "done"
    assert await told(host, "again") == []


async def test_plughost_logs_shows_it(host, folder, notes, tmp_path):
    plugin = await host.add(spec(folder))
    await ask(plugin, "open", notes)
    await until(lambda: denied(host))
    async with control.Control(host, tmp_path / "s", lambda: None) as door:
        command = [sys.executable, "-m", "plughost.cli", "logs", "asking", "--socket-dir", door.path.parent]
        shown = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
    grant = f'allow.read = ["{notes}"] or --allow read={notes}'
    assert (
        shown.stdout[len("2026-03-12 20:00:00.000 ") :]
        == f"asking warn (denied): read {notes}: not granted (to allow it, {grant})\n"
    )


@pytest.mark.parametrize("sandbox", CLASSES)
async def test_writing_what_may_only_be_read_is_told_and_so_is_a_folder_for_a_new_file(
    host, folder, notes, sandbox
):
    (folder / "out").mkdir()
    plugin = await host.add(spec(folder, sandbox, allow=Access(read=(str(folder),))))
    assert await ask(plugin, "open", notes, flags=os.O_WRONLY) != "done"
    assert await ask(plugin, "open", folder / "out" / "new", flags=os.O_WRONLY | os.O_CREAT) != "done"
    lines = await told(host)
    assert [granted(line).write for line in lines] == [(str(notes),), (str(folder / "out"),)]


async def test_a_script_that_fails_for_want_of_its_interpreter_names_that(host, folder):
    code = folder / "code"
    code.mkdir()
    script = code / "tool"
    script.write_text("#!/usr/bin/env sh\n")
    script.chmod(0o755)
    plugin = await host.add(
        plughost.PluginSpec(
            contract="mcptest",
            name="asking",
            command=command("python", folder),
            sandbox="strict",
            cwd=str(code),
        )
    )
    assert await ask(plugin, "run", script) == "No such file or directory"
    (line,) = await told(host)
    assert granted(line).execute == ("/usr/bin/env",)


async def test_a_relative_path_is_told_with_its_folder(host, folder, notes):
    code = folder / "code"
    code.mkdir()
    plugin = await host.add(
        plughost.PluginSpec(
            contract="mcptest",
            name="asking",
            command=command("python", folder),
            sandbox="strict",
            cwd=str(code),
        )
    )
    assert await ask(plugin, "open", "../notes.txt") != "done"
    (line,) = await told(host)
    assert granted(line).read == (str(notes),)


@pytest.mark.parametrize("sandbox", CLASSES)
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("sh", ["sh", "echo.sh"]),
        ("c", ["./bin/echo"]),
        ("go", ["./bin/echo"]),
        ("node", ["node", "echo.js"]),
        ("", ["/usr/bin/python3", "echo.py"]),
    ],
)
async def test_an_ordinary_start_is_told_nothing_of(host, folder, sandbox, kind, words):
    source = ROOT / "plugins" / f"echo-mcptest{'-' if kind else ''}{kind}"
    if not (source / words[0]).exists() and shutil.which(words[0], path=PATH) is None:
        assert not os.environ.get("CI"), f"{words[0]} is missing"
        pytest.skip(f"{words[0]} is missing")
    (folder / "package.json").write_text("{}")
    shared = str(shutil.copy(ROOT / "plugins" / "json_text.sh", folder))
    home = shutil.copytree(source, folder / "home")
    plugin = await host.add(
        plughost.PluginSpec(
            contract="mcptest", name="echo", command=words, cwd=str(home), sandbox=sandbox,
            allow=Access(read=(shared,)), env={"PATH": PATH},
        )
    )  # fmt: skip
    assert await plugin.call("echo", {"text": "hi"}, timeout=30) == {"text": "hi"}
    assert await told(host, "echo") == []


@pytest.mark.parametrize("sandbox", CLASSES)
async def test_what_is_not_there_is_not_told_nor_what_no_grant_could_give(host, folder, sandbox):
    plugin = await host.add(spec(folder, sandbox))
    run_dir = host._sandboxes._host_setup.run_dir.path
    for path in (
        folder / "nothing",
        "/",
        "/proc/kcore",
        "/dev/mem",
        "/sys/kernel",
        run_dir,
        f"{run_dir}/0",
    ):
        await ask(plugin, "open", path)
        await ask(plugin, "run", path)
    assert await told(host) == []


async def test_a_name_that_a_terminal_would_obey_is_told_as_text(host, folder):
    names = {b"two\nlines \x1b[31m": "two\\nlines \\x1b[31m", b"no\xfftext": "no\\udcfftext"}
    plugin = await host.add(spec(folder))
    for name in names:
        path = os.fsencode(folder) + b"/" + name
        with open(path, "w"):
            pass
        assert await ask(plugin, "open", path) != "done"
    lines = await told(host)
    assert [line.partition(":")[0] for line in lines] == [
        f"read {folder}/{shown}" for shown in names.values()
    ]
    assert all(line.isprintable() for line in lines)
    toml = re.search(r"to allow it, (.*)\)$", lines[0])[1]
    assert tomllib.loads(toml)["allow"]["read"] == [f"{folder}/two\nlines \x1b[31m"]
    assert "no grant can name it" in lines[1]


async def test_a_flood_is_bounded_and_disturbs_nobody(host, folder):
    for number in range(2 * MOST_REPORTED):
        (folder / f"file{number}").touch()
    loud, quiet = await host.add(spec(folder)), await host.add(spec(folder, name="quiet"))
    assert await ask(quiet, "open", "/dev/null") == "done"
    flood = asyncio.ensure_future(ask(loud, "flood", folder / "file", count=100_000))
    took = []
    while not flood.done():
        before = asyncio.get_running_loop().time()
        assert await ask(quiet, "open", "/dev/null") == "done"
        took.append(asyncio.get_running_loop().time() - before)
    assert await flood == "done"
    assert statistics.median(took) < 3.0  # a single one may wait for the machine
    lines = await told(host)
    assert len(lines) == MOST_REPORTED + 1
    assert lines[-1].startswith("further files, programs and hosts were denied")
    assert denied(host, "quiet") == []


async def test_every_generation_and_no_process_is_told_of_again(host, folder, notes):
    plugin = await host.add(spec(folder))
    for expected in (1, 2):
        for _ in range(3):
            await ask(plugin, "open", notes)
        await until(lambda: len(denied(host)) == expected)
        await plugin.reload()
    assert len(await told(host)) == 2


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="other machines have no stat(2) of their own")
async def test_a_program_that_is_only_looked_for_is_told(host, folder):
    """Bun looks along PATH with stat(2), finds nothing, and executes nothing."""
    plugin = await host.add(spec(folder))
    for path in ("/usr/local/bin/no-such-program", PROGRAM, "/usr/share/doc", PROGRAM):
        assert await ask(plugin, "look", path) == "No such file or directory"
    assert await ask(plugin, "look", "/usr/lib") == "done"
    lines = await told(host)
    assert [line.partition(":")[0] for line in lines] == [f"execute {PROGRAM}"]
    assert granted(lines[0]) == Access(execute=(PROGRAM,))


def bun():
    place = ROOT / "plugins/notes-ts/node_modules/@oven"
    return next((path for path in place.glob("bun-*/bin/bun") if os.access(path, os.X_OK)), None)


@pytest.mark.skipif(bun() is None or os.uname().machine != "x86_64", reason="needs Bun, on x86-64")
async def test_a_program_missing_under_bun_is_told(host, folder):
    shutil.copy(bun(), folder / "bun")
    (folder / "main.js").write_text(IN_BUN)
    program = os.path.basename(PROGRAM)
    words = [str(folder / "bun"), str(folder / "main.js")]
    plugin = await host.add(
        plughost.PluginSpec(
            contract="mcptest",
            name="asking",
            command=words,
            cwd=str(folder),
            sandbox="strict",
            env={"PATH": PATH},
            limits=parse.parse_limits({"memory": "none"}),
        )
    )
    assert "not found" in await plugin.call("run", program, timeout=100)
    lines = await told(host)
    assert f"execute {PROGRAM}" in [line.partition(":")[0] for line in lines]


IN_BUN = """
for await (const line of console) {
  const { id, params } = JSON.parse(line)
  let result = "done"
  try { Bun.spawnSync([params]) } catch (error) { result = String(error) }
  console.log(JSON.stringify({ id, result }))
}
"""
