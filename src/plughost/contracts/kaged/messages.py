"""kaged's params and results, by the names they have on the wire. Unknown members are ignored."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

# Host → plugin


class InitializeParams(msgspec.Struct):
    daemon_version: str
    api_version: int
    plugin_name: str
    storage_available: bool
    projects: list[str]
    config: Any = msgspec.UNSET


class InitializeResult(msgspec.Struct):
    name: str
    api_version: int
    methods: list[str]
    version: str = ""
    notifications: list[str] = []
    capabilities_used: list[str] = []


class KagedContext(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who calls on whose behalf: the `_context` of a call's params."""

    operator_id: str = ""
    project_id: str = ""
    agent_path: str = ""
    session_id: str = ""
    request_id: str = ""
    project_root: str = ""


# Plugin → host


class KeyParams(msgspec.Struct):
    key: str


class SetParams(msgspec.Struct):
    key: str
    value: msgspec.Raw


class ListParams(msgspec.Struct):
    prefix: str = ""
    after: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100
