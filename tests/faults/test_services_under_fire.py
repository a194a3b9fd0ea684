"""Plugins that ask too much, services that fail, embedding programs that are careless: found by attack."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

import plughost
import plughost.sync
from plughost import control
from plughost.contracts.ainb.contract import Ainb
from plughost.contracts.ainb.messages import Char, KeyEvent
from plughost.engine import request_server
from plughost.events import Dropped
from tests.faults.test_cancellation import parley
from tests.support import ROOT, all_gone, puppet, seen, until
from tests.support.ainb import ask, b64, folder, spec

PLUGHOST = [sys.executable, "-m", "plughost.cli"]


def memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def many(method: str, params: object, count: int) -> str:
    """So many requests, as one piece of a plugin's output."""
    frames = []
    for number in range(count):
        body = json.dumps({"jsonrpc": "2.0", "id": 10_000 + number, "method": method, "params": params})
        frames.append(f"Content-Length: {len(body)}\r\n\r\n{body}")
    return "".join(frames)


async def test_requests_beyond_those_that_may_wait_are_not_read(host, tmp_path, mark):
    """Ten thousand requests that nobody answers: most of them stay in the plugin's own pipe."""
    plugin = await host.add(spec(folder(tmp_path / mark)))
    other = await host.add(spec(folder(tmp_path / mark, "other")))
    await plugin.call("echo", {})
    await other.call("echo", {})
    never = asyncio.Event()
    host.service("actions").register("wait", lambda caller, payload: never.wait())
    invoke = {"action": "wait", "payload": "", "timeout_ms": 0}
    flood = asyncio.create_task(plugin.call("raw", {"text": many("host/action/invoke", invoke, 10_000)}))
    waiting = await until(lambda: plugin._current._peer._request_server)
    await until(lambda: len(waiting) > 1024)
    for n in range(100):
        assert await asyncio.wait_for(other.call("echo", {"n": n}), 30) == {"n": n}
    assert len(waiting) < 3000
    flood.cancel()
    plugin.kill()


@pytest.mark.clause("KAGED-25")
async def test_requests_of_more_bytes_than_may_wait_are_not_read(host, tmp_path, mark, monkeypatch):
    """Few enough to be counted in hundreds, large enough to be a host's memory."""
    monkeypatch.setattr(request_server, "MAX_PARAMS_BYTES", 1 << 20)
    plugin = await host.add(spec(folder(tmp_path / mark)))
    other = await host.add(spec(folder(tmp_path / mark, "other")))
    await plugin.call("echo", {})
    await other.call("echo", {})
    gate = asyncio.Event()
    host.service("actions").register("wait", lambda caller, payload: gate.wait())
    invoke = {"action": "wait", "payload": b64("x" * 70_000), "timeout_ms": 0}
    flood = asyncio.create_task(plugin.call("raw", {"text": many("host/action/invoke", invoke, 100)}))
    waiting = await until(lambda: plugin._current._peer._request_server)
    await until(lambda: len(waiting) > 10)
    for n in range(100):
        assert await asyncio.wait_for(other.call("echo", {"n": n}), 30) == {"n": n}
    assert len(waiting) < 15
    gate.set()
    await until(lambda: not waiting)  # all of them are read and served in the end
    assert await plugin.call("echo", {"still": 1}) == {"still": 1}
    flood.cancel()


async def test_answers_that_a_plugin_does_not_read_are_not_made(host, tmp_path, mark):
    """A thousand requests for a megabyte each, and never a read: the host holds one or two of them."""
    plugin = await host.add(spec(folder(tmp_path / mark)))
    other = await host.add(spec(folder(tmp_path / mark, "other")))
    await plugin.call("echo", {})
    await other.call("echo", {})
    host.service("snapshots").put("t", b"x" * (1 << 20))
    before = memory()
    flood = asyncio.create_task(plugin.call("raw", {"text": many("host/snapshot/get", {"topic": "t"}, 1000)}))
    deaf = asyncio.create_task(plugin.call("deaf", {}))
    await until(lambda: seen(plugin)["in_flight"] == 2)
    for n in range(50):
        assert await asyncio.wait_for(other.call("echo", {"n": n}), 30) == {"n": n}
        await asyncio.sleep(0.005)
    assert memory() - before < 64 << 20
    for call in (flood, deaf):
        call.cancel()
    plugin.kill()


