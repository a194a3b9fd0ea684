"""Fetches over real sockets, against a guard that has to hold at every hop."""

from __future__ import annotations

import asyncio
import gzip
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
import tracemalloc

import pytest

from plughost.errors import Denied, InvalidSpec, Stopped
from plughost.permissions import parse
from plughost.permissions.access import NONE
from plughost.permissions.addresses import canonical_host
from plughost.permissions.capability import Capability
from plughost.permissions.operator_only import OperatorAccess, operator_access
from plughost.services.network.fetch import Fetch, Network
from tests.support import until
from tests.support.web import PUBLIC, Web, answer, redirect

uvloop = pytest.importorskip("uvloop")
uvloop.run(asyncio.sleep(0))  # it keeps a pipe for signals for as long as the process lives

PRIVATE = [
    "127.0.0.1",
    "10.0.0.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "::1",
    "fd00::1",
    "::ffff:127.0.0.1",
]


@pytest.fixture
async def web():
    web = Web()
    await web.start()
    web.names = {"a.test": [PUBLIC], "b.test": [PUBLIC], "inside.test": ["10.0.0.1"]}
    web.pages = {"/": answer(b"hello", 200, "Content-Type: text/plain", "X-Two: 1", "X-Two: 2")}
    yield web
    await web.stop()


def named(*hosts: str) -> OperatorAccess:
    """The word of an operator who has granted these hosts by name."""
    return operator_access([Capability("network", hosts)], NONE)


async def denied(web: Web, hosts, url: str, host: str, word=OperatorAccess(), **options) -> None:  # noqa: B008
    """It is refused with the host that would have to be granted, and nothing more was dialled."""
    before = list(web.dialled)
    with pytest.raises(Denied) as caught:
        await web.network(**options).fetch(hosts, Fetch(url), word)
    assert caught.value.message == "capability denied: network"
    assert f"the host {host}" in caught.value.hint
    assert web.dialled == before


async def invalid(web: Web, request: Fetch, reason: str | None = None, hosts=None, **options) -> InvalidSpec:
    with pytest.raises(InvalidSpec, match=reason) as caught:
        await web.network(**options).fetch(hosts, request, named(*hosts or ()))
    assert caught.value.message.startswith("fetch ")
    return caught.value


# What comes back


async def test_a_page_of_a_public_host(web):
    fetched = await web.network().fetch(None, Fetch("http://A.test./"))
    assert (fetched.status, fetched.body) == (200, b"hello")
    assert [value for name, value in fetched.headers if name == "x-two"] == ["1", "2"]
    assert web.dialled == [(PUBLIC, 80)]
    assert web.seen[0].method == "GET"
    assert web.seen[0].headers["host"] == "a.test"
    assert web.seen[0].headers["accept-encoding"] == "identity"


async def test_an_answer_with_an_error_status_is_an_answer(web):
    fetched = await web.network().fetch(None, Fetch("http://a.test/missing"))
    assert (fetched.status, fetched.body) == (404, b"no such page")


async def test_method_headers_body_port_and_query_arrive_as_given(web):
    web.pages["/p?q=1&r=%2F"] = answer(b"", 204)
    headers = (("Content-Type", "text/x"), ("X-Mine", " spaced "), ("Accept-Encoding", "gzip"))
    request = Fetch("http://a.test:8080/p?q=1&r=%2F#part", "put", b"\0\xff", headers)
    assert (await web.network().fetch(("a.test",), request)).status == 204
    (seen,) = web.seen
    assert (seen.method, seen.path, seen.body) == ("PUT", "/p?q=1&r=%2F", b"\0\xff")
    assert seen.headers["content-type"] == "text/x"
    assert seen.headers["x-mine"] == "spaced"
    assert seen.headers["accept-encoding"] == "gzip"
    assert seen.headers["host"] == "a.test:8080"
    assert web.dialled == [(PUBLIC, 8080)]


