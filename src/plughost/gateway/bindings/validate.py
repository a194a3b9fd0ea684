"""Validation of bindings: everything that is wrong with one, at once, each with a JSON pointer to the value.

Used before a binding is stored, and to check a draft or a stored binding on request.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from plughost._util.json_schema.validation import problems_in_worker
from plughost._util.text import truncate
from plughost.contracts.vai.manifest import Export
from plughost.errors import InvalidSpec
from plughost.gateway.bindings.documents import BindingContent, BindingDocument, BindingDraft
from plughost.gateway.bindings.shares import MAX_ACTIVE, POINTER, share_problems
from plughost.gateway.problems import FieldError
from plughost.vai.bindings.binding import BindingPolicy
from plughost.vai.bindings.package import Package, PackageSource
from plughost.vai.bindings.permissions import (
    asked_permissions,
    invalid_values,
    untrusted_class,
    widening_values,
)
from plughost.vai.bindings.problems import (
    BindingProblem,
    config_problems,
    pointer,
    unknown_slots,
    unmapped_slots,
)
from plughost.vai.bindings.schemas import CompiledSchema, Schemas
from plughost.vai.packages.errors import Damaged, PackageRefused

SLOW_CHECKS = 2
"""Configurations that are checked in worker processes at a time."""
_PART = r"(?!\.\.?(?:/|$))[A-Za-z0-9_.-]+"
_URI = re.compile(rf"secret://{_PART}/{_PART}(?:/{_PART})?")
"""`secret://org/name` or `secret://org/project/name`."""


class Releases(Protocol):
    """The packages of one organisation, as bindings see them."""

    def find(self, package_id: str, version: str) -> Package:
        """The package; InvalidSpec or PackageRefused when it cannot be used. Blocking."""

    async def is_yanked(self, package_id: str, version: str) -> bool:
        """Whether the version takes no new binding."""


MissingSecrets = Callable[[Collection[str]], Awaitable[set[str]]]
"""Gives those of some names of secrets that the tenant does not have, or may not use."""


class Validator:
    """Validates bindings. One instance serves all tenants: it keeps compiled schemas."""

    def __init__(self, host_policy: BindingPolicy, schemas: Schemas | None = None) -> None:
        self._host_policy = host_policy
        self._schemas = schemas or Schemas()
        self._slow = asyncio.Semaphore(SLOW_CHECKS)

    async def draft_errors(
        self,
        draft: BindingDraft,
        releases: Releases,
        missing: MissingSecrets,
        others: Sequence[BindingDocument],
    ) -> list[FieldError]:
        """Everything that is wrong with a binding that is to be created. `others` are the bindings of the
        same export in the same scope."""
        active = [each.traffic_percent for each in others if each.is_active]
        content = draft.content
        errors = await self._errors(draft, releases, missing)
        errors += [
            FieldError("/package_version", f"the version is bound already: {each.binding_id}")
            for each in others
            if each.package_version == draft.package_version
        ]
        errors += _too_many(content, active) or share_problems(
            active=content.status == "active", asked=content.traffic_percent, others=active, is_new=True
        )
        if await releases.is_yanked(draft.package_id, draft.package_version):
            errors.append(FieldError("/package_version", "the version is yanked: it takes no new binding"))
        return errors

    async def binding_errors(
        self,
        binding: BindingDocument,
        releases: Releases,
        missing: MissingSecrets,
        others: Sequence[BindingDocument],
    ) -> list[FieldError]:
        """Everything that is wrong with a stored binding, as it is now. `others` as in `draft_errors`,
        without this one."""
        errors = await self._errors(binding.draft, releases, missing)
        active = [each.traffic_percent for each in (binding, *others) if each.is_active]
        if binding.is_active and sum(active) != 100:
            errors.append(FieldError(POINTER, f"the active versions sum to {sum(active)} percent, not 100"))
        if await releases.is_yanked(binding.package_id, binding.package_version):
            errors.append(FieldError("/package_version", "the version is yanked"))
        return errors

    async def change_errors(
        self,
        binding: BindingDocument,
        after: BindingContent,
        releases: Releases,
        missing: MissingSecrets,
    ) -> list[FieldError]:
        """Everything that is wrong with the content of a binding after a change; see `patched`.

        Nothing is checked for a change of the share alone, nor for one that disables: whatever is wrong with
        a binding, it can be taken out of service. A yanked version can be changed: that makes no new binding.
        """
        if not needs_validation(binding.content, after):
            return []
        draft = msgspec.structs.replace(binding.draft, content=after)
        return await self._errors(draft, releases, missing)

    async def _errors(
        self, draft: BindingDraft, releases: Releases, missing: MissingSecrets
    ) -> list[FieldError]:
        content = draft.content
        problems = invalid_values(content.policy)
        found = await _find(releases, draft)
        if isinstance(found, Package):
            export = found.manifest.export(draft.export_id)
            if export is None:
                has = ", ".join(each.id for each in found.manifest.exports)
                problems.append(_problem("/export_id", f"the package has no such export; it has: {has}"))
            else:
                problems += await self._export_problems(content, found, export)
        else:
            problems.append(found)
        errors = [FieldError(each.pointer, each.message) for each in problems]
        return errors + await _secret_errors(content.secrets, missing)

    async def _export_problems(
        self, content: BindingContent, package: Package, export: Export
    ) -> list[BindingProblem]:
        asked = asked_permissions(export)
        policies = [("the binding", content.policy), ("the host", self._host_policy)]
        return [
            *await self._config_problems(content.config, package, export),
            *unmapped_slots(export, content.secrets),
            *unknown_slots(export, content.secrets),
            *widening_values(asked, content.policy),
            *untrusted_class(asked, policies, trusted_inline=package.trusted_inline),
        ]

    async def _config_problems(
        self, config: Mapping[str, Any], package: Package, export: Export
    ) -> list[BindingProblem]:
        try:
            schema = self._schemas.find(package.folder, export.config_schema)
        except InvalidSpec as error:
            return [_problem("/config", error.message)]
        problems = config_problems(config, schema)
        if problems is not None or schema is None:
            return problems or []
        async with self._slow:
            texts = await asyncio.to_thread(_slow_problems, schema, config)
        return [_problem("/config", text) for text in texts]


def needs_validation(before: BindingContent, after: BindingContent) -> bool:
    """Whether a change makes a binding serve with something that was not checked for it yet."""
    if after.status != "active":
        return False
    unchecked = msgspec.structs.replace(before, traffic_percent=after.traffic_percent)
    return before.status != "active" or msgspec.json.encode(unchecked, order="deterministic") != (
        msgspec.json.encode(after, order="deterministic")
    )


async def _find(releases: PackageSource, draft: BindingDraft) -> Package | BindingProblem:
    """The package with its files checked, or why it cannot be used."""

    def find() -> Package:
        package = releases.find(draft.package_id, draft.package_version)
        if package.check is not None:
            package.check()
        return package

    try:
        return await asyncio.to_thread(find)
    except (InvalidSpec, PackageRefused, Damaged) as error:
        return _problem("/package_version", error.message)


def _slow_problems(schema: CompiledSchema, config: Mapping[str, Any]) -> list[str]:
    """The problems of a configuration whose check takes long, found in a worker process. Blocking."""
    try:
        return problems_in_worker(msgspec.json.decode(schema.text), dict(config))
    except ValueError as error:
        return [f"the schema {schema.path} cannot be used: {error}"]


async def _secret_errors(secrets: Mapping[str, str], missing: MissingSecrets) -> list[FieldError]:
    named = {slot: uri for slot, uri in secrets.items() if _URI.fullmatch(uri)}
    unknown = await missing({*named.values()}) if named else set()
    wrong = {
        slot: f"{truncate(uri)} does not name a secret; write secret://org/name or secret://org/project/name"
        for slot, uri in secrets.items()
        if slot not in named
    }
    wrong |= {slot: f"there is no secret {uri}" for slot, uri in named.items() if uri in unknown}
    return [FieldError(pointer("secrets", slot), wrong[slot]) for slot in secrets if slot in wrong]


def _too_many(content: BindingContent, active: Iterable[int]) -> list[FieldError]:
    if content.status != "active" or len([*active]) < MAX_ACTIVE:
        return []
    return [FieldError("/status", f"{MAX_ACTIVE} versions of this export are active already; disable one")]


def _problem(place: str, message: str) -> BindingProblem:
    return BindingProblem(place, message, message)
