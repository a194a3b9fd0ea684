"""Test tools for plugins, contracts and hosts: a virtual clock, an in-process driver, recorded traffic."""

from plughost.testing.clock import VirtualClock
from plughost.testing.driver import Driver, drive
from plughost.testing.duplex import MemoryPipe, cut, delay, drop, garble, split
from plughost.testing.replay import play_host, play_plugin
from plughost.testing.traffic import Recorder, Traffic

__all__ = [
    "Driver",
    "MemoryPipe",
    "Recorder",
    "Traffic",
    "VirtualClock",
    "cut",
    "delay",
    "drive",
    "drop",
    "garble",
    "play_host",
    "play_plugin",
    "split",
]
