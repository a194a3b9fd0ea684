"""Finds parts of secrets at the ends of a text that was cut."""

from __future__ import annotations

import re
from collections.abc import Iterator

from plughost._util.redaction.text_set import Span, TextSet
from plughost._util.redaction.unescape import LONGEST_ESCAPE

_CUT_ESCAPE = re.compile(
    r"[0-9a-zA-Z]{1,31};"
    r"|[uUxX#]?\{?[0-9a-zA-Z]{0,8}(?:[;}]|(?:%[89abAB][0-9a-fA-F]){1,3}|[\udc00-\udfff])?"
)
"""The end of an escape whose beginning was cut off."""


def starts_cut(known: TextSet, said: str) -> Iterator[Span]:
    """The positions where a text begins with the end of a secret, or all of it if it is a part of one.

    An escape may have been cut in two as well: what is left of it goes with the rest.
    """
    if known.holds_part(said):
        yield 0, len(said)
        return
    cut = _CUT_ESCAPE.match(said)
    for first in range(cut.end() + 1 if cut else 1):
        if size := known.ends_in(said[first : first + known.longest]):
            yield 0, first + size


def ends_cut(known: TextSet, said: str) -> Iterator[Span]:
    """The positions where a text ends with the beginning of a secret."""
    end = len(said)
    for last in (
        end,
        *(end - back for back in range(1, LONGEST_ESCAPE) if said[-back:][:1] in ("\\", "%", "&")),
    ):
        if size := known.begins_in(said[max(last - known.longest, 0) : last]):
            yield last - size, end
