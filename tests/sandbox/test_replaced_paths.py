"""A path that was checked is the path that is shown: whoever replaces a part of it meanwhile gains nothing."""

from __future__ import annotations

import errno
import json
import os
import shutil

import msgspec
import pytest

import plughost
from plughost import config
from plughost.contracts.registry import get_contract
from plughost.contracts.vai.contract import spec_of
from plughost.errors import InvalidSpec, SandboxUnavailable
from plughost.permissions.access import Access, ResourceLimits
from plughost.sandbox.manager import effective
from plughost.sandbox.prepare import prepare_sandbox
from plughost.sandbox.resolve import trusted_files
from plughost.sandbox.resolve.grants import resolve_grants
from tests.support import ROOT
from tests.support import ainb as ainb_support
from tests.support import kaged as kaged_support
from tests.support.confinable import needs
from tests.support.sandbox import ENV, run

LAB = ROOT / "tests/vai/invocations/lab"
ANSWER = """
while read -r line; do
    line=${line#*'"id":'}
    echo "{\\"id\\":${line%%[,\\}]*},\\"result\\":\\"$(echo *)\\"}"
done
"""
CLASSES = pytest.mark.parametrize("class_", ["strict", "landlock"])


@pytest.fixture
def private(folder):
    place = folder / "private"
    place.mkdir()
    (place / "secret").write_text("secret")
    return place


@pytest.fixture
def plug(folder):
    """A plugin's folder with a file of its own; each of its answers says what is there."""
    place = folder / "plug"
    (place / "sub").mkdir(parents=True)
    (place / "data").write_text("")
    write(place)
    return place


def write(place, more=""):
    command = json.dumps(["/bin/sh", "-c", ANSWER])
    (place / "plughost.toml").write_text(f'[plugins.p]\ncontract = "mcptest"\ncommand = {command}\n{more}')


def swap(path, target):
    """What was there is beside it afterwards, and a symlink in its place."""
    path.rename(path.with_name(f"{path.name}.real"))
    path.symlink_to(target)


def decide(spec, run_dir, class_="strict", resolved=None):
    needs(class_)
    resolved = resolved or get_contract(spec.contract).resolve(spec)
    return prepare_sandbox(
        spec,
        {**ENV, **resolved.env},
        effective(spec, resolved),
        ResourceLimits(),
        class_,
        run_dir,
        listable=resolved.sandbox.listable,
        resolved=resolved.sandbox.real_paths,
        writable_tmp=resolved.sandbox.writable_tmp,
    )


# The plugin's folder


@CLASSES
@pytest.mark.parametrize("cwd", [".", "sub"])
def test_a_folder_that_is_replaced_after_its_file_was_read_is_not_shown(plug, private, run_dir, class_, cwd):
    write(plug, f'cwd = "{cwd}"')
    spec = config.load_folder(plug)
    decide(spec, run_dir, class_)
    swap(plug / cwd if cwd != "." else plug, private)
    with pytest.raises(SandboxUnavailable, match="was replaced while it was being checked"):
        decide(spec, run_dir, class_)


def test_what_is_checked_of_a_cwd_is_what_is_kept(plug, private, monkeypatch):
    write(plug, 'cwd = "sub"')
    check = config.author_refusals

    def swapped(*words):
        if not (plug / "sub").is_symlink():
            swap(plug / "sub", private)
        return check(*words)

    monkeypatch.setattr(config, "author_refusals", swapped)
    assert config.load_folder(plug).cwd == str(plug / "sub")


@pytest.mark.parametrize("kind", ["mcptest", "kaged"])
def test_a_folder_is_the_one_that_its_file_was_read_in(folder, plug, private, monkeypatch, kind):
    """The operator's path may lead elsewhere a moment later."""
    from plughost.contracts.kaged import manifest

    if kind == "kaged":
        (plug / "plughost.toml").unlink()
        shutil.copy(kaged_support.folder(folder, command=["./run"]) / "manifest.yaml", plug)
    place = folder / "current"
    place.symlink_to(plug)
    module, name = (config, "load_authors_toml") if kind == "mcptest" else (manifest, "read")
    read = getattr(module, name)

    def swapped(*words):
        place.unlink()
        place.symlink_to(private)
        return read(*words)

    monkeypatch.setattr(module, name, swapped)
    assert config.load_folder(place).cwd == str(plug)


def test_a_symlink_that_goes_while_it_is_followed_is_a_problem_of_the_file(plug, monkeypatch):
    (plug / "link").symlink_to("sub")
    write(plug, 'cwd = "link"')

    readlink = os.readlink

    def replaced(path, **named):
        if os.fspath(path).startswith("/proc/"):  # where an open file lies
            return readlink(path)
        raise OSError(errno.EINVAL, "Invalid argument", path)

    monkeypatch.setattr(os, "readlink", replaced)
    with pytest.raises(InvalidSpec, match="was replaced while it was being checked"):
        config.load_folder(plug)


def test_and_while_it_is_walked_a_refusal(plug):
    link = plug / "link"
    link.symlink_to("sub")

    def lstat(path):
        about = os.lstat(path)
        if path == str(link):
            link.unlink()
            link.mkdir()
        return about

    with pytest.raises(SandboxUnavailable, match="was replaced while it was being checked"):
        trusted_files.walk(str(link), lstat)


# A reload


def spec_in(plug):
    return msgspec.structs.replace(config.load_folder(plug), sandbox="strict")


async def test_a_reload_does_not_follow_a_symlink_in_the_place_of_the_folder(host, strict, plug, private):
    plugin = await host.add(spec_in(plug))
    assert "data" in await plugin.call("ls")
    swap(plug, private)
    with pytest.raises(plughost.PluginError, match="was replaced while it was being checked"):
        await plugin.reload()
    assert "secret" not in await plugin.call("ls")


