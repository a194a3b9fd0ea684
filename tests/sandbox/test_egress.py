"""The proxy over real sockets: what it lets through, what it refuses, and what nobody else notices."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import stat
import struct
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from plughost.events import EventHub
from plughost.permissions.access import Endpoint
from plughost.sandbox.denials import connections as dialled
from plughost.sandbox.egress.connection import EgressLimits
from plughost.sandbox.egress.instance import EgressInstance
from plughost.sandbox.egress.proxy import EgressProxy
from plughost.sandbox.egress.sni import ACCESS_DENIED
from plughost.sandbox.egress.tls_ports import TLS_PORTS
from plughost.services.logs import Logs
from plughost.testing import VirtualClock
from tests.support import until
from tests.support.network import Guest, Outside, web
from tests.unit.sandbox.test_egress_rules import RETRY, body, hello, sized

uvloop = pytest.importorskip("uvloop")
uvloop.run(asyncio.sleep(0))  # it keeps a pipe for signals for as long as the process lives

PUBLIC = "93.184.216.34"
"""Never dialled: a test that uses it takes the dialling over."""


def good(port: int) -> Endpoint:
    return Endpoint("good.test", port, private=True)


# What passes


async def test_a_granted_host_is_connected_and_told(outside):
    server = await outside.server()
    way = outside.way(good(server.port))
    with Guest(way) as guest:
        await guest.connect(f"GOOD.test.:{server.port}")
        await guest.send(b"hello")
        assert await guest.read(5) == b"hello"
        assert not outside.records
        guest.done()
        assert await guest.rest() == b""
    record = await outside.record()
    assert (record.host, record.port, record.address) == ("good.test", server.port, "127.0.0.1")
    assert (record.verdict, record.why, record.up, record.down) == ("made", "done", 5, 5)
    assert 0 < record.seconds < 10


async def test_bytes_sent_along_with_the_request_are_not_lost(outside):
    server = await outside.server()
    with Guest(outside.way(good(server.port))) as guest:
        await guest.send(f"CONNECT good.test:{server.port} HTTP/1.1\r\n\r\nearly".encode())
        guest.done()
        assert (await guest.rest()).endswith(b"\r\n\r\nearly")


async def test_a_server_may_speak_first(outside):
    async def greet(reader, writer):
        writer.write(b"220 ready\r\n")
        await reader.read()

    server = await outside.server(greet)
    with Guest(outside.way(good(server.port))) as guest:
        await guest.connect(f"good.test:{server.port}")
        assert await guest.read(11) == b"220 ready\r\n"


async def test_the_end_of_one_direction_is_passed_on_and_the_other_goes_on(outside):
    async def answer_at_the_end(reader, writer):
        writer.write(b"%d bytes" % len(await reader.read()))

    server = await outside.server(answer_at_the_end)
    with Guest(outside.way(good(server.port))) as guest:
        await guest.connect(f"good.test:{server.port}")
        await guest.send(bytes(300_000))
        guest.done()
        assert await guest.rest() == b"300000 bytes"


async def test_a_name_is_tried_at_each_of_its_addresses(outside):
    server = await outside.server()
    outside.names["good.test"] = ["127.77.0.1", "127.0.0.1"]
    with Guest(outside.way(good(server.port))) as guest:
        await guest.connect(f"good.test:{server.port}")
        guest.done()
        await guest.rest()
    assert (await outside.record()).address == "127.0.0.1"


async def test_the_address_that_was_checked_is_dialled_and_a_name_that_moves_is_checked_anew(
    outside, monkeypatch
):
    dialled = []

    async def dial(self, address, port):
        dialled.append(str(address))
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(EgressProxy, "_connect", dial)
    way = outside.way(Endpoint("good.test", 80))
    for addresses, status in (([PUBLIC], b"502"), (["127.0.0.1"], b"403"), ([PUBLIC, "10.0.0.1"], b"403")):
        outside.names["good.test"] = addresses
        with Guest(way) as guest:
            assert (await guest.ask("good.test:80")).split()[1] == status
    assert dialled == [PUBLIC]
    assert outside.looked_up == ["good.test"] * 3


# What is refused


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "0.0.0.0", "10.1.2.3", "169.254.169.254", "192.168.0.1", "100.64.0.1"),
        *("::1", "fe80::1", "fd00::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"),
    ],
)
async def test_a_name_that_leads_inside_is_refused_unless_granted_as_private(outside, address):
    server = await outside.server()
    outside.names["good.test"] = [address]
    with Guest(outside.way(Endpoint("good.test", server.port))) as guest:
        assert (await guest.ask(f"good.test:{server.port}")).startswith(b"HTTP/1.1 403 ")
        assert b"which is not a public address" in await guest.rest()
    record = await outside.record()
    assert (record.verdict, record.address) == ("refused", "")
    assert record.wanting == Endpoint("good.test", server.port, private=True)
    assert server.guests == 0


async def test_what_was_not_granted_is_not_even_looked_up(outside):
    server = await outside.server()
    way = outside.way(good(server.port), Endpoint("*.wild.test", server.port, True), Endpoint("10.0.0.1", 80))
    outside.names |= {"evil.test": ["127.0.0.1"], "wild.test": ["127.0.0.1"]}
    port = server.port
    for authority in (
        *(f"evil.test:{port}", f"good.test:{port ^ 1}", f"127.0.0.1:{port}", f"[::ffff:127.0.0.1]:{port}"),
        *(f"wild.test:{port}", f"a.good.test:{port}", f"xwild.test:{port}", f"localhost:{port}"),
    ):
        with Guest(way) as guest:
            assert (await guest.ask(authority)).startswith(b"HTTP/1.1 403 "), authority
            assert b"was not granted" in await guest.rest()
    with Guest(way) as guest:
        assert (await guest.ask("10.0.0.1:80")).startswith(b"HTTP/1.1 403 ")
    await outside.record(9)
    assert {record.verdict for record in outside.records} == {"refused"}
    assert (outside.looked_up, server.guests) == ([], 0)


@pytest.mark.parametrize(
    ("authority", "told", "remedy"),
    [
        ("a.test:443", "connect a.test:443: ", 'allow.connect = ["a.test:443"]'),
        ("[2606::1]:443", "connect [2606::1]:443: ", 'allow.connect = ["[2606::1]:443"]'),
        ("[::1]:80", "connect [::1]:80: ", 'allow.connect = ["[::1]:80 private"]'),
        ("localhost:80", "connect localhost:80: ", 'allow.connect = ["localhost:80 private"]'),
        ("0x7f.1:80", "connect CONNECT 0x7f.1:80: ", "the request was not a valid CONNECT request"),
        ("\x1b[31m:80", "connect CONNECT \\x1b[31m:80: ", "the request was not a valid CONNECT request"),
    ],
)
async def test_a_refusal_is_told_as_it_was_asked_with_words_that_plughost_takes(
    outside, authority, told, remedy
):
    with Guest(outside.way(Endpoint("good.test", 443))) as guest:
        assert (await guest.ask(authority)).split()[1] in (b"403", b"400")
    record = await outside.record()
    logs = Logs(EventHub(), VirtualClock())
    caller = SimpleNamespace(name="p", generation=1)
    logs.on_connected(caller, record, dialled.grant_for(record, {}))
    (line,) = logs.recent("p")
    assert line.message.startswith(told)
    assert remedy in line.message


@pytest.mark.parametrize(
    ("request_line", "told"),
    [
        ("GET http://user:hunter2@a.test/v1?key=hunter2 HTTP/1.1", "GET a.test/v1"),
        ("CONNECT user:hunter2@a.test:443 HTTP/1.1", "CONNECT a.test:443"),
        ("CONNECT a.test:443?hunter2", "CONNECT a.test:443"),
        ("x" * 100 + "hunter2", "x" * 20),
        ("", ""),
    ],
)
async def test_what_was_asked_is_told_without_its_secrets(outside, request_line, told):
    with Guest(outside.way(Endpoint("good.test", 443))) as guest:
        await guest.send(request_line.encode() + b"\r\n\r\n")
        await guest.rest()
    record = await outside.record()
    assert (record.asked, record.verdict) == (told, "refused")


async def test_an_answer_says_what_went_wrong(outside):
    closed = socket.socket()
    closed.bind(("127.0.0.1", 0))
    port = closed.getsockname()[1]
    way, hasty = (
        outside.way(
            good(port), Endpoint("gone.test", 80), limits=EgressLimits(head=1000, head_seconds=seconds)
        )
        for seconds in (30, 0.05)
    )
    for request, status, words in (
        (b"GET http://good.test/ HTTP/1.1\r\n\r\n", 405, b"only CONNECT"),
        (b"\x16\x03\x01 garbage\r\n\r\n", 400, b"this is a proxy"),
        (b"CONNECT gone.test:80 HTTP/1.1\r\n\r\n", 502, b"gone.test cannot be resolved"),
        (b"CONNECT good.test:%d HTTP/1.1\r\n\r\n" % port, 502, b"127.0.0.1: "),
        (b"CONNECT good.test:80 HTTP/1.1\r\nX: " + b"x" * 2000, 431, b"at most 1000 bytes"),
        (b"CONNECT good.t", 408, b"not complete within 0.05 s"),
    ):
        with Guest(hasty if status == 408 else way) as guest:
            await guest.send(request)
            answer = await guest.read(1 << 20)  # to its end, which is no reset
        assert answer.startswith(b"HTTP/1.1 %d " % status), answer
        assert words in answer
    await outside.record(6)
    assert [record.verdict for record in outside.records] == ["refused"] * 2 + ["failed"] * 2 + [
        "refused"
    ] * 2
    closed.close()


async def test_a_lookup_that_takes_too_long_is_given_up(outside):
    async def never(host):
        await asyncio.Event().wait()

    with Guest(outside.way(good(80), limits=EgressLimits(connect_seconds=0.05), resolve=never)) as guest:
        assert (await guest.ask("good.test:80")).startswith(b"HTTP/1.1 504 ")
    assert (await outside.record()).verdict == "failed"


async def test_the_machines_own_names(outside):
    server = await outside.server()
    with Guest(outside.way(Endpoint("localhost", server.port, True), resolve=None)) as guest:
        await guest.connect(f"localhost:{server.port}")
    with Guest(outside.way(Endpoint("localhost", server.port), resolve=None)) as guest:
        assert (await guest.ask(f"localhost:{server.port}")).startswith(b"HTTP/1.1 403 ")


# TLS


async def fetch(guest: Guest, tls: ssl.SSLContext, name: str | None) -> bytes:
    own = guest.socket.dup()  # the transport closes its socket when it likes
    reader, writer = await asyncio.open_connection(sock=own, ssl=tls, server_hostname=name)
    writer.write(b"GET /page HTTP/1.1\r\n\r\n")
    body = await reader.read()
    writer.close()
    return body


@pytest.fixture
async def secure(outside, tls_files):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*tls_files)
    return await outside.server(web, context)


async def test_tls_to_the_granted_name_passes_untouched(outside, secure, tls_files):
    tls = ssl.create_default_context(cafile=tls_files[0])
    outside.names["a.wild.test"] = ["127.0.0.1"]
    way = outside.way(good(secure.port), Endpoint("*.wild.test", secure.port, True))
    for name in ("good.test", "a.wild.test"):
        with Guest(way) as guest:
            await guest.connect(f"{name}:{secure.port}")
            assert (await fetch(guest, tls, name)).endswith(b"GET /page HTTP/1.1")


async def test_tls_to_another_name_is_refused_in_the_language_of_tls(outside, secure, tls_files):
    tls = ssl.create_default_context(cafile=tls_files[0])
    way = outside.way(good(secure.port))
    with Guest(way) as guest:
        await guest.connect(f"good.test:{secure.port}")
        with pytest.raises(ssl.SSLError, match="ACCESS_DENIED"):
            await fetch(guest, tls, "a.wild.test")
    record = await outside.record()
    assert (record.verdict, record.address, record.up) == ("refused", "127.0.0.1", 0)
    assert "names 'a.wild.test', not good.test" in record.why
    with Guest(way) as guest:
        await guest.connect(f"good.test:{secure.port}")
        await guest.send(hello(None))
        assert await guest.rest() == ACCESS_DENIED
    assert "names no host" in (await outside.record(2)).why


def hello_without_keys(name: str) -> bytes:
    """One of TLS 1.3 to which a server answers that it wants another."""
    keyless = {
        0: sized(b"\0" + sized(name.encode())), 10: sized(b"\0\x1d\0\x17"), 13: sized(b"\4\3\b\4\4\1"),
        43: b"\2\3\4", 51: sized(b""),
    }  # fmt: skip
    message = body(*keyless.items())
    return b"\x16\3\1" + sized(b"\1" + len(message).to_bytes(3, "big") + message)


@pytest.mark.parametrize("for_tls", [False, True])
@pytest.mark.parametrize("at_once", [False, True])
async def test_a_second_hello_to_another_name_is_refused_though_the_first_was_right(
    outside, tls_files, at_once, for_tls, monkeypatch
):
    asked = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*tls_files)
    context.sni_callback = lambda wire, name, _: asked.append(name)
    server = await outside.server(web, context)
    if for_tls:
        monkeypatch.setitem(TLS_PORTS, server.port, "test")
    first, second = hello_without_keys("good.test"), hello_without_keys("evil.test")
    with Guest(outside.way(good(server.port))) as guest:
        await guest.connect(f"good.test:{server.port}")
        await guest.send(first + second if at_once else first)
        if not at_once:
            assert RETRY in await guest.read(11 + 32)
            await guest.send(second)
        assert (await guest.rest()).endswith(ACCESS_DENIED)
    record = await outside.record()
    passed = 0 if at_once and not for_tls else len(first)
    assert (record.verdict, record.up, record.wanting) == ("refused", passed, None)
    assert "names 'evil.test', not good.test" in record.why
    assert "evil.test" not in asked


@pytest.mark.parametrize("for_tls", [False, True])
async def test_a_second_hello_to_the_granted_name_goes_on(outside, tls_files, for_tls, monkeypatch):
    """The server takes only a group for which the client has sent no key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*tls_files)
    context.set_ecdh_curve("secp384r1")
    server = await outside.server(web, context)
    if for_tls:
        monkeypatch.setitem(TLS_PORTS, server.port, "test")
    tls = ssl.create_default_context(cafile=tls_files[0])
    with Guest(outside.way(good(server.port))) as guest:
        await guest.connect(f"good.test:{server.port}")
        assert (await fetch(guest, tls, "good.test")).endswith(b"GET /page HTTP/1.1")


