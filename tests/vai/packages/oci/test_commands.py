"""`plughost push`, `pull` and `install`, as a publisher and a user run them, over a real registry."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from plughost.cli.main import main
from plughost.cli.ui.progress import ProgressBar
from plughost.vai.packages import push
from plughost.vai.packages.oci.content_store import MANIFEST
from plughost.vai.packages.oci.open_reference import open_content
from plughost.vai.packages.oci.reference import parse_reference
from tests.support.sample_package import write
from tests.vai.packages.oci.conftest import PASSWORD, USER


@pytest.fixture
def plughost(capsys):
    """Runs a command as the console script does: exit code, stdout, stderr."""

    def run(*words):
        code = 0
        try:
            main([*map(str, words)])
        except SystemExit as ended:
            code = ended.code
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


@pytest.fixture
def quietly(plughost):
    """Runs a command that must succeed without a word on stderr."""

    def run(*words):
        code, out, err = plughost(*words)
        assert (code, err) == (0, ""), err
        return out

    return run


@pytest.fixture
def dist(tmp_path, quietly):
    """A packed and signed package, and a file that trusts its key."""
    folder = tmp_path / "dist"
    folder.mkdir()
    quietly("pack", write(tmp_path / "source"), "--out", folder)
    key = quietly("keygen", tmp_path / "key").strip()
    quietly("sign", folder / "little-0.1.0.vai.tar", "--key", tmp_path / "key")
    (tmp_path / "trust.toml").write_text(f'[[publishers.acme.keys]]\nkey = "{key}"\n')
    return folder


@pytest.mark.clause("VAI-01", "VAI-84")
def test_a_package_is_published_pulled_verified_and_installed(repository, dist, tmp_path, quietly):
    file = dist / "little-0.1.0.vai.tar"
    pushed = quietly("push", file, repository).strip()
    assert pushed.startswith(f"{repository}:0.1.0@sha256:")
    (tmp_path / "got").mkdir()
    digest = pushed.partition("@")[2]
    got = tmp_path / "got/little-0.1.0.vai.tar"
    assert quietly("pull", f"{repository}:0.1.0", "--out", tmp_path / "got") == f"{got} {digest}\n"
    assert got.read_bytes() == file.read_bytes()
    assert sorted(os.listdir(tmp_path / "got")) == ["little-0.1.0.vai.tar", "marketplace.signature.json"]
    trust = ("--trust", tmp_path / "trust.toml")
    quietly("verify", got, *trust)
    told = json.loads(quietly("install", pushed, "--store", tmp_path / "store", *trust, "--json"))
    assert (told["package_id"], told["posture"], told["digest"]) == ("acme/little", "trusted", digest)
    assert os.access(os.path.join(told["path"], "bin/plugin"), os.X_OK)


@pytest.mark.clause("VAI-01")
def test_a_published_version_stays_what_it_is(repository, dist, tmp_path, quietly, plughost):
    file = dist / "little-0.1.0.vai.tar"
    first = quietly("push", file, repository)
    assert quietly("push", file, repository) == first
    (tmp_path / "other").mkdir()
    quietly("pack", write(tmp_path / "source", README_md="changed"), "--out", tmp_path / "other")
    code, out, err = plughost("push", tmp_path / "other/little-0.1.0.vai.tar", repository)
    assert (code, out) == (2, "")
    assert "0.1.0 is already published with different contents" in err
    assert "hint: give the new contents a new version" in err


def test_one_file_carries_all_to_where_no_registry_is(repository, dist, tmp_path, quietly):
    quietly("push", dist / "little-0.1.0.vai.tar", repository)
    quietly("pull", f"{repository}:0.1.0", "--out", tmp_path / "all.tar")
    trust = ("--trust", tmp_path / "trust.toml")
    quietly("verify", tmp_path / "all.tar", *trust)
    quietly("push", tmp_path / "all.tar", f"oci-layout:{tmp_path / 'layout'}")
    quietly("verify", f"oci-layout:{tmp_path / 'layout'}:0.1.0", *trust)
    quietly("push", tmp_path / "layout", f"{repository}/again:stable")
    quietly("verify", f"{repository}/again:stable", *trust)
    quietly("push", f"{repository}/again:stable", f"{repository}/promoted")
    quietly("verify", f"{repository}/promoted:0.1.0", *trust)
    quietly("pull", f"{repository}/again:stable", "--out", f"oci-layout:{tmp_path / 'back'}")
    quietly("verify", f"oci-layout:{tmp_path / 'back'}:stable", *trust)


def test_a_signature_of_something_else_is_not_published(repository, dist, tmp_path, quietly, plughost):
    (tmp_path / "other").mkdir()
    quietly("pack", write(tmp_path / "source", README_md="changed"), "--out", tmp_path / "other")
    os.rename(dist / "marketplace.signature.json", tmp_path / "other/marketplace.signature.json")
    code, _, err = plughost("push", tmp_path / "other/little-0.1.0.vai.tar", repository)
    assert code != 0
    assert "was changed after it was signed" in err
    assert plughost("pull", f"{repository}:0.1.0", "--out", tmp_path)[0] == 3


def test_a_pulled_file_never_overwrites_another(repository, dist, tmp_path, quietly, plughost):
    quietly("push", dist / "little-0.1.0.vai.tar", repository)
    (tmp_path / "little-0.1.0.vai.tar").write_bytes(b"mine")
    code, _, err = plughost("pull", f"{repository}:0.1.0", "--out", tmp_path)
    assert code == 2
    assert "already exists with different contents" in err
    assert (tmp_path / "little-0.1.0.vai.tar").read_bytes() == b"mine"
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]
    assert not (tmp_path / "marketplace.signature.json").exists()


def test_failures_are_json_where_that_is_asked_for_and_hold_no_password(guarded, dist, plughost, monkeypatch):
    words = ("push", dist / "little-0.1.0.vai.tar", f"{guarded}/tests/commands", "--json")
    monkeypatch.setenv("PLUGHOST_REGISTRY_USER", USER)
    monkeypatch.setenv("PLUGHOST_REGISTRY_PASSWORD", "battery")
    code, out, err = plughost(*words)
    assert (code, json.loads(out)["error"]["code"], err) == (3, "unauthorized", "")
    assert "battery" not in out
    monkeypatch.setenv("PLUGHOST_REGISTRY_PASSWORD", PASSWORD)
    code, out, err = plughost(*words)
    assert (code, len(json.loads(out)["signatures"]), err) == (0, 1, "")


@pytest.mark.parametrize(
    "words", [("push", "nowhere.vai.tar", "r.example/a"), ("pull", "acme/devkit:1"), ("pull", "x")]
)
def test_wrong_words_are_usage(words, plughost):
    code, out, err = plughost(*words)
    assert (code, out) == (2, "")
    assert err


def test_a_promotion_is_watched_on_both_its_ways(repository, dist, quietly):
    quietly("push", dist / "little-0.1.0.vai.tar", repository)
    told = []
    asyncio.run(
        push.push(
            f"{repository}:0.1.0",
            parse_reference(f"{repository}/promoted"),
            lambda done, total: told.append((done, total)),
        )
    )
    ends = [total for done, total in told if done == total]
    assert len({*ends}) == 2  # its archive comes; archive, manifest and signature go
    assert told[-1][0] == max(ends)


def test_a_bar_is_shown_to_people_and_only_when_it_takes_long(monkeypatch):
    import io

    monkeypatch.setenv("TERM", "xterm")  # whatever the tests themselves are run in

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for stream, moments, shown in (
        (Terminal(), [0.0, 0.5, 0.9], False),
        (Terminal(), [0.0, 0.5, 1.1], True),
        (io.StringIO(), [0.0, 0.5, 1.1], False),
    ):
        time = iter(moments)
        with ProgressBar("pulling", stream, lambda time=time: next(time)) as bar:
            bar(1, 100)
            bar(50, 100)
        assert ("pulling" in stream.getvalue()) is shown


@pytest.mark.clause("VAI-01")
def test_a_published_version_has_no_other_bytes_under_another_tag(
    repository, dist, tmp_path, quietly, plughost
):
    quietly("push", dist / "little-0.1.0.vai.tar", repository)
    quietly("push", dist / "little-0.1.0.vai.tar", f"{repository}:stable")
    (tmp_path / "other").mkdir()
    quietly("pack", write(tmp_path / "source", README_md="changed"), "--out", tmp_path / "other")
    code, out, err = plughost("push", tmp_path / "other/little-0.1.0.vai.tar", f"{repository}:latest")
    assert (code, out) == (2, "")
    assert "0.1.0 is already published with different contents" in err


@pytest.mark.clause("VAI-01")
def test_a_version_is_taken_also_when_it_was_published_under_another_tag_only(
    repository, dist, tmp_path, quietly, plughost
):
    quietly("push", dist / "little-0.1.0.vai.tar", f"{repository}:latest")
    (tmp_path / "other").mkdir()
    quietly("pack", write(tmp_path / "source", README_md="changed"), "--out", tmp_path / "other")
    for tag in (":stable", ""):
        code, out, err = plughost("push", tmp_path / "other/little-0.1.0.vai.tar", f"{repository}{tag}")
        assert (code, out) == (2, "")
        assert "0.1.0 is already published with different contents" in err
    digests = {json.loads(quietly("verify", f"{repository}:{tag}", "--trust", tmp_path / "trust.toml", "--json"))
               ["release"]["digest"] for tag in ("latest", "0.1.0")}  # fmt: skip
    assert len(digests) == 1


async def retag(repository, tag, other):
    """What a registry's owner may do."""
    async with open_content(repository) as content:
        _, body = await content.manifest(tag)
        await content.push_manifest(body, MANIFEST, other)


