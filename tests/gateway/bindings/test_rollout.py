"""Rollout: a stable hash decides which version serves a key."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plughost.gateway.bindings.rollout import bucket, rollout_key, serving
from plughost.gateway.bindings.shares import share_after
from plughost.gateway.problems import Problem
from plughost.vai.bindings.binding import Scope

SCOPE = Scope("org_1", "proj_1")
KEYS = [f"session-{number}" for number in range(10_000)]


class Side(msgspec.Struct, frozen=True):
    name: str
    traffic_percent: int


def versions(percent: int) -> tuple[Side, Side]:
    """The second one was activated last, and has this percent."""
    return Side("old", 100 - percent), Side("new", percent)


def serves(percent: int, key: str) -> str:
    return serving(versions(percent), bucket(SCOPE, "acme/jira", "search", key)).name


@pytest.mark.clause("GW-28")
def test_the_hash_is_the_documented_one() -> None:
    digest = hashlib.sha256(b"org_1\0proj_1\0acme/jira\0search\0caf\xc3\xa9").digest()
    assert bucket(SCOPE, "acme/jira", "search", "café") == int.from_bytes(digest[:8], "big") % 10_000
    digest = hashlib.sha256(b"org_1\0\0acme/jira\0search\0k").digest()
    assert bucket(Scope("org_1"), "acme/jira", "search", "k") == int.from_bytes(digest[:8], "big") % 10_000


@pytest.mark.clause("GW-28", "VAI-62")
def test_the_same_key_has_the_same_answer_in_another_process() -> None:
    program = (
        "from plughost.gateway.bindings.rollout import bucket\nfrom plughost.vai.bindings.binding import Scope\n"
        "print([bucket(Scope('org_1', 'proj_1'), 'acme/jira', 'search', f'session-{n}') for n in range(50)])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([bucket(SCOPE, "acme/jira", "search", key) for key in KEYS[:50]])


@pytest.mark.clause("GW-28", "VAI-62")
@pytest.mark.parametrize("percent", [0, 1, 5, 10, 20, 33, 50, 90, 99, 100])
def test_the_share_is_right_within_a_percent_of_ten_thousand_keys(percent: int) -> None:
    new = sum(serves(percent, key) == "new" for key in KEYS)
    assert abs(new - percent * 100) <= 100
    if percent in (0, 100):
        assert new == percent * 100


@pytest.mark.clause("GW-28")
@given(st.text(), st.lists(st.integers(0, 100), min_size=2))
def test_raising_a_share_never_moves_a_key_back(key: str, percents: list[int]) -> None:
    answers = [serves(percent, key) for percent in sorted(percents)]
    assert answers == sorted(answers, reverse=True)  # old, …, old, new, …, new


@given(st.lists(st.text(), min_size=3, max_size=3), st.lists(st.text(), min_size=3, max_size=3))
def test_buckets_are_within_range_and_whatever_the_key(one: list[str], other: list[str]) -> None:
    found = [bucket(Scope(parts[0], None), "p/q", parts[1], parts[2]) for parts in (one, other)]
    assert all(0 <= each < 10_000 for each in found)
    assert bucket(SCOPE, "p/q", "e", "\ud800") >= 0


def test_exports_do_not_share_their_buckets() -> None:
    same = sum(bucket(SCOPE, "a/b", "one", key) == bucket(SCOPE, "a/b", "two", key) for key in KEYS[:1000])
    assert same < 10


def test_the_only_version_serves_every_key() -> None:
    assert serving([Side("only", 100)], 9_999).name == "only"


@pytest.mark.clause("GW-28")
def test_the_rollout_key_is_the_callers_else_the_session_else_the_key_else_the_invocation() -> None:
    given = {"asked": "a", "session_id": "s", "idempotency_key": "i", "invocation_id": "inv"}
    for expected in ("a", "s", "i", "inv"):
        assert rollout_key(**given) == expected
        given.pop(next(iter(given)))
    assert rollout_key(asked="", session_id=None, invocation_id="inv") == "inv"


@pytest.mark.clause("GW-28", "VAI-62")
@given(st.lists(st.sampled_from(["enable", "disable", "share"]), max_size=12), st.data())
def test_the_shares_of_active_versions_always_sum_to_100(steps: list[str], data: st.DataObject) -> None:
    shares: dict[str, int] = {}  # of active versions
    for step in steps:
        name = data.draw(st.sampled_from(["one", "two", "three"]))
        others = {each: percent for each, percent in shares.items() if each != name}
        active = step != "disable"
        asked = data.draw(st.integers(0, 100)) if step == "share" else None
        try:
            percent = share_after(
                active=active, asked=asked, before=shares.get(name), others=[*others.values()]
            )
        except Problem:
            continue
        if active or name in shares:
            shares = dict.fromkeys(others, 100 - percent)
        if active:
            shares[name] = percent
        assert sum(shares.values()) == (100 if shares else 0)
        assert len(shares) <= 2


@pytest.mark.clause("GW-28")
def test_the_version_activated_last_serves_the_buckets_below_its_share() -> None:
    found = [serving(versions(10), each).name for each in (0, 999, 1000, 9999)]
    assert found == ["new", "new", "old", "old"]
