"""The local stand-in for a control plane, for `plughost invoke`: builds requests from JSON, and creates ids,
bindings, sessions and chains for them."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any

import click
import msgspec

if TYPE_CHECKING:
    from plughost.contracts.vai.manifest import Export
    from plughost.vai.bindings.binding import Binding, Scope
    from plughost.vai.bindings.package import PackageSource
    from plughost.vai.invocations.invocation import Related
    from plughost.vai.invocations.requests import CompactionRequest, HarnessRequest, Work
    from plughost.vai.runtime import VaiRuntime
    from plughost.vai.state.chains import Block

LOCAL = "local"


def parse_request(export: Export, given: Any) -> Work:
    """Builds the request to an export from one JSON value."""
    from plughost.contracts.vai.request_bodies import (
        CompactionPolicy,
        CompactionTarget,
        HarnessPolicy,
        HarnessTarget,
        HookEvent,
        Trigger,
    )
    from plughost.vai.invocations import requests

    number = f"{LOCAL}_{time.time_ns():x}"
    try:
        if export.kind == "tool":
            return requests.ToolRequest(tool_execution_id=f"toolx_{number}", input=given)
        if export.kind == "hook":
            return requests.HookRequest(
                delivery_id=f"del_{number}", attempt=1, event=msgspec.convert(given, HookEvent)
            )
        members = msgspec.convert(given, dict[str, Any])
        if export.kind == "compactor":
            return requests.CompactionRequest(
                compaction_id=f"cmp_{number}",
                chain_id=str(members.get("chain_id", f"ch_{number}")),
                blocks=msgspec.convert(members["blocks"], list[Any]),
                pinned_items=msgspec.convert(members.get("pinned_items", []), list[Any]),
                token_estimate=msgspec.convert(members.get("token_estimate", 0), int),
                target=msgspec.convert(members["target"], CompactionTarget),
                policy=msgspec.convert(members.get("policy", {}), CompactionPolicy),
            )
        target = {
            "session_id": f"sess_{number}",
            "chain_id": f"ch_{number}",
            "execution_id": f"exec_{number}",
            **members.get("target", {}),
        }
        limits = {"max_depth": 1, "max_child_runs": 8, "allow_compaction": True, **members.get("policy", {})}
        return requests.HarnessRequest(
            target=msgspec.convert(target, HarnessTarget),
            trigger=msgspec.convert(members.get("trigger", {"type": "user_request"}), Trigger),
            policy=msgspec.convert(limits, HarnessPolicy),
            checkpoint=members.get("checkpoint", msgspec.UNSET),
        )
    except KeyError as missing:
        raise click.UsageError(f"JSON lacks {missing}, which a {export.kind} needs") from missing
    except (msgspec.ValidationError, TypeError) as error:
        raise click.UsageError(f"JSON is not a valid request for a {export.kind}: {error}") from error


def binding_id(package_id: str, scope: Scope, export_id: str) -> str:
    """The binding id, stable for a tenant, so that a later command can deliver earlier events to it."""
    whose = msgspec.json.encode([package_id, scope, export_id])
    return f"bind_{LOCAL}_{export_id}_{hashlib.sha256(whose).hexdigest()[:16]}"


def others(source: PackageSource, binding: Binding) -> list[Binding]:
    """Bindings for the package's other exports, which a harness may invoke; they get no permissions."""
    from plughost.vai.bindings.binding import BindingPolicy

    exports = source.find(binding.package_id, binding.package_version).manifest.exports
    return [
        msgspec.structs.replace(
            binding,
            binding_id=binding_id(binding.package_id, binding.scope, export.id),
            export_id=export.id,
            config={},
            secrets={},
            policy=BindingPolicy(network="none", execution_class="isolated"),
        )
        for export in exports
        if export.id != binding.export_id
    ]


async def related(runtime: VaiRuntime, binding: Binding, work: Work) -> Related:
    """The session, chain and run of the request; session and chain are created unless they exist."""
    from plughost.errors import InvalidSpec
    from plughost.vai.invocations.invocation import Related
    from plughost.vai.invocations.requests import CompactionRequest, HarnessRequest
    from plughost.vai.state.chains import Chain
    from plughost.vai.state.sessions import TenantSession

    run_id = f"run_{LOCAL}"
    if not isinstance(work, CompactionRequest | HarnessRequest):
        return Related(run_id=run_id)
    scope, state = binding.scope, runtime.state
    chain_id = work.target.chain_id if isinstance(work, HarnessRequest) else work.chain_id
    session_id = work.target.session_id if isinstance(work, HarnessRequest) else f"sess_{chain_id}"
    try:
        await state.sessions.session(session_id)
    except InvalidSpec:
        session = TenantSession(session_id=session_id, org_id=scope.org_id, project_id=scope.project_id)
        await state.sessions.create(session)
    if chain_id is not None:
        chain = Chain(
            chain_id=chain_id, session_id=session_id, org_id=scope.org_id, project_id=scope.project_id
        )
        try:
            await state.chains.create(chain, _blocks(work))
        except InvalidSpec:
            there = await state.chains.chain(chain_id)
            session_id = there.session_id or session_id if there.scope == scope else session_id
    return Related(session_id=session_id, chain_id=chain_id, run_id=run_id)


def _blocks(work: CompactionRequest | HarnessRequest) -> list[Block]:
    """The blocks to compact, as stored in a chain; anything that is not a block becomes an input block."""
    from plughost.contracts.vai.results import check_blocks
    from plughost.vai.invocations.requests import HarnessRequest
    from plughost.vai.state.chains import Block

    blocks = []
    for block in () if isinstance(work, HarnessRequest) else work.blocks:
        try:
            check_blocks([block])
            blocks.append(Block.from_json(block))
        except ValueError:
            blocks.append(Block("input", [block]))
    return blocks
