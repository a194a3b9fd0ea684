"""The output of `plughost dev`: lines for people, or one JSON document per line."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from plughost._util.redaction.redactor import Redactor
from plughost._util.text import TruncatedText
from plughost.cli.ui import output
from plughost.cli.ui.line_writer import LineWriter
from plughost.errors import Crashed, HandshakeFailed, PluginError, Quarantined

SHORTEST = 6
"""Minimum length of a redacted value: a shorter one would be found in the middle of words."""


class DevOutput:
    """Writes all output of `plughost dev`, so that values of the plugin's environment are redacted and
    terminal control characters escaped."""

    def __init__(self, writer: LineWriter, *, as_json: bool) -> None:
        self._writer = writer
        self._as_json = as_json
        self.redactor = Redactor()
        """Redacts secrets. Code that truncates text before it comes here must redact it first."""

    def hide(self, env: Mapping[str, str]) -> None:
        """Redacts these values from now on, and each line of one, in every spelling."""
        self.redactor.add(value for value in env.values() if len(value) >= SHORTEST)

    def show(self, kind: str, words: str, *more: TruncatedText, **fields: Any) -> None:
        """Shows `words`, of one or more lines, and quoted text of the plugin to people; `fields` to
        programs."""
        if self._as_json:
            self._writer.tell(self._document({"event": kind, "at": time.time()}, fields))
        else:
            text = " ".join([self.redactor.redact(words), *map(self._one_line, more)])
            first, *others = text.split("\n")
            lines = (f"{_clock()} {first}", *(f"             {line}" for line in others))
            self._writer.tell(output.text_lines(*lines))

    def error(self, error: PluginError) -> None:
        """Shows an error without the plugin's stderr, which was shown as it came."""
        shown = error.copy()
        shown.stderr_tail = ""
        is_general = error.hint in ("", Quarantined.remedy)
        if is_general and isinstance(error, Crashed | HandshakeFailed | Quarantined):
            shown.hint = "fix the plugin; it is restarted when a file changes"
        self.show("error", f"! {shown.explain()}", error=error.report())

    def _one_line(self, text: TruncatedText) -> str:
        return self.redactor.redact_truncated(text).rstrip("\r").replace("\n", "\\n")

    def _document(self, head: dict[str, Any], fields: dict[str, Any]) -> output.Line:
        try:
            shown = {
                name: self.redactor.redact_truncated(value)
                if isinstance(value, TruncatedText)
                else self.redactor.redact_json(value)
                for name, value in fields.items()
            }
            return output.json_line({**head, **shown})
        except RecursionError:
            return output.json_line({**head, "left_out": "nested too deeply to be shown"})


def _clock() -> str:
    now = time.time()
    return f"{time.strftime('%H:%M:%S', time.localtime(now))}.{int(now * 1000) % 1000:03}"
