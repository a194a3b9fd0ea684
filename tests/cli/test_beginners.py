"""Mistakes of beginners, made with real processes: the message says what happened and what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support.confinable import PATH, needs, open_folder
from tests.support.vai import package

PLUGHOST = [sys.executable, "-m", "plughost.cli"]
STRAY_PRINT = 'print("starting up...", flush=True)\nprint(\'{"id": 1, "result": 1}\', flush=True)\ninput()'
NO_FLUSH = 'import sys\nfor line in sys.stdin: print(\'{"id": 1, "result": 1}\')'
RUNE = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["type"] == "handshake":
        manifest = {"plugin_id": sys.argv[2], "plugin_version": "1", "exposed_tools": ["ping"]}
        manifest["protocol_version"] = asked["protocol_version"]
        said = {"type": "handshake", "manifest": manifest}
    else:
        said = {"type": "response", "request_id": asked["request_id"], "status": "ok"}
    print(json.dumps(said), flush=said["type"] in sys.argv[1])
"""
HUNG = 'import sys, time\nprint("working", file=sys.stderr, flush=True)\ntime.sleep(600)'
READER = """
import sys
for line in sys.stdin:
    try:
        open(sys.argv[1])
    except OSError as error:
        print('{"id": 1, "error": {"code": 1, "message": "no"}}', flush=True)
"""


def plughost(*words, cwd=None, env=None):
    ran = subprocess.run(
        [*PLUGHOST, *map(str, words)], capture_output=True, text=True, cwd=cwd, env=env, timeout=50
    )
    assert "Traceback" not in ran.stderr
    return ran


def call(program, *options):
    command = (sys.executable, "-I", "-S", "-c", program)
    return plughost("call", "--contract", "mcptest", *options, "ping", "--", *command)


def test_a_stray_print_is_shown_with_its_first_bytes_and_the_remedy():
    ran = call(STRAY_PRINT)
    assert ran.returncode == 3
    assert "it wrote a line to stdout that is not JSON" in ran.stderr
    assert "it began with: starting up...\n" in ran.stderr
    assert "hint: write only messages to stdout: print to stderr instead, or use the SDK" in ran.stderr


def test_a_forgotten_flush_is_found_out_when_stdin_closes():
    ran = call(NO_FLUSH, "--timeout", "1")
    assert ran.returncode == 3
    assert "no answer to 'ping' within 1 s" in ran.stderr
    assert "arrived only after stdin was closed" in ran.stderr
    assert "print(..., flush=True)" in ran.stderr


def call_rune(flushed, *options, plugin_id="unflushed"):
    """Call the plugin `unflushed`, which flushes messages of these types."""
    command = (sys.executable, "-I", "-S", "-c", RUNE, flushed, plugin_id)
    return plughost(
        "call", "--contract", "rune", "--sandbox", "none", "--name", "unflushed", *options, "ping", "--", *command
    )  # fmt: skip


@pytest.mark.parametrize(
    ("flushed", "options", "what"),
    [
        ("", [], "no handshake within 2 s"),
        ("", ["--timeout", "1"], "no answer to 'ping' within 1 s"),
        ("handshake", ["--timeout", "1"], "no answer to 'ping' within 1 s"),
    ],
)
def test_a_forgotten_flush_of_a_process_per_call_is_found_out_too(flushed, options, what):
    ran = call_rune(flushed, *options)
    assert ran.returncode == 3
    assert f"plugin unflushed timeout: {what}\n" in ran.stderr
    assert "arrived only after stdin was closed" in ran.stderr
    assert "print(..., flush=True)" in ran.stderr


def test_a_plugin_under_another_name_is_told_which_two_names_must_be_the_same():
    assert call_rune("handshake response").returncode == 0
    ran = call_rune("handshake response", plugin_id="flushed")
    assert ran.returncode == 3
    assert "handshake_failed: it calls itself 'flushed', but is configured as 'unflushed'\n" in ran.stderr
    assert "plugin_id in its handshake must be its name in plughost.toml (or --name)" in ran.stderr


