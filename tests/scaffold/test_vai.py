"""`plughost new vai`, whatever its language: what it says over raw pipes, and that it becomes a package."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from plughost.contracts.vai import manifest
from plughost.scaffold import writer
from tests.support.vai_wire import Talk

LANGUAGES = writer.languages("vai")


@pytest.fixture(params=LANGUAGES)
def folder(request, made):
    return Path(made("vai", request.param).folder)


def test_frames_in_frames_out(folder, workshop):
    with Talk([folder / "bin/plugin"], env=workshop.env) as talk:
        talk.send_body(b"no message")
        assert talk.hello()["plugin"] == {"package_id": f"example/{folder.name}", "version": "0.1.0"}
        number = talk.request("tool.invoke", "greet", input={"name": "Zoë 😀\n"})
        assert talk.hear()["event"] == {"type": "progress", "message": "greeting Zoë 😀\n"}
        said = talk.answer(number)
        text = json.loads(said["result"]["content"][0]["text"])
        assert said["result"]["structured_output"] == text == {"greeting": "Hello, Zoë 😀\n!"}
        talk.cancel(number)
        failed = talk.ask("tool.invoke", "greet", input={"name": 1})
        assert (failed["status"], failed["result"]["is_error"], failed["error"]["code"]) == (
            "failed",
            True,
            "plugin.failed",
        )
        assert talk.ask("hook.handle", "greet")["error"]["code"] == "export.unknown"
        for message, words in (
            ({"op": "tool.sing", "body": {}}, "unknown op"),
            ({"op": "tool.invoke"}, "missing body"),
        ):
            talk.send({"type": "request", "id": "x", **message})
            refused = talk.hear()
            assert (refused["id"], refused["ok"], refused["error"]["code"]) == (
                "x",
                False,
                "protocol.invalid_frame",
            )
            assert words in refused["error"]["message"]
        talk.request(
            "tool.invoke", "greet", input={"name": "Ada"}
        )  # what was asked before the end is answered
        talk.send({"type": "shutdown"})
        assert [talk.hear()["type"] for _ in range(2)] == ["event", "response"]
        assert talk.end(shutdown=False) == 0


def test_a_stream_that_cannot_be_read_ends_it_aloud(folder, workshop):
    with Talk([folder / "bin/plugin"], env=workshop.env) as talk:
        talk.send_bytes(b"Content-Length: 99999999999\r\n\r\n")
        assert talk.end(shutdown=False) == 1
        assert "cannot be read" in talk.stderr


def test_lsps_content_type_may_stand_beside_the_length(folder, workshop):
    body = json.dumps({"protocol": "vai.rpc.v1", "type": "hello", "role": "host", "host": {}}).encode()
    for number in range(2):
        headers = [f"Content-Length: {len(body)}", "content-type: application/vscode-jsonrpc; charset=utf-8"]
        with Talk([folder / "bin/plugin"], env=workshop.env) as talk:
            talk.send_bytes("\r\n".join([*headers[number:], *headers[:number], "", ""]).encode() + body)
            assert talk.hear()["type"] == "hello"


@pytest.mark.parametrize("headers", ["Content-Length: 2\r\nContent-Length: 2", "Content-Type: x"])
def test_a_doubled_or_missing_length_ends_it(folder, workshop, headers):
    with Talk([folder / "bin/plugin"], env=workshop.env) as talk:
        talk.send_bytes(f"{headers}\r\n\r\n{{}}".encode())
        assert talk.end(shutdown=False) == 1
        assert "cannot be read" in talk.stderr


def test_it_has_what_a_package_has(folder):
    told = manifest.read(folder, manifest.in_folder(folder))
    assert [export.id for export in told.exports] == ["greet"]
    assert all((folder / name).exists() for name in ("bin/plugin", "schemas", "assets", "README.md"))


def test_its_manifest_is_what_its_functions_say(made):
    folder = made("vai", "python").folder
    command = [sys.executable, "-m", "plughost_sdk.vai", "generate", "--check", "plugin.py"]
    ran = subprocess.run(command, cwd=folder, env={"PYTHONPATH": "lib"}, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_without_the_sdk_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "sdk", lambda: tmp_path / "gone")
    with pytest.raises(writer.InvalidSpec, match="gone is missing") as refused:
        writer.write("vai", "greeter", "python", tmp_path)
    assert refused.value.hint == "reinstall plughost"
    assert [*tmp_path.iterdir()] == []


def test_the_readme_packs_signs_and_installs_it(folder, workshop, tmp_path):
    readme = (folder / "README.md").read_text()
    [commands] = [block for block in readme.split("```\n") if "plughost install" in block]
    for each in ("signing.key", "signing.key.pub", "trust.toml"):
        (folder.parent / each).unlink(missing_ok=True)
    store = tmp_path / "store"
    for command in commands.strip().splitlines():
        if command.startswith("plughost install"):
            command += f" --store {store} --json"
        ran = workshop.run(command, folder)
        assert ran.returncode == 0, f"{command}\n{ran.stdout}"
    told = json.loads(ran.stdout)
    assert (told["package_id"], told["posture"]) == (f"example/{folder.name}", "trusted")
    left_out = {"test_plugin.py", "plugin.test.js", "main.go", "src", "Cargo.toml", ".vaiignore"}
    assert not left_out & {path.name for path in Path(told["path"]).iterdir()}
    with Talk([Path(told["path"]) / "bin/plugin"], env=workshop.env) as talk:
        assert talk.hello()["plugin"]["package_id"] == f"example/{folder.name}"
