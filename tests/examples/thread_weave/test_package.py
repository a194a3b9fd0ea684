"""The package thread-weave as a program: over raw pipes, inline and from files."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import pytest

from tests.support import ROOT
from tests.support.vai_wire import Talk, context

FOLDER = ROOT / "plugins/thread-weave"


@pytest.fixture(scope="module")
def talk():
    with Talk([FOLDER / "bin/plugin"]) as talk:
        assert talk.hello()["plugin"] == {"package_id": "plughost/thread-weave", "version": "1.0.0"}
        yield talk
        assert talk.end() == 0
        assert "Traceback" not in talk.stderr


def compact(talk, projection, budget=2000, config=None, **more):
    return talk.ask(
        "compactor.compact",
        "thread_weave",
        compaction_id="cmp_1",
        source={"chain_id": "ch_1", "projection": projection},
        target={"max_input_tokens": budget, "target_model": "gpt-5.4"},
        policy={"retain_system": True, "retain_open_tasks": True},
        config=config or {},
        **more,
    )


def block(name, text, kind="input"):
    return {"id": name, "kind": kind, "content": [{"type": "text", "text": text}]}


BLOCKS = [
    block("s", "You are a coding agent.", "system"),
    *(block(f"b{n}", "word " * 100) for n in range(50)),
]


@pytest.mark.clause("VAI-48", "VAI-55", "VAI-85")
def test_a_long_chain_comes_back_inside_the_budget(talk):
    said = compact(
        talk, {"transport": "inline", "blocks": BLOCKS, "pinned_items": ["b3"], "token_estimate": 182_000}
    )
    result = said["result"]
    assert said["status"] == "succeeded"
    assert [seed.get("id") for seed in result["seed_blocks"]] == [
        "s",
        None,
        "b3",
        None,
        "b48",
        "b49",
    ]
    assert result["seed_blocks"][0] == BLOCKS[0]
    assert result["seed_blocks"][1]["content"][0]["lineage"]["chain_id"] == "ch_1"
    told = result["diagnostics"]
    assert (
        told["output_tokens_at_least"]
        < told["output_tokens_estimate"]
        <= 2000
        < told["input_tokens_estimate"]
    )
    assert result["summary"]["text"].startswith("4 blocks kept as they are, 47 older ones woven into 2")


def test_the_binding_says_how_tokens_are_counted(talk):
    inline = {"transport": "inline", "blocks": BLOCKS, "pinned_items": []}
    said = [
        compact(talk, inline, config={"estimator": name, "woven_percent": 50})["result"]
        for name in ("classes", "bytes")
    ]
    assert [one["diagnostics"]["estimator"] for one in said] == ["classes", "bytes"]
    assert len(said[0]["seed_blocks"]) > len(said[1]["seed_blocks"])
    failed = compact(talk, inline, config={"estimator": "guess"})
    assert (failed["status"], "config.estimator" in failed["error"]["message"]) == ("failed", True)


def artifact(path, data):
    digest = hashlib.sha256(data).hexdigest()
    return {
        "transport": "artifact",
        "path": str(path),
        "sha256": digest,
        "bytes": len(data),
        "token_estimate": 1,
    }


@pytest.mark.clause("VAI-57")
def test_a_projection_in_a_file_comes_to_the_same_bytes(talk, tmp_path):
    data = json.dumps({"blocks": BLOCKS, "pinned_items": []}).encode()
    (tmp_path / "in").mkdir()
    (tmp_path / "in/projection.json").write_bytes(data)
    where = context(scratch_dir=str(tmp_path))
    inline = compact(talk, {"transport": "inline", "blocks": BLOCKS, "pinned_items": []})
    for path in (tmp_path / "in/projection.json", "in/projection.json"):
        assert compact(talk, artifact(path, data), context=where) == inline


@pytest.mark.clause("VAI-57")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sha256": "0" * 64}, "does not match its sha256"),
        ({"bytes": 3}, "not a regular file of 3 bytes"),
        ({"bytes": 1 << 40}, "at most"),
        ({"bytes": None}, "a size in bytes"),
        ({"path": "../outside.json"}, "outside the scratch folder"),
        ({"path": "/etc/passwd"}, "outside the scratch folder"),
        ({"path": "link.json"}, "cannot be read"),
        ({"path": "way/projection.json"}, "cannot be read"),
        ({"path": "pipe"}, "not a regular file of"),
        ({"path": "missing"}, "cannot be read"),
        ({"transport": "telegram"}, "inline or an artifact"),
    ],
)
def test_a_file_that_is_not_what_it_was_told_is_refused(talk, tmp_path, change, words):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    data = json.dumps({"blocks": [], "pinned_items": []}).encode()
    for place in (scratch / "projection.json", tmp_path / "outside.json", tmp_path / "projection.json"):
        place.write_bytes(data)
    (scratch / "link.json").symlink_to(tmp_path / "outside.json")
    (scratch / "way").symlink_to(tmp_path)
    os.mkfifo(scratch / "pipe")
    said = compact(
        talk, {**artifact("projection.json", data), **change}, context=context(scratch_dir=str(scratch))
    )
    assert said["status"] == "failed"
    assert words in said["error"]["message"]


@pytest.mark.parametrize(
    "data", [b"no json", b"[]", b'{"blocks": 5}', b'{"blocks": [5]}', b'{"blocks": [], "pinned_items": {}}']
)
def test_a_file_that_holds_no_projection_is_refused(talk, tmp_path, data):
    (tmp_path / "p").write_bytes(data)
    said = compact(talk, artifact("p", data), context=context(scratch_dir=str(tmp_path)))
    assert (said["status"], "projection" in said["error"]["message"]) == ("failed", True)
    without = compact(talk, artifact("p", data))
    assert "no scratch folder" in without["error"]["message"]


def test_a_budget_that_holds_nothing_is_a_failure(talk):
    said = compact(talk, {"transport": "inline", "blocks": BLOCKS}, budget=5)
    assert (said["status"], "max_input_tokens 5 holds no block" in said["error"]["message"]) == (
        "failed",
        True,
    )


def test_the_manifest_is_what_the_functions_say():
    program = FOLDER / "lib/thread_weave/plugin.py"
    command = [sys.executable, "-m", "plughost_sdk.vai", "generate", "--check", program]
    ran = subprocess.run(
        command, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT / "sdk/python/src")}
    )
    assert (ran.returncode, ran.stderr) == (0, "")
