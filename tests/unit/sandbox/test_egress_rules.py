"""What is asked of the proxy and what was granted, and what the first bytes of TLS say: decisions over values."""

from __future__ import annotations

import ssl
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plughost.permissions.access import Endpoint, endpoint
from plughost.sandbox.egress.connect import ConnectRefusal, match_grant, parse_connect
from plughost.sandbox.egress.sni import (
    MAX_HELLO,
    MAX_RECORDS,
    ServerHelloReader,
    SniFilter,
    SniMismatch,
    server_name,
)


def connect(authority: str) -> tuple[str, int]:
    return parse_connect(f"CONNECT {authority} HTTP/1.1\r\nHost: elsewhere.test:1".encode())


# What is asked for


@pytest.mark.parametrize(
    ("authority", "host", "port"),
    [
        ("a.test:443", "a.test", 443),
        ("A.TEST.:443", "a.test", 443),
        ("xn--bcher-kva.test:1", "xn--bcher-kva.test", 1),
        ("127.0.0.1:80", "127.0.0.1", 80),
        ("[::1]:65535", "::1", 65535),
        ("[0:0:0::1]:80", "::1", 80),
    ],
)
def test_a_host_has_one_spelling(authority, host, port):
    assert connect(authority) == (host, port)


@pytest.mark.parametrize(
    "authority",
    [
        *(
            "a.test",
            "a.test:",
            "a.test:0",
            "a.test:65536",
            "a.test:443443",
            "a.test:+443",
            "a.test:0x1bb",
            ":443",
        ),
        *("user@a.test:443", "user:word@a.test:443", "a.test:443@b.test:443", "good.test@127.0.0.1:443"),
        *(
            "0x7f.0.0.1:80",
            "017700000001:80",
            "2130706433:80",
            "127.1:80",
            "0177.0.0.1:80",
            "127.0.0.1.:80.",
            "1:80",
        ),
        *(
            "::1:80",
            "[::1%lo]:80",
            "[::1%25lo]:80",
            "[127.0.0.1]:80",
            "[a.test]:443",
            "[::1]x:80",
            "[[::1]]:80",
        ),
        *(
            "a.test..:443",
            ".a.test:443",
            "a..test:443",
            "a.test/:443",
            "a.test:443/",
            "http://a.test:443",
            "*:443",
        ),
        *(
            "*.a.test:443",
            "a.test\\:443",
            "a.test#:443",
            "a.test?:443",
            "a.test%00:443",
            "b%C3%BCcher.test:443",
        ),
        *(
            "b\u00fccher.test:443",
            "\uff41.test:443",
            "a\u3002test:443",
            "a.test:\u0664\u0664\u0663",
            "a.te\x00st:443",
        ),
        "a" * 64 + ".test:443",
        "a." * 127 + "test:443",
    ],
)
def test_what_could_be_read_in_two_ways_is_not_read(authority):
    with pytest.raises(ConnectRefusal) as caught:
        connect(authority)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET http://a.test/ HTTP/1.1", 405),
        (b"connect a.test:443 HTTP/1.1", 405),
        (b"OPTIONS * HTTP/1.1", 405),
        (b"CONNECT a.test:443", 400),
        (b"CONNECT  a.test:443 HTTP/1.1", 400),
        (b"CONNECT a.test:443 HTTP/2.0", 400),
        (b"CONNECT a.test:443 b.test:443 HTTP/1.1", 400),
        (b"CONNECT a.test:443 HTTP/1.1\nX: y", 400),
        (b"\r\nCONNECT a.test:443 HTTP/1.1", 400),
        (b"\x05\x01\x00", 400),
        (b"", 400),
    ],
)
def test_only_connect_is_understood(head, status):
    with pytest.raises(ConnectRefusal) as caught:
        parse_connect(head)
    assert caught.value.status == status
    assert caught.value.answer.startswith(b"HTTP/1.1 %d " % status)
    assert (b"\r\nAllow: CONNECT\r\n" in caught.value.answer) == (status == 405)


@given(st.binary(max_size=80) | st.text(max_size=60).map(lambda text: f"CONNECT {text}:1 HTTP/1.1".encode()))
def test_whatever_is_sent_is_read_in_one_way_or_refused(head):
    try:
        host, port = parse_connect(head)
    except ConnectRefusal:
        return
    assert connect(f"[{host}]:{port}" if ":" in host else f"{host}:{port}") == (host, port)


# What was granted

LABELS = st.sampled_from(["a", "b", "xn--a"])
NAMES = st.lists(LABELS, min_size=1, max_size=3)
PORTS = st.sampled_from([80, 443])
ENDPOINTS = st.lists(
    st.builds(lambda *parts: parts, st.booleans(), NAMES, st.sampled_from([80, 443, 0]), st.booleans()),
    max_size=6,
)


