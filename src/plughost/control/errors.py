"""Errors of the control socket, and errors of plugins on their way through it."""

from __future__ import annotations

from typing import Any

import msgspec

from plughost import errors
from plughost.errors import CallFailed, InvalidConfig, PluginError


class ControlRefused(PluginError):
    """Raised in the client when the running host answered a request with an error of a kind that is not in
    `plughost.errors`; `code` is the host's code."""

    def __init__(self, message: str, *, code: str = "refused", **context: Any) -> None:
        super().__init__(message, **context)
        self.code = code  # type: ignore[misc]  # the host's own


class HostLost(PluginError):
    """Raised in the client when the host has ended or closed the connection before its answer, or cannot be
    reached. Whether a call was carried out is unknown."""

    code = "host_lost"
    remedy = "`plughost ps` lists the running hosts; make the call again if doing it twice does no harm"


class ErrorReport(msgspec.Struct, omit_defaults=True):
    """An error in an answer: `PluginError.report`, the class in `plughost.errors` that it belongs to, and the
    plugin's own error object."""

    code: str
    message: str
    plugin: str = ""
    exit_status: int | None = None
    stderr_tail: str = ""
    hint: str = ""
    kind: str = ""
    error: Any = None
    report: dict[str, Any] | None = None
    """The report of a contract that has a form of its own for it."""


def to_report(error: PluginError) -> dict[str, Any]:
    """An error as a document."""
    document = {**PluginError.report(error), "kind": _kind(type(error))}
    if isinstance(error, CallFailed):
        document["error"] = error.error
    if type(error).report is not PluginError.report:
        document["report"] = error.report()
    return document


def from_report(report: ErrorReport) -> PluginError:
    """The error of a report: of the same class, or of the nearest base class in `plughost.errors`."""
    found = getattr(errors, report.kind, None)
    kind = found if isinstance(found, type) and issubclass(found, PluginError) else ControlRefused
    error = kind(
        report.message,
        plugin=report.plugin,
        exit_status=report.exit_status,
        stderr_tail=report.stderr_tail,
        hint=report.hint,
    )
    error.code = report.code  # type: ignore[misc]  # a contract may have its own
    if isinstance(error, CallFailed):
        error.error = report.error
    if (own := report.report) is not None:
        error.report = lambda: own  # type: ignore[method-assign]  # the contract's class stays in the host
    return error


def _kind(error: type[PluginError]) -> str:
    """The name of the nearest class in `plughost.errors`; InvalidConfig has problems that stay here."""
    return next(
        each.__name__
        for each in error.__mro__
        if each.__module__ == errors.__name__ and each is not InvalidConfig
    )
