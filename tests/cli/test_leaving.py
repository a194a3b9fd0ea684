"""How commands end when a plugin hangs: soon by themselves, and at once by a second Ctrl-C."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time

import pytest

from plughost import interrupt
from plughost.cli.commands import call
from plughost.cli.ui.findings import Findings
from plughost.errors import Timeout
from plughost.host import Host
from plughost.scaffold import writer
from plughost.spec import PluginSpec
from tests.support import PLUGINS, PYTHON, all_gone, processes, until
from tests.support import ainb as ainb_support

pytestmark = pytest.mark.serial

PLUGHOST = [sys.executable, "-m", "plughost.cli"]
HUNG = [*PYTHON, str(PLUGINS / "hung.py")]
MUCH = 20.0
"""Seconds in which a command ends on a busy machine; the grace of mcptest alone is 30."""


def program(path, mark):
    """A program file that hangs, whatever its plugin's contract."""
    source = (PLUGINS / "hung.py").read_text()
    path.write_text(f"#!{sys.executable} -ISE\n# {mark}\n{source}")
    path.chmod(0o755)


def words_of(command, place, mark):
    """The command line of a command that starts a hung plugin."""
    bare = ["--contract", "mcptest", "--name", "p"]
    if command == "call":
        return ["call", *bare, "greet", "--", *HUNG, mark]
    if command == "run":
        return ["run", *bare, "--socket-dir", str(place), "--", *HUNG, mark]
    if command == "conform":
        return ["conform", *bare, "--timeout", "60", "--", *HUNG, mark]
    if command == "dev":
        told = json.dumps([*HUNG, mark])
        (place / "plughost.toml").write_text(f'[plugins.p]\ncontract = "mcptest"\ncommand = {told}\n')
        return ["dev", str(place)]
    if command == "x":
        folder = ainb_support.folder(place, mark, provides={"cli_namespaces": ["hang"]})
        program(folder / mark, mark)
        return ["x", f"{folder}/", "hang"]
    folder = place / mark
    writer.write("vai", mark, "python", place)
    source = (folder / "plugin.py").read_text()
    waits = f"import pathlib, time; pathlib.Path({str(place / 'called')!r}).touch(); time.sleep(600); "
    (folder / "plugin.py").write_text(source.replace("context.progress", f"{waits}context.progress"))
    return [
        "invoke",
        str(folder),
        "greet",
        '{"name": "Ada"}',
        "--sandbox",
        "none",
        "--state",
        str(place / "state"),
    ]


async def started(words, mark, **more):
    process = await asyncio.create_subprocess_exec(
        *PLUGHOST, *words, stdin=-1, stdout=-1, stderr=-1, start_new_session=True, **more
    )
    # The command's own line may hold the mark, too.
    await until(lambda: [pid for pid in processes(mark) if pid != process.pid], 60)
    return process


async def said(stream, words):
    """Wait until a stream says so."""
    while line := await asyncio.wait_for(stream.readline(), MUCH):
        if words in line:
            return
    pytest.fail(f"{words} was not said")


async def test_a_call_ends_soon_after_its_timeout_though_the_plugin_hangs(mark):
    words = ["call", "--contract", "mcptest", "--timeout", "0.5", "greet", "--", *HUNG, mark]
    start = time.monotonic()
    process = await started(words, mark)
    _, said = await asyncio.wait_for(process.communicate(), MUCH)
    assert process.returncode == 3
    assert b"no answer to 'greet' within 0.5 s" in said
    assert time.monotonic() - start < MUCH
    await all_gone(mark)


@pytest.mark.parametrize(("timeout", "grace"), [(0.5, 0.5), (60.0, 2.0), (None, 2.0)])
async def test_a_call_gives_no_longer_grace_than_its_own_timeout(monkeypatch, timeout, grace):
    given = []

    class Watched(Host):
        def __init__(self, **options):
            given.append(options["max_grace"])
            super().__init__(**options)

        async def add(self, target, *, start=True):
            assert not start, "the timeout would not cover the start"
            raise Timeout("seen enough")

    monkeypatch.setattr(call, "Host", Watched)
    spec = PluginSpec(contract="mcptest", name="p", command=HUNG)
    with pytest.raises(Timeout):
        await call._call(spec, "greet", None, timeout, {}, None, Findings())
    assert given == [grace]