async def test_a_plugin_with_many_open_requests_still_hears_and_answers(host, tmp_path, mark):
    gate = asyncio.Event()

    async def slow(caller, payload):
        await gate.wait()
        return b"done"

    host.service("actions").register("slow", slow)
    plugin = await host.add(spec(folder(tmp_path / mark)))
    await plugin.call("echo", {})
    params = {"action": "slow", "payload": ""}
    raw = asyncio.create_task(plugin.call("raw", {"text": many("host/action/invoke", params, 800)}))
    await until(lambda: seen(plugin)["in_flight"] == 1)
    for n in range(20):
        assert await asyncio.wait_for(plugin.call("echo", {"n": n}), 30) == {"n": n}
    gate.set()
    assert await ask(plugin, "host/action/invoke", params) == {"payload": b64("done")}
    raw.cancel()


async def test_two_plugins_whose_actions_call_each_other_do_not_wedge(host, tmp_path, mark):
    one = await host.add(spec(folder(tmp_path / mark, "one", provides={"cli_namespaces": ["slow", "a"]})))
    two = await host.add(spec(folder(tmp_path / mark, "two", provides={"cli_namespaces": ["b"]})))
    for plugin in (one, two):
        await plugin.call("echo", {})
    raws = [
        asyncio.create_task(
            plugin.call("raw", {"text": many("host/action/invoke", {"action": action, "payload": ""}, 200)})
        )
        for plugin, action in ((one, "b"), (two, "slow"))
    ]
    await until(lambda: seen(two)["in_flight"] >= 1)
    for plugin in (one, two):
        assert await asyncio.wait_for(plugin.call("echo", {"still": 1}), 30) == {"still": 1}
    for raw in raws:
        raw.cancel()
    for plugin in (one, two):
        plugin.kill()


async def test_log_lines_are_bounded_in_size(host, tmp_path, mark):
    plugin = await host.add(spec(folder(tmp_path / mark)))
    await plugin.call("echo", {})

    async def say(**line):
        await plugin.call("tell", {"method": "host/log", "params": {"level": "info", **line}})

    await say(message="m" * 1_000_000)
    await say(message="short", fields={"many": ["x" * 100] * 1000})
    await say(message="fine", fields={"a": [1]})
    long, wide, fine = host.service("logs").recent("puppet")
    assert len(long.message) < 20_000
    assert (wide.fields.keys(), fine.fields) == ({"left_out"}, {"a": [1]})


class Broken:
    """A log of an embedding program's own that fails, and knows nothing of stderr."""

    def log(self, caller, line):
        raise ValueError("my own fault")


async def test_a_service_that_fails_loses_nothing_else(host, tmp_path, mark):
    host.provide("logs", Broken())
    plugin = await host.add(spec(folder(tmp_path / mark), failure_limit=1))
    await plugin.call("stderr", {"text": "unheard\n"})
    with host.events() as told:
        await plugin.call("tell", {"method": "host/log", "params": {"level": "info", "message": "m"}})
        event = await told.get()
    assert isinstance(event, Dropped)
    assert "my own fault" in event.what
    with pytest.raises(plughost.Crashed) as caught:
        async with asyncio.timeout(20):  # sooner than after the call's own time
            await plugin.call("exit", {"code": 3})
    assert caught.value.exit_status == 3


async def test_services_that_cannot_be_closed_keep_no_host_open(mark):
    closed = []

    class Plain:
        def close(self):
            closed.append("plain")

    class Failing:
        async def close(self):
            raise OSError("no")

    told = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["message"]))
    async with plughost.Host() as host:
        host.provide("a", Failing())
        host.provide("b", Plain())
        stream = host.events()
    assert (closed, told, await stream.get()) == (["plain"], ["the a service failed to close"], None)


async def test_a_reload_takes_an_upgraded_plugin(host, tmp_path, mark):
    place = folder(tmp_path / mark)
    plugin = await host.add(spec(place))
    await plugin.call("echo", {})
    manifest = place / "manifest.toml"
    manifest.write_text(
        manifest.read_text().replace("1.2.3", "1.3.0").replace("event_bus = true", "event_bus = false")
    )
    await plugin.reload()
    assert await plugin.call("echo", {"new": 1}) == {"new": 1}
    assert (await ask(plugin, "host/snapshot/get", {"topic": "t"}))["code"] == -32001
    manifest.write_text("[plugin")
    with pytest.raises(plughost.InvalidConfig):
        await plugin.reload()
    assert await plugin.call("echo", {"old": 1}) == {"old": 1}