async def test_head_has_no_body(web):
    fetched = await web.network().fetch(None, Fetch("http://a.test/", "HEAD"))
    assert (fetched.status, fetched.body) == (200, b"")


async def test_headers_about_the_connection_are_ours(web):
    names = ["Host", "CONNECTION", "Transfer-Encoding", "Content-Length", "Proxy-Authorization", "Proxy-X"]
    names += ["Upgrade", "TE", "Trailer", "Keep-Alive", "Expect", "HTTP2-Settings"]
    request = Fetch("http://a.test/", "POST", b"12345", tuple((name, "evil") for name in names))
    await web.network().fetch(None, request)
    assert web.seen[0].headers["host"] == "a.test"
    assert web.seen[0].headers["content-length"] == "5"
    assert "evil" not in web.seen[0].headers.values()


# Where it may go


@pytest.mark.parametrize("address", PRIVATE)
async def test_an_address_that_is_not_public_is_denied(web, address):
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(Denied):
        await web.network().fetch(None, Fetch(f"http://{host}/"))
    assert (web.dialled, web.looked_up) == ([], [])


@pytest.mark.parametrize("address", PRIVATE)
async def test_a_name_that_leads_to_such_an_address_is_denied(web, address):
    web.names["a.test"] = [address]
    await denied(web, None, "http://a.test/", "a.test")


@pytest.mark.parametrize(
    "answers", [[PUBLIC, "10.0.0.1"], ["10.0.0.1", PUBLIC], [PUBLIC, "2606:4700::1", "::1"]]
)
async def test_one_private_answer_among_public_ones_denies_the_name(web, answers):
    web.names["a.test"] = answers
    await denied(web, None, "http://a.test/", "a.test")


async def test_with_allow_private_any_address_is_reached(web):
    network = web.network(allow_private=True)
    for url in ("http://inside.test/", "http://127.0.0.1:81/", "http://[::1]:82/"):
        assert (await network.fetch(None, Fetch(url))).body == b"hello"
    assert web.dialled == [("10.0.0.1", 80), ("127.0.0.1", 81), ("::1", 82)]


@pytest.mark.parametrize("address", PRIVATE)
async def test_a_list_that_is_a_manifests_word_leads_to_no_private_address(web, address):
    web.names["a.test"] = [address]
    await denied(web, ("a.test",), "http://a.test/", "a.test")
    url = f"http://[{address}]/" if ":" in address else f"http://{address}/"
    host = canonical_host(address)
    await denied(web, (address,), url, host)
    await denied(web, (address, "b.test"), url, host, named("b.test"))
    with pytest.raises(Denied) as caught:
        await web.network().fetch((address,), Fetch(url))
    assert caught.value.hint.endswith(f"to allow it, grant network={host}")


async def test_an_operator_allows_a_private_host_on_a_port(web):
    word = operator_access([], parse.parse_access({"connect": ["inside.test:81 private", "b.test:80"]}, "/"))
    fetched = await web.network().fetch(None, Fetch("http://inside.test:81/"), word)
    assert (fetched.body, web.dialled) == (b"hello", [("10.0.0.1", 81)])
    await denied(web, None, "http://inside.test/", "inside.test", word)
    web.names["b.test"] = ["10.0.0.1"]
    await denied(web, None, "http://b.test/", "b.test", word)
    await denied(web, ("a.test",), "http://inside.test:81/", "inside.test", word)


async def test_a_list_is_exact_and_names_of_the_operators_may_lead_inside(web):
    hosts = ("Inside.TEST", "10.0.0.7", "[::1]")
    network = web.network()
    for url in ("http://inside.test/", "http://INSIDE.test.:81/", "http://10.0.0.7/", "http://[0::1]/"):
        assert (await network.fetch(hosts, Fetch(url), named(*hosts))).body == b"hello"
    assert web.dialled == [("10.0.0.1", 80), ("10.0.0.1", 81), ("10.0.0.7", 80), ("::1", 80)]
    for host in ("a.test", "x.inside.test", "inside.test.evil.test", "10.0.0.8", "10.0.0.1", "::2"):
        url = f"http://[{host}]/" if ":" in host else f"http://{host}/"
        await denied(web, hosts, url, host, named(*hosts))
    await denied(web, (), "http://a.test/", "a.test")
    assert "a.test" not in web.looked_up  # a name that is not listed is not even looked up


