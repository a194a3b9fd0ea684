"""Powers: the operator's words, and what two sides agree on, against a model that lists everything."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plughost.errors import InvalidSpec
from plughost.permissions import parse
from plughost.permissions.access import Access, Endpoint, ResourceLimits, endpoint
from plughost.permissions.intersection import covers, intersect


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("api.example.com:443", Endpoint("api.example.com", 443)),
        ("API.Example.COM:443", Endpoint("api.example.com", 443)),
        ("*.example.com:8443", Endpoint("*.example.com", 8443)),
        ("127.0.0.1:80 private", Endpoint("127.0.0.1", 80, True)),
        ("[::1]:80 private", Endpoint("::1", 80, True)),
        ("[2001:DB8:0::1]:80", Endpoint("2001:db8::1", 80)),
        ("localhost:5432 private", Endpoint("localhost", 5432, True)),
        ("example.com:*", Endpoint("example.com", 0)),
        ("[::1]:* private", Endpoint("::1", 0, True)),
        ("*:*", Endpoint("*", 0)),
    ],
)
def test_an_endpoint_has_one_spelling(text, meant):
    assert endpoint(text) == meant
    assert endpoint(str(meant).replace(" (private)", " private")) == meant


@pytest.mark.parametrize(
    "text",
    [
        "", "example.com", "example.com:", "example.com:0", "example.com:65536", "example.com:٤٤٣", ":443",
        "example.com.:443", "http://example.com:443", "user@example.com:443", "exa mple.com:443",
        "example.com:443  private", "example.com:443 public", "0177.0.0.1:80", "127.1:80", "2130706433:80",
        "0x7f000001:80", "127.0.0.0x1:80", "1.2.3.4.5:80", "[::ffff:127.0.0.1]:80", "[fe80::1%eth0]:80", "::1:80",
        "bücher.example:443", "-a.example:443", "a-.example:443", "a..example:443", "*:443", "*", "*:* private", ":*", "example.com:**", "*.*.example:443",
        "a.*.example:443", "ex\0ample.com:443", "a" * 64 + ".example:443", ".".join(["a" * 60] * 5) + ":443",
    ],
)  # fmt: skip
def test_what_is_no_endpoint_is_refused(text):
    with pytest.raises(InvalidSpec):
        endpoint(text)


def test_words_become_powers(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    words = {
        "read": ["~/notes", "data", "data/"],
        "write": ["/var/../srv/x"],
        "execute": ["sh"],
        "connect": ["a.example:1"],
    }
    found = parse.parse_access(words, "/base")
    assert found.read == ("/home/ada/notes", "/base/data")
    assert found.write == ("/srv/x",)
    assert [os.path.basename(path) for path in found.execute] == ["sh"]
    assert found.connect == (Endpoint("a.example", 1),)


@pytest.mark.parametrize(
    "words",
    [
        {"reed": ["x"]}, {"read": ["/"]}, {"read": ["/a/.."]}, {"read": [""]}, {"read": ["a\0b"]},
        {"execute": ["no-such-program-here"]}, {"connect": ["x"]},
    ],
)  # fmt: skip
def test_words_that_cannot_be_meant_are_refused(words):
    with pytest.raises(InvalidSpec):
        parse.parse_access(words, "/base")


def test_limits_take_numbers_and_sizes():
    found = parse.parse_limits({"memory": "256M", "processes": 8, "scratch": "1 GiB", "cpu_seconds": "none"})
    assert found == ResourceLimits(memory=256 << 20, processes=8, scratch=1 << 30, cpu_seconds=None)


@pytest.mark.parametrize(
    "table", [{"memory": "lots"}, {"memory": 0}, {"memory": -1}, {"memory": True}, {"ram": 1}]
)
def test_limits_that_are_none_are_refused(table):
    with pytest.raises(InvalidSpec):
        parse.parse_limits(table)


# The model: a tiny world in which every path and every host can be listed.

NAMES = ("a", "b", "ab")
WORLD = sorted(
    {"/" + "/".join(parts) for parts in [(x,) for x in NAMES] + [(x, y) for x in NAMES for y in NAMES]}
    | {f"/{x}/{y}/{z}" for x in NAMES for y in NAMES for z in NAMES}
)
HOSTS = ["example", "a.example", "b.example", "c.a.example", "aexample", "other"]
PORTS = (80, 443)
PATTERNS = [*HOSTS, *(f"*.{host}" for host in HOSTS), "*"]
paths = st.lists(st.sampled_from(WORLD), max_size=3).map(tuple)
endpoints = st.lists(
    st.builds(Endpoint, st.sampled_from(PATTERNS), st.sampled_from([*PORTS, 0]), st.booleans()), max_size=3
).map(tuple)
access = st.builds(Access, read=paths, write=paths, execute=paths, connect=endpoints)


def readable(held: Access) -> set[str]:
    return below(held.read) | below(held.write)


def below(roots: tuple[str, ...]) -> set[str]:
    return {
        path
        for path in WORLD
        if any(path.split("/")[: root.count("/") + 1] == root.split("/") for root in roots)
    }


def reached(held: Access) -> set[tuple[str, int]]:
    found = set()
    for each in held.connect:
        ports = [each.port] if each.port else PORTS
        for host in HOSTS:
            labels, wanted = host.split("."), each.host.removeprefix("*.").split(".")
            if each.host.startswith("*."):
                if len(labels) > len(wanted) and labels[-len(wanted) :] == wanted:
                    found |= {(host, port) for port in ports}
            elif each.host in (host, "*"):
                found |= {(host, port) for port in ports}
    return found


@given(asked=access, allowed=access)
def test_what_both_sides_say_is_what_the_model_says(asked, allowed):
    both = intersect(asked, allowed)
    assert below(both.read) == below(asked.read) & readable(allowed)
    assert below(both.write) == below(asked.write) & below(allowed.write)
    assert set(both.execute) == set(asked.execute) & set(allowed.execute)
    assert reached(both) == reached(asked) & reached(allowed)


@given(asked=access, allowed=access)
def test_private_addresses_are_the_operators_to_allow(asked, allowed):
    private = {(host, each.port) for each in allowed.connect if each.private for host in [each.host]}
    for each in intersect(asked, allowed).connect:
        if each.private:
            assert any(
                reached(Access(connect=(each,))) <= reached(Access(connect=(Endpoint(*one),)))
                for one in private
            )


@given(allowed=access)
def test_without_words_for_powers_the_operator_decides(allowed):
    assert intersect(None, allowed) == allowed


def test_a_path_that_leads_upwards_is_in_nothing():
    allowed = Access(read=("/shared",))
    assert intersect(Access(read=("/shared/../secret", "/shared/in")), allowed).read == ("/shared/in",)


@pytest.mark.parametrize(
    ("pattern", "host", "covered"),
    [
        ("*.example", "a.example", True), ("*.example", "c.a.example", True), ("*.example", "*.a.example", True),
        ("*.example", "*.example", True), ("*", "a.example", True), ("a.example", "a.example", True),
        ("*.example", "example", False), ("*.example", "aexample", False), ("*.a.example", "*.example", False),
        ("a.example", "*.a.example", False), ("*.example", "*.aexample", False), ("*.example", "*", False),
    ],
)  # fmt: skip
def test_a_pattern_covers_names_below_its_own_after_a_dot(pattern, host, covered):
    assert covers(pattern, host) == covered
