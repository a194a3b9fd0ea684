"""The ASGI application of the gateway: Litestar with our steps, problems and OpenAPI document.

A request comes through `Entrance` (its id, its Host and Origin, colon verbs), is routed by Litestar, walks
through `STEPS`, and reaches its handler. Whatever is raised on the way becomes a problem document.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from typing import Any

import msgspec
from litestar import Litestar, Request, Response
from litestar.di import Provide
from litestar.exceptions import (
    HTTPException,
    MethodNotAllowedException,
    NotFoundException,
    SerializationException,
    ValidationException,
)
from litestar.middleware import DefineMiddleware
from litestar.openapi import OpenAPIConfig
from litestar.types import ASGIApp, ControllerRouterHandler, Receive, Scope, Send

from plughost.errors import InvalidSpec, PluginError
from plughost.gateway.access import OPT, Access
from plughost.gateway.api_request import STATE, ApiRequest
from plughost.gateway.entrance import Entrance, public_path
from plughost.gateway.problems import MEDIA_TYPE, FieldError, Problem
from plughost.gateway.services import GatewayServices
from plughost.gateway.steps import STEPS
from plughost.vai.database.errors import DatabaseUnavailable

_log = logging.getLogger("plughost.gateway")
AUDITED = frozenset({"unauthenticated", "forbidden", "not_found"})
"""Problems of requests with a credential, or of an attempt at one, that the audit log has."""
TITLE = "plughost gateway"
_PLACE = re.compile(r" - at `\$?([^`]*)`$")


class Walk:
    """Litestar middleware that takes a routed request through the steps."""

    def __init__(self, app: ASGIApp, services: GatewayServices) -> None:
        self._app = app
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handler: Any = scope["route_handler"]
        access: Access | None = handler.opt.get(OPT)
        if access is None:  # no route answers without a decision
            raise Problem("internal_error", "the route does not say who may use it")
        request = ApiRequest(scope, access, self._services, public_path(scope["path_template"]))
        scope["state"][STATE] = request
        for step in STEPS:
            await step(request)
        await self._app(scope, receive, send)


def create_app(services: GatewayServices, handlers: Sequence[ControllerRouterHandler]) -> ASGIApp:
    """The application that serves these routes."""
    app = Litestar(
        route_handlers=[*handlers],
        middleware=[DefineMiddleware(Walk, services=services)],
        exception_handlers={Exception: _answer_error},
        dependencies={"api": Provide(_api, sync_to_thread=False)},
        openapi_config=OpenAPIConfig(
            title="plughost gateway", version="1", path="/_litestar", render_plugins=[]
        ),
        request_max_body_size=services.options.max_body,
        logging_config=None,
    )
    return Entrance(app, services.options)


def _api(scope: Scope) -> ApiRequest:
    request: ApiRequest = scope["state"][STATE]
    return request


def _answer_error(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    problem = to_problem(error)
    api: ApiRequest | None = request.scope.get("state", {}).get(STATE)
    if problem.status >= 500:
        _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    elif api is not None and problem.code in AUDITED:
        api.services.denials.add(api.denial(problem))
    return Response(
        msgspec.json.encode(problem.document),
        status_code=problem.status,
        media_type=MEDIA_TYPE,
        headers=problem.headers,
    )


def to_problem(error: BaseException) -> Problem:
    """The problem that an exception becomes. What is ours is not shown to callers."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, InvalidSpec):
        return Problem("invalid_request", error.message, hint=error.hint or None)
    if isinstance(error, DatabaseUnavailable):
        return Problem("unavailable", "the database does not work now", headers={"Retry-After": "5"})
    if isinstance(error, PluginError):
        return Problem("internal_error", "the gateway failed to handle the request")
    if isinstance(error, NotFoundException):
        return Problem("no_such_route", "there is no such path")
    if isinstance(error, MethodNotAllowedException):
        return Problem("method_not_allowed", "the path does not support this method")
    if isinstance(error, ValidationException):
        return Problem("invalid_request", "the request has invalid values", errors=_field_errors(error))
    if isinstance(error, SerializationException):
        return Problem("invalid_json", f"the body is not a JSON document: {error}")
    if isinstance(error, HTTPException):
        return _from_http(error)
    if isinstance(error, asyncio.CancelledError):
        return Problem("unavailable", "the request was cancelled")
    return Problem("internal_error", "the gateway failed to handle the request")


def _from_http(error: HTTPException) -> Problem:
    if error.status_code == 413:
        return Problem("body_too_large", "the body is larger than the route allows")
    cause = error.__cause__
    if isinstance(cause, SerializationException | msgspec.DecodeError) or error.status_code == 400:
        return Problem("invalid_json", f"the body is not a JSON document: {error.detail}")
    return Problem("internal_error", "the gateway failed to handle the request")


def _field_errors(error: ValidationException) -> list[FieldError]:
    extra = error.extra if isinstance(error.extra, list) else []
    found = []
    for each in extra:
        message, key = str(each.get("message", "")), str(each.get("key", ""))
        if place := _PLACE.search(message):
            message, key = message[: place.start()], place[1]
        found.append(FieldError(_pointer("" if key == "data" else key), message))
    return found


def _pointer(key: str) -> str:
    parts = [part for part in re.split(r"[.\[\]]+", key) if part]
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)
