"""PreparedBinding: a binding validated once, with everything that its invocations have in common."""

from __future__ import annotations

import asyncio

import msgspec

from plughost._util.json_schema.cost import LARGEST_AT_ONCE
from plughost.contracts.vai.manifest import Export
from plughost.contracts.vai.messages import OPS
from plughost.errors import InvalidSpec
from plughost.vai.bindings.binding import Binding, BindingPolicy, Scope
from plughost.vai.bindings.package import Package, PackageSource
from plughost.vai.bindings.permissions import (
    GrantedPermissions,
    Policies,
    asked_permissions,
    grant,
    policy_problems,
)
from plughost.vai.bindings.problems import config_problems, unmapped_slots
from plughost.vai.bindings.schemas import CompiledSchema, Schemas
from plughost.vai.invocations.concurrency import ConcurrencyLimit
from plughost.vai.invocations.fair_limit import FairLimit
from plughost.vai.invocations.pool import PoolKey
from plughost.vai.records.record import RecordedBinding
from plughost.vai.retry_policy import may_retry


class PreparedBinding(msgspec.Struct, frozen=True, kw_only=True):
    """A validated binding with its permissions, schemas, limits and pool key."""

    binding: Binding
    package: Package
    export: Export
    granted: GrantedPermissions
    key: PoolKey
    concurrency: ConcurrencyLimit
    """The concurrency limit of the binding; background work also needs a slot of the host's workers, which
    tenants share fairly: its parent."""
    retryable: bool
    """Whether its effects allow a retry."""
    recorded: msgspec.Raw
    """A `RecordedBinding`, encoded once, because every record contains it."""
    input: CompiledSchema | None
    output: CompiledSchema | None
    """The input and output schemas of a tool."""
    config: CompiledSchema | None
    """The schema that the configuration must still be checked against, where that takes long."""
    at_once: int
    """Bytes of an event or answer that is decoded, and redacted, on the event loop."""
    answered_at_once: int
    """Bytes of an answer that is also checked on the event loop; a larger one is checked in a worker
    process."""
    op: str
    """The operation (wire method) of the export's kind."""
    single_use: bool
    """Whether each invocation gets a new process."""
    exclusive: bool
    """Whether a process serves one invocation at a time, so that none sees what another one writes."""
    seconds: float
    """The longest timeout of an invocation."""
    tenant: Scope | None
    """The tenant of all invocations; None where each invocation names its project."""
    has_own_resources: bool
    """Whether invocations get something of their own: a scratch folder, secrets or a token."""

    def key_for(self, scope: Scope) -> PoolKey:
        """The pool key for a tenant: an organisation's binding has separate processes per project."""
        return self.key if self.key.tenant in (None, scope) else self.key._replace(tenant=scope)


