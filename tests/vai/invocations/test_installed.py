"""Installed packages: what runs is what was signed, checked at every process start, and no folder shadows it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plughost.vai.bindings.binding import Binding, BindingPolicy, Scope
from plughost.vai.bindings.bindings import FixedBindings
from plughost.vai.bindings.package_source import InstalledPackages
from plughost.vai.invocations.invocation import Invocation
from plughost.vai.invocations.options import InvokerOptions
from plughost.vai.invocations.outcome import Outcome
from plughost.vai.invocations.requests import ToolRequest
from plughost.vai.packages.errors import Damaged
from plughost.vai.packages.install import install
from plughost.vai.packages.locate import on_disk
from plughost.vai.packages.pack import Packed, pack
from plughost.vai.packages.store.installed import InstalledRelease
from plughost.vai.packages.store.store import Store
from plughost.vai.runtime import VaiRuntime
from tests.sandbox.conftest import strict
from tests.support import sample_package as little
from tests.support.command_line import run_here
from tests.vai.invocations.conftest import LAB

__all__ = ["strict"]

SIGNED = b'more = {"context"'
CHANGED = b'more = {"changed"'


class Ground:
    """The lab, packed, signed and installed in a store of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(LAB, folder / "lab")
        self.packed: Packed = pack(folder / "lab", folder)
        private, public = little.key(folder)
        little.sign(self.packed, private)
        self.trust = little.trusting(public)
        self.trust_file = folder / "trust.toml"
        self.trust_file.write_text(f'[[publishers.acme.keys]]\nkey = "{public.text}"\n')
        self.store = Store(folder / "store").open()

    async def install(self) -> InstalledRelease:
        place = on_disk(Path(self.packed.file))
        assert place is not None
        return (await install(place, Store(self.store.root).open(), self.trust)).installed

    @property
    def program(self) -> Path:
        (one,) = self.store.installed()
        return one.package / "bin/plugin"

    def change(self) -> None:
        """Other code of the same size, mode and mtime, in the same file."""
        before, text = self.program.stat(), self.program.read_bytes()
        self.program.chmod(0o755)
        with self.program.open("r+b") as file:
            file.write(text.replace(SIGNED, CHANGED))
        self.program.chmod(before.st_mode)
        os.utime(self.program, ns=(before.st_atime_ns, before.st_mtime_ns))

    def runtime(self, *bindings: Binding, **options: Any) -> VaiRuntime:
        return VaiRuntime(
            str(self.folder / "state"),
            InstalledPackages(self.store, self.trust),
            FixedBindings(bindings),
            options=InvokerOptions(scratch_base=str(self.folder), **{"sandbox": "none", **options}),
        )

    def plughost(self, *words: str) -> subprocess.CompletedProcess[str]:
        places = ["--store", str(self.store.root), "--trust", str(self.trust_file)]
        if words[0] == "invoke":
            places += ["--state", str(self.folder / "state")]
        return run_here(*words, *places, cwd=self.folder)


