from pathlib import Path

import pytest
from plugin import plugin

from plughost import CallFailed
from plughost.testkit import drive

FOLDER = Path(__file__).parent
GREET = "{{name}}.greet"


def test_it_is_what_its_manifest_says_and_greets():
    with drive(plugin, FOLDER) as host:
        assert host.call(GREET, {"name": "Ada"}) == {"greeting": "Hello, Ada!"}
        assert host.call("health.check") == {"status": "ok"}


@pytest.mark.parametrize("params", [{}, {"name": 1}, ["Ada"], None])
def test_wrong_params_are_refused_and_the_next_call_is_served(params):
    with drive(plugin, FOLDER) as host:
        with pytest.raises(CallFailed) as refused:
            host.call(GREET, params)
        assert refused.value.error["code"] == -32602
        assert "greeting" in host.call(GREET, {"name": "Ada"})


def test_a_method_that_it_does_not_have():
    with drive(plugin, FOLDER) as host:
        with pytest.raises(CallFailed) as refused:
            host.call("{{name}}.sing", {})
        assert refused.value.error["code"] == -32601
