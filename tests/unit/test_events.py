"""The queues of observers: bounded by the number of events, and by what plugins put into them."""

from __future__ import annotations

from plughost.events import MOST_BYTES, EventHub, Logged


def line(message: str = "", fields: object = None) -> Logged:
    return Logged(plugin="p", generation=1, at=0.0, level="info", message=message, fields=fields)


def test_log_lines_that_nobody_reads_are_bounded_by_their_size():
    for each in (line("m" * (1 << 20)), line(fields={"a": ["x" * 1000] * 1000})):
        hub = EventHub()
        with hub.subscribe() as events:
            for _ in range(100):
                hub.publish(each)
            assert 0 < len(events) <= MOST_BYTES >> 20 < 100
            assert len(events) + events.missed == 100
            while events.take() is not None:
                pass
            assert events._size == 0