async def test_a_list_denies_also_with_allow_private(web):
    await denied(web, ("a.test",), "http://127.0.0.1/", "127.0.0.1", allow_private=True)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://0x7f.1/",
            "http://017700000001/",
            "http://2130706433/",
            "http://127.1/",
            "http://0177.0.0.1/",
        ),
        *("http://[::1%25lo]/", "http://a.test%2finside.test/", "http://ａ.test/", "http://a%2etest/"),
        *(
            "http://a.test@127.0.0.1/",
            "http://127.0.0.1:80@a.test/",
            "http://a.test\\@127.0.0.1/",
            "http://u:p@a.test/",
        ),
        *(
            "http://a.test:0/",
            "http://a.test:65536/",
            "http://a.test:80a/",
            "http://a.test:80:80/",
            "http://:80/",
        ),
        *(
            "file:///etc/passwd",
            "ftp://a.test/",
            "data:,x",
            "gopher://a.test/",
            "http:a.test",
            "//a.test/",
            "",
        ),
        *("http://a.test/ HTTP/1.1\r\nX: y", "http://a.test/\0", "http://a.test/é"),
    ],
)
@pytest.mark.parametrize("hosts", [None, ("a.test", "127.0.0.1")])
async def test_a_url_that_could_be_read_in_two_ways_goes_nowhere(web, url, hosts):
    await invalid(web, Fetch(url), None, hosts, allow_private=True)
    assert (web.dialled, web.looked_up) == ([], [])


async def test_errors_tell_no_secrets(web):
    for url in (
        "http://user:hush@a.test/x?token=hush",
        "http://nowhere.test/x?token=hush",
        "ftp://a.test/?hush",
    ):
        error = await invalid(web, Fetch(url))
        assert "hush" not in str(error)


# Names that change their mind


async def test_the_address_that_was_checked_is_the_one_dialled(web):
    answers = iter([[PUBLIC], ["127.0.0.1"], ["127.0.0.1"]])

    async def resolve(host):
        web.looked_up.append(host)
        return next(answers)

    assert (await web.network(resolve=resolve).fetch(None, Fetch("http://a.test/"))).body == b"hello"
    assert web.looked_up == ["a.test"]
    assert web.dialled == [(PUBLIC, 80)]


async def test_a_name_is_looked_up_and_checked_anew_for_every_hop(web):
    answers = iter([[PUBLIC], ["127.0.0.1"]])

    async def resolve(host):
        return next(answers)

    web.pages["/"] = redirect("/again")
    await_denial = web.network(resolve=resolve).fetch(None, Fetch("http://a.test/"))
    with pytest.raises(Denied):
        await await_denial
    assert web.dialled == [(PUBLIC, 80)]


async def test_our_own_dialling_looks_nothing_up(web, monkeypatch):
    async def resolve(host):
        return ["127.0.0.1"]

    def lookup(*_):
        raise AssertionError("a second lookup")

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    network = web.network(resolve=resolve, connect=None)
    fetched = await network.fetch(("a.test",), Fetch(f"http://a.test:{web.port}/"), named("a.test"))
    assert fetched.body == b"hello"


async def test_the_machines_own_resolver_and_sockets(web):
    network = web.network(resolve=None, connect=None)
    request = Fetch(f"http://localhost:{web.port}/")
    assert (await network.fetch(("localhost",), request, named("localhost"))).body == b"hello"
    with pytest.raises(Denied):
        await network.fetch(None, request)
    assert web.connections == 1


