"""Registry: a repository of an OCI registry, by the OCI distribution protocol."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import msgspec

from plughost._util.threads import in_thread
from plughost.clock import Clock, best_clock
from plughost.errors import InvalidSpec
from plughost.permissions.addresses import UrlTarget
from plughost.vai.packages.oci.content_store import INDEX, MANIFEST, MAX_MANIFEST, Descriptor, Progress
from plughost.vai.packages.oci.digests import digest_of, hex_of, is_digest
from plughost.vai.packages.oci.errors import BadContent, NotFound, TransferFailed
from plughost.vai.packages.oci.layout.index import of_type
from plughost.vai.packages.oci.manifests import ImageManifest, read_index, read_manifest, write_index
from plughost.vai.packages.oci.reference import TAGS, InRegistry, is_tag
from plughost.vai.packages.oci.referrers_tag import fallback_tag, is_fallback, older_tag
from plughost.vai.packages.oci.registry.auth import PUSH, Authorization
from plughost.vai.packages.oci.registry.client import RegistryClient, follow
from plughost.vai.packages.oci.registry.credentials import credentials_for
from plughost.vai.packages.oci.registry.download import download
from plughost.vai.packages.oci.registry.retry import RetryPolicy
from plughost.vai.packages.oci.registry.upload import Upload

MAX_PAGES = 16
MAX_TAGS = 10_000
LISTING_ROUNDS = 3
"""Attempts to write a list of referrers that others write, too."""


class Tags(msgspec.Struct, frozen=True):
    """A page of the list of tags."""

    tags: list[str] | None = None


@asynccontextmanager
async def open_registry(
    reference: InRegistry,
    *,
    plain_http: bool = False,
    environ: Mapping[str, str] = os.environ,
    clock: Clock | None = None,
    policy: RetryPolicy | None = None,
    jitter: Callable[[], float] = random.random,
) -> AsyncIterator[Registry]:
    """Opens a repository for the duration of the block. Plain HTTP only to this machine, or with
    `plain_http`."""
    insecure = plain_http or reference.is_loopback
    port = reference.port or (80 if insecure else 443)
    origin = UrlTarget("http" if insecure else "https", reference.host, port, "/")
    credentials = await in_thread(partial(credentials_for, reference.registry, environ))
    tls = await in_thread(httpx.create_ssl_context)
    used_clock = clock or best_clock(asyncio.get_running_loop())
    authorization = Authorization(origin, reference.repository, credentials, used_clock)
    client = RegistryClient(
        origin,
        authorization,
        used_clock,
        policy or RetryPolicy(),
        tls,
        proxies=not reference.is_loopback,
        jitter=jitter,
    )
    try:
        yield Registry(client, reference)
    finally:
        await client.close()
        if clock is None:
            used_clock.close()


class Registry:
    """One repository of a registry; implements `ContentStore`."""

    def __init__(self, client: RegistryClient, reference: InRegistry) -> None:
        self._client = client
        self._reference = reference

    async def manifest(self, reference: str) -> tuple[Descriptor, bytes]:
        if not reference:
            raise NotFound(f"{self._reference} names no tag and no digest", hint=await self._tags_hint())
        try:
            return await self._manifest(reference)
        except NotFound as error:
            error.hint = "" if is_digest(reference) else await self._tags_hint()
            raise

    async def fetch(self, blob: Descriptor, into: Path, progress: Progress) -> None:
        await download(self._client, self._blob_url(blob), blob, into, progress)

    async def referrers(self, digest: str, artifact_type: str) -> list[Descriptor]:
        listed = await self._listed_referrers(digest)
        if listed is None:
            listed = await self._fallback(digest)
        distinct = {entry.digest: entry for entry in (*listed, *await self._signature_tag(digest))}
        return of_type(list(distinct.values()), artifact_type)

    async def push_blob(self, blob: Descriptor, source: Path | bytes, progress: Progress) -> None:
        self._client.actions = PUSH
        response, _ = await self._client.ask("HEAD", self._blob_url(blob), good=(200, 404))
        if response.status_code == 200:
            progress(blob.size)
        else:
            await Upload(self._client, self._url("blobs/uploads/"), blob, source, progress).run()

    async def push_manifest(self, body: bytes, media_type: str, reference: str | None) -> Descriptor:
        self._client.actions = PUSH
        manifest = read_manifest(body) if media_type == MANIFEST else None
        kind = manifest.kind if manifest else ""
        pushed = Descriptor(media_type, digest_of(body), len(body), artifactType=kind)
        name = reference or pushed.digest
        if is_digest(name) and name != pushed.digest:
            raise BadContent(f"expected the manifest {name}, got {pushed.digest}")
        target = self._manifest_url(name)
        response, _ = await self._client.ask("PUT", target, {"Content-Type": media_type}, body, good=(201,))
        _check_digest(response, pushed.digest, target)
        if manifest is not None and manifest.subject is not None and "oci-subject" not in response.headers:
            await self._list_as_referrer(manifest.subject.digest, _as_entry(pushed, manifest))
        return pushed

    async def tags(self) -> list[str]:
        """All tags, at most `MAX_TAGS`, in the registry's order."""
        found: list[str] = []
        async for body in self._pages(self._url("tags/list?n=1000")):
            try:
                found += msgspec.json.decode(body, type=Tags).tags or []
            except (msgspec.DecodeError, RecursionError, UnicodeError):
                raise BadContent(f"{self._reference.registry} has sent no list of tags") from None
        return found[:MAX_TAGS]

    async def _manifest(self, reference: str) -> tuple[Descriptor, bytes]:
        target = self._manifest_url(reference)
        accepted = {"Accept": f"{MANIFEST}, {INDEX}"}
        response, body = await self._client.ask("GET", target, accepted, limit=MAX_MANIFEST)
        return _check_manifest(response, body, reference, target), body

    async def _tags_hint(self) -> str:
        try:
            tags = [tag for tag in await self.tags() if not is_fallback(tag)]
        except TransferFailed:
            return ""
        return f"it has the tags {', '.join(ascii(tag)[1:-1][:128] for tag in tags[-10:])}" if tags else ""

    async def _listed_referrers(self, digest: str) -> list[Descriptor] | None:
        """Referrers by the referrers API; None when the registry does not have it."""
        found: list[Descriptor] = []
        try:
            async for body in self._pages(self._url(f"referrers/{digest}")):
                found += read_index(body).manifests
        except NotFound:
            return None
        return found

    async def _fallback(self, digest: str) -> list[Descriptor]:
        """Referrers by the tag schema that stands in for the referrers API."""
        try:
            found, body = await self._manifest(fallback_tag(digest))
        except NotFound:
            return []
        return read_index(body).manifests if found.mediaType == INDEX else []

    async def _signature_tag(self, digest: str) -> list[Descriptor]:
        """Signatures by the tag that older signing tools use."""
        try:
            found, body = await self._manifest(older_tag(digest))
        except NotFound:
            return []
        if found.mediaType == INDEX:
            return read_index(body).manifests
        return [_as_entry(found, read_manifest(body))]

    async def _list_as_referrer(self, subject: str, entry: Descriptor) -> None:
        """Adds an entry to the referrers tag. Two writers are not isolated: each checks whether the other
        dropped its entry."""
        for _ in range(LISTING_ROUNDS):
            entries = await self._fallback(subject)
            if any(known.digest == entry.digest for known in entries):
                return
            await self.push_manifest(write_index([*entries, entry]), INDEX, fallback_tag(subject))
        raise TransferFailed(
            f"{self._reference.registry}: other clients keep overwriting the list of signatures"
        )

    async def _pages(self, target: UrlTarget) -> AsyncIterator[bytes]:
        for _ in range(MAX_PAGES):
            response, body = await self._client.ask("GET", target, limit=MAX_MANIFEST)
            yield body
            following = response.links.get("next", {}).get("url")
            if not following:
                return
            target = follow(target, following)
        raise BadContent(f"{target}: a list of more than {MAX_PAGES} pages")

    def _manifest_url(self, reference: str) -> UrlTarget:
        if not is_digest(reference) and not is_tag(reference):
            raise InvalidSpec(f"{reference[:128]!a} is neither a digest nor a tag: {TAGS}")
        return self._url(f"manifests/{reference}")

    def _blob_url(self, blob: Descriptor) -> UrlTarget:
        return self._url(f"blobs/sha256:{hex_of(blob.digest)}")

    def _url(self, path: str) -> UrlTarget:
        base = f"/v2/{self._reference.repository}/"
        return msgspec.structs.replace(self._client.registry, path=base + path)


def _check_manifest(response: httpx.Response, body: bytes, reference: str, target: UrlTarget) -> Descriptor:
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in (MANIFEST, INDEX):
        raise BadContent(f"{target}: {media_type[:100]!a} is not an OCI manifest")
    digest = digest_of(body)
    if is_digest(reference) and digest != reference:
        raise BadContent(f"{target}: expected the manifest {reference}, got {digest}")
    _check_digest(response, digest, target)
    artifact_type = read_manifest(body).artifactType if media_type == MANIFEST else ""
    return Descriptor(media_type, digest, len(body), artifactType=artifact_type)


def _check_digest(response: httpx.Response, digest: str, target: UrlTarget) -> None:
    stated = response.headers.get("docker-content-digest", digest)
    if is_digest(stated) and stated != digest:
        raise BadContent(f"{target}: the registry states the digest {stated}, but the content is {digest}")


def _as_entry(pushed: Descriptor, manifest: ImageManifest) -> Descriptor:
    return Descriptor(pushed.mediaType, pushed.digest, pushed.size, manifest.annotations, manifest.kind)
