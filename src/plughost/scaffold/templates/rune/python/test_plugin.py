from pathlib import Path

import pytest
from plugin import plugin

from plughost import CallFailed
from plughost.testkit import drive

FOLDER = Path(__file__).parent


def call(given):
    with drive(plugin, FOLDER, grants=["tool.execute"], first="greet") as host:
        return host.call("greet", given)


def test_it_greets():
    assert call({"name": "Ada"}) == {"greeting": "Hello, Ada!"}


@pytest.mark.parametrize("given", [{}, {"name": 1}, ["Ada"]])
def test_wrong_input_is_refused(given):
    with pytest.raises(CallFailed) as refused:
        call(given)
    assert refused.value.error["code"] == "invalid_input"
