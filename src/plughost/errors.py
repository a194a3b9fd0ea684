"""The exceptions of plughost: everything that can go wrong with a plugin, as one tree.

    PluginError
    ├── InvalidSpec             the spec or the request is wrong; no process was started
    │   └── InvalidConfig       a file is wrong: all its problems, each with its line
    ├── LaunchFailed            the program was never executed
    │   └── SandboxUnavailable  the requested sandbox does not work here; the plugin does not run without it
    ├── HandshakeFailed         the first exchange with the process failed
    ├── Timeout                 no answer in time
    ├── Crashed                 the process ended, or its pipes closed, before the answer
    │   ├── BudgetExceeded      the process was killed because it used more memory than its limit
    │   └── CollateralFailure   the process was killed because it did not stop another, cancelled call
    ├── Malformed               the plugin sent something that its contract does not allow
    ├── Denied                  a capability was not declared or not granted
    ├── UnknownMethod           the other side has no method of that name
    ├── Quarantined             the plugin failed permanently or too often; it restarts only after a reload
    ├── Stopped                 the host has stopped the plugin, or is closed itself
    ├── Overloaded              a limit is reached: waiting calls, unread bytes, a quota
    ├── HostFailed              the host itself failed (a disk, a database), not the plugin
    └── CallFailed              the plugin answered with an error of its own

A contract may subclass these to use its own codes (`contracts/*/errors.py`). The docstring of a class is the
cause and `remedy` the remedy in docs/errors.md (`make tables`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self


class PluginError(Exception):
    """Base class of all errors: a failure of one plugin, with its exit status, the last lines of its stderr
    and a hint about what to do. Catch it to catch every failure of a plugin. `code` is stable."""

    code: ClassVar[str] = "plugin_error"
    remedy: ClassVar[str] = ""
    """What to do about errors of this class; shown when an error has no `hint` of its own."""

    def __init__(
        self,
        message: str,
        *,
        plugin: str = "",
        exit_status: int | None = None,
        stderr_tail: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.plugin = plugin
        self.exit_status = exit_status
        """Exit code of the process, or the negative number of the signal that ended it; None while it
        runs."""
        self.stderr_tail = stderr_tail
        self.hint = hint

    def __str__(self) -> str:
        where = f"plugin {self.plugin} " if self.plugin else ""
        return f"{where}{self.code}: {self.message}"

    def explain(self) -> str:
        """The message, the last lines of the plugin's stderr and the hint, as text for people."""
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The lines of `explain`. Those that the plugin wrote are indented, so that none looks like the
        host's."""
        parts = self._message_lines()
        if self.stderr_tail:
            parts.append("its last lines on stderr:")
            parts += [f"  {line}" for line in self.stderr_tail.splitlines()]
        if hint := self.hint or self.remedy:
            parts.append(f"hint: {hint}")
        return parts

    def _message_lines(self) -> list[str]:
        return str(self).replace("\n", "\n  ").split("\n")

    def report(self) -> dict[str, Any]:
        """The machine-readable form of `explain`: a dict that can be encoded as JSON."""
        return {
            "code": self.code,
            "plugin": self.plugin,
            "message": self.message,
            "exit_status": self.exit_status,
            "stderr_tail": self.stderr_tail,
            "hint": self.hint or self.remedy,
        }

    def copy(self) -> Self:
        """A copy, for raising the same failure in another caller: each raised exception collects a
        traceback."""
        copied = self.as_type(type(self))
        assert isinstance(copied, type(self))
        return copied

    def as_type(self, kind: type[PluginError]) -> PluginError:
        """A copy as an instance of `kind`, the contract's own class for this failure."""
        copied = kind.__new__(kind, *self.args)
        copied.__dict__.update(self.__dict__)
        copied.__cause__ = self.__cause__
        return copied


class InvalidSpec(PluginError):
    """A spec, a grant, an option or the params of a call are wrong, or no plugin has that name. No
    process was started."""

    code = "invalid_spec"


class InvalidConfig(InvalidSpec):
    """plughost.toml, a manifest or another file is wrong. `problems` lists everything that is wrong."""

    code = "invalid_config"

    def __init__(self, problems: Sequence[Any]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)
        """Each a `LocatedProblem`: file, line, field and message."""

    def __str__(self) -> str:
        return self.message

    def _message_lines(self) -> list[str]:
        return [str(problem) for problem in self.problems]


