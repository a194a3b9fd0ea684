"""`plughost invoke` and `plughost invocations`, as a person uses them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import plughost as plughost_
from plughost.sandbox.confine import NO_CORE
from tests.invocations.conftest import LAB, SECRET
from tests.sandbox.conftest import strict  # noqa: F401
from tests.support import ROOT


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


def test_every_tenant_has_bindings_of_its_own(place: Path) -> None:
    for words in ([], ["--org", "other"], ["--project", "other"], []):
        plughost(place, "invoke", str(place / "lab"), "reads", '{"do": "echo"}', "--sandbox", "none", *words)
    rows = json.loads(plughost(place, "invocations", "ls", "--json").stdout)
    tenants = {(row["binding_id"], row["org_id"], row["project_id"]) for row in rows}
    assert len(rows) == 4
    assert len(tenants) == len({binding_id for binding_id, _, _ in tenants}) == 3


@pytest.mark.usefixtures("strict")
def test_a_tool_of_a_folder_is_run_confined_and_recorded(place: Path) -> None:
    ran = plughost(place, "invoke", str(place / "lab"), "reads", '{"do": "echo"}')
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["structured_output"]["context"]["org_id"] == "local"
    (row,) = json.loads(plughost(place, "invocations", "ls", "--json").stdout)
    assert (row["status"], row["export_id"], row["execution_class"]) == ("succeeded", "reads", "worker")
    assert any("seccomp" in word for word in row["confined_by"])
    told = plughost(place, "invocations", "ls").stdout
    assert row["invocation_id"] in told
    assert "acme/lab@1.0.0 reads  succeeded" in told
    shown = plughost(place, "invocations", "show", row["invocation_id"]).stdout
    assert "status: succeeded" in shown


def test_events_are_streamed_as_lines_and_the_outcome_is_the_last(place: Path) -> None:
    words = ("invoke", str(place / "lab"), "reads", "-", "--stream", "--sandbox", "none")
    ran = plughost(place, *words, stdin='{"do": "events", "count": 3}')
    assert ran.returncode == 0, ran.stderr
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [line["event"]["number"] for line in lines[:-1]] == [0, 1, 2]
    assert lines[-1]["outcome"]["status"] == "succeeded"
    (row,) = json.loads(plughost(place, "invocations", "ls", "--json").stdout)
    shown = json.loads(plughost(place, "invocations", "show", row["invocation_id"], "--json").stdout)
    assert len(shown["events"]) == 3


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("reads", '{"do": "fail"}'), 1, "failed: no"),
        (("reads", '{"other": 1}'), 1, "invalid_input"),
        (("reads", '{"do": "crash"}'), 3, "crashed"),
        (("reads", '{"do": "wait"}', "--timeout", "0.1"), 3, "deadline_exceeded"),
        (("reads", "{"), 2, "no JSON"),
        (("other", "{}"), 2, "it has: reads, knows"),
        (("reads", '{"do": "echo"}', "--egress", "example.com"), 2, "asks for no network"),
        (("shortens", "{}"), 2, "lacks 'blocks'"),
        (("reacts", '{"type": 1}'), 2, "not what a hook is asked"),
        (("writes", '{"do": "echo"}'), 2, "secret slot key is not mapped"),
    ],
)
def test_what_goes_wrong_is_told_with_the_exit_code_that_fits(
    place: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    ran = plughost(place, "invoke", str(place / "lab"), *words, "--sandbox", "none")
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
    refused = plughost(place, *words)
    assert json.loads(refused.stdout)["reason"] == "invalid_request"
    assert "may be read by others" in refused.stdout
    secret.chmod(0o600)
    ran = plughost(place, *words)
    assert json.loads(ran.stdout)["result"]["structured_output"]["text"] == "***"
    assert SECRET not in ran.stdout + ran.stderr
    kept = [path.read_bytes() for path in (place / "state").iterdir()]
    assert not [data for data in kept if SECRET.encode() in data]


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


def test_a_compaction_and_a_harness_from_the_command_line(place: Path) -> None:
    given = {
        "blocks": [{"kind": "input", "content": []}] * 2,
        "target": {"max_input_tokens": 9, "target_model": "any"},
    }
    ran = plughost(place, "invoke", str(place / "lab"), "shortens", json.dumps(given), "--sandbox", "none")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["derived_chain_id"].startswith("ch_")


@pytest.mark.usefixtures("strict")
def test_a_harness_from_the_command_line_reaches_a_gateway_of_its_own(place: Path) -> None:
    steps = [
        {"method": "GET", "path": "/v1/sessions/sess_local"},
        {"method": "GET", "path": "/v1/chains/ch_local"},
    ]
    given = {"trigger": {"type": "user_request", "input": steps}}
    ran = plughost(place, "invoke", str(place / "lab"), "triage", json.dumps(given))
    assert ran.returncode == 0, ran.stderr
    assert [status for status, _ in json.loads(ran.stdout)["artifacts"]] == [200, 200]


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
