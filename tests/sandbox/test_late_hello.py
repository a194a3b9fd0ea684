"""A byte before TLS is no way to another name behind the same address."""

from __future__ import annotations

import os
import ssl
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plughost.errors import InvalidSpec
from plughost.permissions import parse
from plughost.permissions.access import Endpoint, endpoint
from plughost.permissions.intersection import same_endpoint
from plughost.sandbox.denials import grant_hint
from plughost.sandbox.egress import tls_ports
from plughost.sandbox.egress.late_sni import LateSniFilter
from plughost.sandbox.egress.pump import SCREENED
from plughost.sandbox.egress.sni import NotTLS, SniFilter, SniMismatch
from plughost.sandbox.egress.tls_ports import TLS_PORTS, expected_opening
from tests.sandbox.conftest import *  # noqa: F403
from tests.sandbox.test_egress import fetch
from tests.support import until
from tests.support.network import Guest, web
from tests.unit.sandbox.test_egress_rules import HELLO, hello, in_records

HALF = b"\x16\x03\x01"
"""The beginning of a record. With it before them, a hello's random bytes may make it part of a longer one: one in
eleven is."""


def is_held_back(record: bytes) -> bool:
    """Whether more bytes have to come before a hello after half a record is refused."""
    try:
        LateSniFilter("good.test").feed(HALF + record)
    except SniMismatch:
        return False
    return True


def evil(*, held_back: bool) -> bytes:
    while is_held_back(found := hello("evil.test")) != held_back:
        pass
    return found


EVIL = evil(held_back=False)
PLAIN = {
    "STARTTLS": b"EHLO x\r\nSTARTTLS\r\n",
    "SSLRequest": b"\x00\x00\x00\x08\x04\xd2\x16\x2f",
    "PROXY 1": b"PROXY TCP4 192.0.2.1 192.0.2.2 1 443\r\n",
    "PROXY 2": b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
    "one byte": b"\n",
    "half a record": HALF,
    "a hello that is right": HELLO,
}


def all_passed(late: LateSniFilter, data: bytes, cuts: list[int]) -> bytes:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    passed = b"".join(late.feed(data[start:end]) for start, end in pairwise(edges))
    late.end()
    return passed


def begins_again(data: bytes, size: int) -> bool:
    """Whether a later record of this hello begins with a ClientHello's first byte and possible length."""
    return any(data[at] == 1 and data[at + 1] <= 2 for at in range(5 + size, len(data) - 1, size))


def before_compressions(record: bytes) -> int:
    """Bytes of a hello in one record up to its compressions: its name comes after them."""
    at = 5 + 4 + 2 + 32
    at += 1 + record[at]
    return at + 2 + int.from_bytes(record[at : at + 2], "big")


cuts = st.lists(st.integers(0, 1200), max_size=12)


@given(st.sampled_from(sorted(PLAIN.values())), st.integers(8, len(HELLO)), cuts)
def test_a_hello_after_plain_bytes_has_to_name_the_granted_host(plain, size, cuts):
    good = plain + in_records(HELLO, size) + b"encrypted \x16" + bytes(range(64)) + b"."
    # After half a record the hello can be read in two ways, and so can one with a record inside that begins
    # as a hello does.
    if plain != HALF and not begins_again(HELLO, size):
        assert all_passed(LateSniFilter("good.test"), good, cuts) == good
    in_two_ways = plain == HALF or begins_again(EVIL, size)
    told = None if in_two_ways else "ClientHello names 'evil.test', not good.test|too long"
    with pytest.raises(SniMismatch, match=told):
        all_passed(LateSniFilter("good.test"), plain + in_records(EVIL, size) + b"more", cuts)


@given(st.sampled_from(sorted(PLAIN.values())), cuts)
def test_of_a_hello_to_another_name_too_little_is_passed_on_to_name_it(plain, cuts):
    late, passed = LateSniFilter("good.test"), b""
    data = plain + EVIL
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    with pytest.raises(SniMismatch):
        for start, end in pairwise(edges):
            passed += late.feed(data[start:end])
    assert data.startswith(passed)
    assert len(passed) < len(plain) + before_compressions(EVIL)
    assert b"evil" not in passed


def test_a_hello_that_half_a_record_makes_part_of_a_longer_one_is_held_back():
    late = LateSniFilter("good.test")
    assert b"evil" not in late.feed(HALF + evil(held_back=True))
    with pytest.raises(SniMismatch, match="is incomplete"):
        late.end()


