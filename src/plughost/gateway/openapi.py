"""The OpenAPI document of the gateway: Litestar's, with our verbs, problems and scopes."""

from __future__ import annotations

from typing import Any

from litestar import Litestar

from plughost.gateway.access import OPT, Access
from plughost.gateway.entrance import public_path
from plughost.gateway.problems import CODES, MEDIA_TYPE, Problem

SECURITY = "bearer"
COMMON = ("invalid_request", "method_not_allowed", "too_many_requests", "internal_error", "unavailable")
"""Problems of every route, besides those of its access."""


def openapi_document(app: Litestar) -> dict[str, Any]:
    """The document, as JSON."""
    document: dict[str, Any] = app.openapi_schema.to_schema()
    accesses = _accesses(app)
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas["Problem"] = _problem_schema()
    document["components"]["securitySchemes"] = {SECURITY: {"type": "http", "scheme": "bearer"}}
    paths = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if isinstance(operation, dict) and (access := accesses.get((method.upper(), path))):
                _complete(operation, method, access)
        paths[public_path(path)] = operations
    document["paths"] = paths
    document["servers"] = [{"url": "/"}]
    return document


def scope_table(app: Litestar) -> list[tuple[str, str, str | None]]:
    """Every route with the scope that it needs: method, path, scope (None for public routes)."""
    found = [(method, public_path(path), access.scope) for (method, path), access in _accesses(app).items()]
    return sorted(found, key=lambda row: (row[1], row[0]))


def _accesses(app: Litestar) -> dict[tuple[str, str], Access]:
    found = {}
    for route in app.routes:
        for handler in getattr(route, "route_handlers", ()):
            if (access := handler.opt.get(OPT)) is not None:
                for method in handler.http_methods - {"OPTIONS"}:
                    found[str(method), route.path_format] = access
    return found


def _complete(operation: dict[str, Any], method: str, access: Access) -> None:
    """Adds what Litestar does not know of: who may, and every problem."""
    codes = list(COMMON)
    if access.scope is not None:
        operation["security"] = [{SECURITY: []}]
        operation["x-scope"] = access.scope
        codes += ["unauthenticated", "forbidden", "not_found"]
    else:
        operation["security"] = []
    if access.body:
        codes += ["invalid_json", "body_too_large", "unsupported_media_type"]
    if method in {"post", "patch", "put", "delete"}:
        codes += ["conflict", "stale", "key_reused"]
        operation.setdefault("parameters", []).append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "schema": {"type": "string", "maxLength": 255},
                "description": "The same key and body give the same answer for 24 hours.",
            }
        )
    if access.in_project:
        operation.setdefault("parameters", []).append(
            {
                "name": "Vai-Project",
                "in": "header",
                "required": False,
                "schema": {"type": "string"},
                "description": "The project, if the credential opens several.",
            }
        )
        codes.append("project_required")
    responses = operation.setdefault("responses", {})
    for status in sorted({CODES[code].status for code in codes}):
        its = [code for code in dict.fromkeys(codes) if CODES[code].status == status]
        responses[str(status)] = {
            "description": "; ".join(f"`{code}`: {CODES[code].title}" for code in its),
            "content": {
                MEDIA_TYPE: {
                    "schema": {"$ref": "#/components/schemas/Problem"},
                    "example": _example(its[0]),
                }
            },
        }


def _problem_schema() -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "type": "object",
        "title": "Problem",
        "required": ["type", "title", "status", "detail", "code"],
        "properties": {
            "type": text,
            "title": text,
            "status": {"type": "integer"},
            "detail": text,
            "code": {"type": "string", "enum": sorted(CODES)},
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["pointer", "message"],
                    "properties": {"pointer": text, "message": text},
                },
            },
            "hint": text,
        },
    }


def _example(code: str) -> dict[str, Any]:
    document = Problem(code, CODES[code].title).document
    return {
        "type": document.type,
        "title": document.title,
        "status": document.status,
        "detail": document.detail,
        "code": code,
        "errors": [],
        "hint": document.hint,
    }
