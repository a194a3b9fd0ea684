"""`plughost invoke` and `plughost invocations`, as a person uses them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

import plughost as plughost_
from plughost.sandbox.planner import NO_CORE
from tests.sandbox.conftest import strict  # noqa: F401
from tests.support import ROOT
from tests.support.command_line import run_here
from tests.vai.invocations.conftest import LAB, SECRET


@pytest.fixture
def place():
    """A package where every user can reach it, and a place for records."""
    folder = Path(tempfile.mkdtemp(prefix="plughost-test-"))
    folder.chmod(0o755)
    shutil.copytree(LAB, folder / "lab")
    yield folder
    shutil.rmtree(folder)


def plughost(place: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "plughost.cli", *words]
    if words[0] in ("invoke", "invocations"):
        command += ["--state", str(place / "state")]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, env=os.environ)


def here(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Without a process of its own, where that is not the point."""
    return run_here(*words, "--state", str(place / "state"))


def test_every_tenant_has_bindings_of_its_own(place: Path) -> None:
    for words in ([], ["--org", "other"], ["--project", "other"], []):
        here(place, "invoke", str(place / "lab"), "reads", '{"do": "echo"}', "--sandbox", "none", *words)
    rows = json.loads(here(place, "invocations", "ls", "--json").stdout)
    tenants = {(row["binding_id"], row["org_id"], row["project_id"]) for row in rows}
    assert len(rows) == 4
    assert len(tenants) == len({binding_id for binding_id, _, _ in tenants}) == 3


@pytest.mark.usefixtures("strict")
def test_a_tool_of_a_folder_is_run_confined_and_recorded(place: Path) -> None:
    ran = plughost(place, "invoke", str(place / "lab"), "reads", '{"do": "echo"}')
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["structured_output"]["context"]["org_id"] == "local"
    (row,) = json.loads(here(place, "invocations", "ls", "--json").stdout)
    assert (row["status"], row["export_id"], row["execution_class"]) == ("succeeded", "reads", "worker")
    assert any("seccomp" in word for word in row["confined_by"])
    told = here(place, "invocations", "ls").stdout
    assert row["invocation_id"] in told
    assert "acme/lab@1.0.0 reads  succeeded" in told
    shown = here(place, "invocations", "show", row["invocation_id"]).stdout
    assert "status: succeeded" in shown


