"""The forwarder in a network namespace with nothing in it: real clients, a real proxy, and no other way out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import ssl
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from plughost.permissions.access import Endpoint
from plughost.sandbox.egress.connection import EgressLimits
from plughost.sandbox.egress.hosts_file import MAX_LISTENERS
from plughost.sandbox.egress.instance import EgressInstance
from tests.support import ROOT, all_gone, processes, until
from tests.support.network import Guest, needs, web

SOURCES = (ROOT / "launcher/forwarder.c", ROOT / "launcher/relay.c")
PYTHON = (sys.executable, "-I", "-S", "-u", "-c")
NAMESPACE = ("unshare", "--user", "--map-root-user", "--net", "--")
"""With every right over the network inside, as the launcher has before it gives them up."""
INSIDE = (
    *("bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--die-with-parent"),
    *("--cap-add", "CAP_NET_BIND_SERVICE"),
)
"""What bubblewrap leaves of them: without --dev it makes one user namespace only."""


@pytest.fixture(scope="session")
def forwarder(tmp_path_factory) -> str:
    needs("cc")
    needs("unshare")
    program = tmp_path_factory.mktemp("forwarder") / "forwarder-main"
    sources = [*SOURCES, ROOT / "tests/support/forwarder_main.c"]
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-I", str(ROOT / "launcher"), "-o", str(program)]
    subprocess.run(["cc", *flags, *map(str, sources)], check=True)
    if subprocess.run([*NAMESPACE, "true"], check=False, capture_output=True).returncode:
        if os.environ.get("CI"):
            pytest.fail("no user namespaces here")
        pytest.skip("no user namespaces here")
    return str(program)


async def run(*command: str, env: dict[str, str] | None = None, data: bytes = b"") -> tuple[int, str, str]:
    pipe = asyncio.subprocess.PIPE
    env = {"PATH": os.environ["PATH"]} | (env or {})
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe, env=env)
    try:
        async with asyncio.timeout(30):
            out, err = await process.communicate(data)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, out.decode(), err.decode()


async def inside(forwarder: str, way: EgressInstance, *program: str, **options) -> str:
    """What a program prints that runs with the forwarder, the granted names and nothing else of the network."""
    needs("bwrap")
    hosts = Path(way.socket).parent.parent / "hosts"
    hosts.write_text(way.hosts)
    sandbox = [
        "bwrap",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--unshare-user",
        "--unshare-pid",
    ]
    confined = [*sandbox, "--ro-bind", str(hosts), "/etc/hosts", "--cap-drop", "ALL", "--", *program]
    code, out, err = await run(
        *NAMESPACE, forwarder, way.socket, way.listing, *confined, env=way.env, **options
    )
    assert code == 0, err
    return out.strip()


@pytest.fixture
async def secure(outside, tls_files):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*tls_files)
    return await outside.server(web, context)


# Clients


URLLIB = """
import ssl, sys, urllib.request
tls = ssl.create_default_context(cafile=sys.argv[2])
opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=tls))
print(opener.open(sys.argv[1], timeout=10).read().decode())
"""
NODE = "fetch(process.argv[1]).then(answer => answer.text()).then(console.log)"


async def test_clients_that_know_of_proxies_and_those_that_do_not(outside, secure, tls_files, forwarder):
    plain = await outside.server(web)
    outside.names["a.wild.test"] = ["127.0.0.1"]
    names = [Endpoint("good.test", server.port, True) for server in (secure, plain)]
    way = outside.way(*names, Endpoint("*.wild.test", secure.port, True))
    certificate = str(tls_files[0])
    https, wild = f"https://good.test:{secure.port}/x", f"https://a.wild.test:{secure.port}/x"
    http = f"http://good.test:{plain.port}/x"
    answer = "GET /x HTTP/1.1"
    for url in (https, wild, http):
        assert await inside(forwarder, way, *PYTHON, URLLIB, url, certificate) == answer
    unaware = URLLIB.replace("build_opener(", "build_opener(urllib.request.ProxyHandler({}), ")
    assert await inside(forwarder, way, *PYTHON, unaware, https, certificate) == answer
    for url in (https, wild, http):
        needs("curl")
        assert await inside(forwarder, way, "curl", "-sS", "--cacert", certificate, url) == answer
    made = [record.verdict for record in outside.records]
    assert made == ["made"] * len(made)


async def test_node_which_ignores_proxies(outside, secure, tls_files, forwarder):
    needs("node")
    way = outside.way(Endpoint("good.test", secure.port, True))
    node = ["node", "-e", NODE, f"https://good.test:{secure.port}/x"]
    trusting = ["env", f"NODE_EXTRA_CA_CERTS={tls_files[0]}", *node]
    assert await inside(forwarder, way, *trusting) == "GET /x HTTP/1.1"


TRY_ALL = """
import errno, json, socket, sys
def attempt(host, port, kind=socket.SOCK_STREAM):
    try:
        with socket.socket(type=kind) as s:
            s.settimeout(5)
            s.connect((host, port))
            if kind == socket.SOCK_DGRAM:
                s.send(b"x")
            return s.recv(100).decode() or "end"
    except socket.gaierror:
        return "no such name"
    except OSError as error:
        return errno.errorcode[error.errno]
