"""For tests of plugins, contracts and hosts: a clock that moves when told to, plugins driven in-process."""

from plughost.testkit.clock import VirtualClock
from plughost.testkit.driver import Driver, drive
from plughost.testkit.duplex import MemoryPipe
from plughost.testkit.replay import play_host, play_plugin
from plughost.testkit.traffic import Recorder, Traffic

__all__ = ["Driver", "MemoryPipe", "Recorder", "Traffic", "VirtualClock", "drive", "play_host", "play_plugin"]