async def test_the_next_address_is_tried_when_one_does_not_answer(web):
    web.names["a.test"] = ["1.1.1.1", PUBLIC]

    async def connect(address, port):
        if address == "1.1.1.1":
            raise ConnectionRefusedError(111, "Connect call failed")
        return await web.connect(address, port)

    assert (await web.network(connect=connect).fetch(None, Fetch("http://a.test/"))).body == b"hello"


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (OSError(-2, "Name or service not known"), "a.test/: Name or service not known"),
        ([], "cannot connect to a.test"),
        (["not an address"], "the name a.test cannot be resolved"),
        (UnicodeError("label too long"), "the name a.test cannot be resolved"),
    ],
)
async def test_a_name_that_leads_nowhere(web, found, reason):
    web.names["a.test"] = found
    await invalid(web, Fetch("http://a.test/?q"), reason)


async def test_a_server_that_is_not_there():
    network = Network()
    with socket.socket() as deaf:  # it has the port, and does not listen
        deaf.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/"
        with pytest.raises(InvalidSpec, match=f"fetch {url}: cannot connect .*Connection refused"):
            await network.fetch(("127.0.0.1",), Fetch(url), named("127.0.0.1"))
    await network.close()


# Redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("to", "host"),
    [
        ("http://127.0.0.1/", "127.0.0.1"),
        ("http://inside.test/", "inside.test"),
        ("//169.254.169.254/meta", "169.254.169.254"),
        ("http://[::ffff:10.0.0.1]/", "::ffff:"),
    ],
)
async def test_a_redirect_to_a_private_address_is_denied(web, status, to, host):
    web.pages["/"] = redirect(to, status)
    with pytest.raises(Denied) as caught:
        await web.network().fetch(None, Fetch("http://a.test/"))
    assert f"the host {host}" in caught.value.hint
    assert web.dialled == [(PUBLIC, 80)]


async def test_a_redirect_leaves_the_list_at_no_hop(web):
    web.pages = {"/": redirect("http://b.test/2"), "/2": redirect("http://c.test/3")}
    with pytest.raises(Denied) as caught:
        await web.network().fetch(("a.test", "b.test"), Fetch("http://a.test/"))
    assert caught.value.hint.endswith("the host c.test")
    assert len(web.dialled) == 2
    assert "c.test" not in web.looked_up


@pytest.mark.parametrize(
    "to", ["file:///etc/passwd", "ftp://a.test/", "http://u:p@a.test/", "http://0x7f.1/", "http://["]
)
async def test_a_redirect_to_something_unusable(web, to):
    web.pages["/"] = redirect(to)
    error = await invalid(web, Fetch("http://a.test/"), "redirected to")
    assert "u:p" not in error.message
    assert len(web.dialled) == 1


async def test_redirects_are_followed_relative_and_with_raw_characters(web):
    web.pages["/dir/a?q=1"] = redirect("b c\\é?x#part")
    web.pages["/dir/b%20c%5C%C3%A9?x"] = redirect("?y")
    web.pages["/dir/b%20c%5C%C3%A9?y"] = answer(b"there")
    assert (await web.network().fetch(None, Fetch("http://a.test/dir/a?q=1"))).body == b"there"


async def test_a_redirect_without_a_place_is_the_answer(web):
    web.pages["/"] = answer(b"odd", 302)
    assert (await web.network().fetch(None, Fetch("http://a.test/"))).body == b"odd"


async def test_other_statuses_with_a_place_are_the_answer(web):
    web.pages["/"] = answer(b"made", 201, "Location: http://127.0.0.1/")
    assert (await web.network().fetch(None, Fetch("http://a.test/"))).body == b"made"