def test_a_package_whose_program_names_another_package_is_told_both_names(tmp_path, mark):
    folder = package(tmp_path, mark)
    other = 'hello={"package_id": "acme/pupet"}'
    ran = plughost("call", "--sandbox", "none", "--env", other, folder, "tool.invoke", "{}")
    assert ran.returncode == 3, ran.stderr
    assert "the program says that it is 'acme/pupet" in ran.stderr
    assert "but its package is 'acme/puppet" in ran.stderr
    assert "correct package_id and version in vai-plugin.toml" in ran.stderr


def test_a_plugin_that_hangs_is_stopped_and_the_message_says_so():
    ran = call(HUNG, "--timeout", "1")
    assert ran.returncode == 3
    assert "no answer to 'ping' within 1 s" in ran.stderr
    assert "  working\n" in ran.stderr
    assert "it was stopped; --timeout SECONDS gives it more time" in ran.stderr
    assert "flush" not in ran.stderr


@pytest.mark.parametrize("sandbox", ["strict", "landlock"])
def test_a_denial_in_a_sandbox_is_shown_with_the_grant_that_allows_it(sandbox):
    needs(sandbox)
    with open_folder() as folder:
        (folder / "reader.py").write_text(READER)
        (folder / "notes.txt").write_text("secret\n")
        (folder / "plugin").mkdir()
        command = ("/usr/bin/env", "python3", str(folder / "reader.py"), str(folder / "notes.txt"))
        ran = plughost(
            "call", "--contract", "mcptest", "--sandbox", sandbox, "ping", "--", *command,
            env={"PATH": PATH, "HOME": str(folder)}, cwd=folder / "plugin",
        )  # fmt: skip
    assert ran.returncode == 1, ran.stderr
    assert f"denied: read {folder}/notes.txt: not granted" in ran.stderr
    assert f"--allow read={folder}/notes.txt" in ran.stderr


