"""Options of the invoker: a misspelt word must never mean the weaker isolation."""

from __future__ import annotations

import math

import pytest

from plughost import InvalidSpec
from plughost.vai.invocations.invoker import InvokerOptions


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"reuse": "invocations"}, "reuse is 'invocations'; expected one of binding, invocation"),
        ({"sandbox": "strictt"}, "sandbox is 'strictt'; expected one of strict, landlock, none"),
        ({"sandbox": None}, "sandbox is None"),
        ({"most_processes": -3}, "most_processes is -3; expected a whole number of at least 1"),
        ({"most_processes": 2.5}, "most_processes is 2.5"),
        ({"workers": 0}, "workers is 0; expected a whole number of at least 1"),
        ({"idle": math.nan}, "idle is nan; expected a number of seconds"),
    ],
)
def test_a_wrong_option_is_refused_with_its_value(option, message):
    with pytest.raises(InvalidSpec, match=message):
        InvokerOptions(**option)


@pytest.mark.parametrize("option", [{"reuse": "invocation"}, {"sandbox": "none"}, {"idle": math.inf}])
def test_every_documented_word_is_accepted(option):
    InvokerOptions(**option)
