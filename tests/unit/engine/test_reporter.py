"""The reporter completes errors: a malformed message is shown by its beginning, without secrets."""

from __future__ import annotations

from plughost._util.redaction.redactor import Redactor
from plughost.engine.reporter import MAX_EXCERPT, Reporter
from plughost.engine.session import BaseSession
from plughost.errors import Malformed
from plughost.events import EventHub
from plughost.testing.clock import VirtualClock


def completed(head: bytes, *secrets: str) -> Malformed:
    redactor = Redactor()
    redactor.add(secrets)
    reporter = Reporter("p", 1, BaseSession(), EventHub(), VirtualClock(), redactor)
    error = reporter.error(Malformed("not a message", head=head))
    assert isinstance(error, Malformed)
    return error


def test_the_beginning_of_a_malformed_message_is_shown_on_one_line():
    error = completed(b"starting up\x1b[31m\nhint: all is well")
    assert error.excerpt == r"starting up\x1b[31m\nhint: all is well"
    assert error.lines()[1] == f"it began with: {error.excerpt}"


def test_a_secret_in_it_is_not_shown_even_where_it_is_cut():
    assert "hunter2" not in completed(b"token hunter2hunter2 is set", "hunter2hunter2").excerpt
    assert "hunter2" not in completed(b"x" * 100 + b" hunter2hun", "hunter2hunter2").excerpt


def test_only_its_beginning_is_shown():
    assert completed(b"x" * 4096).excerpt == "x" * MAX_EXCERPT + "…"


def test_a_malformed_message_without_bytes_shows_none():
    assert len(completed(b"").lines()) == 2