@CLASSES
def test_nor_is_the_folder_of_an_ainb_program_followed_again(folder, private, run_dir, class_):
    """It starts elsewhere: what is its own is told by where its program is."""
    place = ainb_support.folder(folder, "p", capabilities={})
    for program in (place / "p", private / "p"):
        program.write_text("#!/bin/sh\nexit 0\n")
        program.chmod(0o755)
    spec = config.load_folder(place)
    resolved = get_contract("ainb").resolve(spec)
    assert str(place) in {shown.path for shown in decide(spec, run_dir, class_, resolved).visible_paths}
    swap(place, private)
    with pytest.raises(SandboxUnavailable, match="was replaced while it was being checked"):
        decide(spec, run_dir, class_, resolved)


async def test_nor_does_it_take_another_folder_for_it(host, strict, plug, private):
    plugin = await host.add(spec_in(plug))
    assert "data" in await plugin.call("ls")
    plug.rename(plug.with_name("old"))
    private.rename(plug)
    with pytest.raises(plughost.PluginError, match="its folder was replaced after the plugin was added"):
        await plugin.reload()
    assert "secret" not in await plugin.call("ls")


async def test_new_files_in_the_folder_are_an_update(host, strict, plug):
    plugin = await host.add(spec_in(plug))
    assert "data" in await plugin.call("ls")
    shutil.rmtree(plug / "sub")
    (plug / "new").mkdir()
    (plug / "data").rename(plug / "new" / "data")
    (plug / "other").write_text("")
    await plugin.reload()
    assert "other" in await plugin.call("ls")


async def test_a_folder_that_the_operator_names_may_be_replaced_as_a_whole(host, strict, plug, folder):
    write(folder, f'cwd = "plug"\nsandbox = "strict"\nenv = {{ PATH = "{os.environ["PATH"]}" }}')
    plugin = await host.add(config.load(folder / "plughost.toml")["p"])
    assert "data" in await plugin.call("ls")
    plug.rename(plug.with_name("old"))
    plug.mkdir()
    (plug / "new").write_text("")
    await plugin.reload()
    assert "new" in await plugin.call("ls")


# What a manifest names


@CLASSES
@pytest.mark.parametrize("part", ["data", "bin", "."])
def test_a_part_of_a_package_that_is_replaced_by_a_symlink(folder, private, run_dir, class_, part):
    package = folder / "lab"
    shutil.copytree(LAB, package)
    (package / "data").write_text("")
    spec = spec_of(package)
    resolved = get_contract("vai").resolve(spec)
    decide(spec, run_dir, class_, resolved)
    swap(package if part == "." else package / part, private)
    with pytest.raises(SandboxUnavailable, match="was replaced while it was being checked"):
        decide(spec, run_dir, class_, resolved)


@CLASSES
@pytest.mark.parametrize("verb", ["read:fs", "exec:tool"])
def test_a_declared_path_that_leads_elsewhere_than_when_it_was_found_public(
    folder, private, run_dir, class_, verb
):
    named = folder / "named"
    named.symlink_to("/usr/bin/env")
    place = kaged_support.folder(
        folder, command=["/usr/bin/wc", "-c", str(named)], capabilities=[f"{verb}:{named}"]
    )
    spec = msgspec.structs.replace(config.load_folder(place), grants=["declared"])
    resolved = get_contract("kaged").resolve(spec)
    own = msgspec.structs.replace(resolved.permissions.own, write=())
    permissions = msgspec.structs.replace(resolved.permissions, own=own)
    resolved = msgspec.structs.replace(resolved, permissions=permissions)
    assert resolved.sandbox.real_paths == {str(named): os.path.realpath("/usr/bin/env")}
    assert run(decide(spec, run_dir, class_, resolved).launch).status == 0
    named.unlink()
    named.symlink_to(private / "secret")
    with pytest.raises(SandboxUnavailable, match="was replaced while it was being checked"):
        decide(spec, run_dir, class_, resolved)


def test_a_program_that_leads_elsewhere_than_when_it_was_found_public(folder, private, run_dir):
    from plughost.contracts.ainb import manifest_limits
    from plughost.permissions.capability import Capability

    tool = folder / "tool"
    tool.symlink_to("/usr/bin/env")
    spec = plughost.PluginSpec(contract="mcptest", name="p", command=["/bin/sh"])
    held = [Capability("spawn_subprocess", (str(tool),))]
    found = manifest_limits.programs(held, spec)
    assert found == ((str(tool),), {str(tool): os.path.realpath("/usr/bin/env")})
    access = Access(execute=found.paths)
    prepare_sandbox(spec, ENV, access, ResourceLimits(), "strict", run_dir, resolved=found.resolved)
    tool.unlink()
    shutil.copy("/usr/bin/env", private / "tool")
    tool.symlink_to(private / "tool")
    with pytest.raises(SandboxUnavailable, match="was replaced while it was being checked"):
        prepare_sandbox(spec, ENV, access, ResourceLimits(), "strict", run_dir, resolved=found.resolved)
    assert manifest_limits.programs(held, spec).paths == (), "it is not public any more"
    by_name = msgspec.structs.replace(spec, grants=[f"spawn_subprocess={tool}"])
    assert manifest_limits.programs(held, by_name) == ((str(tool),), {}), "the operator's word is enough"


def test_what_the_operator_grants_is_followed_wherever_it_leads(folder, private):
    (folder / "named").symlink_to(private)
    assert resolve_grants(Access(read=(str(folder / "named"),))).read == (str(private),)
