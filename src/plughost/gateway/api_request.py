"""ApiRequest: one request on its way through the steps to its handler."""

from __future__ import annotations

import hashlib
from typing import Any, TypeAlias

from litestar import Request
from litestar.di import NamedDependency

from plughost.gateway.access import Access
from plughost.gateway.audit import AuditEntry
from plughost.gateway.auth.principal import Principal
from plughost.gateway.changes import ChangeRequest
from plughost.gateway.problems import FieldError, Problem
from plughost.gateway.services import GatewayServices
from plughost.vai.bindings.binding import Scope

HttpRequest: TypeAlias = Request[Any, Any, Any]
STATE = "plughost_request"
"""The name of the request in the ASGI scope."""
MAX_KEY = 255
"""Characters of an Idempotency-Key."""
DEFAULT_LIMIT = 50
MAX_LIMIT = 200


class ApiRequest:
    """A request: its headers and route, and what the steps have found out about it."""

    def __init__(self, scope: Any, access: Access, services: GatewayServices, template: str) -> None:
        self.services = services
        self.access = access
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.template = template
        """The path with the names of its parameters; one for all records of a kind."""
        client = scope.get("client")
        self.address: str = client[0] if client else ""
        self.request_id: str = scope.get("plughost_request_id", "")
        self._headers: list[tuple[bytes, bytes]] = scope["headers"]
        self._principal: Principal | None = None
        self._tenant: Scope | None = None

    def header(self, name: str) -> str:
        """The value of a header; empty when there is none. `invalid_request` when it is sent twice."""
        wanted = name.encode()
        found = [value for key, value in self._headers if key == wanted]
        if len(found) > 1:
            raise Problem("invalid_request", f"there is more than one header {name}")
        return found[0].decode("latin-1") if found else ""

    @property
    def has_principal(self) -> bool:
        """Whether the caller is known: public routes have none."""
        return self._principal is not None

    @property
    def principal(self) -> Principal:
        """The caller."""
        assert self._principal is not None, "the route is public"
        return self._principal

    @principal.setter
    def principal(self, principal: Principal) -> None:
        self._principal = principal

    @property
    def tenant(self) -> Scope:
        """The project that the request is about."""
        assert self._tenant is not None, "the route is not about a project"
        return self._tenant

    @tenant.setter
    def tenant(self, tenant: Scope) -> None:
        self._tenant = tenant

    @property
    def route(self) -> str:
        """Method and path template."""
        return f"{self.method} {self.template}"

    def change(self, body: bytes = b"") -> ChangeRequest:
        """The request as `Changes` needs it; `body` distinguishes requests with the same key."""
        key = self.header("idempotency-key")
        if len(key) > MAX_KEY:
            raise Problem("invalid_request", f"an Idempotency-Key has at most {MAX_KEY} characters")
        project = self._tenant.project_id if self._tenant is not None else None
        parts = (self.path.encode(), (project or "").encode(), body)
        digest = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()
        return ChangeRequest(
            principal=self.principal,
            route=self.route,
            digest=digest,
            key=key,
            address=self.address,
            request_id=self.request_id,
        )

    def expected_revision(self) -> int | None:
        """The revision in the If-Match header; None when there is none."""
        tag = self.header("if-match")
        if not tag or tag == "*":
            return None
        number = tag.removeprefix("W/").strip('"')
        if not number.isdecimal() or len(number) > 12:
            raise Problem("stale", "the If-Match header has no ETag of this record")
        return int(number)

    def limit(self, limit: int | None) -> int:
        """The size of a page."""
        if limit is None:
            return DEFAULT_LIMIT
        if not 1 <= limit <= MAX_LIMIT:
            error = FieldError("/limit", f"a page has 1 to {MAX_LIMIT} items")
            raise Problem("invalid_request", f"limit is {limit}", errors=[error])
        return limit

    def denial(self, problem: Problem) -> AuditEntry:
        """The line in the audit log about a refused request."""
        principal, tenant = self._principal, self._tenant
        return AuditEntry(
            org_id=principal.org_id if principal else "",
            project_id=(tenant.project_id if tenant else principal.project_id if principal else "") or "",
            actor=f"{principal.kind}:{principal.id}" if principal else "",
            action=self.route,
            target=self.path,
            outcome=problem.code,
            address=self.address,
            request_id=self.request_id,
        )


Api: TypeAlias = NamedDependency[ApiRequest]
"""The request, as a handler declares that it wants it."""