def test_events_are_streamed_as_lines_and_the_outcome_is_the_last(place: Path) -> None:
    words = ("invoke", str(place / "lab"), "reads", "-", "--stream", "--sandbox", "none")
    ran = plughost(place, *words, stdin='{"do": "events", "count": 3}')
    assert ran.returncode == 0, ran.stderr
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [line["event"]["number"] for line in lines[:-1]] == [0, 1, 2]
    assert lines[-1]["outcome"]["status"] == "succeeded"
    (row,) = json.loads(here(place, "invocations", "ls", "--json").stdout)
    shown = json.loads(here(place, "invocations", "show", row["invocation_id"], "--json").stdout)
    assert len(shown["events"]) == 3


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("reads", '{"do": "fail"}'), 1, "failed: plugin:no"),
        (("reads", '{"do": "fail", "code": "crashed"}'), 1, "failed: plugin:crashed"),
        (("reads", '{"do": "fail", "code": "\\u001b[2Jx\\nsucceeded"}'), 1, "plugin:\\x1b[2Jx\\nsucceeded"),
        (("reads", '{"other": 1}'), 1, "invalid_input"),
        (("reads", '{"do": "crash"}'), 3, "crashed"),
        (("reads", '{"do": "wait"}', "--timeout", "0.1"), 3, "deadline_exceeded"),
        (("reads", "{"), 2, "the input is not JSON"),
        (("other", "{}"), 2, "; known: knows, reacts"),
        (("reads", '{"do": "echo"}', "--egress", "example.com"), 2, "does not ask for network access"),
        (("shortens", "{}"), 2, "lacks 'blocks'"),
        (("reacts", '{"type": 1}'), 2, "not a valid request for a hook"),
        (("writes", '{"do": "echo"}'), 2, "secret slot key is not mapped"),
    ],
)
def test_what_goes_wrong_is_told_with_the_exit_code_that_fits(
    place: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    ran = here(place, "invoke", str(place / "lab"), *words, "--sandbox", "none")
    assert (ran.returncode, ran.stdout) == (code, "")
    assert told in ran.stderr


def test_a_secret_comes_from_its_place_and_is_shown_nowhere(place: Path) -> None:
    secret = place / "vault/acme/key"
    secret.parent.mkdir(parents=True)
    secret.write_text(SECRET)
    words = [
        "invoke", str(place / "lab"), "writes", '{"do": "say", "text": "KEY"}', "--sandbox", "none", "--json",
        "--secret", "key=secret://acme/key", "--secrets", str(place / "vault"),
    ]  # fmt: skip
    secret.chmod(0o644)
    refused = here(place, *words)
    assert json.loads(refused.stdout)["reason"] == "invalid_request"
    assert "can be read by other users" in refused.stdout
    secret.chmod(0o600)
    ran = here(place, *words)
    assert json.loads(ran.stdout)["result"]["structured_output"]["text"] == "***"
    assert SECRET not in ran.stdout + ran.stderr
    kept = [path.read_bytes() for path in (place / "state").iterdir()]
    assert not [data for data in kept if SECRET.encode() in data]


@pytest.mark.usefixtures("strict")
def test_other_exports_of_the_package_are_given_no_secret(place: Path) -> None:
    """A harness may ask for them; the secret was meant for it alone."""
    manifest = place / "lab/vai-plugin.toml"
    slot = 'secret_slots = ["key"]\n'
    text = manifest.read_text()
    for before in ('gateway_api_scopes = ["sessions:read"', "[exports.compactor]"):
        assert before in text
        text = text.replace(before, slot + before, 1)
    manifest.write_text(text)
    secret = place / "vault/acme/key"
    secret.parent.mkdir(parents=True)
    secret.write_text(SECRET)
    secret.chmod(0o600)
    asked = {
        "chain_id": "ch_1",
        "export": "shortens",
        "target": {"max_input_tokens": 9, "target_model": "any"},
    }
    steps = [{"method": "POST", "path": "/v1/compactions", "json": asked}]
    given = {
        "target": {"session_id": "sess_1", "chain_id": "ch_1"},
        "trigger": {"type": "user_request", "input": steps},
    }
    words = ("--secret", "key=secret://acme/key", "--secrets", str(place / "vault"))
    ran = plughost(place, "invoke", str(place / "lab"), "triage", json.dumps(given), *words)
    assert ran.returncode == 0, ran.stderr
    ((status, problem),) = json.loads(ran.stdout)["artifacts"]
    assert status == 422
    assert "secret slot key is not mapped" in json.dumps(problem)


def test_records_that_are_not_there(place: Path) -> None:
    assert plughost(place, "invocations", "ls").stdout == ""
    missing = plughost(place, "invocations", "show", "inv_1")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "no invocation inv_1" in missing.stderr


@pytest.mark.usefixtures("strict")
@pytest.mark.clause("VAI-84", "VAI-12")
def test_packed_signed_installed_and_invoked(place: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return plughost(place, *words)

    store, key, trust = place / "store", place / "acme.key", place / "trust.toml"
    artifact = place / "lab-1.0.0.vai.tar"
    assert run("pack", str(place / "lab"), "--out", str(artifact)).returncode == 0
    made = run("keygen", str(key), "--json")
    assert made.returncode == 0, made.stderr
    public = json.loads(made.stdout)["key"]
    assert run("sign", str(artifact), "--key", str(key)).returncode == 0
    words = (
        "invoke",
        "acme/lab",
        "reads",
        '{"do": "echo"}',
        "--store",
        str(store),
        "--trust",
        str(trust),
        "--json",
    )
    trust.write_text(f'[publishers.acme]\ninline = true\n[[publishers.acme.keys]]\nkey = "{public}"\n')
    installed = run("install", str(artifact), "--store", str(store), "--trust", str(trust))
    assert installed.returncode == 0, installed.stderr
    ran = run(*words)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    (row,) = json.loads(run("invocations", "ls", "--json").stdout)
    assert row["execution_class"] == "inline"
    assert row["package_digest"].startswith("sha256:")
    trust.write_text(trust.read_text() + "revoked = true\n")
    refused = run(*words)
    assert (refused.returncode, "revoked" in refused.stdout) == (3, True), refused.stdout


@pytest.mark.clause("VAI-90")
@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("sandbox", ["none", "strict"])
def test_nothing_that_holds_a_secret_dumps_core(place: Path, sandbox: str) -> None:
    before = resource.getrlimit(resource.RLIMIT_CORE)
    if before[1] == 0:
        pytest.skip("nobody here may dump core")
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    try:
        ran = plughost(place, "invoke", str(place / "lab"), "reads", '{"do": "core"}', "--sandbox", sandbox)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)
    assert json.loads(ran.stdout)["structured_output"]["most"] == NO_CORE, ran.stderr


@pytest.mark.clause("VAI-94", "VAI-56")
def test_a_compaction_from_the_command_line_has_a_chain_of_its_own(place: Path) -> None:
    for org in ("local", "other"):
        blocks = [{"kind": "system", "content": [{"type": "text", "text": org}], "id": f"of {org}"}]
        given = {"blocks": blocks, "target": {"max_input_tokens": 9, "target_model": "any"}}
        words = ("shortens", json.dumps(given), "--sandbox", "none", "--org", org)
        ran = plughost(place, "invoke", str(place / "lab"), *words)
        assert ran.returncode == 0, ran.stderr
        (row, *_) = json.loads(here(place, "invocations", "ls", "--json").stdout)
        chain_id = json.loads(ran.stdout)["derived_chain_id"]
        with closing(sqlite3.connect(place / "state/vai.db")) as state:
            said = "SELECT kind, content, more FROM blocks WHERE chain_id = ?"
            (kept,) = state.execute(said, (row["chain_id"],))
            chains = "SELECT org_id, session_id FROM chains WHERE chain_id = ? AND source_chain_id = ?"
            assert [*state.execute(chains, (chain_id, row["chain_id"]))] == [(org, row["session_id"])]
        assert (kept[0], *map(json.loads, kept[1:])) == ("system", blocks[0]["content"], {"id": f"of {org}"})


@pytest.mark.clause("VAI-43", "VAI-36")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_cancels_it_and_leaves_nothing(place: Path, number: signal.Signals) -> None:
    secret = place / "vault/acme/key"
    secret.parent.mkdir(parents=True)
    secret.write_text(SECRET)
    secret.chmod(0o600)
    command = [
        sys.executable, "-m", "plughost.cli", "invoke", str(place / "lab"), "writes",
        '{"do": "leave and wait"}', "--sandbox", "none", "--stream", "--state", str(place / "state"),
        "--secret", "key=secret://acme/key", "--secrets", str(place / "vault"),
    ]  # fmt: skip
    (place / "tmp").mkdir()
    env = {**os.environ, "TMPDIR": str(place / "tmp")}
    manifest = place / "lab/vai-plugin.toml"
    manifest.write_text(manifest.read_text().replace('"non_idempotent_write"', '"unknown"\nstreaming = true'))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as ran:
        assert ran.stdout is not None
        assert json.loads(ran.stdout.readline()) == {"event": {"type": "waiting"}}
        assert [*(place / "tmp").rglob("left")]
        ran.send_signal(number)
        last = json.loads(ran.stdout.readline())["outcome"]
        assert (last["status"], last["reason"]) == ("cancelled", number.name)
        assert ran.stdout.readline() == ""
    assert ran.returncode == 3
    assert [*(place / "tmp").iterdir()] == []


def test_what_to_do_is_told_with_the_failure(place: Path) -> None:
    secret = place / "vault/acme/key"
    secret.parent.mkdir(parents=True)
    secret.write_text(SECRET)
    secret.chmod(0o644)
    words = (
        "writes",
        '{"do": "echo"}',
        "--secret",
        "key=secret://acme/key",
        "--secrets",
        str(place / "vault"),
    )
    ran = here(place, "invoke", str(place / "lab"), *words, "--sandbox", "none")
    assert f"hint: chmod 600 {secret}" in ran.stderr
    (row,) = json.loads(here(place, "invocations", "ls", "--json").stdout)
    assert f"hint: chmod 600 {secret}" in here(place, "invocations", "show", row["invocation_id"]).stdout


@pytest.mark.parametrize("hello", ["not a frame", "another version"])
def test_a_plugin_that_does_not_speak_the_protocol_gives_no_answer(place: Path, hello: str) -> None:
    program = place / "lab/bin/plugin"
    wrong = {"not a frame": ("vai.rpc.v1", "v0"), "another version": ('"version": "1.0.0"', '"version": "2"')}
    program.write_text(program.read_text().replace(*wrong[hello]))
    ran = here(place, "invoke", str(place / "lab"), "reads", '{"do": "echo"}', "--sandbox", "none")
    assert (ran.returncode, ran.stdout) == (3, "")


@pytest.mark.usefixtures("strict")
def test_a_harness_from_the_command_line_reaches_a_gateway_of_its_own(place: Path) -> None:
    steps = [
        {"method": "GET", "path": "/v1/sessions/sess_1"},
        {"method": "GET", "path": "/v1/chains/ch_1"},
    ]
    target = {"session_id": "sess_1", "chain_id": "ch_1"}
    given = {"target": target, "trigger": {"type": "user_request", "input": steps}}
    ran = plughost(place, "invoke", str(place / "lab"), "triage", json.dumps(given))
    assert ran.returncode == 0, ran.stderr
    assert [status for status, _ in json.loads(ran.stdout)["artifacts"]] == [200, 200]
    (row,) = json.loads(here(place, "invocations", "ls", "--json").stdout)
    assert (row["session_id"], row["chain_id"], row["run_id"]) == ("sess_1", "ch_1", "run_local")


@pytest.mark.usefixtures("strict")
def test_the_documents_example_runs_as_it_stands(place: Path, capsys) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/invocations.md").read_text(), re.S)
    names: dict[str, object] = {}
    exec(compile(example, "invocations.md", "exec"), names)
    bound = names["main"](str(place / "lab"), str(place / "state"), "writes", {"do": "echo"})
    with pytest.raises(plughost_.InvalidSpec, match="secret slot key"):
        asyncio.run(bound)
    text = (place / "lab/vai-plugin.toml").read_text()
    (place / "lab/vai-plugin.toml").write_text(text.replace('secret_slots = ["key"]', "secret_slots = []"))
    asyncio.run(names["main"](str(place / "lab"), str(place / "state"), "writes", {"do": "echo"}))
    assert capsys.readouterr().out.startswith("succeeded ")


@pytest.mark.parametrize("how", [(), ("--json",), ("--stream",)])
def test_a_large_result_is_printed_as_any_other(place: Path, how: tuple[str, ...]) -> None:
    asked = json.dumps({"do": "repeat", "text": "x", "times": 200_000})
    ran = plughost(place, "invoke", str(place / "lab"), "reads", asked, "--sandbox", "none", *how)
    assert (ran.returncode, ran.stderr) == (0, "")
    told = json.loads(ran.stdout)
    told = told.get("outcome", told)
    assert told.get("result", told)["structured_output"]["text"] == "x" * 200_000
