"""Access: who may use a route, declared with the route itself."""

from __future__ import annotations

from typing import Any

import msgspec

OPT = "access"
"""The name under which a Litestar handler carries its `Access`."""
JSON = ("application/json",)
MERGE_PATCH = ("application/merge-patch+json", "application/json")


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The rule of a route: the scope that it needs, and which callers it is for."""

    scope: str | None
    """None for the few public routes."""
    in_project: bool = False
    """Whether the request is about one project, which the credential or the header Vai-Project names."""
    body: tuple[str, ...] = ()
    """The media types of the body; none for a route without a body."""


def public() -> dict[str, Any]:
    """Options of a route that needs no credential."""
    return {OPT: Access(scope=None)}


def needs(scope: str, *, in_project: bool = False) -> dict[str, Any]:
    """Options of a route without a body that needs a scope."""
    return {OPT: Access(scope=scope, in_project=in_project)}


def takes_json(scope: str, *, in_project: bool = False) -> dict[str, Any]:
    """Options of a route with a JSON body that needs a scope."""
    return {OPT: Access(scope=scope, in_project=in_project, body=JSON)}


def takes_patch(scope: str, *, in_project: bool = False) -> dict[str, Any]:
    """Options of a route with a JSON merge patch that needs a scope."""
    return {OPT: Access(scope=scope, in_project=in_project, body=MERGE_PATCH)}