def model(endpoints, labels, port):
    """None, or whether private addresses are allowed: label by label from the right, endpoint by endpoint."""
    answers = []
    for wild, name, at, private in endpoints:
        same_end = labels[len(labels) - len(name) :] == name if len(labels) >= len(name) else False
        right_length = len(labels) > len(name) if wild else len(labels) == len(name)
        if at in (0, port) and same_end and right_length:
            answers.append(private)
    return any(answers) if answers else None


@given(ENDPOINTS, NAMES, PORTS, st.booleans(), st.booleans())
@example([(True, ["test"], 443, False)], ["test"], 443, False, False)
@example([(True, ["b", "test"], 443, False)], ["evil", "a-b", "test"], 443, False, True)
@example([(False, ["b", "a"], 80, False), (True, ["a"], 80, True)], ["b", "a"], 80, True, True)
def test_what_is_granted_is_what_a_slow_reading_says(endpoints, labels, port, upper, dot):
    allowed = [
        endpoint(f"{'*.' * wild}{'.'.join(name)}:{at or '*'}{' private' * private}")
        for wild, name, at, private in endpoints
    ]
    text = ".".join(labels) + "." * dot
    found = match_grant(allowed, *connect(f"{text.upper() if upper else text}:{port}"))
    assert (None if found is None else found.private) == model(endpoints, labels, port)


def test_a_name_grants_no_address_and_a_wildcard_none_either():
    names = (Endpoint("good.test", 80, True), Endpoint("*.1", 80, True), Endpoint("*.test", 80))
    for host in ("127.0.0.1", "::1", "::ffff:7f00:1", "0.0.0.1"):
        assert match_grant(names, host, 80) is None


def test_every_public_host_is_granted_by_one_endpoint():
    everything = (Endpoint("*", 0), Endpoint("127.0.0.1", 80, True))
    for host, port in (("good.test", 443), ("8.8.8.8", 1), ("127.0.0.1", 81)):
        found = match_grant(everything, host, port)
        assert found is not None
        assert not found.private
    assert match_grant(everything, "127.0.0.1", 80) == Endpoint("127.0.0.1", 80, True)


# What TLS is opened to


