"""The services that ainb brings: files below ainb's folders, and actions of other plugins."""

from __future__ import annotations

from plughost.contracts.ainb.default_roots import default_roots
from plughost.services.base import Service, ServiceContext

NAMESPACES = "cli_namespaces"
"""The kind of names that a plugin provides as actions."""


def file_service(context: ServiceContext) -> Service:
    """The files service over ainb's folders, which nobody has opened by name."""
    from plughost.services.files.service import FileService

    return FileService(default_roots(), opened=False)


def action_service(context: ServiceContext) -> Service:
    """The actions service: an action is a namespace that another plugin provides."""
    from plughost.services.actions import Actions

    return Actions(context.plugins, kind=NAMESPACES, method="host/action/invoke")
