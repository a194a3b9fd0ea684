"""Principal: who sends a request, whichever credential says so."""

from __future__ import annotations

from typing import Literal

import msgspec

from plughost.gateway.auth.scopes import allows
from plughost.gateway.problems import Problem
from plughost.vai.bindings.binding import Scope


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """A caller with a valid credential: an API key, a JWT of an issuer, or a delegation token."""

    kind: Literal["key", "jwt", "delegation"]
    id: str
    """The same for all requests with one credential: the id of the key, the subject, or the invocation."""
    name: str
    """For people, in the audit log."""
    org_id: str
    project_id: str | None = None
    """The only project that the credential opens; None for all projects of the organisation."""
    scopes: frozenset[str]
    is_operator: bool = False
    """Whether it may make organisations: the first key of a gateway."""

    def check(self, scope: str) -> None:
        """Raises `forbidden` when the credential lacks a scope."""
        if not allows(self.scopes, scope):
            raise Problem("forbidden", f"this needs the scope {scope}")

    def tenant(self, named_project: str | None) -> Scope:
        """The project that a request is about. A credential of one project opens no other."""
        if self.project_id is not None:
            if named_project not in (None, self.project_id):
                raise Problem("not_found", f"there is no project {str(named_project)[:200]}")
            return Scope(self.org_id, self.project_id)
        if named_project is None:
            raise Problem("project_required", "the key belongs to a whole organisation")
        return Scope(self.org_id, named_project)
