"""Link: the connection of an instance to its plugin, and what ends with it. Mostly that is a process and its
pipes (`io/process_link.py`); a contract can bring another kind (`ResolvedSpec.open_link`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

import msgspec

from plughost._util.redaction.redactor import Redactor
from plughost.engine.io.channel import Channel
from plughost.engine.io.stderr import StderrTail
from plughost.errors import LaunchFailed, PluginError


class LinkCallbacks(msgspec.Struct, frozen=True):
    """The callbacks of a link to its instance. All of them are called in the event loop, and none before the
    link is made."""

    on_open: Callable[[LaunchFailed | None], None]
    """The plugin can be talked to; with a failure it cannot, and `on_exit` must follow."""
    on_data: Callable[[bytes], None]
    """Bytes that the plugin has sent."""
    on_end: Callable[[], None]
    """The plugin sends no more."""
    on_broken: Callable[[OSError], None]
    """Nothing can be sent to the plugin any more."""
    on_room: Callable[[], None]
    """Everything that was given to the channel is sent."""
    on_call_failed: Callable[[int, PluginError], None]
    """This call fails, and nothing else does. For channels with a stream per call."""
    on_watch_failed: Callable[[OSError], None]
    """The event loop cannot watch the link."""
    on_exit: Callable[[], None]
    """The link has ended, and everything that belongs to it."""
    on_stderr: Callable[[list[str]], None]
    """Lines that the plugin wrote to its stderr."""
    on_denials: Callable[[list[bytes]], None]
    """Denial records of a sandboxed process."""
    redactor: Redactor
    """Hides secrets in what the link reports."""
    on_sent: Callable[[bytes], None] | None = None
    """Bytes that were sent to the plugin, for a tap; None when nobody listens."""


class Link(Protocol):
    """One open link. It is made by an OpenLink, reports by its callbacks, and ends with `on_exit`."""

    @property
    def channel(self) -> Channel:
        """The bytes to and from the plugin."""

    @property
    def stderr(self) -> StderrTail | None:
        """The last lines of the plugin's stderr; None for a link that has none."""

    @property
    def pid(self) -> int | None:
        """The process id of the launcher; None when the link is not a process of this host."""

    @property
    def held_by(self) -> str:
        """How descendants of the process are ended with it: pidns or subreaper; else empty."""

    @property
    def confined_by(self) -> tuple[str, ...]:
        """The sandbox mechanisms of the process, as its launcher reported them."""

    @property
    def alive(self) -> bool:
        """Whether `on_exit` is still to come."""

    @property
    def exit_status(self) -> int | None:
        """The exit status of the process; None before its end, or when there is none."""

    def terminate(self) -> None:
        """Ask the plugin politely to end, such as by SIGTERM."""

    def kill(self) -> None:
        """End the link and everything below it. `on_exit` follows."""

    def kill_launcher(self) -> None:
        """End it by force, when `kill` had no effect."""

    def release(self) -> None:
        """Give back whatever is left after the exit, without waiting."""

    def abandon(self) -> None:
        """End the link of a host that was garbage collected; its event loop may be closed."""


class BaseLink(ABC):
    """A base class for links that are not processes. It needs `channel`, `alive` and `kill`."""

    pid: int | None = None
    held_by = ""
    confined_by: tuple[str, ...] = ()
    exit_status: int | None = None
    stderr: StderrTail | None = None

    @abstractmethod
    def kill(self) -> None:
        """End the link now; `on_exit` must follow once, in a later pass of the loop."""

    def terminate(self) -> None:
        self.kill()

    def kill_launcher(self) -> None:
        self.kill()

    def release(self) -> None:  # noqa: B027 most have nothing to give back
        """Does nothing."""

    def abandon(self) -> None:
        self.kill()


class OpenLink(Protocol):
    """Opens a link: starts a process, or makes a connection."""

    def __call__(self, callbacks: LinkCallbacks) -> Link:
        """Begin to open it; `on_open` tells when it is done. LaunchFailed: it cannot even begin."""
