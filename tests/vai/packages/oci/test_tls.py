"""With TLS: whom a registry's certificate convinces, and what to do when it does not."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess

import pytest

from plughost.clock import best_clock
from plughost.permissions.addresses import UrlTarget
from plughost.vai.packages.oci.content_store import MANIFEST
from plughost.vai.packages.oci.digests import describe
from plughost.vai.packages.oci.errors import TransferFailed
from plughost.vai.packages.oci.reference import parse_reference
from plughost.vai.packages.oci.registry.auth import Authorization
from plughost.vai.packages.oci.registry.client import RegistryClient
from plughost.vai.packages.oci.registry.repository import Registry
from tests.support.oci_artifacts import image
from tests.support.registry_faults import HASTY, Faulty, answer, document

BODY = image(describe(b"config", "a/config"), [], "a/type")
TAGGED = "GET /v2/acme/devkit/manifests/1.0"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A key and a self-signed certificate for localhost."""
    if shutil.which("openssl") is None:
        if os.environ.get("CI"):
            pytest.fail("the openssl command is missing")
        pytest.skip("no openssl command to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    words = (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    subprocess.run(
        ["openssl", *words.split(), "-keyout", folder / "key", "-out", folder / "cert"],
        check=True,
        capture_output=True,
    )
    return folder


@pytest.fixture
async def secure(certificate):
    server = Faulty()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert", certificate / "key")
    await server.start(context)
    yield server
    await server.stop()


async def get(server, trusting):
    import asyncio

    clock = best_clock(asyncio.get_running_loop())
    origin = UrlTarget("https", "localhost", server.port, "/")
    session = RegistryClient(
        origin, Authorization(origin, "acme/devkit", None, clock), clock, HASTY, trusting, proxies=False
    )
    try:
        return await Registry(session, parse_reference(f"localhost:{server.port}/acme/devkit")).manifest(
            "1.0"
        )
    finally:
        await session.close()
        clock.close()


async def test_a_trusted_certificate_is_enough(secure, certificate):
    secure.on(TAGGED, document(BODY, MANIFEST))
    assert (await get(secure, ssl.create_default_context(cafile=certificate / "cert")))[1] == BODY


async def test_a_certificate_of_nobody_is_refused_at_once_with_what_to_do(secure):
    with pytest.raises(TransferFailed, match="certificate") as caught:
        await get(secure, ssl.create_default_context())
    assert "SSL_CERT_FILE" in caught.value.hint
    assert secure.seen == []


async def test_a_registry_with_tls_does_not_lead_out_of_it(secure, certificate):
    secure.on(TAGGED, answer(b"", 307, f"Location: http://localhost:{secure.port}/elsewhere"))
    with pytest.raises(TransferFailed, match="from TLS to plain HTTP"):
        await get(secure, ssl.create_default_context(cafile=certificate / "cert"))
    assert len(secure.seen) == 1