async def test_frames_of_the_hosts_own_keep_a_plugin_from_being_idle(slow_host, clock, tmp_path, mark):
    plugin = await slow_host.add(spec(folder(tmp_path / mark)))
    view = Ainb(plugin)
    await plugin.call("echo", {})
    for _ in range(5):
        clock.advance(400)
        assert view.key("s", KeyEvent(Char("k")))
    assert plugin.state == "Running"


async def test_a_reload_beside_an_idle_reap_leaves_one_process(slow_host, clock, tmp_path, mark):
    """The old one is reaped while the new one starts, and a call starts a third."""
    plugin = await slow_host.add(parley(mark, idle_reap=10))
    await plugin.call("echo", 1)
    clock.advance(5)
    reloading = asyncio.create_task(plugin.reload())
    await until(lambda: len(plugin.inspect()["instances"]) == 2)
    clock.advance(6)  # the old one is idle for too long
    call = asyncio.create_task(plugin.call("echo", 2))
    await reloading
    assert await call == 2
    await until(lambda: [each["state"] for each in plugin.inspect()["instances"]] == ["Running"])
    assert await plugin.call("echo", 3) == 3


async def test_two_removals_at_once_leave_what_was_added_meanwhile(host, mark):
    await host.add(puppet(mark))
    await host.plugins["puppet"].call("ping")
    first, second = (asyncio.create_task(host.remove("puppet")) for _ in range(2))
    await asyncio.wait({first, second}, return_when=asyncio.FIRST_COMPLETED)
    again = await host.add(puppet(mark)) if "puppet" not in host.plugins else None
    await asyncio.gather(first, second, return_exceptions=True)
    if again is not None:
        assert host.plugins["puppet"] is again


async def test_an_observer_is_bounded_in_bytes_and_may_be_read_by_two(host, mark):
    plugin = await host.add(parley(mark))
    await plugin.call("echo", 1)
    with host.events() as told:
        body = '{"method":"tick","params":"' + "x" * (8 << 20) + '"}'
        for _ in range(12):
            raw = asyncio.create_task(plugin.call("raw", f"Content-Length: {len(body)}\r\n\r\n{body}"))
            assert await plugin.call("echo", 2) == 2
            raw.cancel()
        assert told.missed >= 4
        assert len(told) <= 8
    with host.events() as told:
        readers = [asyncio.create_task(told.get()) for _ in range(2)]
        await asyncio.sleep(0)
        plugin.kill()
        assert None not in await asyncio.wait_for(asyncio.gather(*readers), 30)


async def test_a_subscription_of_a_process_that_is_replaced_changes_nothing(host, tmp_path, mark):
    store = host.service("snapshots")
    plugin = await host.add(spec(folder(tmp_path / mark)))
    await plugin.call("echo", {})
    old = plugin._current._caller
    await plugin.reload()
    params = type("Params", (), {"topic": "t"})
    await store.subscribe(old, params)
    assert store.subscribers("t") == []


async def test_a_plugin_in_a_root_does_not_write_its_own_grants(tmp_path, mark):
    from plughost import config

    place = folder(tmp_path / mark)
    (place / "plughost.toml").write_text(
        '[plugins.evil]\ncontract = "mcptest"\ncommand = ["sh"]\nenv = { X = "${HOME}" }\n'
    )
    found = config.load_root(tmp_path / mark)
    assert [(each.name, each.contract, dict(each.env)) for each in found.specs] == [("puppet", "ainb", {})]


def test_a_manifest_that_is_no_file_is_not_waited_for(tmp_path):
    from plughost import config

    os.mkfifo(folder(tmp_path) / "manifest.fifo")
    place = folder(tmp_path, "piped")
    (place / "manifest.toml").unlink()
    os.mkfifo(place / "manifest.toml")
    large = folder(tmp_path, "large")
    (large / "manifest.toml").write_text("#" * (2 << 20))
    found = config.load_root(tmp_path)
    assert [each.name for each in found.specs] == ["puppet"]
    assert len(found.problems) == 2


@pytest.mark.parametrize("how", ["symlink", "file", "open to all"])
async def test_a_data_folder_that_is_somebody_elses_is_refused(host, tmp_path, mark, how):
    place = folder(tmp_path / mark)
    data = tmp_path / mark / "data/puppet"
    data.parent.mkdir()
    if how == "symlink":
        data.symlink_to(tmp_path)
    elif how == "file":
        data.write_text("x")
    else:
        data.mkdir()
        data.chmod(0o777)
    with pytest.raises(plughost.LaunchFailed, match="data folder"):
        await host.add(spec(place))


