"""What is public, and what a URL says: one reading, and no way around it."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plughost.permissions.addresses import (
    MAX_URL,
    UrlTarget,
    canonical_host,
    is_public,
    literal,
    names,
    parse_url,
    shown,
)

PUBLIC = [
    *("1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1"),
    *("169.253.0.1", "192.0.1.1", "198.17.255.255", "198.20.0.0", "223.255.255.255"),
    *("2606:4700:4700::1111", "2001:4860:4860::8888", "2a00:1450:4001::1"),
    *("::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"),
]
NOT_PUBLIC = [
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "127.0.0.1", "127.255.255.254"),
    *("100.64.0.1", "100.127.255.255", "169.254.0.1", "169.254.169.254", "172.16.0.1", "172.31.255.255"),
    *("192.0.0.1", "192.0.0.9", "192.0.0.170", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1"),
    *("198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1"),
    *("255.255.255.255", "::", "::1", "::2", "::127.0.0.1", "::8.8.8.8", "::ffff:0:127.0.0.1"),
    *("100::1", "64:ff9b:1::8.8.8.8", "fc00::1", "fd12:3456::1", "fe80::1", "fe80::1%eth0", "fec0::1"),
    *("ff02::1", "ff0e::1", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:2::1", "2001:10::1"),
    *("2001:20::1", "2001:db8::1", "3fff::1", "5f00::1", "4000::1", "2606:4700::1%eth0"),
]

v4 = st.ip_addresses(v=4)
v6 = st.ip_addresses(v=6)
anything = v4 | v6 | st.sampled_from([ipaddress.ip_address(text) for text in PUBLIC + NOT_PUBLIC])


@pytest.mark.parametrize("text", PUBLIC)
def test_the_open_internet_is_public(text):
    assert is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_everything_else_is_not(text):
    assert not is_public(ipaddress.ip_address(text))


@given(anything)
def test_what_the_standard_library_calls_special_is_never_public(address):
    if is_public(address) and not (address.version == 6 and (address.ipv4_mapped or address.sixtofour)):
        assert address.is_global
        assert not address.is_multicast
        assert not address.is_reserved or address in ipaddress.ip_network("64:ff9b::/96")
        assert not address.is_private


@given(anything.filter(lambda address: address.version == 4))
def test_an_ipv4_address_is_judged_alike_in_every_ipv6_form(address):
    number = int(address)
    forms = [0xFFFF << 32 | number, 0x64FF9B << 96 | number, 0x2002 << 112 | number << 80 | 1]
    assert {is_public(ipaddress.IPv6Address(form)) for form in forms} == {is_public(address)}


@given(v4)
@example(ipaddress.IPv4Address("127.0.0.1"))
def test_an_ipv4_address_has_one_spelling(address):
    number, plain = int(address), str(address)
    a, b, c, d = address.packed
    odd = [
        *(f"{number}", f"{number:#x}", f"0{number:o}", f"{a}.{number & 0xFFFFFF}", f"{a:#x}.{b}.{c}.{d}"),
        *(f"{a}.{b}.{c << 8 | d}", f"{a}.{b}.{c}.{d:#x}", f"0{a:o}.{b}.{c}.{d}", f"00{a}.{b}.{c}.{d}"),
        *(f"{a}.{b}.{c}.{d:#x}.", f"{number:#X}", f"{number}."),
    ]
    assert canonical_host(plain) == canonical_host(f"{plain}.") == plain
    for text in odd:
        with pytest.raises(ValueError, match="unusual form"):
            canonical_host(text)


@pytest.mark.parametrize("text", ["0x7f.1", "017700000001", "2130706433", "127.1", "0x7f000001", "0", "0x"])
def test_what_a_resolver_takes_for_a_number_is_no_name(text):
    if text != "0x":
        assert socket.inet_aton(text)  # the machine's own resolver would go there
    with pytest.raises(ValueError, match="unusual form"):
        parse_url(f"http://{text}/")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("Example.COM", "example.com"),
        ("example.com.", "example.com"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("my_host", "my_host"),
        ("1password.com", "1password.com"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("[FE80::A]", "fe80::a"),
    ],
)
def test_a_host_has_one_spelling(text, canonical):
    assert canonical_host(text) == canonical


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            ".",
            "..",
            "a..b",
            ".a",
            "a b",
            "a%2eb",
            "a%00b",
            "bücher.example",
            "１２７.0.0.1",
            "ⓔxample.com",
        ),
        *("a\tb", "a\nb", "a\0", "exam\u00adple.com", "a/b", "a@b", "a:b", "a?b", "a#b", "a\\b", "a*b"),
        *("[127.0.0.1]", "[::1", "::1]", "[]", "[a]", "[::1%25lo]", "fe80::1%lo", ":::", "1::2::3"),
        *("a" * 64, ".".join(["a" * 63] * 4), "256.1.1.1", "1.2.3.4.5", "1.2.3", "example.1"),
    ],
)
def test_what_is_no_host_has_no_spelling(text):
    with pytest.raises(ValueError):
        canonical_host(text)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("http://a", UrlTarget("http", "a", 80, "/")),
        ("HTTPS://A.B./x?y=1#z", UrlTarget("https", "a.b", 443, "/x?y=1")),
        ("http://a:/", UrlTarget("http", "a", 80, "/")),
        ("http://a:8080?q", UrlTarget("http", "a", 8080, "/?q")),
        ("https://a:80#/@b/", UrlTarget("https", "a", 80, "/")),
        ("http://[::1]:443/", UrlTarget("http", "::1", 443, "/")),
        ("http://a/@b:c@d", UrlTarget("http", "a", 80, "/@b:c@d")),
        ("http://a?@b", UrlTarget("http", "a", 80, "/?@b")),
        ("http://a/http://b", UrlTarget("http", "a", 80, "/http://b")),
    ],
)
def test_a_url_is_read_into_its_parts(text, target):
    assert parse_url(text) == target


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "a",
            "//a/",
            "/a",
            "http:",
            "http:/a",
            "http:a",
            "http://",
            "http:///a",
            "http://?",
            "http://:80/",
        ),
        *("file:///etc/passwd", "ftp://a/", "data:text/plain,a", "gopher://a/", "ws://a/", "javascript://a/"),
        *("unix:///a", "http+unix://a/", "jar:http://a!/"),
        *("http://u@a/", "http://u:p@a/", "http://@a/", "http://a@127.0.0.1/", "http://127.0.0.1:80@a/"),
        *(
            "http://a:0/",
            "http://a:65536/",
            "http://a:99999/",
            "http://a:123456/",
            "http://a:-1/",
            "http://a:+1/",
        ),
        *(
            "http://a:80:80/",
            "http://a:x/",
            "http://a:8 0/",
            "http://a:８0/",
            "http://::1/",
            "http://[::1]a/",
        ),
        *(
            "http://a\\@b/",
            "http://a\\b",
            "http://a/\\b",
            "http:\\\\a",
            " http://a/",
            "http://a/ ",
            "http://a/\r\nX: y",
        ),
        *(
            "http://a/\t",
            "ht\ntp://a/",
            "http://a/\0",
            "http://a/é",
            "http://é/",
            "http://a%20b/",
            "http://a,b/",
        ),
        *("http://a;b/", "http://a&b/", "http://a!b/", "http://[v1.a]/", "http://[::1%25lo]/", "h://a"),
        "http://a/" + "a" * MAX_URL,
    ],
)
def test_what_is_not_a_plain_web_address_is_refused(text):
    with pytest.raises(ValueError):
        parse_url(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ftp://a/", "only http:// and https://"),
        ("http://u:p@a/", "send an Authorization header"),
        ("http://a:0/", "no port 0"),
        ("http://bücher.example/", "ASCII"),
        ("http:///", "names no host"),
        ("http://0x7f.1/", "unusual form"),
        ("http://[fe80::1%25lo]/", "zone"),
    ],
)
def test_a_refusal_says_why(text, reason):
    with pytest.raises(ValueError, match=reason):
        parse_url(text)


pieces = st.lists(
    st.sampled_from(
        [
            *(
                "http",
                "https",
                "ftp",
                ":",
                "//",
                "/",
                "\\",
                "@",
                "?",
                "#",
                "[",
                "]",
                "%",
                ".",
                "..",
                "-",
                "_",
                "0x7f",
            ),
            *(
                "127.0.0.1",
                "::1",
                "a",
                "B",
                "example.com",
                "80",
                "8080",
                "é",
                "\u3002",
                "\t",
                "\n",
                " ",
                "&",
                ";",
            ),
        ]
    ),
    max_size=8,
)


@given(st.sampled_from(["http://", "https://", "HTTP:", ""]), pieces)
def test_every_reader_reads_the_host_that_was_checked(start, parts):
    text = start + "".join(parts)
    try:
        target = parse_url(text)
    except ValueError:
        return
    assert parse_url(target.url) == target
    for read in (httpx.URL, urlsplit):
        url = read(target.url)
        assert (url.scheme, url.port or target.port) == (target.scheme, target.port)
        assert url.hostname == target.host if read is urlsplit else url.host == target.host


def test_a_target_shows_itself_without_its_query():
    target = parse_url("http://a:81/b?token=secret")
    assert str(target) == "http://a:81/b"
    assert target.url == "http://a:81/b?token=secret"
    assert target.origin == "http://a:81"
    assert parse_url("http://[::1]/").origin == "http://[::1]"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ftp://a/b?token=secret", "ftp://a/b"),
        ("http://user:secret@a/b", "a/b"),
        ("http://user:sec/ret@a/b", "a/b"),
        ("http://user:sec?ret@a/b#c", "a/b"),
        ("http://a\r\n\x1b[31m/", "http://a\\r\\n\\x1b[31m/"),
        ("x" * 500, "x" * 200),
    ],
)
def test_a_url_that_could_not_be_read_is_shown_without_its_secrets(text, said):
    assert shown(text) == said


def test_a_list_names_a_host_in_any_of_its_spellings_and_nothing_else():
    hosts = ("API.example.com.", "[::1]", "10.0.0.1", "not a host", "*.example.org", "example.net:80")
    for host in ("api.example.com", "::1", "10.0.0.1"):
        assert names(hosts, host)
    for host in (
        "example.com",
        "x.api.example.com",
        "api.example.com.evil.org",
        "a.example.org",
        "example.net",
    ):
        assert not names(hosts, host)
    assert not names((), "a")


def test_a_canonical_host_is_an_address_or_a_name():
    assert literal("127.0.0.1") == ipaddress.IPv4Address("127.0.0.1")
    assert literal("::1") == ipaddress.IPv6Address("::1")
    assert literal("example.com") is None