@pytest.mark.clause("VAI-01")
def test_a_tag_that_is_a_version_leads_to_that_version_or_nowhere(
    repository, dist, tmp_path, quietly, plughost
):
    """A signed older release under a newer version's tag would bring its old mistakes back."""
    file = dist / "little-0.1.0.vai.tar"
    for tag in ("9.9.9", "v9.9.9"):
        code, _, err = plughost("push", file, f"{repository}:{tag}")
        assert (code, f"{tag} is not the version" in err) == (2, True)
    pushed = quietly("push", file, f"{repository}:stable").strip()
    asyncio.run(retag(repository, "stable", "0.2.0"))
    trust, store = ("--trust", tmp_path / "trust.toml"), ("--store", tmp_path / "store")
    for words in (
        ("install", f"{repository}:0.2.0", "--save", "--lock-file", tmp_path / "lock", *store, *trust),
        ("pull", f"{repository}:0.2.0", "--out", tmp_path),
        ("pull", f"{repository}:0.2.0", "--out", f"oci-layout:{tmp_path / 'layout'}"),
        ("push", f"{repository}:0.2.0", f"{repository}/promoted"),
        ("sign", f"{repository}:0.2.0", "--key", tmp_path / "key"),
    ):
        code, out, err = plughost(*words)
        assert (code, out, "the tag 0.2.0 refers to acme/little@0.1.0" in err) == (3, "", True)
    code, out, _ = plughost("verify", f"{repository}:0.2.0", *trust)
    assert (code, "altered: the tag 0.2.0 refers to acme/little@0.1.0" in out) == (1, True)
    assert {"lock", "layout", "little-0.1.0.vai.tar"}.isdisjoint(os.listdir(tmp_path))
    code, _, err = plughost(
        "pull", f"{repository}:stable", "--out", f"oci-layout:{tmp_path / 'layout'}:2.0.0"
    )
    assert (code, "2.0.0 is not the version" in err) == (2, True)
    digest = pushed.partition("@")[2]
    for good in (":stable", ":0.1.0", f":0.2.0@{digest}"):  # beside a digest a tag is for people
        told = quietly("install", f"{repository}{good}", *store, *trust)
        assert told == f"acme/little@0.1.0 {digest}\n"