port = int(sys.argv[1])
print(json.dumps([
    attempt("good.test", port), attempt("good.test", port ^ 1), attempt("other.test", port),
    attempt("refused.test", port), attempt("127.0.0.1", port), attempt("192.0.2.1", port),
    attempt("192.0.2.1", 53, socket.SOCK_DGRAM)]))
"""


async def test_nothing_else_can_be_reached_and_a_refusal_is_a_reset(outside, forwarder):
    async def greet(reader, writer):
        writer.write(b"welcome")

    server = await outside.server(greet)
    outside.names["refused.test"] = ["127.0.0.1"]
    way = outside.way(Endpoint("good.test", server.port, True), Endpoint("refused.test", server.port))
    results = json.loads(await inside(forwarder, way, *PYTHON, TRY_ALL, str(server.port)))
    unreachable = "ENETUNREACH"
    assert results == [
        *("welcome", "ECONNREFUSED", "no such name", "ECONNRESET", "ECONNREFUSED", unreachable, unreachable)
    ]
    await outside.record(2)
    assert {record.host: record.verdict for record in outside.records} == {
        "good.test": "made",
        "refused.test": "refused",
    }


# How it forwards


PUSH = """
import socket, sys, hashlib
s = socket.create_connection(("good.test", int(sys.argv[1])))
import threading
data = bytes(range(256)) * 4096 * 16
def push():
    s.sendall(data); s.shutdown(socket.SHUT_WR)
threading.Thread(target=push).start()
got = hashlib.sha256()
while more := s.recv(65536): got.update(more)
print(got.hexdigest() == hashlib.sha256(data).hexdigest())
"""


async def test_many_bytes_both_ways_at_once_with_a_half_close(outside, forwarder):
    server = await outside.server()
    way = outside.way(Endpoint("good.test", server.port, True))
    assert await inside(forwarder, way, *PYTHON, PUSH, str(server.port)) == "True"
    record = await outside.record()
    assert (record.up, record.down, record.why) == (16 << 20, 16 << 20, "done")


CROWD = """
import socket, sys
port, count = int(sys.argv[1]), int(sys.argv[2])
crowd = [socket.create_connection(("good.test", port)) for _ in range(count)]
for turn in range(2):
    for at in range(0, count, 10):
        batch = crowd[at:at + 10]
        for s in batch: s.sendall(b"hello")
        for s in batch: assert s.recv(5, socket.MSG_WAITALL) == b"hello", turn
        if turn:
            for s in batch: s.close()
    if not turn:
        print("served", count)
"""


async def test_as_many_connections_as_it_has_room_for_and_more_wait(outside, forwarder):
    server = await outside.server()
    way = outside.way(Endpoint("good.test", server.port, True), limits=EgressLimits(connections=200))
    assert await inside(forwarder, way, *PYTHON, CROWD, str(server.port), "120") == "served 120"
    more = CROWD.replace("range(2)", "[1]") + "print('all')"
    assert await inside(forwarder, way, *PYTHON, more, str(server.port), "160") == "all"


RESET = """
import socket, sys
s = socket.create_connection(("good.test", int(sys.argv[1])))
s.sendall(b"!")
try:
    while data := s.recv(100): print(data.decode())
    print("end")
except ConnectionResetError:
    print("reset")