# The host without an event loop


def program(body: str, mark: str) -> subprocess.CompletedProcess[str]:
    source = f"import sys\nsys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'tests/outside')!r}]\n"
    source += "import os, threading, time\nimport plughost.sync\n"
    source += "from tests.support import puppet\n" + textwrap.dedent(body)
    return subprocess.run([sys.executable, "-c", source, mark], capture_output=True, text=True, timeout=30)


async def test_a_fork_that_ends_like_any_program_leaves_its_parents_plugins_alone(mark):
    ran = program(
        """
        host = plughost.sync.Host()
        plugin = host.add(puppet(sys.argv[1]))
        plugin.call("ping")
        child = os.fork()
        if child == 0:
            sys.exit(0)
        os.waitpid(child, 0)
        print(plugin.call("ping", timeout=30), plugin.inspect()["instances"][0]["failures"])
        try:
            plugin.call("silent", timeout=0.1)
        except plughost.Timeout:
            print("time still runs")
        host.close()
        """,
        mark,
    )
    assert ran.stdout == "pong 0\ntime still runs\n", ran.stderr
    await all_gone(mark)


async def test_a_service_that_never_returns_keeps_no_host_open(mark):
    ran = program(
        """
        from tests.faults.test_cancellation import parley
        with plughost.sync.Host() as host:
            started = threading.Event()
            def never(plugin, params):
                started.set()
                time.sleep(600)
            host.provide("add", never)
            plugin = host.add(parley(sys.argv[1]))
            call = plugin.submit("ask", {"method": "host/add", "params": {"a": 1, "b": 2}})
            started.wait(10)
        print("closed")
        """,
        mark,
    )
    assert ran.stdout == "closed\n", ran.stderr


@pytest.fixture
def _loops_that_were_never_whole(monkeypatch):
    """asyncio's own finalizer fails on them. It does so here and now: were it in the middle of a module that
    pytest takes apart, telling of it would take apart source text, too, and CPython 3.11 cannot do both."""
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)
    yield
    gc.collect()


@pytest.mark.usefixtures("_loops_that_were_never_whole")
def test_a_host_without_descriptors_for_its_loop_says_so():
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 5, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        with pytest.raises(OSError, match="Too many open files"):
            plughost.sync.Host()
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not any(thread.name == "plughost" for thread in threading.enumerate())


# The command line


@pytest.fixture
def root(tmp_path, mark):
    place = tmp_path / mark / "root"
    folder(place, "a-hung", lifecycle={"spawn": "eager"})
    program = place / "a-hung/a-hung"
    program.write_text(
        program.read_text().replace("exec(", "import os\nos.environ['init'] = 'never'\nexec(", 1)
    )
    folder(place, "b-fine", provides={"cli_namespaces": ["fine"]}, lifecycle={"spawn": "eager"})
    return place


