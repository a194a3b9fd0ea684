"""What an export may: every side narrows, none widens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plughost.errors import InvalidSpec
from plughost.permissions.intersection import covers
from plughost.vai.bindings.binding import BindingPolicy
from plughost.vai.bindings.permissions import EXECUTION_CLASSES, AskedPermissions, grant

ASKED = AskedPermissions(
    network="egress",
    filesystem="scratch",
    scopes=frozenset({"chains:read", "runs:write"}),
    execution_class="worker",
    timeout_ms=20_000,
    max_concurrency=4,
)
SCOPES = ("sessions:read", "chains:read", "chains:write", "runs:read", "runs:write")
HOSTS = ("*", "*.example.com", "api.example.com", "a.b.example.com", "example.com", "other.test")

networks = st.sampled_from(["none", "egress"])
filesystems = st.sampled_from(["none", "assets_ro", "scratch"])
classes = st.sampled_from(EXECUTION_CLASSES)
scopes = st.frozensets(st.sampled_from(SCOPES))
numbers = st.integers(1, 100)
policies = st.builds(
    BindingPolicy,
    network=st.none() | networks,
    egress_domains=st.none() | st.lists(st.sampled_from(HOSTS), max_size=3).map(tuple),
    filesystem=st.none() | filesystems,
    scopes=st.none() | scopes,
    timeout_ms=st.none() | numbers,
    max_concurrency=st.none() | numbers,
    execution_class=st.none() | classes,
)
asks = st.builds(
    AskedPermissions,
    network=networks,
    filesystem=filesystems,
    scopes=scopes,
    execution_class=classes,
    timeout_ms=numbers,
    max_concurrency=numbers,
)


@pytest.mark.clause("VAI-42", "VAI-64", "VAI-91")
@given(asks, st.lists(policies, max_size=3))
def test_what_is_granted_is_what_every_side_allows(
    asked: AskedPermissions, said: list[BindingPolicy]
) -> None:
    given_ = grant(asked, [(str(n), policy) for n, policy in enumerate(said)], trusted_inline=True)

    assert given_.network in ("none", asked.network)
    assert given_.filesystem in ("none", asked.filesystem)
    for policy in said:
        assert policy.network is None or given_.network in ("none", policy.network)
        assert policy.filesystem is None or given_.filesystem in ("none", policy.filesystem)
        assert policy.scopes is None or set(given_.scopes) <= policy.scopes
    named = [policy.scopes for policy in said if policy.scopes is not None]
    assert set(given_.scopes) == asked.scopes.intersection(*named)
    assert given_.timeout_ms == min([asked.timeout_ms, *(p.timeout_ms for p in said if p.timeout_ms)])
    ranks = [asked.execution_class, *(p.execution_class for p in said if p.execution_class)]
    assert given_.execution_class == min(ranks, key=EXECUTION_CLASSES.index)


@given(st.lists(policies, max_size=3))
def test_a_host_is_reachable_only_if_every_list_names_it(said: list[BindingPolicy]) -> None:
    given_ = grant(ASKED, [("x", policy) for policy in said], trusted_inline=True)
    lists = [policy.egress_domains for policy in said if policy.egress_domains is not None]
    for host in ("api.example.com", "a.b.example.com", "example.com", "other.test", "third.test"):
        everywhere = all(any(covers(pattern, host) for pattern in each) for each in lists)
        open_ = given_.network == "egress" and (
            given_.egress_domains is None or any(covers(pattern, host) for pattern in given_.egress_domains)
        )
        assert open_ == (given_.network == "egress" and everywhere)


@pytest.mark.clause("VAI-64")
def test_a_policy_that_makes_no_sense_is_refused_with_all_that_is_wrong() -> None:
    policy = BindingPolicy(
        network="everything",
        filesystem="all",
        scopes=frozenset({"chains:read", "chains:own"}),
        timeout_ms=-5,
        max_concurrency=0,
        execution_class="bogus",
    )
    with pytest.raises(InvalidSpec) as refused:
        grant(ASKED, [("binding b", policy), ("the host", BindingPolicy(timeout_ms=0))], trusted_inline=True)
    assert refused.value.message.split("; ") == [
        "binding b: network 'everything' is not one of none, egress",
        "binding b: filesystem 'all' is not one of none, scratch, assets_ro",
        "binding b: execution_class 'bogus' is not one of isolated, worker, inline",
        "binding b: scopes 'chains:own' is not one of sessions:read, chains:read, chains:write, runs:read, "
        "runs:write, compactions:write",
        "binding b: timeout_ms must be a whole number of at least 1, not -5",
        "binding b: max_concurrency must be a whole number of at least 1, not 0",
        "the host: timeout_ms must be a whole number of at least 1, not 0",
    ]


def test_a_list_of_hosts_is_told_as_narrower() -> None:
    both = [
        ("binding b", BindingPolicy(egress_domains=("*.test",))),
        ("the host", BindingPolicy(egress_domains=("a.test",))),
    ]
    assert grant(ASKED, both, trusted_inline=False).narrowed == (
        "binding b: egress_domains *.test instead of any public host",
        "the host: egress_domains a.test instead of *.test",
    )
    quiet = BindingPolicy(egress_domains=(), network="none")
    assert grant(ASKED, [("b", quiet)], trusted_inline=False).narrowed == (
        "b: network none instead of egress",
    )


@pytest.mark.clause("VAI-12")
def test_inline_needs_a_publisher_that_is_trusted_for_it() -> None:
    inline = AskedPermissions(execution_class="inline", timeout_ms=1, max_concurrency=1)
    with pytest.raises(InvalidSpec, match="inline"):
        grant(inline, [], trusted_inline=False)
    assert grant(inline, [], trusted_inline=True).execution_class == "inline"
    narrower = grant(inline, [("binding", BindingPolicy(execution_class="isolated"))], trusted_inline=False)
    assert narrower.execution_class == "isolated"


def test_what_is_less_than_asked_is_told_with_who_said_so() -> None:
    policy = BindingPolicy(scopes=frozenset({"chains:read"}), network="none", timeout_ms=5_000)
    told = grant(ASKED, [("binding bind_1", policy)], trusted_inline=False).narrowed
    assert told == (
        "binding bind_1: network none instead of egress",
        "binding bind_1: scopes chains:read instead of chains:read, runs:write",
        "binding bind_1: timeout_ms 5000 instead of 20000",
    )


@pytest.mark.clause("VAI-92")
def test_two_that_differ_in_what_the_kernel_holds_never_share_a_process() -> None:
    def digest(policy: BindingPolicy) -> str:
        return grant(ASKED, [("binding", policy)], trusted_inline=False).digest

    assert digest(BindingPolicy(timeout_ms=1)) == digest(BindingPolicy())
    different = [
        BindingPolicy(),
        BindingPolicy(network="none"),
        BindingPolicy(filesystem="none"),
        BindingPolicy(egress_domains=("api.example.com",)),
        BindingPolicy(execution_class="isolated"),
        BindingPolicy(scopes=frozenset()),
    ]
    assert len({digest(policy) for policy in different}) == len(different)
