"""What `plughost dev` shows: lines for people, or one JSON document per line."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from plughost.base.errors import PluginError
from plughost.base.text import visible
from plughost.cli import output
from plughost.cli.teller import Teller

HIDDEN = "***"
SHORTEST = 6
"""Of a variable's value that is hidden: a shorter one would be found in the middle of words."""


class Screen:
    """Everything that is shown goes through here, so that no value of a plugin's variables and nothing that a
    terminal would obey gets past it."""

    def __init__(self, teller: Teller, *, as_json: bool) -> None:
        self._teller = teller
        self._as_json = as_json
        self._secrets: list[str] = []

    def hide(self, env: Mapping[str, str]) -> None:
        """Show none of these values from now on, nor a line of one, however a plugin spells it."""
        parts = {part for value in env.values() for part in (value, *value.splitlines())}
        spelled = {spelling for part in parts if len(part) >= SHORTEST for spelling in _spellings(part)}
        self._secrets = sorted(spelled.union(self._secrets), key=len, reverse=True)

    def show(self, kind: str, words: str, **fields: Any) -> None:
        """`words` for people, which may be of several lines; `fields` for programs."""
        if self._as_json:
            self._teller.tell(self._document({"event": kind, "at": time.time()}, fields))
        else:
            first, *more = self._hidden(words).split("\n")
            lines = (f"{_clock()} {first}", *(f"             {line}" for line in more))
            self._teller.tell(output.text_lines(*lines))

    def error(self, error: PluginError) -> None:
        self.show("error", f"! {error.explain()}", error=error.report())

    def _document(self, head: dict[str, Any], fields: dict[str, Any]) -> output.Line:
        try:
            return output.json_line(self._without({**head, **fields}))
        except RecursionError:
            return output.json_line({**head, "left_out": "nested too deeply to be shown"})

    def _without(self, said: Any) -> Any:
        if isinstance(said, dict):
            return {self._hidden(name): self._without(inner) for name, inner in said.items()}
        if isinstance(said, list):
            return [self._without(inner) for inner in said]
        return self._hidden(said) if isinstance(said, str) else said

    def _hidden(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return text


def _spellings(text: str) -> tuple[str, ...]:
    """As it is, as a terminal may show it, and in JSON."""
    return text, visible(text), *(json.dumps(text, ensure_ascii=plain)[1:-1] for plain in (True, False))


def _clock() -> str:
    now = time.time()
    return f"{time.strftime('%H:%M:%S', time.localtime(now))}.{int(now * 1000) % 1000:03}"
