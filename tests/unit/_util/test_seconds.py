"""Seconds that a caller gives: numbers from 0 on, and never NaN, wherever they are given."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from plughost import InvalidSpec
from plughost._util.seconds import check_seconds
from plughost.engine.policy import HealthPolicy, LifecyclePolicy
from plughost.services.network.fetch import Network
from plughost.vai.retry_policy import Backoff

WRONG = [math.nan, -1, -0.5, -math.inf, "2", Decimal(2), 10**400, None, [1]]


@pytest.mark.parametrize("seconds", [0, 0.0, 1, 0.3, 1e9, math.inf])
def test_a_number_of_seconds_from_0_on_is_accepted(seconds):
    check_seconds("timeout", seconds)


@pytest.mark.parametrize("seconds", WRONG)
def test_anything_else_is_refused_with_its_value(seconds):
    with pytest.raises(InvalidSpec, match=r"timeout is .+; expected a number of seconds, 0 or more"):
        check_seconds("timeout", seconds)


TIMES = [
    name for name, kind in LifecyclePolicy.__annotations__.items() if "float" in kind and "tuple" not in kind
]


@pytest.mark.parametrize("name", TIMES)
def test_every_time_of_a_lifecycle_policy_is_checked(name):
    with pytest.raises(InvalidSpec, match=f"{name} is nan"):
        LifecyclePolicy(**{name: math.nan})


@pytest.mark.parametrize(
    "make",
    [
        lambda wrong: LifecyclePolicy(backoff=(1.0, wrong)),
        lambda wrong: HealthPolicy(wrong, 1.0),
        lambda wrong: HealthPolicy(1.0, wrong),
        lambda wrong: Backoff(first=wrong),
        lambda wrong: Backoff(longest=wrong),
        lambda wrong: Network(timeout=wrong),
    ],
)
def test_options_with_a_wrong_number_of_seconds_are_refused(make):
    for wrong in (math.nan, -1.0, "2"):
        with pytest.raises(InvalidSpec, match="expected a number of seconds"):
            make(wrong)
