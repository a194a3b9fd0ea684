"""Invocations in the strict sandbox, as packages of strangers run: what an attacker's code finds there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from plughost.permissions.access import ResourceLimits
from plughost.vai.records.record import Finished
from tests.sandbox.conftest import strict  # noqa: F401
from tests.support import until
from tests.vai.invocations.conftest import SECRET, Bench

pytestmark = pytest.mark.usefixtures("strict")


@pytest.fixture
async def lab(bench) -> Bench:
    return bench(sandbox="strict")


async def found(lab: Bench, export: str, *paths: str, **other: object) -> dict[str, object]:
    outcome = await lab.tool(export, do="look", paths=list(paths), **other)
    assert outcome.ok, outcome
    return outcome.result["structured_output"]["found"]


@pytest.mark.clause("VAI-14", "VAI-93")
async def test_it_sees_its_code_and_nothing_of_the_hosts(lab: Bench) -> None:
    package = lab.shelf.package.folder
    seen = await found(
        lab,
        "reads",
        f"{package}/vai-plugin.toml",
        f"{package}/assets",
        str(lab.folder / "secrets"),
        "/etc/shadow",
        "/root",
    )
    assert "acme/lab" in str(seen[f"{package}/vai-plugin.toml"])
    assert {str(what) for path, what in seen.items() if "toml" not in path} <= {
        "FileNotFoundError",
        "PermissionError",
    }
    (ended,) = lab.kept.of(Finished)
    assert any("seccomp" in word for word in ended.confined_by)


@pytest.mark.clause("VAI-93")
async def test_assets_only_for_who_asked_for_them(lab: Bench) -> None:
    manifest = Path(lab.shelf.package.folder, "vai-plugin.toml")
    manifest.write_text(manifest.read_text().replace('filesystem = "scratch"', 'filesystem = "assets_ro"'))
    lab.shelf = type(lab.shelf)(Path(lab.shelf.package.folder))
    lab.invoker._preparer._packages = lab.shelf
    words = f"{lab.shelf.package.folder}/assets/words.txt"
    assert await found(lab, "writes", words) == {words: "an asset\n"}
    narrowed = lab.binding("writes", binding_id="bind_narrow", filesystem="none")
    assert await found(lab, "writes", words, binding=narrowed) == {words: "FileNotFoundError"}


@pytest.mark.clause("VAI-43", "VAI-93")
async def test_another_tenants_scratch_is_not_there(lab: Bench) -> None:
    """Both run at the same time, and the second is told where the first one's is."""
    waiting = asyncio.create_task(
        lab.tool(binding=lab.binding("writes", "org_1"), do="fill", mib=1, timeout_ms=60_000)
    )
    (base,) = await until(lambda: [*lab.folder.glob("plughost-scratch-*/*/*/big")])
    seen = await found(
        lab, "writes", str(base), str(base.parent.parent), str(base.parent.parent.parent),
        binding=lab.binding("writes", "org_2"),
    )  # fmt: skip
    *others, above = seen.values()
    assert others == ["FileNotFoundError"] * 2
    assert above in (["2"], "PermissionError"), "of all it sees its own, if it may look at all"
    lab.invoker.cancel(lab.invoker.running[0], "seen enough")
    assert (await waiting).reason == "seen enough"


@pytest.mark.clause("VAI-03")
async def test_processor_time_past_its_limit_ends_the_invocation(bench) -> None:
    lab = bench(sandbox="strict", limits=ResourceLimits(cpu_seconds=1))
    outcome = await lab.tool(do="spin")
    assert (outcome.status, outcome.reason, outcome.retries) == ("failed", "budget_exceeded", 0)
    assert outcome.message == "it used more processor time than cpu_seconds allows"


@pytest.mark.clause("VAI-90", "VAI-44")
async def test_a_planted_secret_is_found_nowhere_afterwards(lab: Bench) -> None:
    """On disk, in every process's environment and command line, and in what was recorded."""
    await lab.tool("writes", do="say", text="KEY")
    await lab.tool("writes", do="fail")
    await lab.tool("writes", do="crash")
    places = [repr(lab.kept.entries)]
    files = [path for path in lab.folder.rglob("*") if path.is_file() and "secrets" not in path.parts]
    places += [path.read_text(errors="replace") for path in files]
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            for name in ("cmdline", "environ"):
                try:
                    places.append((process / name).read_text(errors="replace"))
                except OSError:
                    continue
    places += [repr(lab.host.service("logs").recent(plugin)) for plugin in lab.host.plugins]
    assert not [place for place in places if SECRET in place]
    assert len(places) > 20