def around(inner: bytes) -> bytes:
    """A hello to good.test with a hello in its last extension, which a server that reads lines would find."""
    length = int.from_bytes(HELLO[6:9], "big")
    body = HELLO[9 : 9 + length]
    at = 34
    at += 1 + body[at]
    at += 2 + int.from_bytes(body[at : at + 2], "big")
    at += 1 + body[at]
    extra = b"\xfa\xfa" + len(inner).to_bytes(2, "big") + inner
    whole = int.from_bytes(body[at : at + 2], "big") + len(extra)
    body = body[:at] + whole.to_bytes(2, "big") + body[at + 2 :] + extra
    message = b"\x01" + len(body).to_bytes(3, "big") + body
    return b"\x16\x03\x01" + len(message).to_bytes(2, "big") + message


@pytest.mark.parametrize("first", [b"", b"\n"])
def test_a_hello_inside_of_a_hello_is_found(first):
    nested = around(b"\r\nSTARTTLS\r\n" + EVIL)
    assert SniFilter("good.test").feed(nested) == nested, "by itself it is right"
    with pytest.raises(SniMismatch, match=r"evil\.test"):
        LateSniFilter("good.test").feed(first + nested)


def test_a_decoy_that_may_still_become_a_hello_hides_none_behind_it():
    late = LateSniFilter("good.test")
    decoy = bytes.fromhex("16030100010115030103f0") + b"x\r\nSTARTTLS\r\n"  # one byte, then a long alert
    assert late.feed(decoy) == decoy
    with pytest.raises(SniMismatch, match=r"evil\.test"):
        late.feed(EVIL)


@given(cuts)
def test_behind_a_decoy_nothing_is_passed_on_that_names_another_host(cuts):
    late, passed = LateSniFilter("good.test"), b""
    data = bytes.fromhex("16030100010115030103f0") * 3 + b"x\r\nSTARTTLS\r\n" + EVIL
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    with pytest.raises(SniMismatch, match=r"evil\.test"):
        for start, end in pairwise(edges):
            passed += late.feed(data[start:end])
    assert data.startswith(passed)
    assert b"evil" not in passed


def recorded(content: bytes) -> bytes:
    return b"\x16\x03\x01" + len(content).to_bytes(2, "big") + content


@pytest.mark.parametrize(
    "spread",
    [
        in_records(EVIL, 1)[: 6 * 64],
        recorded(EVIL[5:6]) + recorded(b"") + recorded(EVIL[6:]),
        recorded(EVIL[5:6]) + b"\x15\x03\x01\x00\x02\x01\x00" + recorded(EVIL[6:]),
        b"\x16\x05\x01" + EVIL[3:],
        EVIL[:3] + b"\x40\x01" + EVIL[5:],
        EVIL[:6] + b"\x01" + EVIL[7:],
    ],
    ids=[
        "in single bytes",
        "an empty record",
        "an alert between",
        "an odd version",
        "too long",
        "far too long",
    ],
)
def test_what_a_lenient_server_might_take_for_a_hello_does_not_pass(spread):
    with pytest.raises(SniMismatch):
        late = LateSniFilter("good.test")
        for byte in b"STARTTLS\r\n" + spread + bytes(20_000):
            late.feed(bytes([byte]))


def test_what_is_no_tls_passes_at_once_and_whole():
    for data in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16",
        b"\x16\x03",
        b"\x16\x03\x01\x00",
        os.urandom(1 << 20),
        b"",
    ):
        late = LateSniFilter("good.test")
        assert late.feed(data) == data
        late.end()


@pytest.mark.parametrize("piece", [b"\x16\x03\x01\x00\x01\x01", b"\x16\x03\x01\x00\x02\x01\x7f"])
def test_nobody_is_kept_busy_with_beginnings(piece):
    with pytest.raises(SniMismatch, match="too much"):
        LateSniFilter("good.test").feed(piece * (SCREENED // len(piece)))
    late = LateSniFilter("good.test")
    for _ in range(100):  # one at a time they are no trouble
        assert late.feed(b"x" + piece + bytes(1000)) == b"x" + piece + bytes(1000)


def test_a_hello_that_never_gets_whole_is_not_passed_on():
    late = LateSniFilter("good.test")
    known = before_compressions(HELLO)
    assert late.feed(b"x" + HELLO[: known - 1]) == b"x" + HELLO[: known - 1]
    assert late.feed(HELLO[known - 1 : -1]) == b""
    with pytest.raises(SniMismatch, match="is incomplete"):
        late.end()


def named_by(record: bytes, tls_files) -> list[str | None]:
    """What OpenSSL takes for the name, as a server that is given these bytes."""
    named: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*tls_files)
    context.sni_callback = lambda connection, name, _: named.append(name)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    incoming.write(record)
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_side=True).do_handshake()
    return named


