"""For tests of plugins, contracts and hosts: a clock that only moves when told to."""

from plughost.testkit.clock import VirtualClock

__all__ = ["VirtualClock"]