async def test_a_granted_address_is_whatever_it_serves(outside, secure, tls_files):
    tls = ssl.create_default_context(cafile=tls_files[0])
    way = outside.way(Endpoint("127.0.0.1", secure.port, True))
    for name in ("127.0.0.1", "good.test"):
        with Guest(way) as guest:
            await guest.connect(f"127.0.0.1:{secure.port}")
            assert (await fetch(guest, tls, name)).endswith(b"GET /page HTTP/1.1")


async def test_a_hello_that_never_gets_whole_is_given_up(outside, secure):
    with Guest(outside.way(good(secure.port), limits=EgressLimits(head_seconds=0.5))) as guest:
        await guest.connect(f"good.test:{secure.port}")
        await guest.send(hello("good.test")[:100])
        assert await guest.rest() == ACCESS_DENIED
    assert (await outside.record()).verdict == "refused"


# Whose trouble it is


async def test_a_plugin_that_does_not_read_slows_its_server_only(outside):
    sent = 0

    async def flood(reader, writer):
        nonlocal sent
        for _ in range(1024):
            writer.write(bytes(65536))
            await writer.drain()
            sent += 65536

    flooding, echoing = await outside.server(flood), await outside.server()
    way = outside.way(good(flooding.port), good(echoing.port))
    with Guest(way) as deaf, Guest(way) as other:
        await deaf.connect(f"good.test:{flooding.port}")
        await other.connect(f"good.test:{echoing.port}")
        for _ in range(300):
            await other.send(b"ping")
            assert await other.read(4) == b"ping"
        assert sent < 32 << 20
        total = 0
        while data := await asyncio.get_running_loop().sock_recv(deaf.socket, 1 << 20):
            total += len(data)
        assert total == 64 << 20


