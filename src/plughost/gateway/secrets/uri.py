"""SecretUri: the name of a secret, `secret://org/name` or `secret://org/project/name`."""

from __future__ import annotations

import re

import msgspec

from plughost.vai.bindings.binding import Scope

MAX_NAME = 128
"""Characters of each part of a URI."""
NAME_RULE = f"1 to {MAX_NAME} letters, digits, '_', '.' and '-', and not '.' or '..'"
_PART = rf"(?!\.\.?(?:/|\Z))[A-Za-z0-9_.-]{{1,{MAX_NAME}}}"
_NAME = re.compile(_PART)
_URI = re.compile(rf"secret://({_PART})(?:/({_PART}))?/({_PART})")


class SecretUri(msgspec.Struct, frozen=True):
    """A secret of an organisation, or of one project."""

    scope: Scope
    name: str

    def __str__(self) -> str:
        scope = self.scope
        owner = scope.org_id if scope.project_id is None else f"{scope.org_id}/{scope.project_id}"
        return f"secret://{owner}/{self.name}"

    def is_visible_to(self, scope: Scope) -> bool:
        """Whether a binding of that tenant may map the secret: its own one, or one of its organisation.

        A binding of a whole organisation maps no secret of one project: all other projects could use it.
        """
        own = self.scope
        return own.org_id == scope.org_id and own.project_id in (None, scope.project_id)


def parse_uri(text: str) -> SecretUri | None:
    """The secret that a URI names; None for a text that is not such a URI."""
    match = _URI.fullmatch(text)
    return None if match is None else SecretUri(Scope(match[1], match[2]), match[3])


def is_secret_name(text: str) -> bool:
    """Whether a secret may have that name."""
    return _NAME.fullmatch(text) is not None
