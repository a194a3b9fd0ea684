"""Against a real registry, which knows no referrers API; and together with another client, `oras`."""

from __future__ import annotations

import json
import os

import pytest

from plughost.errors import InvalidSpec
from plughost.vai.packages.oci.content_store import INDEX, MANIFEST, no_progress
from plughost.vai.packages.oci.copy_artifact import copy
from plughost.vai.packages.oci.digests import describe
from plughost.vai.packages.oci.errors import NotFound, Unauthorized
from plughost.vai.packages.oci.layout.folder import LayoutFolder
from plughost.vai.packages.oci.open_reference import open_content
from tests.support.oci_artifacts import ARTIFACT, CONFIG, LAYER, SIGNATURE, put_artifact, put_signature
from tests.vai.packages.oci.conftest import PASSWORD, USER


@pytest.mark.clause("VAI-01")
async def test_what_is_pushed_is_pulled_with_its_signature(repository, tmp_path):
    here, there = LayoutFolder(tmp_path / "here"), LayoutFolder(tmp_path / "there")
    pushed = await put_artifact(here, layer=os.urandom(5_000_000))
    signature = await put_signature(here, pushed)
    async with open_content(repository) as registry:
        copied = await copy("0.1.0", here, registry, "0.1.0")
        assert (copied.digest, copied.referrers, copied.artifactType) == (
            pushed.digest,
            [signature.digest],
            ARTIFACT,
        )
        assert [entry.digest for entry in await registry.referrers(pushed.digest, SIGNATURE)] == [
            signature.digest
        ]
        await copy("0.1.0", registry, there, "0.1.0")
    assert blobs(there) == blobs(here)
    assert (await there.manifest("0.1.0")) == (await here.manifest("0.1.0"))
    assert [entry.digest for entry in await there.referrers(pushed.digest, SIGNATURE)] == [signature.digest]


def blobs(layout):
    return {path.name: path.read_bytes() for path in (layout.root / "blobs/sha256").iterdir()}


async def test_signatures_are_listed_under_the_fallback_tag_one_beside_the_other(repository):
    async with open_content(repository) as registry:
        pushed = await put_artifact(registry)
        first = await put_signature(registry, pushed, b"first")
        second = await put_signature(registry, pushed, b"second")
        await put_signature(registry, pushed, b"first")
        tag, body = await registry.manifest("sha256-" + pushed.digest.removeprefix("sha256:"))
        assert tag.mediaType == INDEX
        assert [entry["digest"] for entry in json.loads(body)["manifests"]] == [first.digest, second.digest]
        assert json.loads(body)["manifests"][0]["artifactType"] == SIGNATURE
        assert await registry.referrers(pushed.digest, "application/other") == []


async def test_a_signature_under_the_older_tag_is_read_too(repository):
    async with open_content(repository) as registry:
        pushed = await put_artifact(registry)
        signature = await put_signature(registry, await put_artifact(registry, "other", b"other"))
        body = (await registry.manifest(signature.digest))[1]
        await registry.push_manifest(body, MANIFEST, f"sha256-{pushed.digest.removeprefix('sha256:')}.sig")
        assert [entry.digest for entry in await registry.referrers(pushed.digest, SIGNATURE)] == [
            signature.digest
        ]


@pytest.mark.clause("VAI-01")
async def test_other_bytes_under_a_published_version_are_refused(repository, tmp_path):
    first, second = LayoutFolder(tmp_path / "first"), LayoutFolder(tmp_path / "second")
    published = await put_artifact(first)
    await put_artifact(second, layer=b"other bytes")
    async with open_content(repository) as registry:
        await copy("0.1.0", first, registry, "0.1.0")
        await copy("0.1.0", first, registry, "0.1.0")
        with pytest.raises(InvalidSpec, match="0.1.0 is already published with different contents") as caught:
            await copy("0.1.0", second, registry, "0.1.0")
        assert "new version" in caught.value.hint
        assert (await registry.manifest("0.1.0"))[0].digest == published.digest


async def test_what_is_there_is_not_sent_again(repository):
    data = os.urandom(3_000_000)
    blob = describe(data, LAYER)
    async with open_content(repository) as registry:
        moved = []
        await registry.push_blob(blob, data, moved.append)
        assert len(moved) > 2
        assert sum(moved) == blob.size
        again = []
        await registry.push_blob(blob, data, again.append)
        assert again == [blob.size]


async def test_an_unknown_tag_is_told_with_those_that_are_there(repository):
    async with open_content(repository) as registry:
        await put_signature(registry, await put_artifact(registry))
        with pytest.raises(NotFound, match="manifest unknown") as caught:
            await registry.manifest("9.9.9")
        assert caught.value.hint == "it has the tags 0.1.0"


