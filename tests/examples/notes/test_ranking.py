"""The order in which notes are recalled."""

from __future__ import annotations

import importlib.util
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import ROOT

_spec = importlib.util.spec_from_file_location("notes_ranking", ROOT / "plugins/notes/ranking.py")
assert _spec is not None
assert _spec.loader is not None
ranking = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(ranking)
ranked = ranking.ranked

patient = settings(deadline=None)
DAY = 24 * 3600.0
NOW = 2e9
texts = st.text(st.sampled_from("ab cd .Éﬁ\n"), max_size=30)
ages = st.integers(-86400, 4000 * 86400)
shelves = st.lists(st.tuples(texts, ages), max_size=12).map(
    lambda every: [(f"n{number}", text, NOW - age) for number, (text, age) in enumerate(every)]
)


@patient
@given(texts, shelves)
def test_what_shares_a_word_is_found_and_nothing_else(query, notes):
    wanted = set(ranking.words(query))
    found = {key for _, key in ranked(query, notes, NOW)}
    assert found == {key for key, text, _ in notes if not wanted or wanted & set(ranking.words(text))}


@patient
@given(texts, shelves, st.randoms())
def test_the_order_of_the_notes_and_of_the_words_makes_no_difference(query, notes, random):
    shuffled, words = [*notes], ranking.words(query)
    random.shuffle(shuffled)
    random.shuffle(words)
    assert ranked(" ".join(words).upper(), shuffled, NOW) == ranked(query, notes, NOW)


@patient
@given(texts, shelves)
def test_scores_are_positive_finite_and_fall(query, notes):
    scores = [score for score, _ in ranked(query, notes, NOW)]
    assert all(0 < score < math.inf for score in scores)
    assert scores == sorted(scores, reverse=True)


@patient
@given(texts, ages, ages)
def test_of_two_that_say_the_same_the_newer_is_first(text, age, other):
    notes = [("a", text, NOW - age), ("b", text, NOW - other)]
    assert [key for _, key in ranked(text, notes, NOW)] == (["a", "b"] if age <= other else ["b", "a"])


@patient
@given(st.integers(1, 20), st.integers(1, 20), st.integers(20, 40))
def test_of_two_of_one_length_the_one_that_says_it_more_often_is_first(more, fewer, length):
    more, fewer = max(more, fewer + 1), min(fewer, 18)
    length = max(length, more)
    notes = [
        ("fewer", "tea " * fewer + "x " * (length - fewer), NOW),
        ("more", "tea " * more + "x " * (length - more), NOW),
    ]
    assert ranked("tea", notes, NOW)[0][1] == "more"


@patient
@given(shelves, texts)
def test_a_note_that_has_nothing_of_the_query_does_not_change_who_is_found(notes, query):
    further = [*notes, ("further", "zzz", NOW)]
    if ranking.words(query):
        assert {key for _, key in ranked(query, further, NOW)} == {
            key for _, key in ranked(query, notes, NOW)
        }


def test_a_rare_word_tells_more_than_a_common_one():
    notes = [(f"n{number}", "the tea", NOW) for number in range(9)] + [("rare", "the samovar", NOW)]
    assert ranked("the samovar tea", notes, NOW)[0][1] == "rare"


def test_age_moves_a_note_by_a_quarter_at_most_so_that_relevance_counts_first():
    old = ("old", "the tea is at five on the terrace", NOW - 4000 * DAY)
    new = ("new", "the garden is closed on every Monday", NOW)
    assert [key for _, key in ranked("tea terrace", [old, new], NOW)] == ["old"]
    assert [key for _, key in ranked("the tea terrace", [old, new], NOW)] == ["old", "new"]
    assert ranking.freshness(0) == 1.25
    assert ranking.freshness(-5 * DAY) == 1.25
    assert ranking.freshness(ranking.HALF_LIFE) == 1.125


def test_a_query_without_words_gives_the_newest_first():
    notes = [("a", "x", NOW - 5), ("b", "y", NOW), ("c", "z", NOW - 9)]
    assert [key for _, key in ranked(" ?! ", notes, NOW)] == ["b", "a", "c"]
    assert ranked("tea", [], NOW) == []


def test_case_ligatures_and_width_make_no_difference():
    assert ranking.words("ＴＥＡ ﬁve Straße") == ranking.words("tea FIVE STRASSE")