async def test_as_many_redirects_as_allowed_and_no_more(web):
    web.pages = {f"/{n}": redirect(f"/{n + 1}") for n in range(3)} | {"/3": answer(b"end")}
    assert (await web.network(max_redirects=3).fetch(None, Fetch("http://a.test/0"))).body == b"end"
    assert len(web.dialled) == 4
    await invalid(web, Fetch("http://a.test/0"), "more than 2 redirects", max_redirects=2)
    assert len(web.dialled) == 7


@pytest.mark.parametrize("to", ["/", "http://a.test", "", "http://b.test/"])
async def test_a_loop_of_redirects_ends(web, to):
    web.pages["/"] = redirect(to)
    await invalid(web, Fetch("http://a.test/"), "more than 5 redirects")
    assert len(web.dialled) == 6


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        *(
            (301, "POST", "GET"),
            (302, "POST", "GET"),
            (303, "POST", "GET"),
            (307, "POST", "POST"),
            (308, "POST", "POST"),
        ),
        *((301, "PUT", "PUT"), (302, "DELETE", "DELETE"), (303, "PUT", "GET"), (303, "HEAD", "HEAD")),
    ],
)
async def test_a_redirect_changes_the_method_as_in_a_browser(web, status, method, then):
    web.pages = {"/": redirect("/then", status), "/then": answer(b"done")}
    body = None if method == "HEAD" else b"data"
    await web.network().fetch(None, Fetch("http://a.test/", method, body, (("Content-Type", "text/x"),)))
    first, second = web.seen
    assert (first.method, second.method) == (method, then)
    kept = then == method != "HEAD"
    assert second.body == (b"data" if kept else b"")
    if then != method:
        assert not [name for name in second.headers if name.startswith("content-")]


@pytest.mark.parametrize(
    ("to", "kept"),
    [
        ("http://a.test/then", True),
        ("http://A.test:80/then", True),
        ("http://b.test/then", False),
        ("http://a.test:81/then", False),
        ("http://x.a.test/then", False),
    ],
)
async def test_secrets_stay_at_their_origin(web, to, kept):
    web.names["x.a.test"] = [PUBLIC]
    web.pages = {"/": redirect(to, 307), "/then": redirect("http://a.test/back", 307), "/back": answer()}
    headers = (("Authorization", "Bearer hush"), ("COOKIE", "hush=1"), ("X-Other", "other"))
    await web.network().fetch(None, Fetch("http://a.test/", headers=headers))
    assert web.seen[0].headers["authorization"] == "bearer hush"
    for hop in web.seen[1:]:  # once dropped they do not come back
        assert ("authorization" in hop.headers, "cookie" in hop.headers) == (kept, kept)
        assert hop.headers["x-other"] == "other"


# Requests that are none


@pytest.mark.parametrize(
    "method", ["GET /x HTTP/1.1\r\nX:", "G T", "GET\0", "CONNECT", "trace", "GÉT", "GET\n", "(", " "]
)
async def test_a_method_that_is_none(web, method):
    await invalid(web, Fetch("http://a.test/", method), "the method .* is not supported")
    assert web.dialled == []


@pytest.mark.parametrize("name", ["", "X Y", "X:", "X\r\nY", "X\0", "Xé", " X", "X\n"])
async def test_a_header_name_that_is_none(web, name):
    await invalid(web, Fetch("http://a.test/", headers=((name, "v"),)), "is not a header name")
    assert web.dialled == []


@pytest.mark.parametrize(
    "value", ["a\r\nEvil: 1", "a\nb", "a\rb", "a\0b", "a\x1bb", "a\x7f", "é", "a\n", "\u2028"]
)
async def test_a_header_value_cannot_smuggle(web, value):
    await invalid(
        web,
        Fetch("http://a.test/", headers=(("X", value),)),
        "the header X has characters that are not printable ASCII",
    )
    assert web.dialled == []


# Answers that are none, or too much


