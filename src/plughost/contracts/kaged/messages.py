"""The messages of kaged: params and results, with the field names of the wire. Unknown members are
ignored."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

# Host → plugin


class InitializeParams(msgspec.Struct):
    """The params of `initialize`."""

    daemon_version: str
    api_version: int
    plugin_name: str
    storage_available: bool
    projects: list[str]
    config: Any = msgspec.UNSET


class InitializeResult(msgspec.Struct):
    """The result of `initialize`."""

    name: str
    api_version: int
    methods: list[str]
    version: str = ""
    notifications: list[str] = []
    capabilities_used: list[str] = []


class KagedContext(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `_context` member in the params of a call: who calls, on whose behalf and for which project."""

    operator_id: str = ""
    project_id: str = ""
    agent_path: str = ""
    session_id: str = ""
    request_id: str = ""
    project_root: str = ""


# Plugin → host


class KeyParams(msgspec.Struct):
    """The params of `kaged.storage.get` and `kaged.storage.delete`."""

    key: str


class SetParams(msgspec.Struct):
    """The params of `kaged.storage.set`."""

    key: str
    value: msgspec.Raw


class ListParams(msgspec.Struct):
    """The params of `kaged.storage.list`."""

    prefix: str = ""
    after: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100