@pytest.mark.parametrize("version", [0x0301, 0x0303, 0x0FFF, 0x1003, 0x7F03, 0xFFFF])
def test_a_hello_is_one_whatever_version_it_says(version, tls_files):
    odd = EVIL[:9] + version.to_bytes(2, "big") + EVIL[11:]
    assert named_by(odd, tls_files) == ["evil.test"], "a server overlooks it"
    with pytest.raises(SniMismatch, match=r"evil\.test"):
        LateSniFilter("good.test").feed(b"\n" + odd)


@pytest.mark.parametrize("version", [0x0000, 0x0203])
def test_versions_that_only_some_servers_overlook_hide_no_hello_either(version):
    with pytest.raises(SniMismatch, match=r"evil\.test"):
        LateSniFilter("good.test").feed(b"\n" + EVIL[:9] + version.to_bytes(2, "big") + EVIL[11:])


def large(suites: int, padding: int) -> bytes:
    """A hello to evil.test with so many bytes of unknown cipher suites and of extensions that say nothing."""
    at = before_compressions(EVIL)
    begin = 5 + 4 + 2 + 32 + 1 + EVIL[5 + 4 + 2 + 32]
    own = EVIL[begin + 2 : at] + b"\x5a\x5a" * (suites // 2)
    rest = EVIL[at + 2 + 2 :]  # past the compressions and the length of the extensions
    pads = b"".join(
        bytes((0x7A, number)) + size.to_bytes(2, "big") + bytes(size)
        for number, size in enumerate([16_000] * (padding // 16_000) + [padding % 16_000])
    )
    extensions = rest + pads
    body = (
        EVIL[9:begin] + len(own).to_bytes(2, "big") + own + EVIL[at : at + 2]
        + len(extensions).to_bytes(2, "big") + extensions
    )  # fmt: skip
    return b"\x16\x03\x01\x00\x00\x01" + len(body).to_bytes(3, "big") + body


@pytest.mark.parametrize("sizes", [(900, 0), (2_000, 0), (16_000, 0), (40_000, 0), (65_470, 65_090)])
@pytest.mark.parametrize("size", [16_384, 2_000])
def test_a_hello_with_many_cipher_suites_is_one(sizes, size, tls_files):
    """It may fill several records before its name comes, and be as long as OpenSSL takes."""
    records = in_records(large(*sizes), size)
    assert named_by(records, tls_files) == ["evil.test"]
    late, passed = LateSniFilter("good.test"), b""
    with pytest.raises(SniMismatch, match=r"evil\.test|too long"):
        late.feed(b"\n")
        for start in range(0, len(records), 4096):
            passed += late.feed(records[start : start + 4096])
    assert b"evil" not in passed


# By the port


def test_how_a_connection_begins_is_one_table():
    assert {443, 465, 636, 853, 993, 995, 5671, 8443} <= set(TLS_PORTS)
    assert not {21, 25, 80, 110, 143, 389, 587, 1433, 3306, 5222, 5432, 8080} & set(TLS_PORTS)
    for port in TLS_PORTS:
        assert expected_opening(Endpoint("a.test", port), "a.test", port) == "TLS"
        assert expected_opening(Endpoint("*", 0), "a.test", port) == "TLS"
        assert expected_opening(Endpoint("a.test", port, plain=True), "a.test", port) == "plain or TLS"
        assert expected_opening(Endpoint("10.0.0.1", port), "10.0.0.1", port) == "anything"
    assert expected_opening(Endpoint("a.test", 5432), "a.test", 5432) == "plain or TLS"


@pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\n", *PLAIN.values()])
def test_on_a_port_for_tls_nothing_comes_before_it(first):
    opening = SniFilter("good.test", tls_only=True)
    if first.startswith(b"\x16\x03"):
        assert opening.feed(first) in (None, first)
        return
    with pytest.raises(NotTLS):
        opening.feed(first)


def test_plain_is_a_word_of_the_operators():
    assert endpoint("a.test:443 plain") == Endpoint("a.test", 443, plain=True)
    both = Endpoint("a.test", 443, private=True, plain=True)
    assert endpoint("a.test:443 private plain") == endpoint("a.test:443 plain private") == both
    for wrong in (
        "a.test:443 plain plain",
        "a.test:443 plain x",
        "a.test:443 private private",
        "a.test:443 Plain",
    ):
        with pytest.raises(InvalidSpec, match="may follow"):
            endpoint(wrong)
    for each in (both, Endpoint("a.test", 443, plain=True), Endpoint("::1", 1, private=True)):
        assert parse.parse_access({"connect": [grant_hint.format_endpoint(each)]}, "/").connect == (each,)
    assert same_endpoint(Endpoint("a.test", 443, plain=True), Endpoint("a.test", 443)) == Endpoint(
        "a.test", 443
    )
    assert same_endpoint(Endpoint("a.test", 443), both) == both


async def test_a_port_for_tls_refuses_what_is_plain_and_tells_the_grant(outside, monkeypatch):
    server = await outside.server()
    monkeypatch.setitem(tls_ports.TLS_PORTS, server.port, "test")
    granted = Endpoint("good.test", server.port, private=True)
    for first in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1 443\r\n" + EVIL,
        b"\n" + HELLO,
    ):
        with Guest(outside.way(granted)) as guest:
            await guest.connect(f"good.test:{server.port}")
            await guest.send(first)
            assert await guest.rest() == b""
        record = await outside.record()
        assert (record.verdict, record.up) == ("refused", 0)
        assert "does not start with TLS" in record.why
        assert str(grant_hint.grant_hint("connect", record.wanting, {"connect": "net:{path}"})).startswith(
            f'to allow it, allow.connect = ["good.test:{server.port} private plain"]'
        )
        outside.records.clear()
    with Guest(outside.way(endpoint(f"good.test:{server.port} private plain"))) as guest:
        await guest.connect(f"good.test:{server.port}")
        await guest.send(b"hello")
        assert await guest.read(5) == b"hello"


async def test_a_port_for_tls_takes_tls(outside, tls_files, monkeypatch):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*tls_files)
    server = await outside.server(web, context)
    monkeypatch.setitem(tls_ports.TLS_PORTS, server.port, "test")
    with Guest(outside.way(Endpoint("good.test", server.port, private=True))) as guest:
        await guest.connect(f"good.test:{server.port}")
        tls = ssl.create_default_context(cafile=tls_files[0])
        assert (await fetch(guest, tls, "good.test")).endswith(b"GET /page HTTP/1.1")


@pytest.mark.parametrize("greeting", [b"220 ready\r\n", b""])
async def test_on_a_port_for_tls_a_server_that_speaks_something_else_is_not_spoken_to(
    outside, monkeypatch, greeting
):
    """To a server that begins TLS on demand, a hello is an unknown command, and after it comes STARTTLS."""
    heard = bytearray()

    async def mail(reader, writer):
        writer.write(greeting)
        while data := await reader.read(65536):
            heard.extend(data)
            writer.write(b"500 unknown command\r\n")

    server = await outside.server(mail)
    monkeypatch.setitem(tls_ports.TLS_PORTS, server.port, "test")
    with Guest(outside.way(Endpoint("good.test", server.port, private=True))) as guest:
        await guest.connect(f"good.test:{server.port}")
        assert await guest.read(len(greeting)) == greeting
        await guest.send(HELLO + b"\r\nSTARTTLS\r\n" + EVIL)
        await until(lambda: outside.records or b"STARTTLS" in heard)
    record = await outside.record()
    assert (record.verdict, record.up) == ("refused", 0 if greeting else len(HELLO))
    assert "does not answer with TLS" in record.why
    assert record.wanting == Endpoint("good.test", server.port, private=True, plain=True)
    assert b"STARTTLS" not in heard


@pytest.mark.parametrize("plain", [plain for name, plain in PLAIN.items() if "hello" not in name])
async def test_elsewhere_a_hello_after_a_plain_byte_does_not_reach_the_server(outside, plain):
    server = await outside.server()  # it sends back what it gets
    with Guest(outside.way(Endpoint("good.test", server.port, private=True))) as guest:
        await guest.connect(f"good.test:{server.port}")
        await guest.send(b"\n")
        assert await guest.read(1) == b"\n"
        await guest.send(plain + EVIL)
        assert b"evil" not in await guest.rest()
    record = await outside.record()
    assert record.verdict == "refused"
    assert "names 'evil.test', not good.test" in record.why or plain == HALF


async def test_elsewhere_a_hello_to_the_granted_name_goes_on_after_plain_bytes(outside):
    server = await outside.server()
    with Guest(outside.way(Endpoint("good.test", server.port, private=True))) as guest:
        await guest.connect(f"good.test:{server.port}")
        for data in (b"STARTTLS\r\n", HELLO, os.urandom(100) + b"."):
            await guest.send(data)
            assert await guest.read(len(data)) == data
