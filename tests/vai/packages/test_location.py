"""Where a package is: the spelling decides between a path and a reference, and a digest is always checked."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from plughost.cli.main import main
from plughost.errors import InvalidSpec
from plughost.vai.packages.errors import Altered
from plughost.vai.packages.install import install
from plughost.vai.packages.locate import open_package
from plughost.vai.packages.location import LocalPath, parse_location
from plughost.vai.packages.oci.reference import InLayout, InRegistry, parse_reference
from plughost.vai.packages.push import push
from tests.support import sample_package as little

DIGEST = f"sha256:{'0123456789abcdef' * 4}"


@pytest.mark.parametrize(
    "text",
    [
        "hello-0.1.0.vai.tar", "dist/hello-0.1.0.vai.tar", "build-1.0/hello-0.1.0.vai.tar", "all.tar", "layout",
        "a/b/layout", ".cache/x.d/layout", "./registry.example/acme/hello:1.0", "../a:1", "/a/b:c", ".", "..",
        "Über/layout", "~/x.vai.tar", "./x@y",
    ],
)  # fmt: skip
def test_these_are_paths(text):
    assert parse_location(text) == LocalPath(Path(text))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("registry.example/acme/hello:1.0.0", InRegistry),
        ("registry.example/acme/hello", InRegistry),
        (f"registry.example/acme/hello@{DIGEST}", InRegistry),
        (f"registry.example/acme/hello:1.0.0@{DIGEST}", InRegistry),
        ("registry.example/acme/hello:x.vai.tar", InRegistry),
        ("localhost/hello:1", InRegistry),
        ("registry:5000/hello:1", InRegistry),
        ("oci://registry.example/hello:1", InRegistry),
        ("oci-layout:hello", InLayout),
        (f"oci-layout:hello@{DIGEST}", InLayout),
    ],
)
def test_these_are_references_whatever_is_in_the_current_directory(text, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert isinstance(parse_location(text), kind)
    Path(text).mkdir(parents=True)
    assert isinstance(parse_location(text), kind)


@pytest.mark.parametrize(
    "text",
    [
        "registry.example/acme/hello@sha256:0123", f"registry.example/acme/hello@{DIGEST.upper()}",
        f"hello@{DIGEST}", f"dist/hello.vai.tar@{DIGEST}", "registry.example/Acme/hello:1.0.0", "hello:1.0.0",
        "user@registry.example/hello:1", "registry.example/Acme/hello",
    ],
)  # fmt: skip
def test_what_is_neither_is_refused_and_a_folder_of_that_name_is_not_taken_for_it(
    text, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidSpec) as refused:
        parse_location(text)
    Path(text).mkdir(parents=True)
    with pytest.raises(InvalidSpec) as again:
        parse_location(text)
    assert again.value.message == refused.value.message
    assert f"write ./{text}" in again.value.hint


def test_a_digest_after_a_path_is_one_only_if_it_is_whole(tmp_path):
    file = tmp_path / "x.vai.tar"
    assert parse_location(f"{file}@{DIGEST}") == LocalPath(file, DIGEST)
    named = Path(f"{file}@{DIGEST}")
    named.mkdir()
    assert parse_location(f"{named}/") == LocalPath(named, DIGEST)
    for wrong in ("sha256:0", DIGEST.upper().replace("SHA", "sha"), f"{DIGEST}0"):
        with pytest.raises(InvalidSpec, match="64 lower-case hexadecimal digits"):
            parse_location(f"{file}@{wrong}")


@pytest.fixture
def run(capfdbinary, folder, monkeypatch):
    """A command in a folder of its own: exit code, stdout and stderr."""
    monkeypatch.chdir(folder)
    for name in ("DATA", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(folder / name.lower()))

    def run(*words):
        code = 0
        try:
            main([str(word) for word in words])
        except SystemExit as ended:
            code = ended.code
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return run


@pytest.fixture
def shadow(folder, signed, signer, monkeypatch):
    """A layout with a trusted package in the current directory, at the path that a reference spells."""
    monkeypatch.chdir(folder)
    (folder / "trust.toml").write_text(f'[[publishers.acme.keys]]\nkey = "{signer[1].text}"\n')
    asyncio.run(push(signed.file, parse_reference(f"oci-layout:{folder / 'made'}"), lambda done, total: None))

    def shadow(text: str) -> Path:
        shutil.copytree(folder / "made", text)
        return Path(text)

    return shadow


class Empty(BaseHTTPRequestHandler):
    """A registry that has nothing."""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        self.send_error(404)

    do_HEAD = do_GET

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def registry():
    with ThreadingHTTPServer(("127.0.0.1", 0), Empty) as server:
        server.asked = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.clause("VAI-01")
@pytest.mark.parametrize("command", ["install", "verify", "sign", "push"])
@pytest.mark.parametrize("name", [f"acme/hello@{DIGEST}", "acme/hello:0.1.0", f"acme/hello:0.1.0@{DIGEST}"])
def test_no_folder_shadows_a_reference(run, shadow, command, name, registry):
    text = f"127.0.0.1:{registry.server_port}/{name}"
    shadow(text)
    more = {
        "install": ("--trust", "trust.toml"), "verify": ("--trust", "trust.toml"), "sign": ("--key", "key"),
        "push": ("oci-layout:elsewhere",),
    }[command]  # fmt: skip
    code, out, _ = run(command, text, *more)
    assert (code, out) == (3, "")
    assert registry.asked[0].startswith("/v2/acme/hello/manifests/"), "the registry was asked"
    assert run("packages", "ls", "--json")[1] == "[]\n"
    assert not os.path.exists("elsewhere")


@pytest.mark.clause("VAI-01")
@pytest.mark.parametrize("spelled", ["{file}@{digest}", "./dist/{name}@{digest}", "oci-layout:made@{digest}"])
def test_the_digest_of_a_local_package_is_checked(run, shadow, signed, folder, spelled):
    words = {"file": signed.file, "name": Path(signed.file).name}
    right, wrong = (spelled.format(**words, digest=digest) for digest in (signed.digest, DIGEST))
    trust = ("--trust", "trust.toml")
    assert run("install", wrong, *trust)[0] == 3
    assert run("packages", "ls", "--json")[1] == "[]\n"
    code, out, _ = run("install", right, *trust, "--json")
    assert (code, json.loads(out)["digest"]) == (0, signed.digest)


def test_the_digest_in_the_name_of_a_folder_is_checked(run, shadow, signed):
    wrong = shadow(f"./hello@{DIGEST}")
    assert run("install", f"./{wrong}", "--trust", "trust.toml")[0] == 3
    right = shadow(f"./hello@{signed.digest}")
    assert run("install", f"./{right}/", "--trust", "trust.toml")[0] == 0


def test_what_could_be_both_is_refused_with_both_spellings(run, shadow):
    shadow("registry.example/hello")
    code, out, err = run("install", "registry.example/hello", "--trust", "trust.toml")
    assert (code, out) == (2, "")
    assert "write ./registry.example/hello for" in err
    assert "oci://registry.example/hello:TAG" in err
    assert run("install", "./registry.example/hello", "--trust", "trust.toml")[0] == 0


def test_files_and_layouts_are_found_by_relative_paths(run, shadow, signed):
    shadow("some/layout")
    os.makedirs("build-1.0")
    shutil.copy(signed.file, "build-1.0/little.vai.tar")
    shutil.copy(Path(signed.file).with_name("marketplace.signature.json"), "build-1.0")
    for text in ("some/layout", "dist/little-0.1.0.vai.tar", "build-1.0/little.vai.tar"):
        assert run("verify", text, "--trust", "trust.toml")[0] == 0, text
    code, _, err = run("install", "dist/nothing.vai.tar")
    assert (code, "there is no file or folder dist/nothing.vai.tar" in err) == (2, True)


async def test_a_source_that_answers_with_another_digest_is_refused(signed, store, trust):
    class Lying:
        """A package that says to be what it is asked for."""

        def __init__(self, content):
            self._content = content

        def __getattr__(self, name):
            return getattr(self._content, name)

        async def manifest(self, reference):
            return await self._content.manifest("")

    async with open_package(f"{signed.file}@{DIGEST}") as place:
        lying = msgspec.structs.replace(place, content=Lying(place.content))
        with pytest.raises(Altered, match=f"not {DIGEST}"):
            await install(lying, store, trust)
    assert little.kept(store) == []