async def test_a_password_is_sent_when_it_is_wanted_and_never_told(guarded, tmp_path, monkeypatch):
    reference = f"{guarded}/tests/guarded"
    async with open_content(reference) as registry:
        with pytest.raises(Unauthorized, match="requires a user and a password") as caught:
            await put_artifact(registry)
        assert "PLUGHOST_REGISTRY_USER" in caught.value.hint
    monkeypatch.setenv("PLUGHOST_REGISTRY_USER", USER)
    monkeypatch.setenv("PLUGHOST_REGISTRY_PASSWORD", "battery staple")
    async with open_content(reference) as registry:
        with pytest.raises(Unauthorized) as caught:
            await put_artifact(registry)
        assert "battery staple" not in caught.value.explain() + repr(caught.value)
    monkeypatch.setenv("PLUGHOST_REGISTRY_PASSWORD", PASSWORD)
    async with open_content(reference) as registry:
        pushed = await put_artifact(registry)
        assert (await registry.manifest("0.1.0"))[0].digest == pushed.digest


async def test_oras_reads_what_we_push(repository, tmp_path):
    from oras.client import OrasClient

    layer = os.urandom(100_000)
    async with open_content(repository) as registry:
        pushed = await put_artifact(registry, layer=layer)
        await put_signature(registry, pushed)
    client = OrasClient(insecure=True)
    manifest = client.get_manifest(f"{repository}:0.1.0", allowed_media_type=[MANIFEST])
    assert (manifest["artifactType"], manifest["config"]["mediaType"]) == (ARTIFACT, CONFIG)
    got = client.get_blob(f"{repository}:0.1.0", manifest["layers"][0]["digest"])
    assert got.content == layer
    index = client.get_manifest(f"{repository}:sha256-{pushed.digest[7:]}", allowed_media_type=[INDEX])
    assert [entry["artifactType"] for entry in index["manifests"]] == [SIGNATURE]


async def test_what_oras_pushes_is_read_here(repository, tmp_path, monkeypatch):
    from oras.client import OrasClient

    monkeypatch.chdir(tmp_path)
    (tmp_path / "vai-plugin.toml").write_bytes(b'name = "x"\n')
    (tmp_path / "package.tar").write_bytes(os.urandom(100_000))
    OrasClient(insecure=True).push(
        target=f"{repository}:1.2.3",
        files=[f"package.tar:{LAYER}"],
        manifest_config=f"vai-plugin.toml:{CONFIG}",
        disable_path_validation=True,
    )
    there = LayoutFolder(tmp_path / "there")
    async with open_content(repository) as registry:
        copied = await copy("1.2.3", registry, there, "1.2.3")
    assert copied.artifactType == CONFIG
    manifest = json.loads((await there.manifest("1.2.3"))[1])
    assert (tmp_path / "package.tar").read_bytes() == blobs(there)[manifest["layers"][0]["digest"][7:]]
    assert manifest["layers"][0]["mediaType"] == LAYER
    assert blobs(there)[manifest["config"]["digest"][7:]] == b'name = "x"\n'


async def test_a_blob_that_is_not_there_is_not_found(repository, tmp_path):
    async with open_content(repository) as registry:
        await put_artifact(registry)
        with pytest.raises(NotFound, match="blob unknown"):
            await registry.fetch(describe(b"nowhere", LAYER), tmp_path / "out", no_progress)
    assert os.listdir(tmp_path) == []


async def test_a_signature_under_the_older_tag_travels_too(repository, tmp_path):
    there, back = LayoutFolder(tmp_path / "there"), f"{repository}/back"
    async with open_content(repository) as registry, open_content(back) as other:
        pushed = await put_artifact(registry)
        signature = await put_artifact(registry, f"sha256-{pushed.digest[7:]}.sig", b"an older signature")
        await copy("0.1.0", registry, there, "0.1.0")
        assert [entry.digest for entry in await there.referrers(pushed.digest, "")] == [signature.digest]
        assert (await there.manifest(""))[0].digest == pushed.digest
        await copy("", there, other, "0.1.0")
        assert [entry.digest for entry in await other.referrers(pushed.digest, "")] == [signature.digest]


async def test_a_list_of_signatures_may_outlive_one_of_them(repository, tmp_path):
    here, there = LayoutFolder(tmp_path / "here"), LayoutFolder(tmp_path / "there")
    pushed = await put_artifact(here)
    gone, stays = await put_signature(here, pushed, b"gone"), await put_signature(here, pushed, b"stays")
    async with open_content(repository) as registry:
        await copy("0.1.0", here, registry, "0.1.0")
        import httpx

        async with httpx.AsyncClient() as client:
            host, _, name = repository.partition("/")
            await client.delete(f"http://{host}/v2/{name}/manifests/{gone.digest}")
        copied = await copy("0.1.0", registry, there, "0.1.0")
    assert copied.referrers == [stays.digest]