async def test_a_server_that_does_not_read_slows_the_plugin_only(outside):
    hear = asyncio.Event()
    heard = 0

    async def deaf(reader, writer):
        nonlocal heard
        await hear.wait()
        while data := await reader.read(1 << 20):
            heard += len(data)

    server = await outside.server(deaf)
    with Guest(outside.way(good(server.port))) as guest:
        await guest.connect(f"good.test:{server.port}")
        sending = asyncio.create_task(guest.send(bytes(64 << 20)))
        done, _ = await asyncio.wait([sending], timeout=0.2)
        assert not done
        hear.set()
        await sending
        guest.done()
        assert await guest.rest() == b""
    assert heard == 64 << 20


async def test_more_connections_than_allowed_wait_at_the_plugins_side(outside):
    server = await outside.server()
    way, others = (
        outside.way(good(server.port), limits=EgressLimits(connections=3)),
        outside.way(good(server.port)),
    )
    target = f"good.test:{server.port}"
    guests = [Guest(way) for _ in range(5)]
    for guest in guests[:3]:
        await guest.connect(target)
    waiting = [asyncio.create_task(guest.connect(target)) for guest in guests[3:]]
    with Guest(others) as other:
        await other.connect(target)
        await other.send(b"hello")
        assert await other.read(5) == b"hello"
    assert not any(task.done() for task in waiting)
    assert server.guests == 4
    for guest in guests[:2]:
        guest.socket.close()
    await asyncio.gather(*waiting)
    for guest in guests[2:]:
        guest.socket.close()
    await outside.record(6)