class Preparer:
    """Validates each binding once, and again when it has changed; keeps the results."""

    def __init__(
        self,
        packages: PackageSource,
        schemas: Schemas,
        policy: BindingPolicy,
        *,
        reuse: str,
        workers: FairLimit,
    ) -> None:
        self._packages = packages
        self._schemas = schemas
        self._policy = policy
        self._reuse = reuse
        self._workers = workers
        self._cache: dict[str, PreparedBinding] = {}

    def cached(self, binding: Binding) -> PreparedBinding | None:
        """The prepared binding from the cache; None when it is not there, or the binding has changed."""
        cached = self._cache.get(binding.binding_id)
        return cached if cached is not None and cached.binding is binding else None

    async def prepare(self, binding: Binding) -> PreparedBinding:
        """Validates a binding. InvalidSpec lists everything that is wrong; Damaged when the package's files
        are not those that were signed."""
        if (cached := self.cached(binding)) is not None:
            return cached
        package = self._packages.find(binding.package_id, binding.package_version)
        if package.check is not None:
            await asyncio.to_thread(package.check)
        await self._compile(package, binding.export_id)
        return self.cached(binding) or self._prepare(binding, package)

    async def _compile(self, package: Package, export_id: str) -> None:
        """Make the schemas of an export ready one by one: others have their turn in between."""
        if (export := package.manifest.export(export_id)) is None:
            return
        tool = export.tool
        more = () if tool is None else (tool.output_schema, tool.input_schema)
        for path in (export.config_schema, *more):
            if self._schemas.find(package.folder, path) is not None:
                await asyncio.sleep(0)

    def _prepare(self, binding: Binding, package: Package) -> PreparedBinding:
        cached = self._cache.get(binding.binding_id)
        export = package.manifest.export(binding.export_id)
        if export is None:
            has = ", ".join(each.id for each in package.manifest.exports)
            raise InvalidSpec(f"{binding.package_id} has no export {binding.export_id!r}; it has: {has}")
        policies = [(f"binding {binding.binding_id}", binding.policy), ("the host", self._policy)]
        config = self._check(binding, package, export, policies)
        granted = grant(asked_permissions(export), policies, trusted_inline=package.trusted_inline)
        tenant = None if granted.execution_class == "inline" else binding.scope
        max_concurrency = granted.max_concurrency
        is_worker = granted.execution_class == "worker"
        parent = self._workers.of(binding.scope.org_id, binding.binding_id) if is_worker else None
        same = (
            cached is not None
            and cached.granted.max_concurrency == max_concurrency
            and cached.concurrency.parent == parent
        )
        concurrency = (
            cached.concurrency if cached is not None and same else ConcurrencyLimit(max_concurrency, parent)
        )
        tool = export.tool
        output = None if tool is None else self._schemas.find(package.folder, tool.output_schema)
        has_secrets = bool(export.permissions.secret_slots or granted.scopes)
        at_once = LARGEST_AT_ONCE // 2 if has_secrets else LARGEST_AT_ONCE
        prepared = PreparedBinding(
            binding=binding,
            package=package,
            export=export,
            granted=granted,
            key=PoolKey(package.digest, export.id, tenant, granted.digest),
            concurrency=concurrency,
            retryable=tool is not None and may_retry(tool.effect_class),
            recorded=_encode_recorded(binding, package, export, granted),
            input=None if tool is None else self._schemas.find(package.folder, tool.input_schema),
            output=output,
            config=config,
            at_once=at_once,
            answered_at_once=at_once if output is None else min(at_once, output.at_once),
            op=OPS[export.kind],
            single_use=granted.execution_class == "isolated" and self._reuse != "binding",
            exclusive=granted.filesystem == "scratch",
            seconds=granted.timeout_ms / 1000,
            tenant=None if binding.scope.project_id is None else binding.scope,
            has_own_resources=has_secrets or granted.filesystem == "scratch",
        )
        self._cache[binding.binding_id] = prepared
        return prepared

    def _check(
        self, binding: Binding, package: Package, export: Export, policies: Policies
    ) -> CompiledSchema | None:
        """Checks configuration and secret slots; InvalidSpec lists the problems. Returns the schema of a
        configuration that must be checked in a worker process."""
        schema = self._schemas.find(package.folder, export.config_schema)
        problems = config_problems(binding.config, schema)
        wrong = [each.sentence for each in [*(problems or ()), *unmapped_slots(export, binding.secrets)]]
        wrong += policy_problems(policies)
        if wrong:
            raise InvalidSpec("; ".join(wrong), plugin=binding.package_id)
        return schema if problems is None else None


def _encode_recorded(
    binding: Binding, package: Package, export: Export, granted: GrantedPermissions
) -> msgspec.Raw:
    recorded = RecordedBinding(
        export_kind=export.kind,
        export_id=export.id,
        binding_id=binding.binding_id,
        package_id=binding.package_id,
        package_version=binding.package_version,
        package_digest=package.digest,
        granted=granted,
    )
    return msgspec.Raw(msgspec.json.encode(recorded))
