"""`plughost run` and those who talk to it; `plughost x`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from plughost import control
from plughost.host import Host
from tests.support import ROOT, all_gone, processes, until
from tests.support import kaged as kaged_support
from tests.support.ainb import folder

PLUGHOST = [sys.executable, "-m", "plughost.cli"]


def plughost(*words, cwd=ROOT, env=None):
    return subprocess.run(
        [*PLUGHOST, *map(str, words)],
        capture_output=True,
        cwd=cwd,
        timeout=60,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture
def root(tmp_path, mark):
    place = tmp_path / mark / "root"
    folder(place, "eager", lifecycle={"spawn": "eager"}, provides={"cli_namespaces": ["usage"]})
    folder(place, "lazy", provides={"cli_namespaces": ["usage", "other"]})
    return place


@asynccontextmanager
async def running(root, sockets, *more):
    """A host that runs the plugins of a root, or what `more` names."""
    which = () if root is None else ("--root", root)
    process = subprocess.Popen(
        [*PLUGHOST, "run", *map(str, (*which, "--socket-dir", sockets, *more))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    said = []
    try:
        while not (line := await asyncio.to_thread(process.stderr.readline)).startswith("ready"):
            assert line, said
            said.append(line)
        yield process, said
    finally:
        process.terminate()
        process.communicate(timeout=60)


# x


@pytest.mark.clause("AINB-25")
def test_x_writes_the_plugins_bytes_and_exits_with_its_code(root):
    for words in (
        ["--root", root, "other", "--json", "--", "-x", "é"],
        [root / "lazy", "other", "--json", "--", "-x", "é"],
    ):
        ran = plughost("x", *words)
        assert (ran.stdout, ran.returncode) == ("other --json -- -x é\n".encode() + b"\xff", 7)
        assert ran.stderr.endswith(b"warned\n")


@pytest.mark.clause("AINB-06")
def test_of_two_plugins_with_one_namespace_the_first_by_name_has_it(root):
    ran = plughost("x", "--root", root, "usage")
    assert (ran.returncode, ran.stderr) == (7, b"warned\n"), "only what the plugin says"


@pytest.mark.clause("AINB-06")
def test_x_looks_into_the_default_root(root):
    (root.parent / "dist").mkdir()
    root.rename(root.parent / "dist/plugins")
    ran = plughost("x", "other", "a", cwd=root.parent)
    assert (ran.stdout, ran.returncode) == (b"other a\n\xff", 7)


def test_x_says_what_there_is_and_leaves_broken_plugins_out(root):
    (folder(root, "broken") / "manifest.toml").write_text("[plugin]\nname = 1\n")
    ran = plughost("x", "--root", root, "nonsense")
    assert ran.returncode == 2
    assert b"known: other, usage" in ran.stderr
    assert b"skipped: " in ran.stderr
    assert b"manifest.toml:2: plugin.name" in ran.stderr
    assert plughost("x", "--root", root / "nowhere", "usage").returncode == 2
    assert plughost("x").returncode == 2


async def test_x_of_a_plugin_that_dies_is_no_answer(root, mark):
    program = root / "lazy/lazy"
    program.write_text(
        program.read_text().replace(
            "exec(", "import os\nos.environ['crash_on'] = 'plugin/cli_dispatch'\nexec(", 1
        )
    )
    ran = plughost("x", "--root", root, "other")
    assert (ran.returncode, ran.stdout) == (3, b"")
    assert b"exited with code 4" in ran.stderr
    await all_gone(mark)


# A running host


@pytest.mark.clause("AINB-62")
async def test_ps_logs_reload_and_stop_of_a_running_host(root, tmp_path, mark):
    sockets = ("--socket-dir", tmp_path / "s")
    async with running(root, sockets[1]) as (process, said):
        assert any("may: " in line for line in said)
        (host,) = json.loads(plughost("ps", "--json", *sockets).stdout)["hosts"]
        assert host["pid"] == process.pid
        states = {plugin["name"]: plugin["state"] for plugin in host["plugins"]}
        assert states == {"eager": "Running", "lazy": "Idle"}
        table = plughost("ps", *sockets).stdout.decode()
        assert "eager" in table
        assert "Running" in table
        assert plughost("reload", "eager", *sockets).returncode == 0
        (host,) = json.loads(plughost("ps", "--json", *sockets).stdout)["hosts"]
        assert {plugin["name"]: plugin["generation"] for plugin in host["plugins"]} == {"eager": 2, "lazy": 1}
        assert json.loads(plughost("stop", "lazy", "--json", *sockets).stdout) == {
            "done": "stop",
            "plugin": "lazy",
        }
        assert plughost("reload", "lazy", *sockets).returncode == 0
        gone = plughost("reload", "nobody", *sockets)
        assert (gone.returncode, b"plughost ps" in gone.stderr) == (2, True)
        assert plughost("stop", *sockets).returncode == 2
        assert plughost("stop", "--all", *sockets).returncode == 0
        await until(lambda: process.poll() is not None)
        assert process.returncode == 0
    await all_gone(mark)
    assert list((tmp_path / "s").iterdir()) == []
    assert json.loads(plughost("ps", "--json", *sockets).stdout) == {"hosts": []}


async def test_ps_lists_plugins_by_name_whichever_was_added_first(root, tmp_path):
    async with Host() as host, control.Control(host, tmp_path / "s", lambda: None) as door:
        for name in ("lazy", "eager"):
            await host.add(root / name, start=False)
        reader, writer = await asyncio.open_unix_connection(door.path)
        writer.write(b'{"do":"ps"}\n')
        answer = json.loads(await reader.readline())
        writer.close()
        assert [plugin["name"] for plugin in answer["plugins"]] == ["eager", "lazy"]


@pytest.mark.parametrize("place", ["link", "folder"])
async def test_a_file_name_that_is_not_text_hides_no_other_plugin(tmp_path, mark, place):
    """A plugin chooses the names in its folder, and its folder may have any."""
    name = os.fsdecode(b"\xff")
    bad, good = tmp_path / (name if place == "folder" else "bad"), tmp_path / "good"
    for each in (bad, good):
        each.mkdir()
        (each / "main.py").write_text("import sys\nsys.stdin.read()\n")
        (each / "plughost.toml").write_text(
            f'[plugins.{"good" if each is good else "bad"}]\ncontract = "mcptest"\n'
            f'command = [{json.dumps(sys.executable)}, "main.py", "{mark}"]\n'
        )
    if place == "link":  # what is told of it is where it leads
        (tmp_path / name).touch(0o700)
        (bad / "run").symlink_to(tmp_path / name)
        (bad / "plughost.toml").write_text(
            '[plugins.bad]\ncontract = "mcptest"\ncommand = ["./run"]\nsandbox = "strict"\n'
        )
    sockets = tmp_path / "s"
    async with running(None, sockets, good, bad) as (process, _):
        ran = await asyncio.to_thread(plughost, "ps", "--json", "--socket-dir", sockets)
        assert ran.returncode == 0, ran.stderr
        listed = json.loads(ran.stdout)["hosts"][0]["plugins"]
        assert [plugin["name"] for plugin in listed] == ["bad", "good"]
        assert "\\udcff" in str(listed)
        ran = await asyncio.to_thread(plughost, "stop", "good", "--socket-dir", sockets)
        assert ran.returncode == 0, ran.stderr
        assert process.poll() is None


async def test_logs_are_shown_and_followed(root, tmp_path, mark):
    program = root / "eager/eager"
    program.write_text(
        program.read_text().replace(
            "exec(", "import sys\nprint('hello from stderr', file=sys.stderr)\nexec(", 1
        )
    )
    sockets = ("--socket-dir", tmp_path / "s")
    async with running(root, sockets[1]):
        await until(lambda: b"hello" in plughost("logs", "eager", *sockets).stdout)
        shown = plughost("logs", "eager", *sockets).stdout
        assert re.fullmatch(rb"[-0-9]{10} [:.0-9]{12} eager info \(stderr\): hello from stderr\n", shown)
        assert plughost("logs", "--since", "1d", "eager", *sockets).stdout == shown
        assert plughost("logs", "--since", "2999-01-01", "eager", *sockets).stdout == b""
        for wrong in ("soon", "0001-01-01"):
            assert b"neither an age" in plughost("logs", "--since", wrong, *sockets).stderr
        line = json.loads(plughost("logs", "--json", *sockets).stdout)
        assert (line["plugin"], line["source"]) == ("eager", "stderr")
        following = subprocess.Popen(
            [*PLUGHOST, "logs", "-f", "eager", *map(str, sockets)], stdout=subprocess.PIPE, cwd=ROOT
        )
        try:
            assert b"hello" in await asyncio.to_thread(following.stdout.readline)
            assert plughost("reload", "eager", *sockets).returncode == 0
            assert b"hello" in await asyncio.wait_for(asyncio.to_thread(following.stdout.readline), 60)
        finally:
            following.kill()
            following.communicate()


def owner(path: Path) -> int:
    assert path.suffix == ".sock"
    return int(path.stem.split("-")[0])


async def test_hosts_of_the_same_number_in_containers_do_not_take_each_others_socket(tmp_path):
    sockets = tmp_path / "s"
    async with (
        Host() as host,
        control.Control(host, sockets, lambda: None) as one,
        control.Control(host, sockets, lambda: None) as other,
    ):
        assert sorted((one.path, other.path)) == control.hosts(sockets)


async def test_a_killed_host_leaves_a_socket_that_the_next_one_removes_and_a_live_ones_stays(
    root, tmp_path, mark
):
    sockets = tmp_path / "s"
    async with running(root, sockets) as (first, _):
        first.kill()
        first.wait()
        assert [owner(path) for path in sockets.iterdir()] == [first.pid]
        async with running(root, sockets) as (second, _), running(root, sockets) as (third, _):
            assert {owner(path) for path in sockets.iterdir()} == {second.pid, third.pid}
            several = plughost("reload", "eager", "--socket-dir", sockets)
            assert (several.returncode, b"2 running hosts" in several.stderr) == (2, True)
    await all_gone(mark)


async def test_nonsense_on_the_socket_harms_nobody(root, tmp_path):
    sockets = tmp_path / "s"
    async with running(root, sockets):
        (path,) = control.hosts(sockets)
        for nonsense in (
            b"\n",
            b"nonsense\n",
            b"{}\n",
            b'{"do":"fly"}\n',
            b'{"do":"ps","x":1}\n',
            b"x" * 200_000,
            b"",
        ):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(path))
                try:
                    connection.sendall(nonsense)
                    connection.shutdown(socket.SHUT_WR)
                    answer = connection.makefile().readline()
                except (BrokenPipeError, ConnectionResetError):
                    continue
                assert "error" in json.loads(answer), nonsense
        assert len(json.loads(plughost("ps", "--json", "--socket-dir", sockets).stdout)["hosts"]) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
async def test_another_user_is_not_answered(tmp_path):
    import tempfile

    with tempfile.TemporaryDirectory(dir="/tmp") as open_to_all:
        os.chmod(open_to_all, 0o755)
        script = (
            "import asyncio, os, sys\n"
            f"sys.path.insert(0, {str(ROOT / 'src')!r})\n"
            "import plughost\nfrom pathlib import Path\nfrom plughost.control import Control\n"
            "async def main():\n"
            "    async with plughost.Host() as host:\n"
            f"        os.makedirs({open_to_all!r} + '/s', 0o700)\n"
            f"        os.chown({open_to_all!r} + '/s', 54321, 54321)\n"
            "        os.seteuid(54321)\n"
            f"        async with Control(host, Path({open_to_all!r}) / 's', lambda: None) as control:\n"
            "            os.chmod(control.path, 0o777)\n"
            f"            os.chmod({open_to_all!r} + '/s', 0o711)\n"
            "            print(control.path, flush=True)\n"
            "            await asyncio.sleep(60)\n"
            "asyncio.run(main())\n"
        )
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        try:
            path = (await asyncio.to_thread(process.stdout.readline)).strip()
            ask = (
                "import os, socket\nos.setuid(12345)\ns = socket.socket(socket.AF_UNIX)\n"
                f"s.connect({path!r})\n"
                'try:\n    s.sendall(b\'{"do":"ps"}\\n\')\n    print(s.recv(1000))\n'
                "except ConnectionError:\n    print(b'')\n"
            )
            ran = subprocess.run([sys.executable, "-c", ask], capture_output=True, timeout=50)
            assert ran.stdout == b"b''\n", ran.stderr
        finally:
            process.kill()
            process.communicate()


def test_sockets_are_this_users_alone_and_finding_their_folder_makes_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for runtime, expected in ((tmp_path / "run", tmp_path / "run/plughost"), ("", None), ("relative", None)):
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
        assert control.default_folder() == (expected or tmp_path / f"plughost-{os.getuid()}")
    made = "import sys, plughost.control as c, tempfile; c.default_folder(); sys.exit(tempfile.tempdir is not None)"
    assert subprocess.run([sys.executable, "-c", made], timeout=20).returncode == 0


@pytest.mark.clause("KAGED-32")
async def test_an_eager_plugin_that_does_not_start_stays_in_a_running_host_until_it_is_mended(tmp_path, mark):
    place = kaged_support.folder(tmp_path / mark)
    program = place / "main.py"
    good = program.read_text()
    program.write_text("raise SystemExit(3)\n")
    command = json.dumps(kaged_support.spec(place).command)
    (tmp_path / "plughost.toml").write_text(
        f'[plugins.puppet]\ncontract = "kaged"\ncwd = "{place}"\ncommand = {command}\n'
        f'sandbox = "none"\neager = true\nfailure_limit = 1\n'
    )
    sockets = ("--socket-dir", tmp_path / "s")
    async with running(None, sockets[1], "-c", tmp_path / "plughost.toml") as (_, said):
        assert any("exited with code 3" in line for line in said)
        (host,) = json.loads(plughost("ps", "--json", *sockets).stdout)["hosts"]
        assert [(each["name"], each["state"]) for each in host["plugins"]] == [("puppet", "Quarantined")]
        program.write_text(good)
        assert plughost("reload", "puppet", *sockets).returncode == 0
        (host,) = json.loads(plughost("ps", "--json", *sockets).stdout)["hosts"]
        assert [each["state"] for each in host["plugins"]] == ["Idle"]
    await all_gone(mark)


def test_a_folder_that_others_can_write_to_is_refused(tmp_path):
    folder = tmp_path / "s"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    ran = plughost("ps", "--socket-dir", folder)
    assert (ran.returncode, b"not this user's own folder" in ran.stderr) == (2, True)
    assert processes("nobody's") == []


def test_a_folder_of_sockets_that_cannot_be_made_is_refused(tmp_path):
    file = tmp_path / "plughost.toml"
    file.write_text('[plugins.p]\ncontract = "mcptest"\ncommand = ["true"]\n')
    ran = plughost("run", "-c", file, "--socket-dir", file / "sockets")
    assert (ran.returncode, b"for control sockets: Not a directory" in ran.stderr) == (2, True), ran.stderr


ASK = """
import socket, sys
with socket.socket(socket.AF_UNIX) as host:
    host.settimeout(30)
    host.connect(sys.argv[1])
    host.sendall(b'{"do": "ps"}\\n')
    print(host.makefile().read())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
async def test_another_user_who_gets_at_the_socket_is_told_nothing():
    with tempfile.TemporaryDirectory(prefix="plughost-test-") as name:
        sockets = Path(name) / "sockets"
        async with Host() as host, control.Control(host, sockets, lambda: None) as door:
            for place in (Path(name), sockets, door.path):
                place.chmod(0o777)

            async def ask(**who):
                words = ["/usr/bin/python3", "-ISE", "-c", ASK, str(door.path)]
                ran = await asyncio.to_thread(
                    subprocess.run, words, capture_output=True, text=True, timeout=60, **who
                )
                return ran.stdout.strip()

            assert "plugins" in await ask()
            assert await ask(user=65534, group=65534, extra_groups=[]) == ""
