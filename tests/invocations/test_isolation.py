"""Nothing that one invocation writes is seen by another, also where one process serves both."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.invocations.conftest import Bench, Shelf
from tests.support import until

PLACES = (
    "/tmp/left",
    "/dev/shm/left",
    "/var/tmp/left",
    "/dev/left",
    "/dev/mqueue/left",
    "/run/left",
    "/left",
)


@pytest.fixture
async def lab(bench, strict) -> Bench:
    return bench(sandbox="strict")


def ask_for(lab: Bench, filesystem: str) -> None:
    """The export `writes` asks for this permission instead of `scratch`."""
    manifest = Path(lab.shelf.package.folder, "vai-plugin.toml")
    manifest.write_text(
        manifest.read_text().replace('filesystem = "scratch"', f'filesystem = "{filesystem}"')
    )
    lab.shelf = Shelf(Path(lab.shelf.package.folder))
    lab.invoker._preparer._packages = lab.shelf


@pytest.mark.clause("VAI-43", "VAI-93")
@pytest.mark.parametrize("filesystem", ["none", "assets_ro"])
async def test_without_scratch_nothing_can_be_written(lab, filesystem):
    ask_for(lab, filesystem)
    outcome = await lab.tool("writes", do="write everywhere", temporary=False)
    assert outcome.result["structured_output"]["writable"] == []


@pytest.mark.clause("VAI-43", "VAI-93")
@pytest.mark.parametrize("filesystem", ["none", "assets_ro"])
async def test_without_scratch_no_file_can_be_locked_watched_or_dated(lab, filesystem):
    """Each process of a package has the same files, and the machine's devices, whose ever it is: a lock or a
    time would be seen by all."""
    ask_for(lab, filesystem)
    path = f"{lab.shelf.package.folder}/bin/plugin"
    outcome = await lab.tool("writes", do="lock and watch", path=path)
    assert outcome.result["structured_output"]["possible"] == ["flags"]


async def test_with_scratch_programs_can_lock_their_files(lab):
    path = f"{lab.shelf.package.folder}/bin/plugin"
    outcome = await lab.tool("writes", do="lock and watch", path=path)
    found = outcome.result["structured_output"]["possible"]
    assert {"flock", "setlk", "getlk", "flags"} <= {*found}


@pytest.mark.clause("VAI-43", "VAI-93")
async def test_the_next_invocation_of_a_process_finds_nothing_of_the_last(lab):
    places = [*PLACES, f"{lab.shelf.package.folder}/left", f"{lab.shelf.package.folder}/lib/left"]
    first = (await lab.tool("reads", do="put", paths=places, text="of the first")).result["structured_output"]
    assert None not in first["put"].values(), "nothing could be written"
    second = (await lab.tool("reads", do="put", paths=places, text="of the second")).result[
        "structured_output"
    ]
    assert second == first, "the same process, and nothing was there"


@pytest.mark.clause("VAI-43", "VAI-93")
async def test_with_scratch_only_the_folders_of_its_process_can_be_written(lab):
    found = (await lab.tool("writes", do="write everywhere", temporary=True)).result["structured_output"]
    root = os.path.dirname(found["scratch"])
    assert found["writable"] == [root, found["scratch"]]


@pytest.mark.clause("VAI-43")
async def test_two_at_a_time_have_a_process_each(lab):
    binding = lab.binding("writes", max_concurrency=2)
    running = [
        asyncio.create_task(lab.tool(binding=binding, do="put in scratch and wait", text=text))
        for text in ("one", "two")
    ]
    mine = await until(lambda: len(found := [*lab.folder.glob("plughost-scratch-*/*/*/mine")]) == 2 and found)
    for path in mine:
        (path.parent / "go").touch()
    told = [(await task).result["structured_output"] for task in running]
    assert [each["mine"] for each in told] == ["one", "two"]
    assert [len(each["beside"]) for each in told] == [1, 1], "each sees its own folder only"
    assert len({path.parent.parent for path in mine}) == 2, "their folders are in different places"


@pytest.mark.clause("VAI-43")
async def test_one_after_the_other_share_a_process_that_finds_an_empty_folder(lab):
    first = (await lab.tool("writes", do="leave")).result["structured_output"]
    pids = [(await lab.tool("writes", do="echo")).result["structured_output"]["pid"] for _ in range(2)]
    second = (await lab.tool("writes", do="leave")).result["structured_output"]
    assert pids[0] == pids[1]
    assert len(lab.invoker.pool) == 1
    assert [len(each["found"]) for each in (first, second)] == [1, 1], "nothing but the folder of each"


@pytest.mark.clause("VAI-43")
async def test_a_process_whose_invocation_was_cancelled_gets_no_other_folder(lab):
    """Its code may go on for a while, and would find what the next one writes."""
    waiting = asyncio.create_task(lab.tool("writes", do="leave and wait"))
    await until(lambda: [*lab.folder.glob("plughost-scratch-*/*/*/left")])
    (root,) = lab.folder.glob("plughost-scratch-*/*")
    lab.invoker.cancel(lab.invoker.running[0], "enough")
    assert (await waiting).status == "cancelled"
    after = (await lab.tool("writes", do="echo")).result["structured_output"]
    assert Path(after["context"]["scratch_dir"]).parent != root


async def test_processes_that_are_taken_alone_are_bounded_and_reused(bench):
    lab = bench(most_processes=2)
    binding = lab.binding("writes")
    told = await asyncio.gather(*(lab.tool(binding=binding, do="echo") for _ in range(6)))
    assert all(outcome.ok for outcome in told)
    assert 1 <= len(lab.invoker.pool) <= 2


async def test_a_prewarmed_process_with_scratch_is_the_one_that_is_used(bench):
    lab = bench()
    binding = lab.binding("writes")
    await lab.invoker.prewarm(binding)
    assert len(lab.invoker.pool) == 1
    assert (await lab.tool(binding=binding, do="echo")).ok
    assert len(lab.invoker.pool) == 1
