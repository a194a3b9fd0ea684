"""What is known of a plugin, as one document for `plughost ps`, `plughost inspect` and scripts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from plughost.contracts.base import ResolvedSpec
from plughost.engine.instance import Instance
from plughost.engine.policy import LifecyclePolicy
from plughost.sandbox.explain.lints import lints

if TYPE_CHECKING:
    from plughost.plugin import Plugin


def inspect_plugin(plugin: Plugin, resolved: ResolvedSpec, instances: Iterable[Instance]) -> dict[str, Any]:
    """The spec, state, lifecycle settings and instances of a plugin. Values of variables are left out: they
    may be secrets."""
    spec, failure = plugin.spec, plugin.failure
    return {
        "name": plugin.name,
        "contract": plugin.contract,
        "command": list(spec.command),
        "cwd": spec.cwd,
        "env": sorted(resolved.env),
        "grants": list(spec.grants),
        "capabilities": sorted(map(str, plugin.capabilities)),
        "provides": {kind: list(names) for kind, names in plugin.provides.items()},
        "sandbox": plugin.sandbox,
        "lints": [*resolved.lints, *lints(spec, plugin.sandbox)],
        "state": plugin.state,
        "failure": None if failure is None else failure.report(),
        "generation": plugin.generation,
        "metrics": plugin.metrics.snapshot(plugin.clock.time()),
        "lifecycle": _lifecycle(resolved.policy),
        "instances": [
            _instance(instance) for instance in sorted(instances, key=lambda each: each.generation)
        ],
    }


def _lifecycle(policy: LifecyclePolicy) -> dict[str, Any]:
    return {
        "start": "per call" if policy.one_shot else "eager" if policy.eager else "first call",
        "handshake": policy.ready_timeout is not None,
        "call_timeout": policy.call_timeout,
        "max_in_flight": policy.max_in_flight,
        "grace": policy.grace,
        "respawn": policy.respawn,
    }


def _instance(instance: Instance) -> dict[str, Any]:
    return {
        "generation": instance.generation,
        "state": instance.state.value,
        "pid": instance.pid,
        "held_by": instance.held_by,
        "confined_by": list(instance.confined_by),
        "in_flight": instance.in_flight,
        "waiting": instance.waiting,
        "stopping": instance.stopping,
        "dropped": instance.dropped,
        "failures": instance.failures,
    }
