"""How a registry is asked: who is told who we are, how often, and what is believed of the answers."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime

import pytest

from plughost.errors import InvalidSpec
from plughost.permissions.addresses import parse_url
from plughost.testing import VirtualClock
from plughost.vai.packages.oci.content_store import INDEX, MANIFEST, no_progress
from plughost.vai.packages.oci.digests import describe
from plughost.vai.packages.oci.errors import BadContent, NotFound, TransferFailed, Unauthorized
from plughost.vai.packages.oci.reference import parse_reference
from plughost.vai.packages.oci.registry.client import follow
from plughost.vai.packages.oci.registry.repository import open_registry
from plughost.vai.packages.oci.registry.retry import RetryPolicy, delay, retry_after
from tests.support import until
from tests.support.oci_artifacts import LAYER, SIGNATURE, image
from tests.support.registry_faults import HASTY, Faulty, answer, document, problem

BODY = image(describe(b"config", "a/config"), [describe(b"layer", LAYER)], "a/type")
BLOB = describe(b"some bytes", LAYER)
WHO = {"PLUGHOST_REGISTRY_USER": "ada", "PLUGHOST_REGISTRY_PASSWORD": "hunter2"}
BASIC = "Basic " + base64.b64encode(b"ada:hunter2").decode()
HERE = "/v2/acme/devkit"
TAGGED = f"GET {HERE}/manifests/1.0"
fine = document(BODY, MANIFEST)


@pytest.fixture
async def elsewhere():
    server = Faulty()
    await server.start()
    yield server
    await server.stop()


async def get(faulty, **options):
    async with faulty.open(**options) as registry:
        return await registry.manifest("1.0")


def wants(*challenges):
    return problem(401, "who is there", *(f"WWW-Authenticate: {challenge}" for challenge in challenges))


# Who is told who we are


async def test_the_password_is_sent_when_it_is_asked_for_and_not_before(faulty):
    faulty.on(TAGGED, wants('Basic realm="x"'), fine)
    await get(faulty, environ=WHO)
    assert [exchange.headers.get("authorization") for exchange in faulty.seen] == [None, BASIC]


async def test_another_host_is_not_told_who_we_are(faulty, elsewhere, tmp_path):
    blob = f"GET {HERE}/blobs/{BLOB.digest}"
    faulty.on(
        blob, wants("Basic"), answer(b"", 307, f"Location: http://localhost:{elsewhere.port}/there?sig=x")
    )
    elsewhere.on("GET /there", elsewhere.blob(b"some bytes"))
    async with faulty.open(environ=WHO) as registry:
        await registry.fetch(BLOB, tmp_path / "out", no_progress)
    assert faulty.seen[-1].headers["authorization"] == BASIC
    assert [exchange.headers.get("authorization") for exchange in elsewhere.seen] == [None]
    assert (tmp_path / "out").read_bytes() == b"some bytes"


async def test_another_host_that_asks_who_we_are_is_not_answered(faulty, elsewhere):
    faulty.on(TAGGED, answer(b"", 302, f"Location: http://{elsewhere.address}/there"))
    elsewhere.on("GET /there", wants("Basic"))
    with pytest.raises(Unauthorized):
        await get(faulty, environ=WHO)
    assert [exchange.headers.get("authorization") for exchange in elsewhere.seen] == [None]


async def test_a_registry_that_leads_us_to_our_own_secret_does_not_get_it_shown(faulty):
    faulty.on(TAGGED, wants("Basic"), answer(b"", 302, f"Location: ftp://there/{BASIC.partition(' ')[2]}"))
    with pytest.raises(TransferFailed, match=r"ftp://there/\*\*\*: only http"):
        await get(faulty, environ=WHO)


async def test_an_upload_elsewhere_is_not_told_who_we_are(faulty, elsewhere):
    faulty.on(f"HEAD {HERE}/blobs/{BLOB.digest}", wants("Basic"), problem(404, ""))
    faulty.on(
        f"POST {HERE}/blobs/uploads/", answer(b"", 202, f"Location: http://{elsewhere.address}/up?state=1")
    )
    elsewhere.on("PUT /up", answer(b"", 201))
    async with faulty.open(environ=WHO) as registry:
        await registry.push_blob(BLOB, b"some bytes", no_progress)
    assert elsewhere.seen[0].path == f"/up?state=1&digest={BLOB.digest}"
    assert elsewhere.seen[0].body == b"some bytes"
    assert "authorization" not in elsewhere.seen[0].headers


async def test_a_token_is_fetched_used_and_fetched_again_when_it_has_expired(faulty, elsewhere):
    offer = f'Bearer realm="http://{elsewhere.address}/token?a=b",service="reg",scope="repository:acme/devkit:pull"'
    elsewhere.on(
        "GET /token", document({"token": "first", "expires_in": 300}), document({"access_token": "second"})
    )
    faulty.on(TAGGED, wants(offer), fine, wants(offer), fine, fine)
    async with faulty.open(environ=WHO) as registry:
        for _ in range(3):  # in between the registry no longer likes the first one
            await registry.manifest("1.0")
    told = [exchange.headers.get("authorization") for exchange in faulty.seen]
    assert told == [None, "Bearer first", "Bearer first", "Bearer second", "Bearer second"]
    assert [exchange.headers.get("authorization") for exchange in elsewhere.seen] == [BASIC, BASIC]
    assert elsewhere.seen[0].path == "/token?a=b&service=reg&scope=repository%3Aacme%2Fdevkit%3Apull"


async def test_no_log_tells_who_we_are(faulty, elsewhere, caplog):
    caplog.set_level("DEBUG")
    elsewhere.on("GET /token", document({"token": "sesame"}))
    faulty.on(TAGGED, wants(f'Bearer realm="http://{elsewhere.address}/token"'), fine, wants("Basic"), fine)
    async with faulty.open(environ=WHO) as registry:
        await registry.manifest("1.0")
        await registry.manifest("1.0")
    assert faulty.seen[-1].headers["authorization"] == BASIC
    assert caplog.text
    for secret in ("hunter2", "sesame", BASIC.removeprefix("Basic ")):
        assert secret not in caplog.text


async def test_a_token_is_not_used_when_its_time_is_over(faulty, elsewhere):
    clock = VirtualClock()
    offer = f'Bearer realm="http://{elsewhere.address}/token"'
    elsewhere.on("GET /token", document({"token": "t", "expires_in": 100}))
    faulty.on(TAGGED, wants(offer), fine, fine, wants(offer), fine)
    async with faulty.open(clock=clock) as registry:
        await registry.manifest("1.0")
        clock.advance(89)
        await registry.manifest("1.0")
        clock.advance(2)
        await registry.manifest("1.0")
    told = [exchange.headers.get("authorization") for exchange in faulty.seen]
    assert told == [None, "Bearer t", "Bearer t", None, "Bearer t"]
    assert "authorization" not in elsewhere.seen[0].headers, "nobody is nobody"


async def test_pushing_asks_for_more_than_pulling(faulty, elsewhere):
    offer = f'Bearer realm="http://{elsewhere.address}/token"'
    elsewhere.on("GET /token", document({"token": "t"}))
    faulty.on(TAGGED, wants(offer), fine)
    faulty.on(f"PUT {HERE}/manifests/1.0", wants(offer), answer(b"", 201))
    async with faulty.open() as registry:
        await registry.manifest("1.0")
        await registry.push_manifest(BODY, MANIFEST, "1.0")
    scopes = [exchange.path.rpartition("%3A")[2] for exchange in elsewhere.seen]
    assert scopes == ["pull", "pull%2Cpush"]
    assert faulty.seen[-1].body == BODY


async def test_a_refused_password_is_an_error_without_it(faulty):
    secrets = f"you are not hunter2 nor {BASIC}"
    faulty.on(TAGGED, problem(401, secrets, "WWW-Authenticate: Basic realm=x"))
    with pytest.raises(Unauthorized, match=r"401 Reason, you are not \*\*\* nor Basic \*\*\*") as caught:
        await get(faulty, environ=WHO)
    assert "hunter2" not in caught.value.explain()
    assert len(faulty.seen) == 2


async def test_a_token_that_the_registry_repeats_is_not_shown(faulty, elsewhere):
    elsewhere.on("GET /token", document({"token": "sesame"}))
    faulty.on(
        TAGGED, wants(f'Bearer realm="http://{elsewhere.address}/token"'), problem(403, "sesame is stale")
    )
    with pytest.raises(Unauthorized, match=r"\*\*\* is stale"):
        await get(faulty)


@pytest.mark.parametrize(
    "token", [b"", b"[]", b'{"token": ""}', b'{"token": "a\\r\\nb"}', b"x" * 100_000, b"[" * 9999]
)
async def test_no_token_in_the_answer_is_one_error(faulty, elsewhere, token):
    elsewhere.on("GET /token", document(token))
    faulty.on(TAGGED, wants(f'Bearer realm="http://{elsewhere.address}/token"'))
    with pytest.raises(BadContent):
        await get(faulty)


@pytest.mark.parametrize(
    "offer", ["", "Negotiate", "Bearer", 'Bearer realm="ftp://x/"', 'Bearer realm="/token"']
)
async def test_an_offer_that_cannot_be_taken_is_an_error(faulty, offer):
    faulty.on(TAGGED, wants(offer))
    with pytest.raises(Unauthorized):
        await get(faulty, environ=WHO)


def test_a_token_service_without_tls_is_not_asked_for_a_registry_with_it():
    from plughost.vai.packages.oci.registry.auth import token_request

    with pytest.raises(Unauthorized, match="without TLS"):
        token_request(
            parse_url("https://registry.example/"), {"realm": "http://auth.example/"}, None, "a/b", "pull"
        )


def test_from_tls_nothing_leads_to_plain_http():
    with pytest.raises(TransferFailed, match="from TLS to plain HTTP"):
        follow(parse_url("https://registry.example/v2/"), "http://registry.example/v2/")
    assert follow(parse_url("https://a.example/v2/x"), "/y").url == "https://a.example/y"


async def test_redirects_come_to_an_end(faulty):
    faulty.on(TAGGED, answer(b"", 301, f"Location: {HERE}/manifests/1.0"))
    with pytest.raises(TransferFailed, match="more than 5 redirects"):
        await get(faulty)
    assert len(faulty.seen) == 6


async def test_what_is_sent_is_not_redirected(faulty):
    faulty.on(f"PUT {HERE}/manifests/1.0", answer(b"", 307, "Location: /elsewhere"))
    with pytest.raises(TransferFailed, match="uploads do not follow redirects"):
        async with faulty.open() as registry:
            await registry.push_manifest(BODY, MANIFEST, "1.0")


async def test_no_cookie_is_kept(faulty):
    faulty.on(TAGGED, document(BODY, MANIFEST, "Set-Cookie: a=b; Path=/"))
    async with faulty.open() as registry:
        await registry.manifest("1.0")
        await registry.manifest("1.0")
    assert "cookie" not in faulty.seen[1].headers


# How often


async def test_a_registry_that_wants_to_be_left_alone_is(faulty):
    clock = VirtualClock()
    faulty.on(TAGGED, problem(429, "too much", "Retry-After: 7"), fine)
    getting = asyncio.ensure_future(get(faulty, clock=clock, policy=RetryPolicy()))
    await until(lambda: clock.pending == [7.0])
    clock.advance(6.9)
    await asyncio.sleep(0)
    assert len(faulty.seen) == 1
    clock.advance(0.1)
    assert (await getting)[1] == BODY


async def test_an_hour_is_too_long_to_wait(faulty):
    faulty.on(TAGGED, problem(429, "too much", "Retry-After: 3600"))
    with pytest.raises(TransferFailed, match="429") as caught:
        await get(faulty)
    assert caught.value.hint == "the registry asks to wait 3600 s"
    assert len(faulty.seen) == 1


async def test_what_may_pass_is_tried_again_and_then_told(faulty):
    async def hang_up(exchange):
        raise ConnectionError

    faulty.on(TAGGED, problem(503, "busy"), hang_up, problem(500, "oh"), fine)
    assert (await get(faulty))[1] == BODY
    faulty.on(TAGGED, problem(502, "still broken"))
    with pytest.raises(TransferFailed, match="502 Reason, still broken"):
        await get(faulty)
    assert len(faulty.seen) == 4 + HASTY.retries + 1


async def test_what_will_not_pass_is_told_at_once(faulty):
    faulty.on(TAGGED, problem(400, "never\x1b[31m"))
    with pytest.raises(TransferFailed, match=r"400 Reason, never\\x1b\[31m"):
        await get(faulty)
    assert len(faulty.seen) == 1


async def test_nobody_there_is_told_with_the_address(faulty):
    await faulty.stop()
    with pytest.raises(TransferFailed, match=f"{faulty.address}.*(refused|failed)"):
        await get(faulty)
    await faulty.start()


def test_waits_grow_up_to_the_longest_and_are_not_the_same_for_all():
    policy = RetryPolicy(first=1, longest=10)
    assert [delay(policy, n, None, 1.0) for n in range(1, 7)] == [1, 2, 4, 8, 10, 10]
    assert delay(policy, 3, None, 0.0) == 2
    assert delay(policy, 3, 7.0, 0.5) == 7


def test_retry_after_is_read_in_both_spellings():
    now = datetime(2026, 11, 16, 12, 0, 0, tzinfo=UTC)
    assert retry_after("120") == 120
    assert retry_after("Mon, 16 Nov 2026 12:00:30 GMT", now) == 30
    assert retry_after("Mon, 16 Nov 2020 12:00:30 GMT", now) == 0
    far = f"Mon, 01 Jan 2024 00:00:00 +{'9' * 25}"
    assert retry_after(far) is None
    assert [retry_after(text) for text in (None, "", "soon", "-1", "1e9", "٣", "9" * 100)] == [None] * 7


# What is believed


async def test_a_manifest_is_what_its_digest_says(faulty):
    digest = describe(BODY, MANIFEST).digest
    faulty.on(f"GET {HERE}/manifests/{digest}", document(BODY + b" ", MANIFEST), fine)
    async with faulty.open() as registry:
        with pytest.raises(BadContent, match=digest):
            await registry.manifest(digest)
        assert (await registry.manifest(digest))[1] == BODY


@pytest.mark.parametrize(
    "play",
    [
        document(BODY, MANIFEST, f"Docker-Content-Digest: sha256:{'0' * 64}"),
        document(BODY, "text/html"),
        document(b"{", MANIFEST),
        document(b"[" * 100_000, MANIFEST),
        document(BODY.replace(b"sha256:", b"sha512:"), MANIFEST),
        document(b" " * ((4 << 20) + 1), MANIFEST),
    ],
    ids=["digest", "type", "json", "depth", "algorithm", "size"],
)
async def test_a_manifest_that_cannot_be_one_is_refused(faulty, play):
    faulty.on(TAGGED, play)
    with pytest.raises(BadContent):
        await get(faulty)
    assert len(faulty.seen) == 1


@pytest.mark.parametrize("name", ["../../other/manifests/1.0", "1.0?x=y", "a b", "sha256:12", "x" * 129])
async def test_what_is_no_tag_is_not_asked_for(faulty, name):
    async with faulty.open() as registry:
        with pytest.raises(InvalidSpec, match="neither a digest nor a tag"):
            await registry.manifest(name)
        with pytest.raises(InvalidSpec, match="neither a digest nor a tag"):
            await registry.push_manifest(BODY, MANIFEST, name)
    assert faulty.seen == []


async def test_an_endless_manifest_is_not_read_to_the_end(faulty):
    async def endless(exchange):
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {MANIFEST}\r\nTransfer-Encoding: chunked\r\n\r\n"
        exchange.writer.write(head.encode())
        while True:
            exchange.writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
            await exchange.writer.drain()

    faulty.on(TAGGED, endless)
    with pytest.raises(BadContent, match="larger than 4194304 bytes"):
        await get(faulty)


async def test_endless_headers_are_not_read_to_the_end(faulty):
    faulty.on(TAGGED, document(BODY, MANIFEST, f"X: {'x' * 1_000_000}"))
    with pytest.raises(TransferFailed):
        await get(faulty)


async def test_an_endless_refusal_is_not_read_to_the_end(faulty):
    faulty.on(TAGGED, answer(b"x" * 1_000_000, 404))
    faulty.on(f"GET {HERE}/tags/list", answer(b"[" * 100_000))
    with pytest.raises(NotFound, match="404"):
        await get(faulty)


async def test_the_referrers_api_is_used_where_it_is_and_page_by_page(faulty):
    subject = describe(BODY, MANIFEST)
    one, two, other = (describe(word, MANIFEST, artifact_type=SIGNATURE) for word in (b"1", b"2", b"3"))

    def page(*entries, kind=SIGNATURE, headers=()):
        plain = [
            {"mediaType": e.mediaType, "digest": e.digest, "size": e.size, "artifactType": kind}
            for e in entries
        ]
        return document({"schemaVersion": 2, "mediaType": INDEX, "manifests": plain}, INDEX, *headers)

    path = f"{HERE}/referrers/{subject.digest}"
    faulty.on(f"GET {path}", page(one, headers=[f'Link: <{path}/more>; rel="next"']))
    faulty.on(f"GET {path}/more", page(two, one))
    async with faulty.open() as registry:
        assert await registry.referrers(subject.digest, SIGNATURE) == [one, two]
        older = f"{HERE}/manifests/sha256-{subject.digest.removeprefix('sha256:')}.sig"
        faulty.on(f"GET {older}", document(image(describe(b"{}", "a/b"), [], SIGNATURE), MANIFEST))
        assert len(await registry.referrers(subject.digest, SIGNATURE)) == 3
        faulty.on(f"GET {older}", problem(405, "what?"))
        faulty.on(f"GET {path}", page(other, kind="another/type"))
        assert await registry.referrers(subject.digest, SIGNATURE) == [], "the server need not filter"
        faulty.on(f"GET {path}", page(headers=[f'Link: <{path}>; rel="next"']))
        with pytest.raises(BadContent, match="more than 16 pages"):
            await registry.referrers(subject.digest, SIGNATURE)


async def test_a_registry_that_keeps_the_list_itself_is_left_to_it(faulty):
    signature = image(describe(b"{}", "a/b"), [], SIGNATURE, describe(BODY, MANIFEST))
    digest = describe(signature, MANIFEST).digest
    faulty.on(f"PUT {HERE}/manifests/{digest}", answer(b"", 201, "OCI-Subject: sha256:x"))
    async with faulty.open() as registry:
        await registry.push_manifest(signature, MANIFEST, None)
    assert [exchange.method for exchange in faulty.seen] == ["PUT"]


async def test_only_loopback_is_asked_without_tls():
    async with open_registry(parse_reference("registry.invalid/a/b:1"), environ={}) as registry:
        assert registry._url("x").url == "https://registry.invalid/v2/a/b/x"
    async with open_registry(
        parse_reference("registry.invalid/a/b:1"), environ={}, plain_http=True
    ) as registry:
        assert registry._url("x").url == "http://registry.invalid/v2/a/b/x"
    async with open_registry(parse_reference("[::1]:5000/a/b:1"), environ={}) as registry:
        assert registry._url("x").url == "http://[::1]:5000/v2/a/b/x"
