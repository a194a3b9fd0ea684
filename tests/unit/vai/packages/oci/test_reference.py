"""References: one reading, or an error that says where."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plughost.errors import InvalidSpec
from plughost.vai.packages.oci.reference import InLayout, InRegistry, parse_reference

DIGEST = "sha256:" + "0123456789abcdef" * 4

GOOD = {
    "registry.example/acme/devkit:0.1.0": InRegistry("registry.example", None, "acme/devkit", "0.1.0"),
    "oci://registry.example/acme/devkit:0.1.0": InRegistry("registry.example", None, "acme/devkit", "0.1.0"),
    f"registry.example/acme/devkit@{DIGEST}": InRegistry("registry.example", None, "acme/devkit", "", DIGEST),
    f"registry.example/a:1@{DIGEST}": InRegistry("registry.example", None, "a", "1", DIGEST),
    "localhost/a:1": InRegistry("localhost", None, "a", "1"),
    "localhost:5000/a": InRegistry("localhost", 5000, "a"),
    "Registry.Example:443/a__b/c-d.e:T_1": InRegistry("registry.example", 443, "a__b/c-d.e", "T_1"),
    "[::1]:5000/a:1": InRegistry("::1", 5000, "a", "1"),
    "127.0.0.1:5000/a:1": InRegistry("127.0.0.1", 5000, "a", "1"),
    "oci-layout:some/folder": InLayout(Path("some/folder")),
    "oci-layout:/some/folder:1.0": InLayout(Path("/some/folder"), "1.0"),
    "oci-layout:with space.vai.tar:1": InLayout(Path("with space.vai.tar"), "1"),
    f"oci-layout:folder@{DIGEST}": InLayout(Path("folder"), "", DIGEST),
    "oci-layout:a@b/c": InLayout(Path("a@b/c")),
    "oci-layout:a@b:1": InLayout(Path("a@b"), "1"),
}


@pytest.mark.parametrize("text", GOOD)
def test_what_a_reference_means(text):
    assert parse_reference(text) == GOOD[text]
    assert parse_reference(str(GOOD[text])) == GOOD[text]


BAD = {
    "": (1, "name a registry and a repository"),
    "devkit": (7, "name a registry and a repository"),
    "acme/devkit:1": (1, "'acme' is not a registry's host"),
    "registry.example/": (18, "repository's name"),
    "registry.example/Acme/x:1": (18, "lowercase"),
    "registry.example/acme/x y:1": (24, "no spaces"),
    "registry.example/acme/../x:1": (23, "repository's name"),
    "registry.example/acme//x:1": (23, "repository's name"),
    "registry.example/acme:": (23, "a tag has"),
    "registry.example/acme:-1": (23, "a tag has"),
    "registry.example/acme:1:2": (23, "a tag has"),
    "registry.example/acme:" + "1" * 129: (23, "a tag has"),
    "registry.example/acme@sha256:abc": (23, "a digest is"),
    f"registry.example/acme@{DIGEST.upper()}": (23, "a digest is"),
    "registry.example/acme@sha512:" + "0" * 128: (23, "a digest is"),
    "registry.example:0/a:1": (18, "a port is"),
    "registry.example:99999/a:1": (18, "a port is"),
    "registry.example:/a:1": (18, "a port is"),
    "https://registry.example/a:1": (1, "write it without https://"),
    "0x7f.1/a:1": (1, "unusual form"),
    "oci://[::1/a:1": (9, "a port is"),
    "oci-layout:": (12, "name the layout's folder"),
    "oci-layout::1": (12, "name the layout's folder"),
    "oci-layout:folder:": (19, "a tag has"),
    "oci-layout:folder@sha256:12": (19, "a digest is"),
    "registry.example/" + "a" * 256: (18, "at most 255"),
}


@pytest.mark.parametrize("text", BAD)
def test_what_is_wrong_is_said_with_its_place(text):
    at, what = BAD[text]
    with pytest.raises(InvalidSpec) as caught:
        parse_reference(text)
    assert what in caught.value.message
    assert f"character {at}:" in caught.value.message


def test_a_password_in_a_reference_is_refused_and_not_repeated():
    with pytest.raises(InvalidSpec, match="cannot contain a user name or a password") as caught:
        parse_reference("ada:hunter2@registry.example/a:1")
    assert "hunter2" not in caught.value.explain()


def test_which_hosts_are_this_machine():
    for host in ("localhost", "127.0.0.1", "127.1.2.3", "[::1]"):
        assert parse_reference(f"{host}:1/a:1").is_loopback
    for host in ("localhost.example", "128.0.0.1", "[::2]"):
        assert not parse_reference(f"{host}:1/a:1").is_loopback


word = st.text("abcxyz019", min_size=1, max_size=6)
part = st.builds(
    lambda mark, words: mark.join(words),
    st.sampled_from(["-", "--", ".", "_", "__"]),
    st.lists(word, min_size=1, max_size=3),
)
hosts = st.sampled_from(["registry.example", "localhost", "10.0.0.1", "::1", "xn--bcher-kva.example"])
digest = st.binary(min_size=32, max_size=32).map(lambda data: f"sha256:{data.hex()}")
tag = st.text("aZ09_", min_size=1, max_size=3).flatmap(
    lambda head: st.text("aZ09_.-", max_size=9).map(head.__add__)
)


@given(
    hosts,
    st.none() | st.integers(1, 65535),
    st.lists(part, min_size=1, max_size=4).map("/".join),
    st.just("") | tag,
    st.just("") | digest,
)
def test_every_reference_is_read_as_it_is_written(host, port, repository, tag, digest):
    reference = InRegistry(host, port, repository, tag, digest)
    assert parse_reference(str(reference)) == reference
    assert parse_reference(f"oci://{reference}") == reference


@given(st.text(max_size=60) | st.text("abz.:/@[]-_019", max_size=60) | st.text(string.printable, max_size=60))
def test_any_text_is_a_reference_or_one_kind_of_error(text):
    for prefix in ("", "oci://", "oci-layout:", "r.example/"):
        try:
            read = parse_reference(prefix + text)
        except InvalidSpec as error:
            wrong = error.message
        else:
            wrong = ""
            assert parse_reference(str(read)) == read
        assert wrong.isprintable()