async def test_a_plugin_that_connects_without_end_is_slowed(outside):
    way = outside.way(limits=EgressLimits(connections_per_second=20))
    began = asyncio.get_running_loop().time()
    for _ in range(21):
        with Guest(way):
            pass
    await outside.record(21)
    assert asyncio.get_running_loop().time() - began > 0.9
    assert {record.why for record in outside.records} == {"the request is incomplete"}


async def test_garbage_from_many_connections_leaves_the_proxy_as_it_was(outside):
    server = await outside.server()
    way = outside.way(good(server.port), limits=EgressLimits(connections_per_second=10_000, head=64))
    for seed in range(300):
        with Guest(way) as guest:
            await guest.send(os.urandom(1 + seed % 200))
            if seed % 3 == 0:
                guest.done()
                await guest.rest()
    await outside.record(300)
    with Guest(way) as guest:
        await guest.connect(f"good.test:{server.port}")
        await guest.send(b"hello")
        assert await guest.read(5) == b"hello"
    assert {record.verdict for record in outside.records} == {"refused"}


async def test_bytes_are_limited_for_a_connection_and_for_a_plugin(outside):
    server = await outside.server()
    target = f"good.test:{server.port}"
    for limits, reasons in (
        (EgressLimits(bytes_per_connection=100_000), ["more bytes than one connection may carry"] * 2),
        (
            EgressLimits(bytes_in_all=170_000),
            ["done", "the plugin has used up the bytes that it may send and receive"],
        ),
    ):
        way = outside.way(good(server.port), limits=limits)
        outside.records.clear()
        for number in (1, 2):
            with Guest(way) as guest:
                await guest.connect(target)
                await guest.send(bytes(60_000))
                guest.done()
                await guest.rest()
            await outside.record(number)
        assert [record.why for record in outside.records] == reasons