def test_of_several_signatures_the_file_gets_a_trusted_one(repository, dist, tmp_path, quietly):
    quietly("push", dist / "little-0.1.0.vai.tar", repository)
    for number in range(3):
        quietly("keygen", tmp_path / f"stranger-{number}")
        quietly("sign", f"{repository}:0.1.0", "--key", tmp_path / f"stranger-{number}")
    (tmp_path / "got").mkdir()
    trust = ("--trust", tmp_path / "trust.toml")
    quietly("pull", f"{repository}:0.1.0", "--out", tmp_path / "got", *trust)
    assert "signed and trusted" in quietly("verify", tmp_path / "got/little-0.1.0.vai.tar", *trust)


@pytest.mark.clause("VAI-01")
def test_a_package_that_oras_pushes_is_signed_and_installed_here(
    repository, dist, tmp_path, quietly, monkeypatch
):
    from oras.client import OrasClient

    client = OrasClient(insecure=True)
    quietly("push", dist / "little-0.1.0.vai.tar", repository)
    ours = client.get_manifest(f"{repository}:0.1.0", allowed_media_type=[MANIFEST])
    monkeypatch.chdir(tmp_path)
    for name, blob in (("vai-plugin.toml", ours["config"]), ("package.tar", ours["layers"][0])):
        (tmp_path / name).write_bytes(client.get_blob(f"{repository}:0.1.0", blob["digest"]).content)
    theirs = f"{repository}/theirs:0.1.0"
    client.push(
        target=theirs,
        files=[f"package.tar:{ours['layers'][0]['mediaType']}"],
        manifest_config=f"vai-plugin.toml:{ours['config']['mediaType']}",
        disable_path_validation=True,
    )
    quietly("sign", theirs, "--key", tmp_path / "key")
    words = ("install", theirs, "--store", tmp_path / "store", "--trust", tmp_path / "trust.toml", "--json")
    told = json.loads(quietly(*words))
    assert (told["package_id"], told["posture"]) == ("acme/little", "trusted")
    assert os.access(os.path.join(told["path"], "bin/plugin"), os.X_OK)
