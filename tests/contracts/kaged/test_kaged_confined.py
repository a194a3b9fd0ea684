"""kaged: what a plugin may not, the kernel keeps it from."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

import msgspec
import pytest

import plughost
from plughost import config
from tests.sandbox.conftest import strict
from tests.support import PLUGINS, data_root, until
from tests.support import kaged as kaged_support
from tests.support.confinable import PUBLIC_PYTHON

__all__ = ["strict"]

"""One that any user can reach: of a root host the plugin is another."""


@pytest.fixture
async def host():
    async with plughost.Host() as host:
        yield host


@pytest.fixture
def outside():
    """A folder that every user can reach, which pytest's own are not."""
    path = Path(tempfile.mkdtemp(prefix="plughost-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def place(outside):
    """The puppet, whole in its folder."""
    place = kaged_support.folder(
        outside,
        command=[PUBLIC_PYTHON, "-ISE", "./main.py"],
        methods=[*kaged_support.ABOUT["methods"], "p.try"],
    )
    shutil.copy(PLUGINS / "kaged_puppet.py", place / "main.py")
    return place


def spec(place, *grants):
    return msgspec.structs.replace(
        config.load_folder(place), grants=grants, options={"data_root": data_root(place.parent)}
    )


async def tries(plugin, code):
    """What a line of Python gives in the plugin, or the name of its error."""
    return await plugin.call("p.try", {"code": code}, timeout=60)


def writable(path):
    path.mkdir()
    path.chmod(0o777)
    return path


@pytest.mark.clause("KAGED-11", "KAGED-12")
async def test_without_grants_there_is_its_own_folder_its_data_and_nothing_else(strict, host, outside, place):
    (outside / "secret").write_text("x")
    plugin = await host.add(spec(place))
    assert plugin.sandbox == "strict"
    assert "import" in await tries(plugin, "open('main.py').read()")
    assert await tries(plugin, "open(os.environ['KAGED_CONFIG_ROOT'] + '/kept', 'w').write('abc')") == 3
    assert (outside / "data/puppet/kept").read_text() == "abc"
    for code in (
        f"open({str(outside / 'secret')!r}).read()",
        "open('main.py', 'a')",
        "open('/etc/shadow').read()",
        "subprocess.run(['/usr/bin/mkdir', '/tmp/x'])",
        "socket.create_connection(('127.0.0.1', 22), 1)",
        "socket.create_connection(('93.184.216.34', 443), 1)",
        "socket.getaddrinfo('example.com', 443)",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('93.184.216.34', 53))",
    ):
        assert "rror: " in str(await tries(plugin, code)), code
    await tries(plugin, f"open({str(outside / 'data/other')!r}, 'w').write('x')")  # in its own /tmp, perhaps
    assert sorted(os.listdir(outside / "data")) == [".puppet.owner", "puppet"]


@pytest.mark.clause("KAGED-11")
async def test_what_is_granted_is_there_and_no_more_than_that(strict, host, outside, place):
    notes, drafts = outside / "notes", writable(outside / "drafts")
    notes.mkdir()
    (notes / "one").write_text("1")
    mkdir = shutil.which("mkdir")
    plugin = await host.add(spec(place, f"read:fs:{notes}", f"write:fs:{drafts}", f"exec:mkdir:{mkdir}"))
    assert await tries(plugin, f"open('{notes}/one').read()") == "1"
    assert "Error" in await tries(plugin, f"open('{notes}/two', 'w')")
    assert await tries(plugin, f"open('{drafts}/two', 'w').write('22')") == 2
    assert await tries(plugin, f"subprocess.run([{mkdir!r}, '{drafts}/made']).returncode") == 0
    assert (drafts / "made").is_dir()
    assert "Error" in await tries(plugin, "subprocess.run(['/usr/bin/touch', '/tmp/x'])")


class Server:
    """Says hello to whoever comes."""

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._hello, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def _hello(self, reader, writer):
        writer.write(b"hello")
        await writer.drain()
        writer.close()

    async def __aexit__(self, *_):
        self._server.close()
        await self._server.wait_closed()


@pytest.mark.clause("KAGED-13")
async def test_a_host_on_this_machine_is_reached_by_any_client_when_it_is_granted_by_name(
    strict, outside, place
):
    async with Server() as server, Server() as other, plughost.Host() as host:
        plugin = await host.add(spec(place, f"net:127.0.0.1:{server.port}"))
        hello = "socket.create_connection(('127.0.0.1', {}), 5).recv(5).decode()"
        assert await tries(plugin, hello.format(server.port)) == "hello"
        assert await tries(plugin, hello.format(other.port)) != "hello"


PROXIED = """(lambda c: (c.sendall(b'CONNECT {0} HTTP/1.1\\r\\nHost: {0}\\r\\n\\r\\n'), c.makefile('rb').readline().decode())[1])(
socket.create_connection(('127.0.0.1', int(os.environ['HTTPS_PROXY'].rpartition(':')[2])), 5))"""


@pytest.mark.clause("KAGED-11", "KAGED-13")
@pytest.mark.parametrize("grant", ["net:*", "net:127.0.0.1:*", "net:localhost:*"])
async def test_grants_of_many_ports_go_through_the_proxy_to_public_addresses_only(
    strict, outside, place, grant
):
    async with Server() as server, plughost.Host() as host:
        plugin = await host.add(spec(place, grant))
        told = await tries(plugin, PROXIED.replace("\n", "").format(f"127.0.0.1:{server.port}"))
        assert " 403 " in told
        denied = f"127.0.0.1:{server.port}"
        logs = host.service("logs")
        await until(
            lambda: any(line.source == "denied" and denied in line.message for line in logs.recent("puppet"))
        )


@pytest.mark.clause("KAGED-11")
async def test_a_grant_of_what_is_not_there_is_told_when_it_is_added(strict, host, outside, place):
    with pytest.raises(plughost.LaunchFailed, match="no-such-folder"):
        await host.add(spec(place, f"read:fs:{outside}/no-such-folder"))


@pytest.mark.clause("KAGED-12")
async def test_its_data_is_there_again_after_a_reload_and_in_another_host(strict, outside, place):
    code = "open(os.environ['KAGED_CONFIG_ROOT'] + '/kept', 'a+').write('x') and os.path.getsize(os.environ['KAGED_CONFIG_ROOT'] + '/kept')"
    for size in (0, 2):
        async with plughost.Host() as host:
            plugin = await host.add(spec(place))
            await tries(plugin, code)
            await plugin.reload()
            await tries(plugin, code)
            assert (outside / "data/puppet/kept").stat().st_size == size + 2


@pytest.mark.clause("KAGED-12")
async def test_its_data_is_there_whether_it_is_confined_or_not(strict, outside, place):
    kept = "open(os.environ['KAGED_CONFIG_ROOT'] + '/kept', 'a').write('x')"
    for sandbox in ("strict", "none"):
        async with plughost.Host() as host:
            plugin = await host.add(msgspec.structs.replace(spec(place), sandbox=sandbox))
            assert await tries(plugin, kept) == 1
    assert (outside / "data/puppet/kept").read_text() == "xx"
