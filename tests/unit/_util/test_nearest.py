"""The nearest known name to a misspelt one."""

from __future__ import annotations

import time

from plughost._util.nearest import MAX_KNOWN, MAX_NAME, did_you_mean, nearest


def test_a_misspelt_name_has_its_nearest():
    assert nearest("contrct", ["command", "contract"]) == "contract"
    assert nearest("zzz", ["command", "contract"]) is None


def test_the_message_names_the_nearest_or_all_that_are_known():
    assert did_you_mean("mcptst", ["rune", "mcptest"]) == "; did you mean 'mcptest'?"
    assert did_you_mean("zzz", ["rune"]) == "; known: rune"
    assert did_you_mean("zzz", []) == "; known: none"


def test_a_strangers_names_take_no_longer_than_a_moment():
    start = time.process_time()
    assert nearest("a" * (MAX_NAME + 1), ["a" * MAX_NAME]) is None
    nearest("ab" * (MAX_NAME // 2), ["ba" * 50_000, *("ba" * 50 for _ in range(100 * MAX_KNOWN))])
    assert time.process_time() - start < 5
