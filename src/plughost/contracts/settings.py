"""Who may set a setting: the operator only, or the plugin's author as well.

Every setting of a plugin is a field of a struct: of `config.Common` for all contracts, of `Contract.options`
for one. The operator may set all of them. The author of a plugin may set one only if its type says so:
an unmarked setting is the operator's alone.

    class Options(msgspec.Struct):
        data_root: str | None = None                           # operator
        call_timeout: Annotated[float, AUTHOR_MAY_LOWER] = 30  # author, above 0 and up to 30 seconds
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import msgspec


class SetBy(enum.Enum):
    """The trust level of a settings file: written by the plugin's author or by the operator."""

    AUTHOR = "author"
    """A file that came with the plugin, or that was discovered and not named: possibly a stranger's."""
    OPERATOR = "operator"
    """A file that was named on purpose, a command line, or a program that embeds the host."""


class AuthorRule(msgspec.Struct, frozen=True):
    """The rule for a setting that a plugin's author may set; this base class allows any value of its type."""

    note: str = ""
    """A further restriction, checked where the setting is used."""

    def refusal(self, value: Any, default: Any) -> str | None:
        """Why the author cannot set `value`; None when the value is allowed."""
        return None

    def describe(self, default: Any) -> str:
        """The allowed values, in words for the documentation."""
        return self.note or "any value"


class _Lower(AuthorRule, frozen=True):
    """The author may set a positive number up to the default."""

    def refusal(self, value: Any, default: Any) -> str | None:
        if not _is_positive(value):
            return NOT_POSITIVE.format(value)
        if value <= default:
            return None
        return f"{value!r:.50} is above the default of {default}, and only the operator can raise that"

    def describe(self, default: Any) -> str:
        return f"up to {default}"


class _UpTo(AuthorRule, frozen=True, kw_only=True):
    """The author may set a positive number up to `most`."""

    most: int

    def refusal(self, value: Any, default: Any) -> str | None:
        if not _is_positive(value):
            return NOT_POSITIVE.format(value)
        if value <= self.most:
            return None
        return f"{value!r:.50} is above {self.most}, and only the operator can set more"

    def describe(self, default: Any) -> str:
        return f"up to {self.most}"


NOT_POSITIVE = "{!r:.50} is not a positive number"


def _is_positive(value: Any) -> bool:
    """Whether `value` is a number above zero, neither infinite nor NaN; a bool is not a number here."""
    return isinstance(value, int | float) and value is not True and 0 < value < math.inf


class _Stronger(AuthorRule, frozen=True, kw_only=True):
    """The author may choose the default or a stronger value; `order` is from the weakest to the strongest."""

    order: tuple[str, ...]

    def refusal(self, value: Any, default: Any) -> str | None:
        if value in self.order and self.order.index(value) >= self.order.index(default):
            return None
        return f"{value!r:.50} is weaker than the contract's own {default!r}: only the operator can choose it"

    def describe(self, default: Any) -> str:
        return "the contract's own value or a stronger one"


def _mark(rule: AuthorRule) -> msgspec.Meta:
    return msgspec.Meta(extra={"author": rule})


AUTHOR_MAY_SET = _mark(AuthorRule())
AUTHOR_MAY_LOWER = _mark(_Lower())


def author_may_set(note: str) -> msgspec.Meta:
    """A mark for a setting's type: the author may set it, within the restriction that `note` describes."""
    return _mark(AuthorRule(note))


def author_may_set_up_to(most: int) -> msgspec.Meta:
    """A mark for a setting's type: the author may set a positive number up to `most`."""
    return _mark(_UpTo(most=most))


def author_may_strengthen(*order: str) -> msgspec.Meta:
    """A mark for a setting's type: the author may choose a stronger value; `order` is from weakest to
    strongest."""
    return _mark(_Stronger(order=order))


def author_rule(field: msgspec.structs.FieldInfo) -> AuthorRule | None:
    """The rule of a setting that the author may set; None when only the operator may set it."""
    for each in get_args(field.type)[1:]:
        if isinstance(each, msgspec.Meta) and each.extra and "author" in each.extra:
            rule: AuthorRule = each.extra["author"]
            return rule
    return None


def author_refusals(
    kind: type[msgspec.Struct], given: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> Iterator[tuple[str, str]]:
    """Yields the settings in `given` that an author's file may not contain, each with the reason.

    `defaults` are used instead of the fields' own.
    """
    for field in msgspec.structs.fields(kind):
        name = field.encode_name
        if name not in given:
            continue
        rule = author_rule(field)
        default = (defaults or {}).get(name, field.default)
        reason = "only the operator can set this" if rule is None else rule.refusal(given[name], default)
        if reason is not None:
            yield name, reason
