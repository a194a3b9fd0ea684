"""Everything that can go wrong with a plugin, as one tree.

    PluginError
    ├── InvalidSpec       the binding or the request is wrong; no process was started
    │   └── InvalidConfig     a file is wrong: all its problems, located
    ├── LaunchFailed      the program was never executed
    │   └── Unconfinable      it cannot be confined as asked here, and does not run otherwise
    ├── HandshakeFailed   the first exchange went wrong
    ├── Timeout           no answer in time
    ├── Crashed           the process ended, or its pipes closed, before the answer
    │   ├── OverBudget        it was ended for using more than it may
    │   └── Collateral        it was ended for another call, which it did not stop when it was told to
    ├── Malformed         what it sent is not what the contract says
    ├── Denied            a capability that was not declared or not granted
    ├── UnknownMethod     nobody on the other side answers to that name
    ├── Quarantined       it failed too often and waits for an explicit reload
    ├── Stopped           the host has ended it
    ├── Overloaded        more calls are waiting than the limit allows
    ├── HostFailed        the host could not do its part, a disk or a database; the plugin has done its own
    └── CallFailed        the plugin answered, and its answer is an error of its own

A contract may subclass these to spell its own codes (`contracts/*/errors.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self


class PluginError(Exception):
    """A failure of one plugin, with all that a person needs to act on it."""

    code: ClassVar[str] = "plugin_error"

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
        """Exit code, or the negative number of the signal that ended it; None while it runs."""
        self.stderr_tail = stderr_tail
        self.hint = hint

    def __str__(self) -> str:
        where = f"plugin {self.plugin} " if self.plugin else ""
        return f"{where}{self.code}: {self.message}"

    def explain(self) -> str:
        """The message, the plugin's last words and what to do, for people."""
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """`explain` line by line. Lines of a plugin's own are indented: none looks like the host's."""
        parts = self._message_lines()
        if self.stderr_tail:
            parts.append("its last words on stderr:")
            parts += [f"  {line}" for line in self.stderr_tail.splitlines()]
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return parts

    def _message_lines(self) -> list[str]:
        return str(self).replace("\n", "\n  ").split("\n")

    def report(self) -> dict[str, Any]:
        """The machine-readable form of `explain`."""
        return {
            "code": self.code,
            "plugin": self.plugin,
            "message": self.message,
            "exit_status": self.exit_status,
            "stderr_tail": self.stderr_tail,
            "hint": self.hint,
        }

    def copy(self) -> Self:
        """A copy for another caller: a raised exception collects its own traceback."""
        twin = self.as_type(type(self))
        assert isinstance(twin, type(self))
        return twin

    def as_type(self, kind: type[PluginError]) -> PluginError:
        """The same failure under a contract's own name for it."""
        twin = kind.__new__(kind, *self.args)
        twin.__dict__.update(self.__dict__)
        twin.__cause__ = self.__cause__
        return twin


class InvalidSpec(PluginError):
    code = "invalid_spec"


class InvalidConfig(InvalidSpec):
    code = "invalid_config"

    def __init__(self, problems: Sequence[Any]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)
        """Each a `located.Problem`."""

    def __str__(self) -> str:
        return self.message

    def _message_lines(self) -> list[str]:
        return [str(problem) for problem in self.problems]


class LaunchFailed(PluginError):
    code = "launch_failed"


class SandboxUnavailable(LaunchFailed):
    code = "unconfinable"


class HandshakeFailed(PluginError):
    """A `final` one would come again with every start: it stays away until it is reloaded."""

    code = "handshake_failed"
    final = False

    def __init__(self, message: str, *, final: bool = False, **context: Any) -> None:
        super().__init__(message, **context)
        self.final = final


class Timeout(PluginError):
    code = "timeout"


class Crashed(PluginError):
    code = "crashed"


class BudgetExceeded(Crashed):
    code = "budget_exceeded"


class CollateralFailure(Crashed):
    code = "collateral"


class Malformed(PluginError):
    """`head` holds the first bytes of what was wrong."""

    code = "malformed"

    def __init__(self, message: str, *, head: bytes = b"", **context: Any) -> None:
        super().__init__(message, **context)
        self.head = head


class Denied(PluginError):
    code = "denied"


class UnknownMethod(PluginError):
    code = "unknown_method"


class Quarantined(PluginError):
    code = "quarantined"


class Stopped(PluginError):
    code = "stopped"


class Overloaded(PluginError):
    code = "overloaded"


class HostFailed(PluginError):
    code = "host_failure"


class CallFailed(PluginError):
    """`error` is the plugin's own error object, as it came."""

    code = "call_failed"

    def __init__(self, message: str, *, error: Any = None, **context: Any) -> None:
        super().__init__(message, **context)
        self.error = error
