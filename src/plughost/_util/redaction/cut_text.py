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


def starts_cut(forms: TextSet, text: str) -> Iterator[Span]:
    """The positions where a text begins with the end of a secret, or all of it if it is a part of one.

    An escape may have been cut in two as well: what is left of it goes with the rest.
    """
    if forms.holds_part(text):
        yield 0, len(text)
        return
    cut = _CUT_ESCAPE.match(text)
    for first in range(cut.end() + 1 if cut else 1):
        if size := forms.ends_in(text[first : first + forms.longest]):
            yield 0, first + size


def ends_cut(forms: TextSet, text: str) -> Iterator[Span]:
    """The positions where a text ends with the beginning of a secret."""
    end = len(text)
    for last in (
        end,
        *(end - back for back in range(1, LONGEST_ESCAPE) if text[-back:][:1] in ("\\", "%", "&")),
    ):
        if size := forms.begins_in(text[max(last - forms.longest, 0) : last]):
            yield last - size, end
