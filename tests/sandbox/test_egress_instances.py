"""A confined plugin in a real host reaches what it was granted, by any client, and nothing else; all is told."""

from __future__ import annotations

import asyncio
import re
import secrets
import shlex
import shutil
import ssl
import tomllib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import plughost
from plughost.events import Logged
from plughost.permissions.access import Access, Endpoint, endpoint
from tests.support import PLUGINS, until
from tests.support.network import Outside, Server, certificate, echo, needs, web

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
        allow = Access(read=(str(authority),), connect=endpoints)
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


def grant_of(line: str) -> Endpoint:
    """The endpoint that a line names, in both of its spellings."""
    found = re.search(r"\(to allow it, (allow\.connect = \[.*\]) or (--allow .*)\)$", line)
    assert found is not None, line
    word = shlex.split(found[2])[1].removeprefix("connect=")
    assert tomllib.loads(found[1])["allow"]["connect"] == [word]
    return endpoint(word)


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
    (line,) = told(host, "denied")  # once is enough
    assert grant_of(line) == Endpoint("other.example", 443)


async def test_a_granted_name_that_leads_to_this_machine_needs_private(host, outside, spec):
    server = await outside.server(web)
    plugin = await host.add(spec(Endpoint("localhost", server.port)))
    assert (await plugin.call("get", [f"http://localhost:{server.port}/"])).startswith("failed: ")
    await until(lambda: told(host, "denied"))
    assert grant_of(told(host, "denied")[0]) == local(server)
    assert server.guests == 0


async def test_each_refused_connection_is_an_event_with_what_there_is_to_know_of_it(host, outside, spec):
    server = await outside.server(web)
    plugin = await host.add(spec(local(server)))
    with host.events() as events:
        for _ in range(3):
            assert "403" in await plugin.call("get", ["https://other.example/"])
        seen: list[Logged] = []

        def all_three() -> bool:
            seen.extend(event for event in iter(events.take, None) if isinstance(event, Logged))
            return len(seen) == 3

        await until(all_three)
    assert {(event.plugin, event.source, event.fields["up"]) for event in seen} == {("client", "denied", 0)}
    assert len(told(host, "denied")) == 1


@pytest.mark.parametrize("place", ["93.184.216.34:443", "[2606:2800:220:1::1]:443", "10.1.2.3:80 private"])
@pytest.mark.parametrize("granted", [False, True])
async def test_what_is_dialled_without_a_grant_is_told_by_its_address(host, outside, spec, place, granted):
    """By any client, and whether or not the plugin has a way out to elsewhere."""
    server = await outside.server(web)
    plugin = await host.add(spec(*([local(server)] if granted else [])))
    dialled = endpoint(place)
    for _ in range(3):
        assert (await plugin.call("talk", [dialled.host, dialled.port, "hello"])).startswith("failed: ")
    await until(lambda: told(host, "denied"))
    (line,) = told(host, "denied")
    assert line.startswith(f"connect {place.removesuffix(' private')}: not granted")
    assert grant_of(line) == dialled


async def test_a_port_of_this_machine_is_told_and_one_of_its_own_is_not(host, outside, spec):
    server = await outside.server(echo)
    plugin = await host.add(spec())
    assert await plugin.call("by_itself", ["127.0.0.1"]) == "hello"
    assert await plugin.call("by_itself", ["::1"]) == "hello"
    assert (await plugin.call("talk", ["127.0.0.1", server.port, "hello"])).startswith("failed: ")
    await until(lambda: told(host, "denied"))
    (line,) = told(host, "denied")
    assert grant_of(line) == Endpoint("127.0.0.1", server.port, private=True)


async def test_a_name_that_cannot_be_looked_up_is_told(host, outside, spec):
    plugin = await host.add(spec())
    assert (await plugin.call("talk", ["api.example.com", 443, "hello"])).startswith("failed: ")
    await until(lambda: told(host, "denied"))
    (line,) = told(host, "denied")
    assert line.startswith("connect to a host by its name: ")
    assert 'allow.connect = ["HOST:PORT"] or --allow connect=HOST:PORT' in line


async def test_a_granted_address_that_is_dialled_past_the_proxy_is_told_as_that(host, outside, spec):
    plugin = await host.add(spec(Endpoint("93.184.216.34", 443)))
    assert (await plugin.call("talk", ["93.184.216.34", 443, "hello"])).startswith("failed: ")
    await until(lambda: told(host, "denied"))
    assert "connected directly instead of through the proxy" in told(host, "denied")[0]
    assert "to allow it" not in told(host, "denied")[0]


async def test_nothing_is_told_of_what_was_granted(host, outside, spec):
    server = await outside.server(echo)
    plugin = await host.add(spec(local(server)))
    assert await plugin.call("talk", ["localhost", server.port, "hello"]) == "hello"
    await until(lambda: told(host, "egress"))
    await host.remove("client")
    assert told(host, "denied") == []


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
    ground = host._sandboxes._host_setup
    return {str(path) for path in Path(ground.run_dir.path).glob("*/*/proxy")}


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
