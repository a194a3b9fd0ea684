"""An ainb manifest is the grant, but never for private addresses or for files that others cannot read."""

from __future__ import annotations

import base64
import os
import shutil

import msgspec
import pytest

import plughost
from plughost.permissions import parse
from plughost.services.network.service import NetworkService
from tests.support import ROOT, web
from tests.support.ainb import ask, folder, spec
from tests.support.confinable import PATH, needs, open_folder

DENIED = {"code": -32001, "message": "capability denied: network"}
PRIVATE_HOSTS = [
    *("127.0.0.1", "127.9.9.9", "localhost", "[::1]", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1"),
    *(
        "169.254.169.254",
        "100.64.0.1",
        "[fd00::1]",
        "[fe80::1]",
        "[::ffff:127.0.0.1]",
        "metadata.google.internal",
    ),
    *("printer.local", "db", "LOCALHOST", "localhost."),
]


@pytest.fixture
async def net(host):
    """A web of which every name leads to this machine."""
    served = web.Web()
    await served.start()
    served.names = {"inside.test": ["127.0.0.1"], "public.test": [web.PUBLIC], "localhost": ["127.0.0.1"]}
    served.pages["/"] = web.answer(b"private")
    host.provide("network", NetworkService(served.network()))
    yield served
    await served.stop()


async def fetched(plugin, url):
    return await ask(plugin, "host/network/fetch", {"url": url})


@pytest.mark.parametrize("grants", [("declared",), ("network",), ("declared", "network")])
@pytest.mark.parametrize("listed", [["127.0.0.1", "inside.test", "localhost", "public.test"], True])
async def test_a_manifests_word_fetches_from_no_private_address(host, net, tmp_path, grants, listed):
    plugin = await host.add(spec(folder(tmp_path, capabilities={"network": listed}), grants=grants))
    for url in (f"http://127.0.0.1:{net.port}/", "http://inside.test/", f"http://localhost:{net.port}/"):
        assert await fetched(plugin, url) == DENIED, url
    assert net.dialled == []
    assert (await fetched(plugin, "http://public.test/"))["status"] == 200


@pytest.mark.parametrize("private", PRIVATE_HOSTS)
async def test_a_private_host_of_a_manifest_is_not_granted_and_the_remedy_is_told(host, tmp_path, private):
    plugin = await host.add(spec(folder(tmp_path, capabilities={"network": [private, "a.example"]})))
    assert [*map(str, plugin.capabilities)] == ["network[a.example]"]
    (lint,) = [lint for lint in plugin.inspect()["lints"] if lint.startswith("network ")]
    assert f'grants = ["declared", "network={private}"]' in lint
    await host.remove("puppet")
    named = msgspec.structs.replace(plugin.spec, grants=("declared", f"network={private}"))
    plugin = await host.add(named)
    assert not any(lint.startswith("network ") for lint in plugin.inspect()["lints"])


async def test_what_the_operator_names_himself_is_fetched(host, net, tmp_path):
    place = folder(tmp_path, capabilities={"network": ["127.0.0.1", "inside.test"]})
    plugin = await host.add(spec(place, grants=("declared", "network=127.0.0.1")))
    assert (await fetched(plugin, f"http://127.0.0.1:{net.port}/"))["status"] == 200
    assert await fetched(plugin, "http://inside.test/") == DENIED


async def test_an_operators_allow_opens_a_private_host_on_its_port(host, net, tmp_path):
    place = folder(tmp_path, capabilities={"network": ["127.0.0.1"]})
    allow = parse.parse_access({"connect": ["127.0.0.1:8081 private"]}, "/")
    plugin = await host.add(msgspec.structs.replace(spec(place), allow=allow))
    assert (await fetched(plugin, "http://127.0.0.1:8081/"))["status"] == 200
    assert await fetched(plugin, "http://127.0.0.1:8082/") == DENIED


# Programs


@pytest.fixture
def place():
    with open_folder() as place, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{place}/private/bin:{PATH}")
        (place / "private/bin").mkdir(parents=True)
        (place / "private").chmod(0o700)
        yield place


def script(path, mode=0o755):
    path.write_text("#!/bin/sh\necho secret\n")
    path.chmod(mode)
    return str(path)


def listing(place):
    """Programs that a manifest may name, and that only the operator can give."""
    deploy = script(place / "deploy.sh", 0o700)
    below = script(place / "private/bin/tool")
    (place / "link").symlink_to(deploy)
    os.link(deploy, place / "hard")
    owned = script(place / "anybodys")
    return {
        "private": deploy,
        "below a private folder": below,
        "by its name on PATH": "tool",
        "through a symlink": str(place / "link"),
        "a hard link": str(place / "hard"),
        "upwards": f"{place}/private/../deploy.sh",
        "not root's to keep": owned,
    }


def test_no_private_program_is_shown_by_a_manifests_word(place, tmp_path):
    os.chown(place, 65534, -1) if os.geteuid() == 0 else None
    named = listing(place)
    told = folder(tmp_path, capabilities={"spawn_subprocess": [*named.values(), "ls"]})
    contract = plughost.contracts.ainb.contract.CONTRACT
    resolved = contract.resolve(spec(told))
    assert resolved.permissions.own.execute == (shutil.which("ls"),)
    assert [*map(str, resolved.permissions.capabilities)] == ["spawn_subprocess[ls]"]
    lints = [lint for lint in resolved.lints if lint.startswith("spawn_subprocess ")]
    assert len(lints) == len(named)
    for item in named.values():
        assert any(f'grants = ["declared", "spawn_subprocess={item}"]' in lint for lint in lints)
        by_name = contract.resolve(spec(told, grants=("declared", f"spawn_subprocess={item}")))
        assert os.path.abspath(shutil.which(item)) in by_name.permissions.own.execute


async def test_a_private_script_cannot_be_read_in_a_sandbox(host, place):
    needs("strict")
    secret = script(place / "deploy.sh", 0o700)
    made = place / "reader"
    made.mkdir()
    (made / "manifest.toml").write_text(
        '[plugin]\nname = "reader"\nversion = "1.0.0"\nabi_version = 2\n[capabilities]\n'
        f'spawn_subprocess = ["{secret}"]\n'
    )
    shutil.copy(ROOT / "tests/plugins/ainb_puppet.py", made / "reader")
    text = (made / "reader").read_text()
    (made / "reader").write_text(f"#!/usr/bin/python3 -ISE\n{text}")
    (made / "reader").chmod(0o755)
    plugin = await host.add(msgspec.structs.replace(spec(made), sandbox="strict"))
    assert secret not in plugin.confinement.visible_access.execute
    assert not any(each.path == secret for each in plugin.confinement.visible_paths)


# Files


@pytest.fixture
def sessions(monkeypatch):
    with open_folder() as home:
        monkeypatch.setenv("AINB_HOME", str(home))
        (home / "sessions/open").mkdir(parents=True)
        (home / "sessions/closed").mkdir(mode=0o700)
        for name, mode in (("f", 0o644), ("secret", 0o600), ("open/f", 0o644), ("closed/f", 0o644)):
            (home / "sessions" / name).write_text(name)
            (home / "sessions" / name).chmod(mode)
        (home / "sessions/link").symlink_to("secret")
        os.link(home / "sessions/secret", home / "sessions/open/hard")
        yield home / "sessions"


PRIVATE = ("secret", "link", "open/hard", "closed/f", "open/../secret", "closed/../secret")


async def read(plugin, path, **more):
    answer = await ask(plugin, "host/fs/read_file", {"path": str(path), **more})
    return base64.b64decode(answer["bytes"]).decode() if "bytes" in answer else answer["message"]


@pytest.mark.parametrize("grants", [("declared",), ("read_sessions",), ("declared", "read_sessions")])
async def test_the_host_reads_private_files_only_on_the_operators_word(host, sessions, tmp_path, grants):
    plugin = await host.add(spec(folder(tmp_path, capabilities={"read_sessions": True}), grants=grants))
    assert [await read(plugin, sessions / name) for name in ("f", "open/f")] == ["f", "open/f"]
    named = "read_sessions" in grants
    for name in PRIVATE:
        for more in ({}, {"length": 10}):
            told = await read(plugin, f"{sessions}/{name}", **more)
            assert (told == "capability denied: read_sessions") != named, (name, told)
    listed = await ask(plugin, "host/fs/read_dir", {"path": str(sessions / "closed")})
    assert ("entries" in listed) == named


async def test_an_operators_allow_opens_a_private_folder_to_the_hosts_reading(host, sessions, tmp_path):
    plain = spec(folder(tmp_path, capabilities={"read_sessions": True}))
    allow = parse.parse_access({"read": [str(sessions / "closed")]}, "/")
    plugin = await host.add(msgspec.structs.replace(plain, allow=allow))
    assert await read(plugin, sessions / "closed/f") == "closed/f"
    assert await read(plugin, sessions / "secret") == "capability denied: read_sessions"


async def test_all_of_a_private_home_is_private(host, sessions, tmp_path):
    sessions.parent.chmod(0o700)
    plugin = await host.add(spec(folder(tmp_path, capabilities={"read_sessions": True})))
    assert await read(plugin, sessions / "f") == "capability denied: read_sessions"
    (line,) = [each for each in host.service("logs").recent("puppet") if each.source == "denied"]
    assert "grant read_sessions by name" in str(line)