class LaunchFailed(PluginError):
    """The plugin's program could not be executed: it was not found, it is not executable, or the machine
    has no descriptors, memory or disk space left for it."""

    code = "launch_failed"
    remedy = "check that `command` names a program that exists and is executable"


class SandboxUnavailable(LaunchFailed):
    """The requested sandbox cannot be set up on this machine. plughost never falls back to a weaker one."""

    code = "unconfinable"
    remedy = "run `plughost doctor` to see which sandboxes work here and what is missing for the others"


class HandshakeFailed(PluginError):
    """The plugin's handshake failed: a wrong protocol version, a wrong answer, an early exit.

    If it is `final`, another start would fail in the same way: the plugin is quarantined until a reload.
    """

    code = "handshake_failed"
    remedy = "run it with `plughost dev` to see the exchange; `plughost conform` tests its handshake"
    final = False

    def __init__(self, message: str, *, final: bool = False, **context: Any) -> None:
        super().__init__(message, **context)
        self.final = final


class Timeout(PluginError):
    """The answer to a call, the handshake, the start or a health check took longer than allowed."""

    code = "timeout"
    remedy = "allow more time; if the plugin hangs, `plughost dev` shows its messages"


class Crashed(PluginError):
    """The process ended, or closed its pipes, before it answered the call."""

    code = "crashed"
    remedy = "run it with `plughost dev` to see what it received and wrote before it ended"


class BudgetExceeded(Crashed):
    """The process was killed because it used more memory than `limits.memory` allows."""

    code = "budget_exceeded"
    remedy = "raise limits.memory (--limit memory=512M), or make the plugin use less"


class CollateralFailure(Crashed):
    """The call failed because its process was killed: another call in that process was cancelled and did
    not stop within `cancel_grace`."""

    code = "collateral"
    remedy = "repeat the call; make the plugin stop when a call is cancelled"


class Malformed(PluginError):
    """The plugin sent something that is not a message of its contract, or a result that cannot be decoded
    as the requested type. `head` holds its first bytes."""

    code = "malformed"
    remedy = "if it is a stray print, print to stderr instead; `plughost conform` checks what it sends"

    def __init__(self, message: str, *, head: bytes = b"", **context: Any) -> None:
        super().__init__(message, **context)
        self.head = head
        self.excerpt = ""
        """The beginning of `head` as text, without secrets."""

    def _message_lines(self) -> list[str]:
        return super()._message_lines() + ([f"it began with: {self.excerpt}"] if self.excerpt else [])


class Denied(PluginError):
    """The plugin asked the host for something that needs a capability, but did not declare it or was not
    granted it by the operator."""

    code = "denied"
    remedy = "`plughost explain` shows what was denied and how to grant it"


class UnknownMethod(PluginError):
    """The plugin does not have the called method; or it called a method that the host does not have."""

    code = "unknown_method"
    remedy = "check the spelling of the method and the plugin's manifest"


class Quarantined(PluginError):
    """The plugin failed permanently, or too often within its failure window. It is not restarted until
    `Plugin.reload`. `__cause__` is the last failure."""

    code = "quarantined"
    remedy = "fix what failed, then reload it (`plughost reload`)"


class Stopped(PluginError):
    """The plugin was stopped, or its host is closed."""

    code = "stopped"
    remedy = "start the plugin again"


class Overloaded(PluginError):
    """A limit was reached: too many calls are waiting, too many bytes are unread, a call sent too many
    events, or a storage quota is used up."""

    code = "overloaded"
    remedy = "make fewer calls at once, or raise the limit that the message names"


class HostFailed(PluginError):
    """The host itself failed, for example to write to a disk or a database. The plugin is not the cause."""

    code = "host_failure"
    remedy = "fix the cause that the message names on this machine, then try again"


class CallFailed(PluginError):
    """The plugin answered the call with an error. `error` is the plugin's own error object."""

    code = "call_failed"

    def __init__(self, message: str, *, error: Any = None, **context: Any) -> None:
        super().__init__(message, **context)
        self.error = error