async def test_a_call_of_an_eager_plugin_covers_its_start_with_the_timeout(tmp_path, mark):
    folder = ainb_support.folder(tmp_path, mark, lifecycle={"spawn": "eager"})
    program(folder / mark, mark)
    words = ["call", "--timeout", "0.5", f"{folder}/", "greet"]
    process = await started(words, mark)
    _, said = await asyncio.wait_for(process.communicate(), MUCH)
    assert (process.returncode, b"no answer to 'greet' within 0.5 s" in said) == (3, True), said
    await all_gone(mark)


@pytest.mark.parametrize("command", ["call", "run", "dev", "conform", "x", "invoke"])
async def test_pressing_ctrl_c_again_and_again_ends_every_command_at_once(command, tmp_path, mark):
    process = await started(words_of(command, tmp_path, mark), mark)
    if command == "invoke":
        await until((tmp_path / "called").exists)
    elif command in ("run", "dev"):
        await said(process.stderr if command == "run" else process.stdout, b"ready: p")
    ended = asyncio.create_task(process.communicate())
    start = time.monotonic()
    while not ended.done():
        assert time.monotonic() - start < MUCH
        process.send_signal(signal.SIGINT)
        await asyncio.wait([ended], timeout=0.1)
    _, told = ended.result()
    # The first one may have been enough for an invocation: then its outcome, cancelled, was told.
    assert process.returncode in ((130, 3) if command == "invoke" else (130,)), told
    assert b"Traceback" not in told
    await all_gone(mark)


@pytest.mark.parametrize("command", ["run", "dev"])
async def test_the_first_ctrl_c_says_whom_it_waits_for_and_the_second_waits_no_longer(
    command, tmp_path, mark
):
    process = await started(words_of(command, tmp_path, mark), mark)
    await said(process.stderr if command == "run" else process.stdout, b"ready: p")
    process.send_signal(signal.SIGINT)
    await said(process.stderr, b"waiting for p to end; Ctrl-C ends them by force")
    assert [pid for pid in processes(mark) if pid != process.pid], "its contract gives it 30 s"
    process.send_signal(signal.SIGINT)
    await asyncio.wait_for(process.communicate(), MUCH)
    assert process.returncode == 130
    await all_gone(mark)


async def test_a_command_that_still_waits_after_a_second_ctrl_c_exits_nevertheless(tmp_path):
    script = (
        "import asyncio, threading\nfrom plughost import interrupt\n"
        "async def stuck():\n"
        "    interrupt.restore_with(lambda: print('restored', flush=True))\n"
        "    print('up', flush=True)\n"
        "    while True:\n"
        "        try: await asyncio.Event().wait()\n"
        "        except asyncio.CancelledError: print('cancelled', flush=True)\n"
        "interrupt.run(stuck())\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=-1)
    for word in (b"up\n", b"cancelled\n"):
        assert await process.stdout.readline() == word
        process.send_signal(signal.SIGINT)
    rest, _ = await asyncio.wait_for(process.communicate(), MUCH)
    assert (rest, process.returncode) == (b"cancelled\nrestored\n", 130)


def test_one_ctrl_c_cancels_a_command_and_none_changes_its_result():
    async def answer():
        return 42

    async def waits():
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    assert interrupt.run(answer()) == 42
    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupt.run(waits())
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN, "the command is about to exit"
    finally:
        signal.signal(signal.SIGINT, before)


async def test_ctrl_c_while_plugins_start_ends_a_run_without_a_traceback(tmp_path, mark):
    process = await started(words_of("run", tmp_path, mark), mark)
    process.send_signal(signal.SIGINT)
    told = []
    async with asyncio.timeout(60):
        async for line in process.stderr:
            told.append(line)
            if b"Ctrl-C ends them by force" in line:  # it had just started, and has 30 s to end by itself
                process.send_signal(signal.SIGINT)
        await process.communicate()
    assert b"Traceback" not in b"".join(told)
    await all_gone(mark)
