"""Declared ∩ granted: never more than either side said."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from plughost.permissions.capabilities import allows, effective, ungranted
from plughost.permissions.capability import Capability

scopes = st.none() | st.lists(st.sampled_from("xyz"), min_size=1, max_size=3, unique=True).map(tuple)
capabilities = st.builds(Capability, st.sampled_from(["net", "fs"]), scopes)
several = st.lists(capabilities, max_size=4)


def covers(held, wanted: Capability) -> bool:
    return any(
        c.name == wanted.name and (c.scope is None or (wanted.scope and set(wanted.scope) <= set(c.scope)))
        for c in held
    )


@given(several, several)
def test_what_is_effective_was_both_declared_and_granted(declared, granted):
    for capability in effective(declared, granted):
        assert covers(declared, capability)
        assert covers(granted, capability)


@given(several, several)
def test_what_both_sides_name_in_full_is_effective(declared, granted):
    for capability in set(declared) & set(granted):
        assert covers(effective(declared, granted), capability)


@given(several, several)
def test_what_is_ungranted_is_what_no_single_grant_covers(declared, granted):
    missing = ungranted(declared, granted)
    for capability in declared:
        assert (capability in missing) == (not covers(granted, capability))


def test_nothing_is_allowed_by_default():
    assert not effective([Capability("net")], [])
    assert not allows([], "net")
    assert allows([Capability("net", ("a",))], "net")
    assert str(Capability("net", ("a", "b"))) == "net[a, b]"
