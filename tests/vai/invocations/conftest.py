"""An invoker with everything around it, and a package that does what it is told."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import plughost
from plughost.contracts.vai import manifest
from plughost.vai.bindings.binding import Binding, BindingPolicy, Scope
from plughost.vai.bindings.bindings import FixedBindings
from plughost.vai.bindings.package import Package
from plughost.vai.bindings.secret_source import SecretFolder
from plughost.vai.database.open_database import open_database
from plughost.vai.database.statements import statement
from plughost.vai.invocations.invocation import Invocation, Related
from plughost.vai.invocations.invoker import LocalInvoker
from plughost.vai.invocations.options import InvokerOptions
from plughost.vai.invocations.outcome import Outcome
from plughost.vai.invocations.requests import ToolRequest
from plughost.vai.records.record import Entry, Started
from plughost.vai.retry_policy import Backoff
from plughost.vai.runtime import VaiRuntime
from plughost.vai.state.delivery_table import Delivery
from plughost.vai.state.state import TenantState
from tests.sandbox.conftest import strict

__all__ = ["strict"]

LAB = Path(__file__).parent / "lab"
SECRET = "s3cr3t-of-the-lab-4711"
TENANT = Scope("org_1", "proj_1")


class Shelf:
    """The lab, as if it were installed."""

    def __init__(self, folder: Path, *, trusted_inline: bool = True) -> None:
        self.package = Package(
            folder=str(folder),
            digest="sha256:lab",
            manifest=manifest.read(folder),
            trusted_inline=trusted_inline,
        )

    def find(self, package_id: str, version: str) -> Package:
        if (package_id, version) != ("acme/lab", "1.0.0"):
            raise plughost.InvalidSpec(f"{package_id} {version} is not installed")
        return self.package


class Kept:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    is_behind = False

    async def commit_start(self, started: Started, key: str | None) -> str:
        self.append(started)
        return started.invocation_id

    async def catch_up(self) -> None:
        raise AssertionError("it is never behind")

    def append(self, entry: Entry) -> None:
        self.entries.append(entry)

    def of(self, kind: type) -> list[Any]:
        return [entry for entry in self.entries if isinstance(entry, kind)]


class Bench:
    """An invoker and what it writes to."""

    def __init__(self, folder: Path, host: plughost.Host, **options: Any) -> None:
        self.folder = folder
        self.host = host
        self.kept = Kept()
        self.database = open_database(str(folder / "state"))
        self.state = TenantState(self.database)
        self.chains = self.state.chains
        self.shelf = Shelf(folder / "lab", trusted_inline=options.pop("trusted_inline", True))
        self.invoker = LocalInvoker(
            host,
            self.shelf,
            self.kept,
            host._clock,
            secret_source=SecretFolder(str(folder / "secrets")),
            chains=self.chains,
            options=InvokerOptions(**{"scratch_base": str(folder), **options}),
        )

    def binding(self, export: str, org: str = "org_1", **other: Any) -> Binding:
        return Binding(
            binding_id=other.pop("binding_id", f"bind_{export}_{org}"),
            package_id="acme/lab",
            package_version="1.0.0",
            export_id=export,
            scope=Scope(org, "proj_1"),
            secrets={"key": "secret://org_1/key"},
            policy=BindingPolicy(**other),
        )

    async def tool(
        self,
        export: str = "reads",
        *,
        binding: Binding | None = None,
        on_event: Callable[[dict[str, Any]], object] | None = None,
        timeout_ms: int | None = None,
        chain_id: str | None = None,
        tool_execution_id: str = "toolx_1",
        **asked: Any,
    ) -> Outcome:
        wanted = Invocation(
            binding=binding or self.binding(export),
            work=ToolRequest(tool_execution_id=tool_execution_id, input=asked),
            related=Related(chain_id=chain_id),
            timeout_ms=timeout_ms,
        )
        return await self.invoker.invoke(wanted, on_event)

    async def close(self) -> None:
        await self.invoker.close()
        await self.database.close()


@pytest.fixture
async def ground():
    """A folder with the lab and its secret; root's plugins are other users, so it is where all may go."""
    folder = Path(tempfile.mkdtemp(prefix="plughost-test-"))
    folder.chmod(0o755)
    shutil.copytree(LAB, folder / "lab")
    secret = folder / "secrets" / "org_1" / "key"
    secret.parent.mkdir(parents=True)
    secret.write_text(SECRET + "\n")
    secret.chmod(0o600)
    yield folder
    assert not list(folder.glob("plughost-scratch-*")), "no scratch folder is left"
    await asyncio.to_thread(shutil.rmtree, folder)


@pytest.fixture
async def bench(ground: Path):
    """Makes benches."""
    made: list[tuple[Bench, plughost.Host]] = []

    def make(**options: Any) -> Bench:
        host = plughost.Host()
        made.append((Bench(ground, host, **{"sandbox": "none", **options}), host))
        return made[-1][0]

    yield make
    for each, host in made:
        await each.close()
        await host.close()
        assert not len(each.invoker.pool), "no process is left"


def bound(export: str, scope: Scope = TENANT, binding_id: str | None = None, **policy: Any) -> Binding:
    return Binding(
        binding_id=binding_id or f"bind_{export}",
        package_id="acme/lab",
        package_version="1.0.0",
        export_id=export,
        scope=scope,
        secrets={"key": "secret://org_1/key"},
        policy=BindingPolicy(**policy),
    )


async def over(runtime: VaiRuntime, count: int) -> list[Delivery]:
    """All deliveries, once that many are over and no other is due."""
    found: list[Delivery] = []
    for _ in range(3000):
        if not await runtime.state.outbox.waiting():
            found = await runtime.deliveries.all()
            if len(found) == count and {each.status for each in found} <= {"acked", "dead"}:
                return found
        await asyncio.sleep(0.01)
    raise AssertionError(found)


RUNNING_RUNS = statement(
    "running", {None: "SELECT run_id FROM runs WHERE status = 'running' AND invocation_id IS NOT NULL"}
)


async def running_runs(runtime: VaiRuntime) -> list[str]:
    """The ids of runs that have no end."""
    return [row["run_id"] for row in (await runtime.database.read(RUNNING_RUNS())).rows]


@pytest.fixture
async def runtime_of(ground: Path, runtime_url: str | None):
    """Makes runtimes for bindings, all in one folder."""
    made: list[VaiRuntime] = []

    async def make(*bindings: Binding, deliveries: Backoff | None = None, **options: Any) -> VaiRuntime:
        runtime = VaiRuntime(
            str(ground / "state"),
            Shelf(ground / "lab"),
            FixedBindings(bindings),
            database=runtime_url,
            secret_source=SecretFolder(str(ground / "secrets")),
            options=InvokerOptions(**{"scratch_base": str(ground), "sandbox": "none", **options}),
            deliveries=deliveries,
        )
        made.append(await runtime.__aenter__())
        return runtime

    yield make
    for runtime in made:
        await runtime.__aexit__(None, None, None)
        assert not runtime.gateway.guests, "no token is good any more"
