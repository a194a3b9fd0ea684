"""How the inside is told of the way out."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plughost.errors import InvalidSpec
from plughost.permissions.access import Endpoint, endpoint
from plughost.sandbox.egress.hosts_file import MAX_LISTENERS, proxy_environment


def test_each_name_has_an_address_of_its_own_with_all_its_ports():
    posts = proxy_environment(
        [endpoint(text) for text in ("b.test:443", "a.test:443", "a.test:80", "a.test:80 private")]
    )
    assert posts.hosts == "127.0.0.1 localhost\n127.83.0.1 a.test\n127.83.0.2 b.test\n"
    assert posts.listing.splitlines() == [
        "proxy 127.0.0.1 3128",
        "host 127.83.0.1 80 a.test",
        "host 127.83.0.1 443 a.test",
        "host 127.83.0.2 443 b.test",
    ]
    assert posts.env == {
        "HTTPS_PROXY": "http://127.0.0.1:3128",
        "https_proxy": "http://127.0.0.1:3128",
        "NO_PROXY": "",
        "no_proxy": "",
    }


def test_wildcards_and_addresses_elsewhere_are_for_clients_that_know_proxies():
    posts = proxy_environment(
        [endpoint(text) for text in ("*.a.test:443", "8.8.8.8:53", "[::1]:80 private", "b.test:*", "*:*")]
    )
    assert (posts.hosts, posts.listing) == ("127.0.0.1 localhost\n", "proxy 127.0.0.1 3128\n")


def test_what_is_granted_on_this_machine_is_found_where_it_would_be():
    granted = ("localhost:5432 private", "127.0.0.1:3128 private", "127.83.0.1:80 private", "a.test:80")
    posts = proxy_environment([endpoint(text) for text in granted])
    assert posts.hosts == "127.0.0.1 localhost\n127.83.0.2 a.test\n"
    assert set(posts.listing.splitlines()) == {
        "proxy 127.0.0.1 3129",
        "host 127.0.0.1 5432 localhost",
        "host 127.0.0.1 3128 127.0.0.1",
        "host 127.83.0.1 80 127.83.0.1",
        "host 127.83.0.2 80 a.test",
    }
    assert posts.env["HTTPS_PROXY"] == "http://127.0.0.1:3129"


def test_more_endpoints_than_the_forwarder_has_room_for():
    endpoints = [Endpoint("a.test", port) for port in range(1, MAX_LISTENERS + 1)]
    assert len(proxy_environment(endpoints[:-1]).listing.splitlines()) == MAX_LISTENERS
    with pytest.raises(InvalidSpec, match="at most 255"):
        proxy_environment(endpoints)


HOSTS = st.sampled_from(
    ["a.test", "b.test", "*.c.test", "localhost", "127.0.0.1", "127.83.0.1", "10.0.0.1", "::1"]
)


@given(st.lists(st.builds(Endpoint, HOSTS, st.sampled_from([80, 443, 3128]), st.booleans()), max_size=12))
def test_no_two_listen_at_one_place_and_every_name_leads_to_its_own(endpoints):
    posts = proxy_environment(endpoints)
    assert posts == proxy_environment(reversed(endpoints))
    lines = [line.split() for line in posts.listing.splitlines()]
    places = [(home, int(port)) for _, home, port, *_ in lines]
    assert len(set(places)) == len(places)
    assert all(ipaddress.ip_address(home).is_loopback for home, _ in places)
    homes = {name: home for home, name in map(str.split, posts.hosts.splitlines())}
    assert len(set(homes.values())) == len(homes)
    for endpoint_ in endpoints:
        if endpoint_.host in homes:
            assert (homes[endpoint_.host], endpoint_.port) in places
    for _, home, _, *name in lines:
        assert not name or homes.get(name[0], name[0]) == home or name[0] == home
