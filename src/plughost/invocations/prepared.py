"""A binding made ready: everything about it that can be wrong before it is used, looked at once."""

from __future__ import annotations

import asyncio

import msgspec

from plughost.base.errors import InvalidSpec
from plughost.base.schema_cost import LARGEST_AT_ONCE
from plughost.contracts.vai.manifest import Export
from plughost.contracts.vai.messages import OPS
from plughost.invocations.binding import Binding, Policy, Scope
from plughost.invocations.gate import Gate
from plughost.invocations.package import Package, PackageSource
from plughost.invocations.permissions import USUAL_CONCURRENCY, Asked, Granted, Policies, grant, senseless
from plughost.invocations.pool import Key
from plughost.invocations.record import Bound
from plughost.invocations.retry import may_retry
from plughost.invocations.schemas import Schema, Schemas


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A binding with all that its invocations have in common."""

    binding: Binding
    package: Package
    export: Export
    granted: Granted
    key: Key
    gate: Gate
    """What runs in the background goes through one more, behind it."""
    retryable: bool
    """Another try does no harm."""
    bound: msgspec.Raw
    """A `Bound`, written once: it stands in every record."""
    input: Schema | None
    output: Schema | None
    """What a tool's schemas want."""
    config: Schema | None
    """What its configuration is still to be checked against, since that may take long."""
    at_once: int
    """Bytes of an event or answer that is decoded, and searched for secrets, on the event loop."""
    answered_at_once: int
    """Bytes of an answer that is checked there as well; a larger one is for a worker process."""
    op: str
    """What is asked of an export of its kind."""
    alone: bool
    """A process for each invocation."""
    exclusive: bool
    """A process for each that runs at a time: what one writes no other may see."""
    seconds: float
    """That an invocation may take at most."""
    tenant: Scope | None
    """Whose all of them are; None where each names its project."""
    furnished: bool
    """Its invocations are given something of their own: a scratch folder, secrets or a token."""

    def key_for(self, scope: Scope) -> Key:
        """Of the processes that may serve a tenant: an organisation's binding has some for each project."""
        return self.key if self.key.tenant in (None, scope) else self.key._replace(tenant=scope)


class Preparer:
    """Prepares each binding once, and again when it has changed."""

    def __init__(
        self, packages: PackageSource, schemas: Schemas, policy: Policy, *, reuse: str, workers: Gate
    ) -> None:
        self._packages = packages
        self._schemas = schemas
        self._policy = policy
        self._reuse = reuse
        self._workers = workers
        self._known: dict[str, Prepared] = {}

    def known(self, binding: Binding) -> Prepared | None:
        """The binding as it was prepared before; None when it was not, or has changed."""
        known = self._known.get(binding.binding_id)
        return known if known is not None and known.binding is binding else None

    async def prepare(self, binding: Binding) -> Prepared:
        """InvalidSpec says all that is wrong with it; Damaged that its package is not what was signed."""
        if (known := self.known(binding)) is not None:
            return known
        package = self._packages.find(binding.package_id, binding.package_version)
        if package.check is not None:
            await asyncio.to_thread(package.check)
        await self._compile(package, binding.export_id)
        return self.known(binding) or self._prepare(binding, package)

    async def _compile(self, package: Package, export_id: str) -> None:
        """Make the schemas of an export ready one by one: others have their turn in between."""
        if (export := package.manifest.export(export_id)) is None:
            return
        tool = export.tool
        more = () if tool is None else (tool.output_schema, tool.input_schema)
        for path in (export.config_schema, *more):
            if self._schemas.find(package.folder, path) is not None:
                await asyncio.sleep(0)

    def _prepare(self, binding: Binding, package: Package) -> Prepared:
        known = self._known.get(binding.binding_id)
        export = package.manifest.export(binding.export_id)
        if export is None:
            has = ", ".join(each.id for each in package.manifest.exports)
            raise InvalidSpec(f"{binding.package_id} has no export {binding.export_id!r}; it has: {has}")
        policies = [(f"binding {binding.binding_id}", binding.policy), ("the host", self._policy)]
        config = self._check(binding, package, export, policies)
        granted = grant(_asked(export), policies, trusted_inline=package.trusted_inline)
        tenant = None if granted.execution_class == "inline" else binding.scope
        most, beyond = granted.max_concurrency, self._workers if granted.execution_class == "worker" else None
        same = known is not None and known.granted.max_concurrency == most and known.gate.beyond is beyond
        gate = known.gate if known is not None and same else Gate(most, beyond)
        tool = export.tool
        output = None if tool is None else self._schemas.find(package.folder, tool.output_schema)
        has_secrets = bool(export.permissions.secret_slots or granted.scopes)
        at_once = LARGEST_AT_ONCE // 2 if has_secrets else LARGEST_AT_ONCE
        prepared = Prepared(
            binding=binding,
            package=package,
            export=export,
            granted=granted,
            key=Key(package.digest, export.id, tenant, granted.digest),
            gate=gate,
            retryable=tool is not None and may_retry(tool.effect_class),
            bound=_written(binding, package, export, granted),
            input=None if tool is None else self._schemas.find(package.folder, tool.input_schema),
            output=output,
            config=config,
            at_once=at_once,
            answered_at_once=at_once if output is None else min(at_once, output.at_once),
            op=OPS[export.kind],
            alone=granted.execution_class == "isolated" and self._reuse == "invocation",
            exclusive=granted.filesystem == "scratch",
            seconds=granted.timeout_ms / 1000,
            tenant=None if binding.scope.project_id is None else binding.scope,
            furnished=has_secrets or granted.filesystem == "scratch",
        )
        self._known[binding.binding_id] = prepared
        return prepared

    def _check(self, binding: Binding, package: Package, export: Export, policies: Policies) -> Schema | None:
        """InvalidSpec says what is wrong. The schema of a configuration that takes a worker process."""
        schema = self._schemas.find(package.folder, export.config_schema)
        config = dict(binding.config)
        quick = schema is None or len(msgspec.json.encode(config)) <= schema.told_at_once
        problems = schema.problems(config) if schema is not None and quick else []
        wrong = [f"config: {problem.unhidden}" for problem in problems]
        slots = export.permissions.secret_slots
        wrong += [f"the secret slot {slot} is not mapped" for slot in slots if slot not in binding.secrets]
        wrong += senseless(policies)
        if wrong:
            raise InvalidSpec("; ".join(wrong), plugin=binding.package_id)
        return None if quick else schema


def _written(binding: Binding, package: Package, export: Export, granted: Granted) -> msgspec.Raw:
    bound = Bound(
        export_kind=export.kind,
        export_id=export.id,
        binding_id=binding.binding_id,
        package_id=binding.package_id,
        package_version=binding.package_version,
        package_digest=package.digest,
        granted=granted,
    )
    return msgspec.Raw(msgspec.json.encode(bound))


def _asked(export: Export) -> Asked:
    permissions = export.permissions
    return Asked(
        network=permissions.network,
        filesystem=permissions.filesystem,
        scopes=frozenset(permissions.gateway_api_scopes),
        execution_class=export.execution_class,
        timeout_ms=export.default_timeout_ms,
        max_concurrency=export.max_concurrency or USUAL_CONCURRENCY,
    )
