"""LiveBindings: all active bindings in memory, kept up to date with the database.

Choosing a binding costs no query. Changes are numbered in the order of their commits, so this process asks
only for those after the last number that it has seen: when another process announces one, after each new
connection of the listener, and several times a second in any case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence

import msgspec

from plughost.clock import Clock
from plughost.gateway.bindings.documents import binding_of
from plughost.gateway.bindings.rollout import bucket, serving
from plughost.gateway.problems import Problem
from plughost.vai.background import BackgroundTask
from plughost.vai.bindings.binding import Binding, Scope
from plughost.vai.database.database import Database, Steps
from plughost.vai.database.errors import DatabaseUnavailable
from plughost.vai.database.statements import Row, load_statements

_SQL = load_statements(__file__)
NEWEST_CHANGE, ALL_ACTIVE, CHANGED = (_SQL[name] for name in ("newest_change", "all_active", "changed"))

CHANNEL = "plughost_bindings"
"""The channel on which processes tell each other of changed bindings."""
LOOK_SECONDS = 0.4
"""Seconds between looks for changes that nobody announced; another process sees them within a second."""
MAX_SHOWN = 200
"""Characters of a caller's word in a message."""


class LiveBinding(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """An active binding in memory, with its share of the traffic."""

    binding: Binding
    """The identical object until the binding itself changes: whoever prepared it need not do so again."""
    revision: int
    traffic_percent: int
    activated: int
    """Orders the versions of an export by the change that made them active."""
    content: tuple[str, str, str]
    """Configuration, secrets and policy as JSON, to notice changes."""


Versions = tuple[LiveBinding, ...]
"""The active versions of an export in one scope, in the order of their activation."""
_ByExport = dict[str, dict[str, Versions]]
"""Versions by export, then by package."""


class AvailableExport(msgspec.Struct, frozen=True):
    """An export that a project can use, and the versions that serve it."""

    package_id: str
    export_id: str
    level: str
    """`project` or `org`: whose binding it is."""
    versions: Versions


class Choice(msgspec.Struct, frozen=True):
    """The binding that serves a call, and why."""

    chosen: LiveBinding
    level: str
    """`project` or `org`: whose binding it is."""
    is_shared: bool
    """Whether two versions share the traffic."""

    @property
    def binding(self) -> Binding:
        return self.chosen.binding


class LiveBindings:
    """The active bindings of all tenants; implements `plughost.vai.bindings.bindings.Bindings`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._live: dict[str, LiveBinding] = {}
        self._tenants: dict[tuple[str, str], _ByExport] = {}
        """By organisation and project; the empty project is the organisation itself."""
        self._change = 0
        """The last change that is known here."""
        self._reading = asyncio.Lock()
        self._is_failing = False
        self._task = BackgroundTask(
            self._look, clock, failure="changed bindings are noticed late", retry_seconds=LOOK_SECONDS
        )

    async def start(self) -> None:
        """Loads all active bindings, and keeps them up to date from now on."""
        await self.refresh()
        self._database.listen(CHANNEL, self._task.wake)
        self._task.wake_in(LOOK_SECONDS)

    async def close(self) -> None:
        """Stops looking for changes. May be called repeatedly."""
        await self._task.close()

    def announce(self) -> None:
        """Tells all processes, this one included, that bindings were changed. Call it after the commit."""
        self._database.announce(CHANNEL)

    async def refresh(self) -> None:
        """Reads what was changed since the last look. Afterwards this process has every change that was
        committed before the call."""
        async with self._reading:  # an earlier answer must not undo a later one
            await self._refresh()

    async def _refresh(self) -> None:
        newest, rows, is_all = await self._database.read(_changes, self._change)
        if is_all:
            for binding_id in self._live.keys() - {row["binding_id"] for row in rows}:
                self._remove(binding_id)
        for row in rows:
            if row["status"] == "active":
                self._keep(row)
            else:
                self._remove(row["changed_id"])
        self._change = newest

    # Bindings

    def by_id(self, binding_id: str) -> Binding | None:
        """The active binding of that id."""
        live = self._live.get(binding_id)
        return None if live is None else live.binding

    def of(self, scope: Scope, rollout_key: str = "") -> Sequence[Binding]:
        """The bindings that serve a project; of two versions, the one that serves the rollout key."""
        return [_serving(each.versions, rollout_key).binding for each in self.available(scope)]

    def serves(self, scope: Scope) -> bool:
        """Always: a gateway serves all tenants of its database."""
        return True

    def ids(self) -> Collection[str] | None:
        """None: a gateway delivers events to all bindings of its database."""
        return None

    def scopes(self) -> Collection[Scope] | None:
        """None: every tenant."""
        return None

    # Choosing

    def available(self, scope: Scope) -> Iterator[AvailableExport]:
        """The exports that a project can use. Its own binding of a package's export wins over its
        organisation's."""
        own = {} if scope.project_id is None else self._tenants.get((scope.org_id, scope.project_id), {})
        for export_id, packages in own.items():
            for package_id, versions in packages.items():
                yield AvailableExport(package_id, export_id, "project", versions)
        for export_id, packages in self._tenants.get((scope.org_id, ""), {}).items():
            for package_id, versions in packages.items():
                if package_id not in own.get(export_id, ()):
                    yield AvailableExport(package_id, export_id, "org", versions)

    def choose(
        self, scope: Scope, export_id: str, rollout_key: str, *, package_id: str | None = None
    ) -> Choice:
        """The binding that serves a call of an export in a project.

        `not_bound` when there is none; `ambiguous` when several packages have an export of that name, and the
        call names none of them.
        """
        found: dict[str, tuple[str, Versions]] = {}
        for project_id, level in (("", "org"), (scope.project_id or "", "project")):
            if project_id or level == "org":
                packages = self._tenants.get((scope.org_id, project_id), {}).get(export_id, {})
                found |= {each: (level, versions) for each, versions in packages.items()}
        if package_id is not None:
            found = {each: one for each, one in found.items() if each == package_id}
        if not found:
            of = "" if package_id is None else f" of {package_id[:MAX_SHOWN]}"
            raise Problem("not_bound", f"no export {export_id[:MAX_SHOWN]}{of} is bound here")
        if len(found) > 1:
            raise Problem("ambiguous", f"also give the package_id, one of: {', '.join(sorted(found))}")
        (level, versions) = next(iter(found.values()))
        return Choice(_serving(versions, rollout_key), level, len(versions) > 1)

    def versions_with(self, binding_id: str) -> Versions:
        """The active versions of the export that a binding binds, itself included; empty when it is not
        active."""
        live = self._live.get(binding_id)
        if live is None:
            return ()
        bound = live.binding
        return self._tenants[_tenant(bound)][bound.export_id][bound.package_id]

    # The copy in memory

    def _keep(self, row: Row) -> None:
        known = self._live.get(row["binding_id"])
        content = (row["config"], row["secrets"], row["policy"])
        is_same = known is not None and known.content == content
        binding = known.binding if known is not None and is_same else binding_of(row)
        live = LiveBinding(
            binding=binding,
            revision=row["revision"],
            traffic_percent=row["traffic_percent"],
            activated=row["activated"],
            content=content,
        )
        self._live[binding.binding_id] = live
        packages = self._tenants.setdefault(_tenant(binding), {}).setdefault(binding.export_id, {})
        others = [
            each
            for each in packages.get(binding.package_id, ())
            if each.binding.binding_id != binding.binding_id
        ]
        packages[binding.package_id] = tuple(sorted([*others, live], key=lambda each: each.activated))

    def _remove(self, binding_id: str) -> None:
        live = self._live.pop(binding_id, None)
        if live is None:
            return
        binding = live.binding
        tenant = self._tenants[_tenant(binding)]
        packages = tenant[binding.export_id]
        left = tuple(each for each in packages[binding.package_id] if each.binding.binding_id != binding_id)
        if left:
            packages[binding.package_id] = left
            return
        del packages[binding.package_id]
        if not packages:
            del tenant[binding.export_id]
        if not tenant:
            del self._tenants[_tenant(binding)]

    async def _look(self) -> float:
        try:
            await self.refresh()
        except DatabaseUnavailable as error:  # reported once, not at each look
            if not self._is_failing:
                self._task.report(error)
            self._is_failing = True
        else:
            self._is_failing = False
        return LOOK_SECONDS


def _changes(after: int) -> Steps[tuple[int, Sequence[Row], bool]]:
    """The last change, the bindings that were changed after a number, and whether these are all active ones.

    All of them at the first look, and when the database has fewer changes than this process has seen: it was
    restored from a copy.
    """
    found = (yield NEWEST_CHANGE()).first()
    newest: int = 0 if found is None else found["change"]
    if newest == after:
        return newest, (), False
    if after == 0 or newest < after:
        return newest, (yield ALL_ACTIVE()).rows, True
    return newest, (yield CHANGED(after=after)).rows, False


def _tenant(binding: Binding) -> tuple[str, str]:
    return binding.scope.org_id, binding.scope.project_id or ""


def _serving(versions: Versions, rollout_key: str) -> LiveBinding:
    if len(versions) == 1:  # without a hash
        return versions[0]
    bound = versions[0].binding
    return serving(versions, bucket(bound.scope, bound.package_id, bound.export_id, rollout_key))