def then_close(data: bytes):
    async def page(reader, writer):
        writer.write(data)
        await writer.drain()
        raise ConnectionError

    return page


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200",
        b"HTTP/1.1 99999 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000,
        b"HTTP/1.1 200 OK\r\nBad Name: x\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nraw",
    ],
)
async def test_an_answer_that_is_no_answer(web, data):
    web.pages["/"] = then_close(data)
    await invalid(web, Fetch("http://a.test/"), "fetch http://a.test/: ..")


async def test_an_answer_that_never_ends_is_cut_off(web):
    async def page(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    web.pages["/"] = page
    await web.network().fetch(None, Fetch("http://a.test/404"))  # so that what is measured is no import
    tracemalloc.start()
    try:
        await invalid(web, Fetch("http://a.test/"), "larger than 1000000 bytes", max_body=1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 6_000_000
    finally:
        tracemalloc.stop()
    await until(lambda: web.open == 0)


async def test_the_largest_answer_is_an_answer(web):
    web.pages["/"] = answer(b"x" * 1000)
    network = web.network(max_body=1000)
    assert len((await network.fetch(None, Fetch("http://a.test/"))).body) == 1000
    web.pages["/"] = answer(b"x" * 1001)
    await invalid(web, Fetch("http://a.test/"), "larger than 1000 bytes", max_body=1000)


@pytest.mark.parametrize("coding", ["gzip", "gzip, gzip", "deflate", "br", "zstd", "unheard-of"])
async def test_a_bomb_stays_packed(web, coding):
    bomb = gzip.compress(bytes(20 << 20))
    web.pages["/"] = answer(bomb, 200, f"Content-Encoding: {coding}")
    fetched = await web.network(max_body=len(bomb)).fetch(None, Fetch("http://a.test/"))
    assert fetched.body == bomb
    assert ("content-encoding", coding) in fetched.headers


def dripping(start: bytes, drop: bytes):
    async def page(reader, writer):
        writer.write(start)
        while True:
            writer.write(drop)
            await writer.drain()
            await asyncio.sleep(0.01)

    return page


@pytest.mark.parametrize(
    ("start", "drop"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x"),
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", b"x"),
    ],
)
async def test_a_dripping_answer_is_over_when_the_time_is(web, start, drop):
    web.pages["/"] = dripping(start, drop)
    began = time.monotonic()
    await invalid(web, Fetch("http://a.test/"), "not finished within 0.2 s", timeout=0.2)
    assert time.monotonic() - began < 30
    await until(lambda: web.open == 0)


async def test_the_time_is_for_all_hops_together(web):
    async def page(reader, writer):
        await asyncio.sleep(0.1)
        writer.write(redirect("/"))

    web.pages["/"] = page
    await invalid(web, Fetch("http://a.test/"), "not finished within 0.35 s", timeout=0.35, max_redirects=50)
    assert len(web.dialled) < 5


@pytest.mark.parametrize("stuck", ["resolve", "connect"])
async def test_the_time_is_also_for_looking_up_and_connecting(web, stuck):
    async def forever(*_):
        await asyncio.Event().wait()

    await invalid(web, Fetch("http://a.test/"), "not finished within 0.1 s", timeout=0.1, **{stuck: forever})


# One at a time, several at a time


async def test_nothing_is_kept_between_fetches(web):
    web.pages["/"] = answer(b"hello", 200, "Set-Cookie: a=1; Path=/", "Connection: keep-alive")
    web.pages["/r"] = answer(b"", 302, "Location: /", "Set-Cookie: b=2; Path=/")
    network = web.network()
    for path in ("/", "/", "/r", "/"):
        await network.fetch(None, Fetch(f"http://a.test{path}"))
    assert web.connections == len(web.dialled) == len(web.looked_up) == 5
    assert not [seen for seen in web.seen if "cookie" in seen.headers]
    await until(lambda: web.open == 0)


async def test_the_environment_changes_nothing(web, monkeypatch, tmp_path):
    (tmp_path / ".netrc").write_text("machine a.test login me password hush\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert (await web.network().fetch(None, Fetch("http://a.test/"))).body == b"hello"
    assert web.dialled == [(PUBLIC, 80)]
    assert web.seen[0].path == "/"
    assert "authorization" not in web.seen[0].headers


async def test_many_fetches_share_few_connections_and_get_their_own_answers(web):
    four = asyncio.Barrier(4)

    def page(n):
        async def write(reader, writer):
            await four.wait()
            writer.write(answer(b"%d" % n))

        return write

    web.pages = {f"/{n}": page(n) for n in range(40)}
    network = web.network(at_once=4)
    fetched = await asyncio.gather(*(network.fetch(None, Fetch(f"http://a.test/{n}")) for n in range(40)))
    assert [int(one.body) for one in fetched] == list(range(40))
    assert web.most_open == 4


async def test_one_plugins_list_says_nothing_about_anothers(web):
    network = web.network()
    request = Fetch("http://inside.test/")
    results = await asyncio.gather(
        *(
            network.fetch(hosts, request, named(*hosts or ()))
            for hosts in (("inside.test",), None, ("a.test",)) * 10
        ),
        return_exceptions=True,
    )
    assert [type(result).__name__ for result in results] == ["Fetched", "Denied", "Denied"] * 10
    assert len(web.dialled) == 10


async def test_waiting_for_a_turn_is_part_of_the_time(web):
    holding, over = asyncio.Event(), asyncio.Event()

    async def connect(address, port):
        if not holding.is_set():
            holding.set()
            try:
                await asyncio.Event().wait()
            finally:
                await over.wait()  # it keeps its turn, even past its own time
        return await web.connect(address, port)

    await web.network().fetch(None, Fetch("http://a.test/"))  # what is imported at need is there now
    network = web.network(at_once=1, timeout=1.0, connect=connect)
    holder = asyncio.create_task(network.fetch(None, Fetch("http://a.test/")))
    await holding.wait()
    with pytest.raises(InvalidSpec, match="not finished within 1 s"):
        await network.fetch(None, Fetch("http://a.test/"))
    over.set()
    with pytest.raises(InvalidSpec, match="not finished within 1 s"):
        await holder
    network._timeout = 30
    assert (await network.fetch(None, Fetch("http://a.test/"))).body == b"hello"  # the turn was given back


async def test_a_fetch_that_is_cancelled_closes_its_connection(web):
    web.pages["/slow"] = dripping(b"HTTP/1.1 200 OK\r\n\r\n", b"x")
    fetching = asyncio.create_task(web.network().fetch(None, Fetch("http://a.test/slow")))
    await until(lambda: web.seen)
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    await until(lambda: web.open == 0)


async def test_close_ends_what_is_under_way(web):
    web.pages["/slow"] = dripping(b"HTTP/1.1 200 OK\r\n\r\n", b"x")
    network = web.network(at_once=2)
    fetching = [asyncio.create_task(network.fetch(None, Fetch("http://a.test/slow"))) for _ in range(3)]
    await until(lambda: len(web.seen) == 2)
    await network.close()
    assert [type(task.exception()) for task in fetching] == [Stopped] * 3  # all done, or this raises
    await until(lambda: web.open == 0)
    with pytest.raises(Stopped):
        await network.fetch(None, Fetch("http://a.test/"))
    await network.close()
    assert len(web.dialled) == 2


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A key and a self-signed certificate for good.test."""
    if shutil.which("openssl") is None:
        if os.environ.get("CI"):
            pytest.fail("the openssl command is missing")
        pytest.skip("no openssl command to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "cert.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=good.test"
    extensions = ["subjectAltName=DNS:good.test", "keyUsage=critical,digitalSignature,keyCertSign"]
    command = ["openssl", *words.split(), "-keyout", str(key), "-out", str(certificate)]
    for extension in extensions:
        command += ["-addext", extension]
    subprocess.run(command, check=True, capture_output=True)
    return key, certificate


@pytest.fixture
async def secure(certificate):
    """The same web over TLS; `wanted` is the list of names it was asked for."""
    key, path = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path, key)
    web = Web()
    web.wanted = []
    context.sni_callback = lambda _, name, __: web.wanted.append(name)
    await web.start(context)
    web.names = {"good.test": [PUBLIC], "bad.test": [PUBLIC]}
    web.pages = {"/": answer(b"hello")}
    yield web
    await web.stop()


async def test_a_self_signed_certificate_is_refused(secure):
    await invalid(secure, Fetch("https://good.test/?q"), "fetch https://good.test/: .*self.signed")
    assert secure.dialled == [(PUBLIC, 443)]
    assert secure.seen == []


async def test_the_certificate_must_be_for_the_name_and_not_for_the_address(secure, certificate):
    trusting = ssl.create_default_context(cafile=certificate[1])
    network = secure.network(tls=trusting)
    assert (await network.fetch(None, Fetch("https://good.test/"))).body == b"hello"
    assert secure.wanted == ["good.test"]
    assert secure.dialled == [(PUBLIC, 443)]
    await invalid(secure, Fetch("https://bad.test/"), "ostname mismatch", tls=trusting)
    await invalid(secure, Fetch("https://127.0.0.1/"), "IP address mismatch", ("127.0.0.1",), tls=trusting)
    assert len(secure.seen) == 1


async def test_a_redirect_down_to_plain_http_leaves_the_secrets_behind(secure, certificate):
    plain = Web()
    await plain.start()
    plain.pages = {"/then": answer(b"plain")}
    secure.pages["/"] = redirect("http://good.test/then")

    async def connect(address, port):
        return await (secure if port == 443 else plain).connect(address, port)

    network = secure.network(tls=ssl.create_default_context(cafile=certificate[1]), connect=connect)
    request = Fetch("https://good.test/", headers=(("Authorization", "hush"),))
    assert (await network.fetch(None, request)).body == b"plain"
    assert "authorization" in secure.seen[0].headers
    assert "authorization" not in plain.seen[0].headers
    await plain.stop()


async def test_a_server_that_speaks_no_tls():
    async def plain(reader, writer):
        writer.write(answer(b"plain"))
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        network = Network()
        with pytest.raises(InvalidSpec, match=f"fetch https://127.0.0.1:{port}/: .*SSL"):
            await network.fetch(("127.0.0.1",), Fetch(f"https://127.0.0.1:{port}/"), named("127.0.0.1"))
        await network.close()


async def test_a_handshake_that_never_ends_is_given_up_and_closed():
    asked, closed = asyncio.Event(), asyncio.Event()

    async def silent(reader, writer):
        await reader.readexactly(1)
        asked.set()
        await reader.read(-1)
        closed.set()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        network = Network()
        request = Fetch(f"https://127.0.0.1:{port}/")
        fetching = asyncio.create_task(network.fetch(("127.0.0.1",), request, named("127.0.0.1")))
        await asyncio.wait_for(asked.wait(), 10)
        await network.close()
        with pytest.raises(Stopped):
            await fetching
        await asyncio.wait_for(closed.wait(), 10)


# Around it


def test_httpx_is_not_loaded_before_it_is_needed():
    check = "import sys, plughost, plughost.services.network.fetch; sys.exit('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0


def test_it_works_on_uvloop():
    async def main():
        web = Web()
        await web.start()
        web.names = {"a.test": [PUBLIC]}
        web.pages = {"/": redirect("/then"), "/then": answer(b"hello")}
        fetched = await web.network().fetch(None, Fetch("http://a.test/"))
        with pytest.raises(Denied):
            await web.network().fetch(None, Fetch("http://127.0.0.1/"))
        await web.stop()
        return fetched.body

    assert uvloop.run(main()) == b"hello"