"""


@pytest.mark.parametrize("broken", [True, False])
async def test_half_an_answer_is_not_taken_for_a_whole_one(outside, forwarder, broken):
    async def half(reader, writer):
        await reader.readexactly(1)
        writer.write(b"half")
        if broken:
            await until(lambda: way._proxy._bytes_left == EgressLimits().bytes_in_all - 5)
            reset = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)

    server = await outside.server(half)
    way = outside.way(Endpoint("good.test", server.port, True))
    expected = "half\nreset" if broken else "half\nend"
    assert await inside(forwarder, way, *PYTHON, RESET, str(server.port)) == expected


# How it lives


async def test_low_ports_and_loopback_in_a_bare_namespace_and_in_bubblewrap(tmp_path, forwarder):
    needs("bwrap")
    listing = "proxy 127.0.0.1 3128\nhost 127.83.0.1 443 good.test\n"
    look = (
        "import socket; [socket.create_connection(to) for to in (('127.0.0.1', 3128), ('127.83.0.1', 443))];"
        "print('connected')"
    )
    with socket.socket(socket.AF_UNIX) as silent:  # one that refuses may do so before `connect` has returned
        silent.bind(str(tmp_path / "proxy"))
        silent.listen()
        for start in (NAMESPACE, INSIDE):
            code, out, err = await run(*start, forwarder, str(tmp_path / "proxy"), listing, *PYTHON, look)
            assert (code, out) == (0, "connected\n"), err


@pytest.mark.parametrize(
    ("listing", "reason"),
    [
        ("proxy 127.0.0.1\n", "Invalid argument"),
        ("proxy 127.0.0.1 0\n", "Invalid argument"),
        ("proxy localhost 3128\n", "Invalid argument"),
        ("host 127.83.0.1 443\n", "Invalid argument"),
        ("host 127.83.0.1 443 a b\n", "Invalid argument"),
        ("host 127.83.0.1 443 " + "a" * 300, "Invalid argument"),
        ("proxy 127.0.0.1 3128\nproxy 127.0.0.1 3128\n", "Address already in use"),
        ("proxy 192.0.2.1 3128\n", "Cannot assign requested address"),
        (
            "".join(f"proxy 127.0.0.1 {2000 + n}\n" for n in range(MAX_LISTENERS + 1)),
            "Argument list too long",
        ),
    ],
)
async def test_a_listing_that_cannot_be_carried_out_starts_nothing(forwarder, listing, reason):
    code, out, err = await run(*NAMESPACE, forwarder, "/nowhere", listing, "echo", "started")
    assert (code, out) == (3, "")
    assert reason in err


async def test_where_the_proxy_is_gone_connections_are_reset(forwarder):
    attempt = "import socket; s = socket.create_connection(('127.0.0.1', 3128)); print(s.recv(1))"
    code, _, err = await run(*NAMESPACE, forwarder, "/nowhere", "proxy 127.0.0.1 3128", *PYTHON, attempt)
    assert code == 1
    assert "ConnectionResetError" in err


LOOK_AROUND = """
import os, json, sys
found = {}
for pid in filter(str.isdigit, os.listdir("/proc")):
    if open(f"/proc/{pid}/comm").read() == "plughost-egress\\n":
        status = dict(line.split(":\\t", 1) for line in open(f"/proc/{pid}/status").read().splitlines())
        found = {key: status[key] for key in ("CapEff", "CapPrm", "CapAmb", "NoNewPrivs")}
        found["parent"] = status["PPid"] == str(os.getpid())
        try:
            open(f"/proc/{pid}/environ").read(); found["traceable"] = True
        except PermissionError:
            found["traceable"] = False
try:
    os.waitpid(-1, os.WNOHANG); found["child"] = True
except ChildProcessError:
    found["child"] = False
print(json.dumps(found))
"""


async def test_it_keeps_no_rights_and_is_nobodys_child(outside, forwarder):
    needs("bwrap")
    way = outside.way()
    drop = ["--dev-bind", "/dev", "/dev", "--", forwarder, way.socket, way.listing]
    drop += ["setpriv", "--inh-caps", "-all", "--ambient-caps", "-all"]
    unprivileged = ["unshare", "--user", "--map-user", "1000", "--map-group", "1000", "--"]
    code, out, err = await run(*unprivileged, *INSIDE, *drop, *PYTHON, LOOK_AROUND)
    assert code == 0, err
    assert json.loads(out) == {
        **dict.fromkeys(("CapEff", "CapPrm", "CapAmb"), "0" * 16),
        "NoNewPrivs": "1",
        "parent": False,
        "traceable": False,
        "child": False,
    }


@pytest.mark.parametrize("start", [NAMESPACE, INSIDE], ids=["namespace", "bubblewrap"])
async def test_it_ends_with_the_plugin_and_holds_none_of_its_pipes(outside, forwarder, mark, start):
    way = outside.way()
    pipe = asyncio.subprocess.PIPE
    command = [*start, forwarder, way.socket, way.listing, *PYTHON, "import sys; sys.stdin.read(1)", mark]
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    plugin = [sys.executable.encode(), mark.encode()]

    def running():
        for pid in processes(mark):
            with contextlib.suppress(OSError):
                line = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if [line[0], *line[-2:-1]] == plugin:  # one that ends has no words any more
                    return True
        return False

    await until(running)
    assert len(processes(mark)) > 1
    process.stdin.write(b"x")
    assert await process.stdout.read() == b""
    assert await process.stderr.read() == b""
    assert await process.wait() == 0
    await all_gone(mark)


async def test_a_plugin_that_kills_it_only_loses_its_way_out(outside, forwarder):
    server = await outside.server()
    way = outside.way(Endpoint("good.test", server.port, True))
    kill = """
import os, signal, socket, sys
for pid in filter(str.isdigit, os.listdir("/proc")):
    if open(f"/proc/{pid}/comm").read() == "plughost-egress\\n": os.kill(int(pid), signal.SIGKILL)
while True:
    try: socket.create_connection(("127.0.0.1", 3128)).close()
    except ConnectionResetError: pass  # it was killed with this one in its queue
    except ConnectionRefusedError: break
print("refused")
"""
    command = [*INSIDE, forwarder, way.socket, way.listing, *PYTHON, kill]
    assert (await run(*command))[:2] == (0, "refused\n")
    with Guest(way) as guest:
        await guest.connect(f"good.test:{server.port}")


def test_it_compiles_everywhere_without_a_warning(forwarder, tmp_path):
    for compiler in filter(shutil.which, ("gcc", "clang")):
        command = [compiler, "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-static", "-c"]
        subprocess.run([*command, *map(str, SOURCES)], check=True, cwd=tmp_path)
