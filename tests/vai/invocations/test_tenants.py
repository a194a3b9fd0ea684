"""Nothing is shared between tenants: no process, no memory, no scratch folder."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import plughost
from plughost.vai.bindings.binding import Binding, Scope
from plughost.vai.invocations.invocation import Invocation, Related
from plughost.vai.invocations.outcome import Outcome
from plughost.vai.invocations.requests import ToolRequest
from tests.support import until
from tests.vai.invocations.conftest import Bench


async def for_project(lab: Bench, binding: Binding, project: str | None, **asked: object) -> Outcome:
    wanted = Invocation(
        binding=binding,
        work=ToolRequest(tool_execution_id="toolx_1", input=asked),
        related=Related(project_id=project),
    )
    return await lab.invoker.invoke(wanted)


def of_organisation(lab: Bench, export: str, **policy: object) -> Binding:
    return msgspec.structs.replace(lab.binding(export, **policy), scope=Scope("org_1"))


@pytest.mark.clause("VAI-14")
async def test_a_binding_of_an_organisation_has_processes_for_each_of_its_projects(bench) -> None:
    lab = bench()
    binding = of_organisation(lab, "reads", execution_class="isolated")
    first = await for_project(lab, binding, "proj_1", do="remember", what="a secret of project 1")
    other = await for_project(lab, binding, "proj_2", do="remember", what="2")
    again = await for_project(lab, binding, "proj_1", do="remember", what="3")
    seen = [each.result["structured_output"]["seen"] for each in (first, other, again)]
    assert seen[1] == ["2"]
    assert seen[2] == ["a secret of project 1", "3"], "its own process is warm"
    assert len(lab.invoker.pool) == 2


@pytest.mark.clause("VAI-14")
async def test_bindings_that_allow_different_things_never_meet_in_a_process(bench) -> None:
    lab = bench()
    allowed = lab.binding("writes", binding_id="bind_a")
    narrowed = lab.binding("writes", binding_id="bind_b", filesystem="none")
    await lab.tool(binding=allowed, do="remember", what="a")
    outcome = await lab.tool(binding=narrowed, do="remember", what="b")
    assert outcome.result["structured_output"]["seen"] == ["b"]
    same = lab.binding("writes", binding_id="bind_c")
    outcome = await lab.tool(binding=same, do="remember", what="c")
    assert outcome.result["structured_output"]["seen"] == ["a", "c"], "of one tenant, alike in all"


@pytest.mark.clause("VAI-12")
async def test_inline_shares_one_process_with_everybody(bench) -> None:
    lab = bench()
    binding = of_organisation(lab, "reads")
    for project in ("proj_1", "proj_2", None):
        assert (await for_project(lab, binding, project, do="echo")).ok
    assert len(lab.invoker.pool) == 1


@pytest.mark.clause("VAI-90")
async def test_what_is_hidden_from_one_tenant_tells_another_nothing(bench, ground: Path) -> None:
    lab = bench()
    pin = ground / "secrets" / "org_2" / "key"
    pin.parent.mkdir()
    pin.write_text("4711")
    pin.chmod(0o600)
    theirs = msgspec.structs.replace(lab.binding("knows", "org_2"), secrets={"key": "secret://org_2/key"})
    own = await lab.tool(binding=theirs, do="say", text="mine is KEY, 4711")
    assert own.result["structured_output"]["text"] == "mine is ***, ***"
    heard: list[dict[str, object]] = []
    other = await lab.tool("knows", on_event=heard.append, do="say", text="is it 4710, 4711, 4712? KEY")
    assert len(lab.invoker.pool) == 1
    assert other.result["structured_output"]["text"] == "is it 4710, 4711, 4712? ***"
    assert [each["message"] for each in heard] == ["is it 4710, 4711, 4712? ***"]
    refused = await lab.tool("knows", do="refuse", text="4710, 4711, KEY")
    assert refused.message == "it answered with no: 4710, 4711, ***"
    logged = [line.message for plugin in lab.host.plugins for line in lab.host.service("logs").recent(plugin)]
    assert logged == ["mine is ***, ***", "is it 4710, ***, 4712? ***"], "the log is of all tenants"


async def test_the_last_words_of_a_shared_process_are_no_tenants_own(bench) -> None:
    lab = bench()
    other = lab.binding("knows", "org_2")
    assert (await lab.tool("knows", do="say", text="something private")).ok
    assert "private" in ((await lab.tool("knows", do="crash")).last_words or "")
    assert (await lab.tool("knows", do="say", text="something private")).ok
    assert (await lab.tool(binding=other, do="crash")).last_words is None


async def test_a_process_is_there_before_its_first_invocation(bench) -> None:
    lab = bench()
    binding = of_organisation(lab, "reads", execution_class="isolated")
    await lab.invoker.prewarm(binding, "proj_1")
    (plugin,) = lab.host.plugins.values()
    assert plugin.state == "Running"
    assert (await for_project(lab, binding, "proj_1", do="echo")).ok
    assert [*lab.host.plugins.values()] == [plugin]
    await lab.invoker.prewarm(binding, "proj_1")
    assert len(lab.invoker.pool) == 1


async def test_where_each_invocation_has_its_own_there_is_nothing_to_warm(bench) -> None:
    lab = bench(reuse="invocation")
    await lab.invoker.prewarm(lab.binding("writes"))
    assert not len(lab.invoker.pool)


async def test_a_process_that_cannot_be_warmed_is_not_kept(bench, ground: Path) -> None:
    lab = bench()
    (ground / "lab/bin/plugin").write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(plughost.PluginError):
        await lab.invoker.prewarm(lab.binding("reads"))
    await until(lambda: not len(lab.invoker.pool))
    await lab.invoker.close()
    with pytest.raises(plughost.Stopped):
        await lab.invoker.prewarm(lab.binding("reads"))