async def test_silence_ends_a_connection(outside):
    async def silent(reader, writer):
        await asyncio.Event().wait()

    server = await outside.server(silent)
    for limits, done in (
        (EgressLimits(idle_seconds=0.05), False),
        (EgressLimits(half_closed_seconds=0.05), True),
    ):
        outside.records.clear()
        with Guest(outside.way(good(server.port), limits=limits)) as guest:
            await guest.connect(f"good.test:{server.port}")
            if done:
                guest.done()
            assert await guest.rest() == b""
        assert (await outside.record()).why == "no data for 0.05 s"


async def test_a_connection_that_breaks_on_one_side_breaks_on_the_other(outside):
    ends = asyncio.Queue()

    async def watched(reader, writer):
        if await reader.readexactly(1) == b"!":
            reset = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            return
        try:
            await ends.put(await reader.read())
        except OSError as error:
            await ends.put(type(error))

    server = await outside.server(watched)
    way = outside.way(good(server.port))
    with Guest(way) as guest:
        await guest.connect(f"good.test:{server.port}")
        await guest.send(b"!")
        assert await guest.rest() == b""
    assert (await outside.record()).why == "the server closed the connection"
    with Guest(way) as guest:
        await guest.connect(f"good.test:{server.port}")
        await guest.send(b".")
    assert await ends.get() is ConnectionResetError
    assert (await outside.record(2)).why == "the plugin closed the connection"


async def test_a_server_that_answers_and_hangs_up_early_is_heard(outside):
    async def early(reader, writer):
        await reader.readexactly(1)
        writer.write(b"too much")

    server = await outside.server(early)
    with Guest(outside.way(good(server.port))) as guest:
        await guest.connect(f"good.test:{server.port}")
        await guest.send(b".")
        assert await guest.rest() == b"too much"
        for _ in range(3):
            await guest.send(bytes(60_000))
        guest.done()
    assert (await outside.record()).why in {"done", "the server closed the connection"}


