"""How much of a loud plugin's log is kept."""

from types import SimpleNamespace

import msgspec
import pytest

from plughost.events import EventHub
from plughost.services import logs
from plughost.testing.clock import VirtualClock

LOUD = SimpleNamespace(name="loud", generation=1)


@pytest.fixture
def kept() -> logs.Logs:
    return logs.Logs(EventHub(), VirtualClock())


def test_the_last_lines_are_kept_up_to_a_number(kept: logs.Logs) -> None:
    for number in range(3):
        kept.on_stderr(LOUD, [f"{number}.{line}" for line in range(900)])
    said = [line.message for line in kept.recent("loud")]
    assert len(said) == logs.MAX_LINES
    assert said[-1] == "2.899"
    assert said[0] == "1.800"


def test_long_lines_are_kept_up_to_an_amount(kept: logs.Logs) -> None:
    for number in range(2000):
        kept.on_stderr(LOUD, [f"{number} " + "x" * 8000])
    said = kept.recent("loud")
    assert sum(len(line.message) for line in said) <= logs.MAX_BYTES
    assert len(said) > 100
    assert said[-1].message.startswith("1999 ")


def test_fields_count_too(kept: logs.Logs) -> None:
    fields = msgspec.Raw(msgspec.json.encode({"all": "y" * 15000}))
    for _ in range(500):
        kept.log(LOUD, SimpleNamespace(level="info", message="short", fields=fields))
    assert 10 < len(kept.recent("loud")) < 80
    assert kept.recent("quiet") == []
