"""ServiceRegistry: the services of a host by name. A program's own come first, then a contract's, then the
built-in ones."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from plughost.services.base import LogService, Service, ServiceContext, ServiceFactory, as_service


class ServiceRegistry:
    """The services of one host, each made when it is first used."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._provided: dict[str, Any] = {}
        self._services: dict[tuple[str, str], Service | None] = {}
        """By contract and name; a service that is not a contract's own has no contract."""
        self._replaced: list[tuple[str, Service]] = []
        self._adapted: list[tuple[Any, Service]] = []
        """What the program has provided, and the service made of it: one for each object, however often it is
        provided."""

    def provide(self, name: str, provided: Any) -> None:
        """Use the program's own service; None removes the service. One that was used before stays open until
        the host ends."""
        before = self._services.get(("", name))
        if before is not None:
            self._replaced.append((name, before))
        self._provided[name] = provided
        self._services["", name] = None if provided is None else self._adapt(provided)

    def _adapt(self, provided: Any) -> Service:
        for known, service in self._adapted:
            if known is provided:
                return service
        self._adapted.append((provided, as_service(provided)))
        return self._adapted[-1][1]

    def is_provided(self, name: str) -> bool:
        """Whether the program has a service of its own, or none at all, by that name."""
        return name in self._provided

    def provided(self, name: str) -> Any:
        """The service as the program gave it, or else the built-in one; None if there is neither."""
        return self._provided[name] if name in self._provided else self.find(name)

    def find(
        self, name: str, contract: str = "", own: Mapping[str, ServiceFactory] | None = None
    ) -> Service | None:
        """The service of that name for plugins of a contract, whose `own` services are made by these
        factories; None if there is none."""
        if name in self._provided or own is None or name not in own:
            return self._built_in(name)
        if (contract, name) not in self._services:
            self._services[contract, name] = own[name](self._context)
        return self._services[contract, name]

    def _built_in(self, name: str) -> Service | None:
        if ("", name) not in self._services:
            self._services["", name] = create_builtin(name, self._context)
        return self._services["", name]

    @property
    def logs(self) -> LogService:
        """The service called `logs`; one that takes nothing, if the program's own is not a LogService."""
        logs = self._built_in("logs")
        return logs if isinstance(logs, LogService) else _NO_LOGS

    async def close(self) -> None:
        """Close each service once, even if another fails to close; a replacement before the one it
        replaced."""
        closed: list[Service] = []
        services = [(name, each) for (_, name), each in self._services.items() if each is not None]
        for name, service in [*services, *reversed(self._replaced)]:
            if any(service is each for each in closed):
                continue
            closed.append(service)
            try:
                await service.close()
            except Exception as error:
                context = {"message": f"the {name} service failed to close", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)


_NO_LOGS = LogService()


def create_builtin(name: str, context: ServiceContext) -> Service | None:
    """Create the built-in service of that name; None when there is none."""
    if name == "logs":
        from plughost.services.logs import Logs

        return Logs(context.events, context.clock)
    if name == "snapshots":
        from plughost.services.snapshots import Snapshots

        return Snapshots()
    if name == "network":
        from plughost.services.network.service import NetworkService

        return NetworkService()
    if name == "storage":
        from plughost.services.storage.service import Storage, default_folder

        return Storage(default_folder())
    return None