# The socket and its end


async def test_the_socket_is_for_the_plugin_alone(outside):
    way = outside.way()
    assert stat.S_IMODE(os.stat(way.socket).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(Path(way.socket).parent).st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a socket away")
async def test_a_socket_that_was_given_away_is_its_owners_alone():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)
        way = EgressInstance((), Path(folder) / "way-out", lambda record: None, owner=(65534, 65534))
        for uid, reached in ((65534, True), (65533, False)):
            os.seteuid(uid)
            try:
                with socket.socket(socket.AF_UNIX) as plugin:
                    assert (plugin.connect_ex(way.socket) == 0) == reached
            finally:
                os.seteuid(0)
        await way.close()


async def test_closing_cuts_and_tells_everything_and_leaves_nothing(outside, tmp_path):
    server = await outside.server()
    records = []
    way = EgressInstance((good(server.port),), tmp_path / "way-out", records.append, resolve=outside.resolve)
    with Guest(way) as open_one, Guest(way) as asking:
        await open_one.connect(f"good.test:{server.port}")
        await asking.send(b"CONN")
        await until(lambda: len(way._proxy._live) == 2)
        await way.close()
        assert await open_one.rest() == await asking.rest() == b""
    await until(lambda: len(records) == 2)
    assert {(record.verdict, record.why) for record in records} == {
        ("made", "the host closed it"),
        ("refused", "the host closed it"),
    }
    assert not Path(way.socket).parent.exists()


async def test_a_folder_with_a_long_path(outside, tmp_path):
    server = await outside.server()
    folder = tmp_path / ("long-" * 40)
    folder.mkdir()
    way = EgressInstance(
        (good(server.port),), folder / "way-out", outside.records.append, resolve=outside.resolve
    )
    with Guest(way) as guest:
        await guest.connect(f"good.test:{server.port}")
    await way.close()
    assert list(folder.iterdir()) == []


async def test_a_listener_that_raises_is_the_loops_to_report(outside, tmp_path):
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
    way = EgressInstance((), tmp_path / "way-out", lambda record: 1 / 0)
    for _ in range(2):
        with Guest(way) as guest:
            assert (await guest.ask("a.test:1")).startswith(b"HTTP/1.1 403 ")
    await until(lambda: len(reported) == 2)
    await way.close()


def test_the_same_on_uvloop(tmp_path, tls_files):
    async def scenario():
        outside = Outside(tmp_path)
        outside.names = {"good.test": ["127.0.0.1"]}
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls_files)
        secure, plain = await outside.server(web, context), await outside.server()
        way = outside.way(good(secure.port), good(plain.port))
        with Guest(way) as cut:
            await cut.connect(f"good.test:{plain.port}")
            with Guest(way) as guest:
                await guest.connect(f"good.test:{secure.port}")
                tls = ssl.create_default_context(cafile=tls_files[0])
                assert (await fetch(guest, tls, "good.test")).endswith(b"GET /page HTTP/1.1")
            await outside.record()
            await outside.close()
            assert await cut.rest() == b""
        await outside.record(2)

    uvloop.run(scenario())


# A name that the host itself answers to


async def test_a_name_of_the_hosts_own_leads_to_its_socket_and_to_no_address(outside, tmp_path):
    server = await outside.server(web, path=(path := str(tmp_path / "gateway.sock")))
    with Guest(outside.way(Endpoint("*", 0), Endpoint("gateway.internal", 80, socket=path))) as guest:
        await guest.connect("gateway.internal:80")
        await guest.send(b"GET /v1 HTTP/1.1\r\n\r\n")
        assert b"GET /v1" in await guest.rest()
    assert server.guests == 1
    record = await outside.record()
    assert (record.host, record.address, record.verdict) == (
        "gateway.internal",
        "the host's own socket",
        "made",
    )


async def test_a_socket_that_nobody_listens_at_is_told_as_a_failure(outside, tmp_path):
    with Guest(outside.way(Endpoint("gateway.internal", 80, socket=str(tmp_path / "gone.sock")))) as guest:
        await guest.send(b"CONNECT gateway.internal:80 HTTP/1.1\r\n\r\n")
        assert (await guest.rest()).startswith(b"HTTP/1.1 502 ")
    assert (await outside.record()).verdict == "failed"
