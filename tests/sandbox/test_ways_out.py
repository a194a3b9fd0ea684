"""A confined plugin in a real host reaches what it was granted, by any client, and nothing else; all is told."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import ssl
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import plughost
from plughost.guard.powers import Endpoint, Powers
from tests.sandbox.outside import Outside, Server, certificate, echo, needs, web
from tests.support import PLUGINS, until

pytestmark = pytest.mark.usefixtures("strict")
Adding = Callable[..., plughost.PluginSpec]


@pytest.fixture(scope="module")
def tls(tmp_path_factory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("tls"), "DNS:localhost")


@pytest.fixture
def spec(folder, tls) -> Adding:
    """A client in a folder of its own, with a certificate that it may read."""
    authority = Path(shutil.copy(tls[0], folder / "authority.pem"))
    authority.chmod(0o644)

    def made(*endpoints: Endpoint, language: str = "python", name: str = "client") -> plughost.PluginSpec:
        program = {"python": "client.py", "node": "client.js"}[language]
        home = folder / language
        home.mkdir(exist_ok=True)
        path = shutil.copy(PLUGINS / program, home)
        command = [f"/usr/bin/{language}3", "-I", "-S", path] if language == "python" else ["node", path]
        env = {"SSL_CERT_FILE": str(authority), "NODE_EXTRA_CA_CERTS": str(authority)}
        allow = Powers(read=(str(authority),), connect=endpoints)
        return plughost.PluginSpec(
            contract="mcptest", name=name, command=command, env=env, sandbox="strict", allow=allow
        )

    return made


@pytest.fixture
async def secure(outside: Outside, tls) -> Server:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*tls)
    return await outside.server(web, context)


def local(server: Server) -> Endpoint:
    return Endpoint("localhost", server.port, private=True)


def told(host: plughost.Host, source: str, name: str = "client") -> list[str]:
    return [line.message for line in host.service("logs").recent(name) if line.source == source]


@pytest.mark.parametrize("language", ["python", "node"])
async def test_http_and_https_to_what_is_granted(host, outside, secure, spec, language):
    """Python takes the proxy for https, and for http the name; Node takes the name for both."""
    needs(language if language == "node" else "python3")
    plain, other = await outside.server(web), await outside.server(web)
    plugin = await host.add(spec(local(plain), local(secure), language=language))
    assert await plugin.call("get", [f"http://localhost:{plain.port}/a"]) == "GET /a HTTP/1.1"
    assert await plugin.call("get", [f"https://localhost:{secure.port}/b"]) == "GET /b HTTP/1.1"
    assert (await plugin.call("get", [f"http://localhost:{other.port}/c"])).startswith("failed: ")
    assert (plain.guests, secure.guests, other.guests) == (1, 1, 0)
    await until(lambda: len(told(host, "egress")) == 2)
    assert {line.split(":")[1] for line in told(host, "egress")} == {str(plain.port), str(secure.port)}


async def test_a_refusal_is_told_with_the_grant_that_would_allow_it(host, outside, spec):
    server = await outside.server(web)
    plugin = await host.add(spec(local(server)))
    for _ in range(3):
        assert "403" in await plugin.call("get", ["https://other.example/"])
    await until(lambda: told(host, "denied"))
    assert [line for line in told(host, "denied") if 'connect = ["other.example:443"]' in line] == told(
        host, "denied"
    )
    assert len(told(host, "denied")) == 1, "once is enough"


async def test_a_granted_name_that_leads_to_this_machine_needs_private(host, outside, spec):
    server = await outside.server(web)
    plugin = await host.add(spec(Endpoint("localhost", server.port)))
    assert (await plugin.call("get", [f"http://localhost:{server.port}/"])).startswith("failed: ")
    await until(lambda: told(host, "denied"))
    assert "private" in told(host, "denied")[0]
    assert server.guests == 0


async def test_a_raw_socket_reaches_a_low_port(host, outside, spec):
    """The forwarder inside listens on 443 as on any other."""
    network = f"127.83.{1 + secrets.randbelow(250)}"  # another test may run at the same time
    address = f"{network}.1"
    server = Server(echo)
    try:
        await server.start(address=address, port=443)
    except PermissionError:
        pytest.skip("only root listens on 443")
    try:
        plugin = await host.add(spec(Endpoint(address, 443, private=True)))
        assert await plugin.call("talk", [address, 443, "hello"]) == "hello"
        assert (await plugin.call("talk", [address, 80, "hello"])).startswith("failed: ")
        assert (await plugin.call("talk", [f"{network}.2", 443, "hello"])).startswith("failed: ")
    finally:
        await server.stop()


async def test_no_endpoints_no_way_out(host, outside, spec):
    server = await outside.server(web)
    plugin = await host.add(spec())
    assert (await plugin.call("get", [f"http://localhost:{server.port}/"])).startswith("failed: ")
    assert server.guests == 0


async def test_two_plugins_have_each_their_own_way_out(host, outside, spec):
    first, second = await outside.server(echo), await outside.server(echo)
    one = await host.add(spec(local(first), name="one"))
    other = await host.add(spec(local(second), name="other"))
    assert await one.call("talk", ["localhost", first.port, "1"]) == "1"
    assert await other.call("talk", ["localhost", second.port, "2"]) == "2"
    assert (await one.call("talk", ["localhost", second.port, "3"])).startswith("failed: ")
    assert (await other.call("talk", ["localhost", first.port, "4"])).startswith("failed: ")


async def test_a_reload_with_other_endpoints_leaves_the_old_generation_its_own(host, outside, spec):
    first, second = await outside.server(echo), await outside.server(echo)
    opened = asyncio.Event()

    async def later(reader, writer):
        data = await reader.read(100)
        await opened.wait()
        writer.write(data)
        await writer.drain()

    gate = await outside.server(later)
    plugin = await host.add(spec(local(first), local(gate), Endpoint("old.example", 443)))
    in_flight = asyncio.ensure_future(plugin.call("names", ["localhost", gate.port], timeout=20))
    await until(lambda: gate.guests == 1)
    plugin.spec = msgspec.structs.replace(plugin.spec, allow=spec(local(second)).allow)
    await plugin.reload()
    assert await plugin.call("talk", ["localhost", second.port, "new"]) == "new"
    assert (await plugin.call("talk", ["localhost", first.port, "new"])).startswith("failed: ")
    ways = _ways(host)
    assert len(ways) == 2, "the old one is there while its call is open"
    opened.set()
    assert "old.example" in await in_flight
    await until(lambda: len(_ways(host)) == 1)
    assert _ways(host) < ways
    assert await plugin.call("talk", ["localhost", second.port, "still"]) == "still"


def _ways(host: plughost.Host) -> set[str]:
    ground = host._keeper._ground
    return {str(path) for path in Path(ground.quarters.path).glob("*/*/proxy")}


async def test_a_name_of_the_hosts_own_is_reached_by_any_client_and_is_all_there_is(
    host, outside, spec, tmp_path
):
    """As a plugin that may use the gateway's API reaches it, without any network."""
    path = str(tmp_path / "gateway.sock")
    other = await outside.server(web)
    gateway = await outside.server(web, path=path)
    plugin = await host.add(spec(Endpoint("gateway.internal", 80, socket=path)))
    assert await plugin.call("get", ["http://gateway.internal/v1"]) == "GET /v1 HTTP/1.1"
    assert (await plugin.call("get", [f"http://localhost:{other.port}/"])).startswith("failed: ")
    assert (gateway.guests, other.guests) == (1, 0)
