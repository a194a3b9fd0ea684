"""acme/devkit, the package of the contract's own text: its manifest, and its exports over raw pipes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta

import jsonschema_rs
import pytest

from tests.support import ROOT
from tests.support.vai_http import serving
from tests.support.vai_wire import Talk, context

FOLDER = ROOT / "plugins/acme-devkit"
TOKEN = "jira-secret-token"


@pytest.fixture(scope="module")
def talk():
    with Talk([FOLDER / "bin/plugin"]) as talk:
        assert talk.hello()["plugin"] == {"package_id": "acme/devkit", "version": "0.1.0"}
        yield talk
        assert talk.end() == 0
        for hidden in (TOKEN, "hooks/T00/B00", "vai_dlg_1"):
            assert hidden not in talk.stderr


@pytest.mark.clause("VAI-20", "VAI-28")
def test_the_manifest_is_what_the_functions_say():
    command = [
        sys.executable,
        "-m",
        "plughost_sdk.vai",
        "generate",
        "--check",
        FOLDER / "lib/acme_devkit/plugin.py",
    ]
    ran = subprocess.run(
        command, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT / "sdk/python/src")}
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def search(talk, url, query="billing outage", project="ENG", **more):
    told = {"config": {"base_url": url, "max_results": 2}, "secrets": {"jira_token": TOKEN}, **more}
    return talk.ask("tool.invoke", "jira_search", tool_execution_id="toolx_1", input={"query": query, "project": project}, **told)  # fmt: skip


ISSUES = {
    "issues": [
        {"key": f"ENG-{n}", "fields": {"summary": f"bug {n}", "status": {"name": "Open"} if n else None}}
        for n in range(3)
    ]
}


@pytest.mark.clause("VAI-50")
def test_jira_is_searched_with_the_secret(talk):
    with serving(lambda asked: (200, ISSUES)) as jira:
        said = search(talk, jira.url + "/", query='a "quoted" \\ outage\n')
    [asked] = jira.asked
    assert asked.path.startswith(
        "/rest/api/2/search?jql=project+%3D+%22ENG%22+AND+text+~+%22a+%5C%22quoted%5C%22+%5C%5C+outage%22"
    )
    assert "maxResults=2" in asked.path
    assert asked.headers["authorization"] == f"Bearer {TOKEN}"
    assert said["status"] == "succeeded"
    assert said["result"]["content"] == [{"type": "text", "text": "Found 2 issues."}]
    first = {"key": "ENG-0", "summary": "bug 0", "status": ""}
    assert said["result"]["structured_output"]["issues"] == [
        first,
        {"key": "ENG-1", "summary": "bug 1", "status": "Open"},
    ]


@pytest.mark.clause("VAI-38")
@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ((401, {}), "failed", "401"),
        ((302, b"http://127.0.0.1:1/"), "failed", "302"),
        ((429, {}), "retryable_failure", "429"),
        ((503, {}), "retryable_failure", "503"),
        ((200, b"<html>"), "failed", "no list of issues"),
        ((200, {"issues": [{"id": 1}]}), "failed", "no list of issues"),
        ((200, b"x" * (5 << 20)), "failed", "more than"),
    ],
)
def test_what_jira_refuses_is_told(talk, answer, status, words):
    with serving(lambda asked: answer) as jira:
        said = search(talk, jira.url)
    assert (said["status"], said["result"]["is_error"]) == (status, True)
    assert words in said["result"]["content"][0]["text"]


def test_a_jira_that_is_away_or_too_slow_is_left_in_time(talk):
    assert search(talk, "http://127.0.0.1:1")["status"] == "retryable_failure"
    soon = (datetime.now(UTC) + timedelta(seconds=0.3)).isoformat()
    released = threading.Event()
    with serving(lambda asked: released.wait(20) and (200, ISSUES)) as jira:
        said = search(talk, jira.url, context=context(deadline_at=soon))
        released.set()
    assert said["status"] == "retryable_failure"


def test_a_cancel_leaves_jira_at_once(talk):
    asked, released = threading.Event(), threading.Event()
    with serving(lambda request: (asked.set(), released.wait(20), (200, ISSUES))[2]) as jira:
        config, secrets = {"base_url": jira.url}, {"jira_token": TOKEN}
        number = talk.request(
            "tool.invoke", "jira_search", input={"query": "x"}, config=config, secrets=secrets
        )
        assert asked.wait(20)
        talk.cancel(number)
        assert talk.answer(number) == {"status": "cancelled"}
        assert not released.is_set()
        released.set()


EVENT = {
    "type": "run.completed",
    "occurred_at": "2026-03-12T19:00:00Z",
    "subject": {"kind": "run", "id": "run_123"},
    "summary": {"task": "Fix <auth> & redirect", "output": "Patched route handler"},
}


def notify(talk, url, delivery="del_1", **more):
    told = {"secrets": {"slack_webhook": f"{url}/hooks/T00/B00"}, "config": {"prefix": "[acme]"}, **more}
    return talk.ask("hook.handle", "slack_notify", delivery_id=delivery, attempt=1, event=EVENT, **told)


@pytest.mark.clause("VAI-53")
def test_slack_hears_of_an_event_once(talk):
    with serving(lambda asked: (200, b"ok")) as slack:
        assert [notify(talk, slack.url) for _ in range(2)] == [{"status": "ack"}] * 2
    [asked] = slack.asked
    text = "[acme] run.completed: run run_123\nTask: Fix &lt;auth&gt; &amp; redirect\nOutput: Patched route handler"
    assert (asked.path, asked.body) == ("/hooks/T00/B00", {"text": text})


def test_slack_that_is_busy_is_tried_again_and_one_that_refuses_is_not(talk):
    answers = [(500, b""), (404, b""), (200, b"ok")]
    with serving(lambda asked: answers.pop(0)) as slack:
        said = [notify(talk, slack.url, "del_2")["status"] for _ in range(3)]
    assert said == ["retryable_failure", "failed", "ack"]


def test_slack_hears_the_status_of_the_run(talk):
    with (
        serving(lambda asked: (200, b"ok")) as slack,
        serving(lambda asked: (200, {"status": "succeeded"})) as gateway,
    ):
        lent = {"base_url": gateway.url, "delegation_token": "vai_dlg_1", "scopes": ["runs:read"]}
        said = notify(talk, slack.url, "del_3", config={"include_run": True}, context=context(gateway=lent))
    assert said == {"status": "ack"}
    assert (gateway.asked[0].path, slack.asked[0].body["text"].splitlines()[-1]) == (
        "/v1/runs/run_123",
        "Status: succeeded",
    )


@pytest.mark.clause("VAI-55", "VAI-48")
def test_the_window_keeps_the_newest_inside_the_budget(talk):
    blocks = [
        {
            "id": f"b{n}",
            "kind": "system" if n == 0 else "output",
            "content": [{"type": "text", "text": "word " * 50}],
        }
        for n in range(20)
    ]
    own = {"content": [{"type": "text", "text": "never forget this"}]}
    told = {
        "compaction_id": "cmp_1",
        "source": {
            "chain_id": "ch_1",
            "projection": {"transport": "inline", "blocks": blocks, "pinned_items": ["b2", own]},
        },
        "policy": {"retain_system": True, "retain_open_tasks": True},
        "config": {},
    }
    said = talk.ask("compactor.compact", "coder_window", target={"max_input_tokens": 500}, **told)
    seeds = said["result"]["seed_blocks"]
    assert [seed.get("id") for seed in seeds] == ["b0", None, None, "b2", "b18", "b19"]
    assert seeds[1]["content"][0]["text"] == "16 earlier blocks were left out to make room."
    assert seeds[2]["content"] == own["content"]
    assert said["result"]["diagnostics"]["output_tokens_estimate"] <= 500
    said = talk.ask("compactor.compact", "coder_window", target={"max_input_tokens": 50}, **told)
    assert (said["status"], "cannot hold what must stay" in said["error"]["message"]) == ("failed", True)
    said = talk.ask("compactor.compact", "coder_window", target={"max_input_tokens": 10_000}, **told)
    assert said["result"]["seed_blocks"] == [blocks[0], {"kind": "input", **own}, *blocks[1:]]


class Api:
    """The gateway as the harness sees it: child runs by their key."""

    def __init__(self, tokens=10, fails=None):
        self.tokens = tokens
        self.fails = fails
        self.runs = {}

    def __call__(self, asked):
        if asked.headers.get("authorization") != "Bearer vai_dlg_1":
            return 401, {}
        if asked.path == "/v1/compactions":
            return 201, {"chain_id": "ch_derived"}
        if asked.path == "/v1/chains/ch_derived":
            return 200, {"chain_id": "ch_derived", "token_estimate": 10, "blocks": []}
        if asked.path == "/v1/runs":
            key = asked.headers["idempotency-key"]
            number = self.runs.setdefault(key, f"run_{len(self.runs)}")
            return 201, {"run_id": number, "status": "failed" if key == self.fails else "succeeded"}
        return 200, {"chain_id": "ch_1", "token_estimate": self.tokens, "blocks": []}


def triage(talk, gateway, mode="start", policy=None, **more):
    scopes = ["chains:read", "chains:write", "runs:write", "compactions:write"]
    lent = {"base_url": gateway.url, "delegation_token": "vai_dlg_1", "scopes": scopes}
    number = talk.request(
        "harness.run",
        "triage",
        mode=mode,
        target={"session_id": "sess_1", "chain_id": "ch_1", "execution_id": "exec_1"},
        trigger={"type": "user_request", "input": [{"type": "text", "text": "Investigate the bug"}]},
        policy={"max_depth": 4, "max_child_runs": 12, "allow_compaction": True, **(policy or {})},
        **{"config": {"compact_above": 1000}, "context": context(gateway=lent), **more},
    )
    steps = []
    while (message := talk.hear())["type"] == "event":
        steps.append(message["event"]["step"])
    assert message["id"] == number
    return message["body"], steps


@pytest.mark.clause("VAI-58")
def test_triage_works_through_the_gateway_alone(talk):
    with serving(Api()) as gateway:
        said, steps = triage(talk, gateway)
    assert (said["status"], steps) == ("succeeded", [1, 2, 3])
    assert said["result"]["checkpoint"] == {"kind": "checkpoint", "data": {"cursor": 3}}
    assert [(asked.method, asked.path) for asked in gateway.asked] == [
        ("GET", "/v1/chains/ch_1"), *[("POST", "/v1/runs")] * 3, ("POST", "/v1/chains/ch_1/blocks"),
    ]  # fmt: skip
    child = gateway.asked[2].body
    assert (child["chain_id"], child["parent_run_id"]) == ("ch_1", "run_1")
    assert child["input"][0]["text"].endswith("\n\nInvestigate the bug")


def test_triage_stops_at_the_limit_and_goes_on_from_its_checkpoint(talk):
    with serving(Api()) as gateway:
        said, steps = triage(talk, gateway, policy={"max_child_runs": 2})
        assert (steps, said["result"]["checkpoint"]["data"]) == ([1, 2], {"cursor": 2})
        assert "the policy allows 2 child runs" in said["result"]["summary"]["text"]
        said, steps = triage(talk, gateway, "resume", checkpoint=said["result"]["checkpoint"])
        assert (steps, said["result"]["checkpoint"]["data"]) == ([3], {"cursor": 3})
        assert len(gateway.answer.runs) == 3
        _, steps = triage(talk, gateway)  # again from the start: the same keys, and so the same runs
        assert (steps, len(gateway.answer.runs)) == ([1, 2, 3], 3)


def test_a_child_run_that_fails_is_where_it_goes_on(talk):
    with serving(Api(fails="exec_1:1:0")) as gateway:
        said, steps = triage(talk, gateway)
        assert (steps, said["result"]["checkpoint"]["data"]) == ([1, 2], {"cursor": 1, "attempt": 1})
        assert "stopped at step 2: it ended failed" in said["result"]["summary"]["text"]
        said, steps = triage(talk, gateway, "resume", checkpoint=said["result"]["checkpoint"])
    assert (steps, said["result"]["checkpoint"]["data"]) == ([2, 3], {"cursor": 3})


@pytest.mark.parametrize("allowed", [True, False])
def test_a_long_chain_is_compacted_first_if_that_is_allowed(talk, allowed):
    with serving(Api(tokens=5000)) as gateway:
        said, _ = triage(talk, gateway, policy={"allow_compaction": allowed})
    assert said["status"] == "succeeded"
    compactions = [asked.body for asked in gateway.asked if asked.path == "/v1/compactions"]
    target = {"max_input_tokens": 32000, "target_model": "any"}
    wanted = {"chain_id": "ch_1", "export": "coder_window", "target": target}
    assert compactions == ([wanted] if allowed else [])
    chains = {asked.body["chain_id"] for asked in gateway.asked if asked.path == "/v1/runs"}
    assert chains == {"ch_derived" if allowed else "ch_1"}


@pytest.mark.parametrize("data", [None, {}, {"cursor": -1}, {"cursor": 9}, {"cursor": "2"}, {"cursor": True}])
def test_a_checkpoint_that_is_none_is_refused_before_anything_is_done(talk, data):
    with serving(Api()) as gateway:
        said, _ = triage(talk, gateway, "resume", checkpoint={"kind": "checkpoint", "data": data})
    assert (said["status"], gateway.asked) == ("failed", [])


def test_triage_stops_by_itself_before_the_deadline(talk):
    with serving(Api()) as gateway:
        soon = (datetime.now(UTC) + timedelta(seconds=4)).isoformat()
        lent = {"base_url": gateway.url, "delegation_token": "vai_dlg_1", "scopes": []}
        said, steps = triage(talk, gateway, context=context(gateway=lent, deadline_at=soon))
    assert (steps, said["result"]["checkpoint"]["data"]) == ([], {"cursor": 0})
    assert "the deadline is near" in said["result"]["summary"]["text"]


def test_the_schemas_take_the_examples_of_the_text():
    for name, value in {
        "jira_search_input": {"query": "billing outage", "project": "ENG"},
        "jira_search_output": {"issues": [{"key": "ENG-123"}]},
        "jira_search_config": {"base_url": "https://acme.atlassian.net", "max_results": 10},
        "triage_config": {},
        "slack_notify_config": {},
        "coder_window_config": {},
    }.items():
        schema = json.loads((FOLDER / f"schemas/{name}.json").read_text())
        assert jsonschema_rs.validator_for(schema).is_valid(value), name