@pytest.fixture
def ground() -> Iterator[Ground]:
    """Outside /tmp: a sandbox has a /tmp of its own."""
    folder = Path(tempfile.mkdtemp(prefix="plughost-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield Ground(folder)
    shutil.rmtree(folder)


def binding(name: str = "bind_1") -> Binding:
    return Binding(
        binding_id=name,
        package_id="acme/lab",
        package_version="1.0.0",
        export_id="reads",
        scope=Scope("org_1", name),
        policy=BindingPolicy(execution_class="isolated"),
    )


async def echo(runtime: VaiRuntime, of: Binding) -> Outcome:
    work = ToolRequest(tool_execution_id="toolx_1", input={"do": "echo"})
    return await runtime.invoke(Invocation(binding=of, work=work))


@pytest.mark.clause("VAI-84")
async def test_a_package_that_was_changed_before_its_first_use_is_refused(ground: Ground) -> None:
    await ground.install()
    ground.change()
    async with ground.runtime() as runtime:
        with pytest.raises(Damaged, match="the installed files of acme/lab@1.0.0 were changed") as refused:
            await echo(runtime, binding())
        assert "plughost install PACKAGE" in refused.value.hint
        assert not len(runtime.invoker.pool), "no process was started"
        await ground.install()
        assert (await echo(runtime, binding())).ok, "repaired"


@pytest.mark.clause("VAI-84")
@pytest.mark.parametrize("reuse", ["invocation", "binding"])
async def test_every_process_start_is_checked_not_only_the_first(ground: Ground, reuse: str) -> None:
    await ground.install()
    of = binding()
    async with ground.runtime(reuse=reuse) as runtime:
        assert (await echo(runtime, of)).ok
        ground.change()
        if reuse == "binding":
            assert (await echo(runtime, of)).ok, "its process runs what was signed"
            for process in runtime.invoker.pool._all_warm():
                runtime.invoker.pool.retire(process)
        refused = await echo(runtime, of)
        assert (refused.status, refused.reason) == ("retryable_failure", "package_damaged")
        assert refused.hint is not None
        assert "plughost install PACKAGE" in refused.hint
        with pytest.raises(Damaged):
            await runtime.invoker.prewarm(binding("bind_2"))
        await ground.install()
        assert (await echo(runtime, of)).ok, "repaired"


async def test_a_changed_schema_is_not_used_even_after_the_repair(ground: Ground) -> None:
    one = await ground.install()
    schema = one.package / "schemas/input.json"
    schema.chmod(0o644)
    schema.write_text("false")
    schema.chmod(0o444)
    async with ground.runtime() as runtime:
        with pytest.raises(Damaged):
            await echo(runtime, binding())
        await ground.install()
        assert (await echo(runtime, binding())).ok


async def test_the_event_loop_goes_on_while_a_package_is_read(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await ground.install()
    loop = asyncio.get_running_loop()
    passed = asyncio.Event()
    check = ground.store.check

    def waits_for_the_loop(installed: InstalledRelease) -> None:
        asyncio.run_coroutine_threadsafe(passed.wait(), loop).result(30)
        check(installed)

    monkeypatch.setattr(ground.store, "check", waits_for_the_loop)
    async with ground.runtime() as runtime:
        running = asyncio.create_task(echo(runtime, binding()))
        loop.call_soon(passed.set)
        assert (await running).ok
    assert one.damage() is None


def test_the_command_refuses_a_changed_package_says_how_to_repair_it_and_runs_it_then(ground: Ground) -> None:
    words = ("invoke", "acme/lab", "reads", '{"do": "echo"}', "--sandbox", "none")
    file = ground.packed.file
    assert ground.plughost("install", file).returncode == 0
    assert ground.plughost(*words).returncode == 0
    ground.change()
    ran = ground.plughost(*words)
    assert (ran.returncode, ran.stdout) == (3, "")
    assert "package_damaged" in ran.stderr
    assert "repair it: plughost install PACKAGE" in ran.stderr
    told = json.loads(ground.plughost(*words, "--json").stdout)
    assert told["error"]["code"] == "package_damaged"
    assert ground.plughost("packages", "ls").returncode == 1
    assert ground.plughost("install", file).returncode == 0
    assert ground.plughost(*words).returncode == 0


IMPORTING = """\
#!/usr/bin/python3
import os, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import part
"""


@pytest.mark.parametrize("sandbox", ["none", "strict"])
async def test_a_python_package_leaves_no_bytecode_in_the_store(
    ground: Ground, sandbox: str, request: pytest.FixtureRequest
) -> None:
    if sandbox == "strict":
        request.getfixturevalue("strict")
    source = ground.folder / "lab/bin"
    (source / "plugin").rename(source / "part.py")
    (source / "plugin").write_text(IMPORTING)
    (source / "plugin").chmod(0o755)
    (source / "part.py").write_text(f"__name__ = '__main__'\n{(source / 'part.py').read_text()}")
    ground.packed = pack(ground.folder / "lab", ground.folder)
    little.sign(ground.packed, ground.folder / "key")
    one = await ground.install()
    async with ground.runtime(sandbox=sandbox, reuse="invocation") as runtime:
        for _ in range(2):
            outcome = await echo(runtime, binding())
            assert outcome.ok, outcome
    assert one.damage() is None


def test_a_folder_is_not_run_in_place_of_the_installed_package_of_its_name(ground: Ground) -> None:
    words = ("reads", '{"do": "echo"}', "--sandbox", "none")
    folder = ground.folder / "acme/lab"
    shutil.copytree(LAB, folder)
    (folder / "bin/plugin").write_text("#!/bin/sh\necho this is another one >&2\nexit 7\n")
    for name in ("acme/lab", "acme/lab@1.0.0"):
        ran = ground.plughost("invoke", name, *words)
        assert (ran.returncode, ran.stdout) == (3, ""), "it is not installed"
        assert f"{name} is not installed" in ran.stderr
    assert "write ./acme/lab" in ground.plughost("invoke", "acme/lab", *words).stderr
    assert ground.plughost("install", ground.packed.file).returncode == 0
    for name in ("acme/lab", "acme/lab@1.0.0"):
        assert ground.plughost("invoke", name, *words).returncode == 0
    for name in ("./acme/lab", str(folder), "acme/lab/", "acme/../acme/lab"):
        assert "this is another one" in ground.plughost("invoke", name, *words).stderr, name
