"""What a sandbox is built from is in no plugin's hands: not at first, and not when it is made anew."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from plughost import Host
from plughost.errors import SandboxUnavailable
from plughost.permissions.access import Access
from plughost.permissions.parse import union
from plughost.sandbox.protected_paths import ProtectedPaths
from plughost.sandbox.resolve.grants import resolve_grants
from plughost.spec import PluginSpec
from tests.support.sandbox import confinement, run

pytestmark = pytest.mark.usefixtures("strict")

CLASSES = ("strict", "landlock")


@pytest.fixture
def shared(folder):
    """A folder that plugins may be granted, with another in it; and a secret that none is."""
    (folder / "shared" / "in").mkdir(parents=True)
    (folder / "secret").mkdir()
    (folder / "secret" / "key").write_text("s3cret")
    for each in ("shared", "shared/in", "secret"):
        (folder / each).chmod(0o777)
    return folder / "shared"


def swap(shared):
    """As a plugin does that may write to it."""
    (shared / "in").rename(shared / "old")
    (shared / "in").symlink_to(shared.parent / "secret")


@pytest.mark.parametrize(
    ("path", "kind", "shaken"),
    [
        ("/s", "reads", False),
        ("/s", "writes", False),
        ("/s", "code", True),
        ("/s/in", "reads", True),
        ("/s/in", "writes", True),
        ("/s/in", "code", True),
        ("/", "reads", False),
        ("/summer", "code", False),
    ],
)
def test_the_very_same_folder_may_be_shared_and_nothing_below_it(path, kind, shaken):
    found = ProtectedPaths(**{kind: (path,)}).writable_by(ProtectedPaths(writes=("/s",)))
    assert found == ((path, "/s") if shaken else None)


def test_what_is_in_a_folder_to_write_is_granted_with_it(shared):
    inside, beside = str(shared / "in"), str(shared.parent / "secret")
    access = Access(read=(inside, beside, str(shared)), write=(inside, str(shared)))
    found = resolve_grants(access)
    assert (found.read, found.write) == ((beside,), (str(shared),))


def test_a_manifests_path_does_not_lead_out_of_the_operators(shared):
    asked, allowed = Access(read=(str(shared / "in"),)), Access(read=(str(shared),))
    assert resolve_grants(asked, allowed).read == asked.read
    swap(shared)
    with pytest.raises(SandboxUnavailable, match="leads to .*/secret, which is not") as caught:
        resolve_grants(asked, allowed)
    assert f"allow {shared.parent}/secret" in caught.value.hint
    assert resolve_grants(asked, asked).read == (str(shared.parent / "secret"),), (
        "the operator's own word is enough"
    )


@pytest.mark.parametrize("class_", CLASSES)
@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_plugin_cannot_swap_a_grant_of_its_own_for_more(run_dir, shared, class_, kind):
    access = union(Access(write=(str(shared),)), Access(**{kind: (str(shared / "in"),)}))
    confinement(run_dir, ["/bin/sh"], access=access, class_=class_)
    swap(shared)
    with pytest.raises(SandboxUnavailable, match="must not be writable for the plugin"):
        confinement(run_dir, ["/bin/sh"], access=access, class_=class_)


def test_a_program_in_a_folder_that_it_may_write_is_refused(run_dir, shared):
    (shared / "bin").mkdir()
    shutil.copy("/bin/true", shared / "bin" / "tool")
    with pytest.raises(SandboxUnavailable, match="must not be writable for the plugin"):
        confinement(run_dir, [str(shared / "bin" / "tool")], access=Access(write=(str(shared),)))
    with pytest.raises(SandboxUnavailable, match="must not be writable for the plugin"):
        access = Access(write=(str(shared),), execute=(str(shared / "bin" / "tool"),))
        confinement(run_dir, ["/bin/sh"], access=access)


@pytest.mark.parametrize("class_", CLASSES)
def test_a_grant_that_was_swapped_since_is_not_given(run_dir, shared, class_):
    """By somebody the host knows nothing of: the launch was decided before."""
    cat = f"cat {shared}/in/key"
    access = Access(read=(str(shared / "in"),), execute=("/bin/cat",))
    found = confinement(run_dir, ["/bin/sh", "-c", f"echo here; {cat}"], access=access, class_=class_)
    assert run(found.launch).out == "here\n"
    swap(shared)
    ran = run(found.launch)
    assert ran.out == "", ran
    assert any(line.startswith("fail moved ") and line.endswith(f" {shared}/in") for line in ran.report), ran
    (shared / "in").unlink()
    (shared / "old").rename(shared / "in")
    assert run(found.launch).out == "here\n"


def spec(name, **allow):
    return PluginSpec(
        contract="mcptest",
        name=name,
        command=["/bin/sh", "-c", "cat"],
        sandbox="strict",
        allow=Access(**allow),
    )


def test_what_one_plugin_may_write_no_other_is_built_from(shared):
    write, inside, link = str(shared), str(shared / "in"), str(shared / "link")
    (shared / "link").symlink_to("/usr/share/zoneinfo")
    (shared / "tool").write_text("#!/bin/sh\n")
    (shared / "tool").chmod(0o755)

    async def scenario():
        async with Host() as host:
            await host.add(spec("writer", write=(write,)))
            for number, allow in enumerate(
                (
                    {"read": (inside,)},
                    {"write": (inside,)},
                    {"read": (link,)},
                    {"execute": (str(shared / "tool"),)},
                )
            ):
                with pytest.raises(SandboxUnavailable, match="'writer' may write"):
                    await host.add(spec(f"below {number}", **allow))
            await host.add(spec("sharer", read=(write,)))
            await host.remove("writer")
            await host.add(spec("reader", read=(inside,)))
            with pytest.raises(SandboxUnavailable, match="of the plugin 'reader'"):
                await host.add(spec("writer", write=(write,)))
            await host.remove("reader")
            await host.add(spec("writer", write=(write,)))

    asyncio.run(scenario())


def test_a_path_that_was_swapped_since_is_not_followed_at_a_reload(shared):
    """By a plugin of another host, say."""

    async def scenario():
        async with Host() as host:
            plugin = await host.add(spec("reader", read=(str(shared / "in"),)))
            await plugin.reload()
            swap(shared)
            with pytest.raises(SandboxUnavailable, match="leads to another place") as caught:
                await plugin.reload()
            assert "add it again" in caught.value.hint
            await host.remove("reader")
            await host.add(spec("reader", read=(str(shared / "in"),)))  # the operator's word, said anew

    asyncio.run(scenario())