def hello(name: str | None) -> bytes:
    """What a TLS client sends first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    out = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name).do_handshake()
    return out.read()


def in_records(data: bytes, size: int) -> bytes:
    """The same handshake message in records of `size` bytes."""
    message = data[5:]
    pieces = [message[at : at + size] for at in range(0, len(message), size)]
    return b"".join(data[:3] + len(piece).to_bytes(2, "big") + piece for piece in pieces)


HELLO = hello("good.test")


@pytest.mark.parametrize("name", ["good.test", "GOOD.test", "good.test."])
def test_the_granted_name_passes_unchanged(name):
    data = hello(name)
    assert SniFilter("good.test").feed(data) == data


@pytest.mark.parametrize("name", ["evil.test", "a.good.test", "good.testt", "ood.test", None])
def test_another_name_or_none_does_not_pass(name):
    with pytest.raises(SniMismatch, match="ClientHello names"):
        SniFilter("good.test").feed(hello(name))


@given(
    st.lists(st.integers(1, len(HELLO) - 1), max_size=12),
    st.integers(len(HELLO) // MAX_RECORDS + 1, len(HELLO)),
)
def test_however_it_is_cut_it_is_put_together(cuts, size):
    for name, passes in (("good.test", True), ("evil.test", False)):
        data = in_records(HELLO, size) + b"more"
        opening, passed, refused = SniFilter(name), None, False
        edges = [0, *sorted(cuts), len(data)]
        try:
            for start, end in pairwise(edges):
                passed = passed + data[start:end] if passed is not None else opening.feed(data[start:end])
        except SniMismatch:
            refused = True
        assert (passed == data, refused) == (passes, not passes)


def test_a_byte_at_a_time():
    opening = SniFilter("good.test")
    results = [opening.feed(bytes([byte])) for byte in HELLO]
    assert results == [None] * (len(HELLO) - 1) + [HELLO]


@pytest.mark.parametrize(
    "first",
    [
        *(b"GET / HTTP/1.1\r\n", b"\x00\x00\x00\x08\x04\xd2\x16\x2f", b"*", b"\x16\x45"),
        *(b"\x80\x00\x02", b"\xff\xfb\x01", b"\x80\x2e\x01\x00"),
    ],
)
def test_what_is_not_tls_passes_at_once(first):
    assert SniFilter("good.test").feed(first) == first


def test_a_hello_has_to_be_whole_at_the_end():
    for first, passes in ((b"", True), (b"\x16", False), (b"\x16\x03", False), (HELLO[:40], False)):
        opening = SniFilter("good.test")
        assert opening.feed(first) is None
        if passes:
            assert opening.end() == first
        else:
            with pytest.raises(SniMismatch):
                opening.end()


@pytest.mark.parametrize(
    "data",
    [
        b"\x15\x03\x01\x00\x02\x01\x00" + HELLO,  # a warning first, which some servers overlook
        b"\x14\x03\x03\x00\x01\x01" + HELLO,
        b"\x17\x03\x03\x00\x01x" + HELLO,
        b"\x16\x03\x01\x00\x00" + HELLO,  # an empty record
        b"\x16\x03\x01\x00\x04\x02\x00\x00\x00",  # a ServerHello
        b"\x16\x03\x01\x40\x01",
        b"\x16\x03\x01\x00\x04\x01\x01\x00\x00",
        b"\x16\x05\x01" + (len(HELLO) - 5).to_bytes(2, "big") + HELLO[5:9] + bytes(len(HELLO) - 9),
        in_records(b"\x16\x03\x01\x00\x00\x01\x00\x10\x00" + bytes(4096), 8),
        in_records(HELLO + HELLO[5:], 1 << 14),  # two in one record
        b"\x80\x2e\x01\x03\x01",  # as SSL 2 wrote it, without a name
        b"\x81\x00\x01\x03\x03",
    ],
)
def test_what_a_server_might_take_for_tls_has_to_be_well_formed(data):
    with pytest.raises(SniMismatch):
        SniFilter("good.test").feed(data)


RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")


@pytest.mark.parametrize(
    ("said", "asks_again"),
    [
        (b"\x16\x03\x03\x00\x26\x02\x00\x00\x22\x03\x03" + RETRY, True),
        (b"\x15\x03\x03\x00\x02\x01\x70\x16\x03\x03\x00\x26\x02\x00\x00\x22\x03\x03" + RETRY, True),
        (b"\x16\x03\x03\x00\x01\x02\x16\x03\x03\x00\x25\x00\x00\x22\x03\x03" + RETRY, True),
        (b"\x16\x03\x03\x00\x26\x02\x00\x00\x22\x03\x03" + bytes(32), False),
        (b"HTTP/1.1 400 no TLS here", False),
    ],
)
def test_a_server_that_asks_for_a_second_hello_is_understood_however_its_bytes_come(said, asks_again):
    for answer, pieces in (
        (ServerHelloReader(), [said]),
        (ServerHelloReader(), [bytes([byte]) for byte in said]),
    ):
        known = [answer.feed(piece) for piece in pieces]
        assert any(known)
        assert answer.asks_again == asks_again


def test_the_second_hello_is_read_as_the_first():
    second = b"\x14\x03\x03\x00\x01\x01" + HELLO
    assert SniFilter("good.test").second_hello().feed(second) == second
    for data in (
        b"\x14\x03\x03\x00\x01\x01" + hello("evil.test"),
        b"GET / ",
        b"\x17\x03\x03\x00\x01x" + HELLO,
    ):
        with pytest.raises(SniMismatch):
            SniFilter("good.test").second_hello().feed(data)


def body(*extensions: tuple[int, bytes]) -> bytes:
    packed = b"".join(kind.to_bytes(2, "big") + sized(content) for kind, content in extensions)
    return b"\x03\x03" + bytes(32) + b"\x00" + sized(b"\x13\x01") + b"\x01\x00" + sized(packed)


def sized(content: bytes) -> bytes:
    return len(content).to_bytes(2, "big") + content


NAMED = sized(b"\x00" + sized(b"good.test"))


def test_names_in_a_hello():
    assert server_name(body((0, NAMED), (0xFE0D, b"encrypted"))) == "good.test"
    assert server_name(body((0xFE0D, b"encrypted"))) is None
    assert server_name(body()[:-2]) is None


@pytest.mark.parametrize(
    "hello",
    [
        body((0, NAMED), (0, NAMED)),
        body((0, sized((b"\x00" + sized(b"good.test")) * 2))),
        body((0, sized(b"\x01" + sized(b"good.test")))),
        body((0, sized(b"\x00" + sized("göod.test".encode())))),
        body((0, b"")),
        body((0, NAMED + b"x")),
        body((0, NAMED))[:-1],
        body((0, NAMED)) + b"x",
    ],
)
def test_two_names_or_broken_ones_are_none(hello):
    with pytest.raises(ValueError):
        server_name(hello)


@given(st.binary(max_size=200), st.binary(max_size=60))
def test_no_bytes_break_the_reading_or_get_another_name_through(junk, tail):
    for data in (junk, b"\x16\x03" + junk, HELLO[:60] + junk, HELLO[:-40] + junk + tail):
        opening = SniFilter("evil.test")
        try:
            passed = opening.feed(data)
        except SniMismatch:
            continue
        assert passed is None or passed == data
        assert passed is None or data[0] not in range(20, 25) or data[1] >= 16 or b"evil.test" in data
        assert len(data) < 5 + MAX_HELLO
