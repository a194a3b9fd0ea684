"""`WWW-Authenticate` headers, friendly and hostile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plughost.vai.packages.oci.registry.challenge import MAX_HEADER, Challenge, read_challenges

READ = {
    "": [],
    "Basic": [Challenge("basic")],
    'Basic realm="x"': [Challenge("basic", {"realm": "x"})],
    'Bearer realm="https://a.example/token",service="r.example",scope="repository:a/b:pull,push"': [
        Challenge(
            "bearer",
            {"realm": "https://a.example/token", "service": "r.example", "scope": "repository:a/b:pull,push"},
        )
    ],
    'BEARER Realm = "a\\"b\\\\c" , error=invalid_token': [
        Challenge("bearer", {"realm": 'a"b\\c', "error": "invalid_token"})
    ],
    'Negotiate, Basic realm="x", Bearer realm="y"': [
        Challenge("negotiate"),
        Challenge("basic", {"realm": "x"}),
        Challenge("bearer", {"realm": "y"}),
    ],
    'Negotiate YWJj==, Basic realm="x"': [Challenge("negotiate"), Challenge("basic", {"realm": "x"})],
    ", ,Basic,,": [Challenge("basic")],
    'Basic realm="never closed': [Challenge("basic")],
    'Basic realm="one", realm="two"': [],
    "\x00": [],
    '"Basic"': [],
}


@pytest.mark.parametrize("header", READ)
def test_what_a_header_says(header):
    found = read_challenges(header)
    assert found[: len(READ[header])] == READ[header]
    if header != 'Basic realm="never closed':
        assert found == READ[header]


token = st.text("ab09!#$&'*+.^_`|~-", min_size=1, max_size=12)
value = st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=30)
challenge = st.builds(Challenge, token, st.dictionaries(token, value, min_size=1, max_size=4))


def written(challenge: Challenge) -> str:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    words = ", ".join(f"{name}={quoted(text)}" for name, text in challenge.parameters.items())
    return f"{challenge.scheme} {words}"


@given(st.lists(challenge, max_size=4))
def test_every_list_of_challenges_is_read_as_it_is_written(challenges):
    assert read_challenges(", ".join(map(written, challenges))) == challenges


@given(st.text(max_size=100) | st.text('aB ,="\\:/', max_size=100))
def test_any_text_is_read_and_ends(text):
    assert len(read_challenges(text)) <= 8


def test_a_huge_header_says_nothing():
    assert read_challenges("Basic, " * MAX_HEADER) == []
    assert len(read_challenges("Basic, " * 100)) == 8