async def test_a_plugin_that_hangs_in_init_holds_up_nobody(root, tmp_path, mark):
    start = time.monotonic()
    ran = subprocess.run([*PLUGHOST, "x", "--root", root, "fine"], capture_output=True, cwd=ROOT, timeout=60)
    assert (ran.returncode, ran.stdout[:4]) == (7, b"fine")
    took = [time.monotonic() - start]
    start = time.monotonic()
    process = subprocess.Popen(
        [*PLUGHOST, "run", "--json", "--root", root, "--socket-dir", tmp_path / "s"],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        while True:
            event = json.loads(await asyncio.to_thread(process.stdout.readline))
            if (event["plugin"], event.get("new")) == ("b-fine", "Running"):
                break
        process.terminate()
        await asyncio.to_thread(process.communicate, timeout=60)
        assert process.returncode == 0
        took.append(time.monotonic() - start)
        assert max(took) < 14, "an init is given 15 s"
    finally:
        process.kill()
        process.wait()
    await all_gone(mark)


async def test_run_ends_when_it_is_told_to_though_nobody_reads_its_output(tmp_path, mark):
    place = folder(tmp_path / mark, lifecycle={"spawn": "eager"})
    program = place / "puppet"
    flood = "import sys\nfor n in range(5000):\n    print('x' * 100, file=sys.stderr)\n"
    program.write_text(program.read_text().replace("exec(", flood + "exec(", 1))
    sockets = tmp_path / "s"
    process = subprocess.Popen(
        [*PLUGHOST, "run", "--json", "--root", place.parent, "--socket-dir", sockets],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        await until(lambda: sockets.exists() and any(path.suffix == ".sock" for path in sockets.iterdir()))
        for _ in range(3):
            ps = [*PLUGHOST, "ps", "--json", "--socket-dir", sockets]
            ran = await asyncio.to_thread(subprocess.run, ps, capture_output=True, cwd=ROOT, timeout=20)
            assert ran.returncode == 0, ran.stderr
        process.terminate()
        assert await asyncio.to_thread(process.wait, 20) in (0, 3)
    finally:
        process.kill()
        process.communicate()
    await all_gone(mark)


async def test_what_a_plugin_says_cannot_play_tricks_on_a_terminal_or_forge_a_line(tmp_path, mark):
    place = folder(tmp_path / mark, lifecycle={"spawn": "eager"})
    program = place / "puppet"
    trick = (
        "import json, os\n"
        "def say(m):\n"
        "    body = json.dumps({'jsonrpc': '2.0', **m}).replace('@', '\\n').encode()\n"
        "    os.write(1, b'Content-Length: %d\\r\\n\\r\\n' % len(body) + body)\n"
        "say({'method': 'host/log', 'params': {'level': 'info', 'message': '\\x1b[2J\\nother error: forged'}})\n"
        "say({'method': 'unknown', 'params': {'a': [1, 2]}})\n"
        'os.write(1, b\'Content-Length: 60\\r\\n\\r\\n\' + b\'{"jsonrpc":"2.0","method":"x","params":{\\n"plugin":"bank"\\n}}\'.ljust(60))\n'
    )
    program.write_text(program.read_text().replace("exec(", trick + "exec(", 1))
    sockets = ("--socket-dir", str(tmp_path / "s"))
    process = subprocess.Popen(
        [*PLUGHOST, "run", "--json", "--root", place.parent, *sockets], stdout=subprocess.PIPE, cwd=ROOT
    )
    try:
        names = set()
        while "Running" not in names:
            event = json.loads(await asyncio.to_thread(process.stdout.readline))
            assert event.get("plugin") == "puppet", event
            names.add(event.get("new"))
        ran = await asyncio.to_thread(
            subprocess.run, [*PLUGHOST, "logs", "puppet", *sockets], capture_output=True, cwd=ROOT, timeout=20
        )
        assert (
            ran.stdout[len("2026-03-12 20:00:00.000 ") :]
            == rb"puppet info: \x1b[2J\nother error: forged" + b"\n"
        )
    finally:
        process.terminate()
        process.communicate(timeout=20)
    await all_gone(mark)


async def test_those_who_follow_and_leave_cost_nothing(tmp_path, mark):
    async with plughost.Host() as host, control.Control(host, tmp_path / "s", lambda: None) as socket_:
        plugin = await host.add(puppet(mark))
        await plugin.call("stderr", "hello\n")
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            reader, writer = await asyncio.open_unix_connection(str(socket_.path))
            writer.write(b'{"do":"logs","follow":true}\n')
            await writer.drain()
            writer.close()
            await writer.wait_closed()
            del reader
        await until(lambda: len(os.listdir("/proc/self/fd")) <= before)
        reader, writer = await asyncio.open_unix_connection(str(socket_.path))
        writer.write(b'{"do":"logs","follow":true}\n')
        await writer.drain()
        assert b"hello" in await reader.readline()
    assert await reader.read() == b""
    writer.close()


@pytest.mark.parametrize(
    ("said", "code"), [(0, 0), (7, 7), (256, 1), (-256, 1), (512, 1), (-1, 255), (300, 44)]
)
def test_no_failure_becomes_a_success_by_its_exit_code(said, code):
    from plughost.cli.commands.x import _exit_code

    assert _exit_code(said) == code


async def test_the_largest_file_fits_and_one_more_byte_is_refused(host, tmp_path, mark):
    from plughost.services.files.reader import LARGEST
    from plughost.services.files.service import FileService

    files = tmp_path / "files"
    files.mkdir()
    (files / "fits").write_bytes(b"x" * LARGEST)
    (files / "not").write_bytes(b"x" * (LARGEST + 1))
    host.provide("fs", FileService({"read_sessions": files}))
    plugin = await host.add(spec(folder(tmp_path / mark)))
    await plugin.call("echo", {})
    assert (await ask(plugin, "host/fs/read_file", {"path": f"{files}/not"}))["code"] == -32602
    answer = await ask(plugin, "host/fs/read_file", {"path": f"{files}/fits"})
    assert len(answer["bytes"]) > LARGEST
