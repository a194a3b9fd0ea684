"""YAML that people write: each problem at its line, and no file that costs more than it is worth."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import plughost
from plughost._util.located.yaml import DEEPEST, LARGEST, MOST_VALUES, load_yaml


def load(tmp_path, text):
    path = tmp_path / "some.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_yaml(path)


def problems(tmp_path, text):
    try:
        document = load(tmp_path, text)
        document.check()
    except plughost.InvalidConfig as error:
        return [(problem.line, problem.field) for problem in error.problems]
    return []


def test_values_are_what_they_look_like(tmp_path):
    text = """
text: plain
folded: >-
  two
  lines
quoted: "12"
number: 12
half: 0.5
truth: true
nothing:
day: 2024-01-31
list: [a, 'b', {c: 1}]
"""
    assert load(tmp_path, text).data == {
        "text": "plain",
        "folded": "two lines",
        "quoted": "12",
        "number": 12,
        "half": 0.5,
        "truth": True,
        "nothing": None,
        "day": "2024-01-31",
        "list": ["a", "b", {"c": 1}],
    }


def test_every_key_and_item_has_its_line(tmp_path):
    document = load(tmp_path, "a: 1\nb:\n  - x\n  - c: 2\n    d: [1,\n      2]\n")
    assert [document.line(field) for field in [("a",), ("b", 0), ("b", 1, "d"), ("b", 1, "d", 1)]] == [
        1, 3, 5, 6,
    ]  # fmt: skip
    assert document.line(("b", 1, "no such key")) == 4


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a: 1\nb: 2\na: 3\n", [(3, "a")]),
        ("a: &x 1\nb: 1\n", [(1, "a")]),
        ("a: 1\nb: *x\n", [(2, "b")]),
        ("a: &x [1]\nb: [*x, *x]\n", [(1, "a"), (2, "b[0]"), (2, "b[1]")]),
        ("a: !!python/object:os.system 1\n", [(1, "a")]),
        ("a: !!binary aGk=\n", [(1, "a")]),
        ("1: x\n", [(1, "1")]),
        ("[a]: x\n", [(1, "['a']")]),
        ("on: x\n", [(1, "True")]),
        ("a: .inf\n", [(1, "a")]),
        ("a: .nan\n", [(1, "a")]),
        (f"a: {'9' * 5000}\n", [(1, "a")]),
        ("a: 1\n---\nb: 1\n", [(2, "")]),
        ("a: [1\nb: 2\n", [(2, "")]),
        ("a: 1\n b: 2\n", [(2, "")]),
        ("a: 'x\n", [(2, "")]),
        ("\ta: 1\n", [(1, "")]),
        ("a: 1\x00\n", [(0, "")]),
        (b"a: \xff\n", [(0, "")]),
        ("", [(0, "")]),
        ("- a\n", [(0, "")]),
        ("just words", [(0, "")]),
        ("a: " + "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), [(1, "")]),
        ("a: [" + "1," * MOST_VALUES + "]", [(1, "")]),
        ("a: " + "x" * LARGEST, [(0, "")]),
        ("b: 1\na: 1" + ":59" * 20_000, [(2, "a")]),
        ("b: 1\na: 1" + ":59" * 20_000 + ".5", [(2, "a")]),
        ("a: " + "9" * 101, [(1, "a")]),
        ("b: 1\na: [1, 0x" + "f" * 17 + "]", [(2, "a[1]")]),
        (
            "b: -9223372036854775809\na: 18446744073709551616\n18446744073709551617: 1",
            [(1, "b"), (2, "a"), (3, "?"), (3, "None")],
        ),
    ],
)
def test_what_is_not_taken_is_told_with_its_line(tmp_path, text, found):
    assert problems(tmp_path, text) == found


@pytest.mark.parametrize("text", ["[" * 60_000, "{" * 60_000, "- " * 30_000, "a: " * 20_000, "? " * 30_000])
def test_a_file_of_brackets_is_refused_quickly(tmp_path, text):
    begun = time.process_time()
    assert problems(tmp_path, text)
    assert time.process_time() - begun < 5


@given(st.text(alphabet="ab:-?[]{}&*!|>'\"#%@`,\n\t 0.~<", max_size=60))
def test_any_text_is_a_document_or_a_problem(tmp_path_factory, text):
    problems(tmp_path_factory.mktemp("yaml"), text)
