import pytest
from plugin import plugin

from plughost import CallFailed
from plughost.testkit import drive


def test_it_greets():
    with drive(plugin) as host:
        assert host.call("greet", {"name": "Ada"}) == {"greeting": "Hello, Ada!"}


@pytest.mark.parametrize("params", [{}, {"name": 1}, ["Ada"], None])
def test_wrong_params_are_refused_and_the_next_call_is_served(params):
    with drive(plugin) as host:
        with pytest.raises(CallFailed) as refused:
            host.call("greet", params)
        assert refused.value.error["code"] == -32602
        assert "greeting" in host.call("greet", {"name": "Ada"})


def test_a_method_that_it_does_not_have():
    with drive(plugin) as host:
        with pytest.raises(CallFailed) as refused:
            host.call("sing", {})
        assert refused.value.error["code"] == -32601
