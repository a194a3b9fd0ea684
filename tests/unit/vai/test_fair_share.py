"""The rule by which tenants share slots."""

from plughost.vai import fair_share
from plughost.vai.fair_share import FairShare


def turns(share: FairShare[str], wanted: list[tuple[str, str]], count: int) -> list[tuple[str, str]]:
    """Who gets the slot, when all of them always want the only one."""
    served = []
    for _ in range(count):
        chosen = min(wanted, key=lambda each: share.load(*each))
        assert share.enter(*chosen)
        share.leave(*chosen)
        served.append(chosen)
    return served


def test_one_tenant_may_have_all_slots_but_the_reserved_ones() -> None:
    share: FairShare[str] = FairShare(3, 2)
    assert [share.enter("one", "a") for _ in range(4)] == [True, True, True, False]
    assert [share.enter("two", "b") for _ in range(2)] == [True, False]
    assert [share.enter("three", "c"), share.enter("four", "d")] == [True, False]
    share.leave("one", "a")
    assert not share.enter("one", "a"), "the reserved ones are in use beyond the slots"
    assert share.enter("four", "d")


def test_tenants_take_turns_and_within_a_tenant_its_bindings() -> None:
    wanted = [("one", "a"), ("one", "b"), ("one", "c"), ("two", "d")]
    served = turns(FairShare(1, 0), wanted, 12)
    assert [tenant for tenant, _ in served] == ["one", "two"] * 6
    assert [key for tenant, key in served if tenant == "one"] == ["a", "b", "c"] * 2


def test_who_has_fewer_slots_is_first_whoever_had_the_last_turn() -> None:
    share: FairShare[str] = FairShare(8, 0)
    for tenant, key in [("one", "a"), ("one", "b"), ("one", "b"), ("two", "c")]:
        assert share.enter(tenant, key)
    wanted = [("one", "b"), ("one", "a"), ("two", "c"), ("three", "d")]
    assert sorted(wanted, key=lambda each: share.load(*each)) == [*reversed(wanted)]


def test_however_many_tenants_come_and_go_few_are_remembered() -> None:
    share: FairShare[str] = FairShare(4, 1)
    assert share.enter("stays", "key of stays")
    for number in range(fair_share.MAX_REMEMBERED * 3):
        assert share.enter(f"tenant {number}", f"key {number}")
        share.leave(f"tenant {number}", f"key {number}")
    assert len(share._tenants) <= fair_share.MAX_REMEMBERED
    assert len(share._keys) <= fair_share.MAX_REMEMBERED
    assert share.load("stays", "key of stays")[0] == 1
