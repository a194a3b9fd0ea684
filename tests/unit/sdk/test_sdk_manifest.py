"""The SDK's quick way to read a manifest says what tomllib says, or nothing."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plughost.contracts.ainb import manifest as manifests
from plughost_sdk.manifest import plain
from tests.unit.contracts.ainb.test_ainb_manifest import GOOD, grants, words

LINES = [
    "[plugin]", "[capabilities] # why", "[ provides ]", "[[config]]", "[a.b]", "[plugin]", "", "# a comment", "  ",
    'name = "x"', "name = 'x'", 'name="x" # y', 'name = "x" y', "n = 1", "n = 01", "n = 1_0", "n = 1.5", "n = -0", "n = +1",
    "n = nan", "n = NaN", "n = Infinity", "n = null", "n = true", "n = True", 'l = ["a", "b"]', 'l = ["a",]', "l = []",
    "l = [", "]", "d = 2026-01-01", "t = {a = 1}", 't = {"a": 1}', "a.b = 1", '"quoted" = 1', "n = 0x10", 's = """x"""',
    's = "\\u0041"', 's = "\\U00000041"', 's = "a\\/b"', "=", "x", "x =", "= 1", "é = 1", "n = 1e5", 'l = [["a"], [1]]',
]  # fmt: skip


@given(st.lists(st.sampled_from(LINES), max_size=12))
def test_any_lines(lines):
    text = "\n".join(lines)
    told = plain(text)
    if told is not None and "\\/" not in text:  # an escape that only JSON has
        assert told == tomllib.loads(text)


@given(st.text(max_size=60))
def test_any_text(text):
    told = plain(text)
    if told is not None and "\\/" not in text and "\r" not in text:
        try:
            expected = tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            return  # the host has refused such a manifest long before
        assert told == expected


@given(st.builds(manifests.Capabilities, grants, grants, grants, grants, grants, grants, grants), words)
def test_manifests_as_they_are_written_are_plain(capabilities, screens):
    told = manifests.AinbManifest(
        manifests.AinbAbout("x", "1.0.0", 2), capabilities, manifests.Provides(screens=screens)
    )
    text = manifests.write(told)
    if "\x7f" not in text and len(text.splitlines()) == text.count("\n"):
        assert plain(text) == tomllib.loads(text)


@pytest.mark.parametrize("text", [GOOD, "", "[plugin]\n"])
def test_plain_ones(text):
    assert plain(text) == tomllib.loads(text)