def test_a_misspelt_plughost_toml_names_every_problem_and_the_nearest_key_whatever_the_contract(tmp_path):
    (tmp_path / "plughost.toml").write_text(
        '[plugins.a]\ncontract = "mcptst"\ncomand = ["x"]\nsandbx = "strict"\nidle_reap_sec = 3\n'
        'limits = { memry = "1M" }\nenv = { A = "${PLUGHOST_NOT_SET}" }\n'
        '[plugins.b]\ncontrct = "rune"\ncommand = ["x"]\n'
        '[plugins.c]\ncontract = "mcptest"\ncommand = ["x"]\nsandbx = "strict"\n[plugin.d]\n'
    )
    ran = plughost("run", "-c", "plughost.toml", cwd=tmp_path)
    assert ran.returncode == 2
    for words in (
        "plughost.toml:1: plugins.a: `command` is missing",
        "plughost.toml:2: plugins.a.contract: unknown contract 'mcptst'; did you mean 'mcptest'?",
        "plughost.toml:3: plugins.a.comand: unknown key; did you mean 'command'?",
        "plughost.toml:4: plugins.a.sandbx: unknown key; did you mean 'sandbox'?",
        "plughost.toml:5: plugins.a.idle_reap_sec: unknown key; did you mean 'idle_reap_secs'?",
        "plughost.toml:6: plugins.a.limits: unknown limit 'memry'; did you mean 'memory'?",
        "plughost.toml:7: plugins.a.env.A: ${PLUGHOST_NOT_SET} is not set",
        "plughost.toml:8: plugins.b: `contract` is missing",
        "plughost.toml:9: plugins.b.contrct: unknown key; did you mean 'contract'?",
        "plughost.toml:14: plugins.c.sandbx: unknown key; did you mean 'sandbox'?",
        "plughost.toml:15: plugin: unknown key; did you mean 'plugins'?",
    ):
        assert words in ran.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["install", "nope.tar"], 2, ["there is no file or folder nope.tar", "`plughost pack DIR` makes a package"]),
        (["call", "./nope", "x"], 2, ["there is no folder './nope'", "`plughost new CONTRACT NAME`"]),
        (["call", "nope", "x"], 2, ["there is no folder 'nope', and no plughost.toml here"]),
        (["invoke", "./nope", "x"], 2, ["there is no folder './nope'", "`plughost new vai NAME`"]),
        (["invoke", "acme/nope", "x"], 3, ["acme/nope is not installed", "`plughost packages ls` lists"]),
        (["cal", "x"], 2, ["No such command 'cal'; did you mean 'call'?"]),
        (["packages", "list"], 2, ["No such command 'list'; did you mean 'ls'?"]),
        (["new", "mcptst", "x"], 2, ["did you mean 'mcptest'?"]),
        (["new", "mcptest", "x", "--lang", "pyton"], 2, ["did you mean 'python'?"]),
        (["call", "--contract", "mcptst", "x", "--", "true"], 2, ["did you mean 'mcptest'?"]),
    ],
)  # fmt: skip
def test_a_wrong_word_is_answered_with_what_to_do(tmp_path, words, code, said):
    env = {"PATH": PATH, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    ran = plughost(*words, cwd=tmp_path, env=env)
    assert ran.returncode == code, ran.stderr
    for each in said:
        assert each in ran.stderr


def test_an_unknown_method_of_a_manifest_names_the_nearest(tmp_path):
    assert plughost("new", "kaged", "greeter", cwd=tmp_path).returncode == 0
    ran = plughost("call", "--sandbox", "none", "./greeter", "greeter.grete", cwd=tmp_path)
    assert ran.returncode == 3
    assert "it declares no method 'greeter.grete'; did you mean 'greeter.greet'?" in ran.stderr


def test_an_unsigned_and_a_revoked_package_say_what_became_of_them_and_what_to_do(tmp_path):
    pytest.importorskip("cryptography")
    trust = tmp_path / "trust.toml"

    def run(*words):
        return plughost(*words, cwd=tmp_path)

    def install():
        ran = run("install", "greeter-0.1.0.vai.tar", "--trust", trust, "--store", "store")
        assert ran.returncode == 3, ran.stderr
        return ran.stderr

    assert run("new", "vai", "greeter").returncode == 0
    assert run("pack", "greeter").returncode == 0
    key = run("keygen", "signing.key").stdout.strip()
    trust.write_text("")
    unsigned = install()
    assert "it is not signed" in unsigned
    assert "`plughost sign`" in unsigned
    assert "plughost invoke ./FOLDER" in unsigned
    assert run("sign", "greeter-0.1.0.vai.tar", "--key", "signing.key").returncode == 0
    assert "if you trust that key, list it under publishers.example" in install()
    trust.write_text(f"[publishers.example]\nkeys = [{{ key = {json.dumps(key)}, revoked = true }}]\n")
    revoked = install()
    assert "of example is revoked" in revoked
    assert "do not use it: ask example for a release that is signed with another key" in revoked


def test_a_contract_whose_package_is_broken_is_named_once_with_what_to_do(tmp_path):
    info = tmp_path / "acme_broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[plughost.contracts]\nacme = acme_broken:CONTRACT\n")
    (tmp_path / "acme_broken.py").write_text("import nonesuch\n")
    why = (
        "the contract 'acme' of acme-broken cannot be loaded: ModuleNotFoundError: No module named 'nonesuch'"
    )
    remedy = "update or uninstall acme-broken"
    work = tmp_path / "work"
    (work / "plugin").mkdir(parents=True)
    (work / "plughost.toml").write_text('[plugins.a]\ncontract = "acme"\ncommand = ["true"]\n')

    def run(*words):
        return plughost(*words, cwd=work, env={**os.environ, "PYTHONPATH": str(tmp_path)})

    assert run("new", "kaged", "greeter").returncode == 0
    ran = run("call", "--sandbox", "none", "./greeter", "greeter.greet", '{"name": "Ada"}')
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count("acme-broken cannot be loaded") == 1
    assert f"warning: {why}. It is ignored: {remedy}\n" in ran.stderr
    assert ".py:" not in ran.stderr
    ran = run("call", "./plugin", "ping")
    assert ran.returncode == 2
    assert f"warning: {why}. It is ignored: {remedy}\n" in ran.stderr
    assert "cannot be loaded, so their manifests were not looked for: acme\n" in ran.stderr
    ran = run("run", "-c", "plughost.toml")
    assert ran.returncode == 2
    assert f"plughost.toml:2: plugins.a.contract: {why}; {remedy}\n" in ran.stderr
    ran = run("call", "--contract", "acme", "ping", "--", "true")
    assert (ran.returncode, ran.stderr) == (2, f"invalid_spec: {why}\nhint: {remedy}\n")
