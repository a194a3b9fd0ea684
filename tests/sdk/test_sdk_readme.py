"""The examples of the SDK's README, as they stand."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.support import ROOT
from tests.support.sdk import HANDSHAKE, SDK, ainb_folder, execute, lines, program
from tests.support.vai_wire import Talk

README = (ROOT / "sdk/python/README.md").read_text()
MCPTEST, RUNE, AINB, KAGED, VAI, CLASS, CLAIM = re.findall(r"```python\n(.*?)```", README, re.S)


def test_mcptest(tmp_path):
    asked = [("echo", {"a": 1}), ("add", [1, 2]), ("add", 5)]
    said = lines(
        program(tmp_path / "plugin", MCPTEST),
        *({"id": n, "method": method, "params": params} for n, (method, params) in enumerate(asked)),
    )
    assert said.messages == [
        {"id": 0, "result": {"a": 1}},
        {"id": 1, "result": 3},
        {"id": 2, "error": {"code": -32602, "message": "a list of numbers, please"}},
    ]


def test_rune(tmp_path):
    path = program(tmp_path / "plugin", RUNE)
    said = lines(path, HANDSHAKE, execute("count", {"text": "one two"}))
    assert said.messages[0]["manifest"]["capabilities"] == ["tool.execute"]
    assert (said.messages[1]["output"], said.messages[1]["metadata"]) == ({"words": 2}, {"mode": None})
    assert lines(path, HANDSHAKE, execute("count", {})).messages[1]["error"]["code"] == "invalid_input"


async def test_ainb(host, tmp_path, mark):
    from plughost.contracts.ainb.contract import Ainb
    from plughost.contracts.ainb.messages import Char, KeyEvent

    subscribes = {"snapshots": ["notes.text"]}
    plugin = await host.add(ainb_folder(tmp_path / mark, AINB, "notes", subscribes=subscribes))
    view = Ainb(plugin)
    assert await view.cli("notes", []) == (b"notes: none\n", b"", 0)
    host.service("snapshots").put("notes.text", b"hello")
    assert (await view.cli("notes", [])).stdout == b"notes: hello, after yes\n"
    frame = (await view.render(5, 1, deadline=60)).buffer
    assert "".join(cell.symbol for _, cell in frame.cells) == "hello"
    view.key("main", KeyEvent(Char("x")))
    assert (await view.cli("notes", [])).stdout == b"notes: none\n"


def test_kaged(tmp_path):
    params = {"content": "tea at five", "_context": {"project_id": "p1"}}
    kept = {"key": "p1/1"}
    stored = {"keys": ["p1/0"], "more": False}
    said = lines(
        program(tmp_path / "plugin", KAGED),
        {"id": 1, "method": "initialize", "params": {"config": {"otherwise": "no idea"}}},
        {"id": 2, "method": "notes.retain", "params": params},
        {"id": 1, "result": stored},
        {"id": 2, "result": {}},
        {"id": 3, "method": "notes.recall", "params": kept},
        {"id": 3, "result": {"value": None, "found": False}},
        {"id": 4, "method": "kaged.hook.on_session_start", "params": {}},
        {"id": 4, "result": stored},
        {"id": 5, "method": "notes.retain", "params": {}},
    )
    about, _, setting, telling, retained, _, found, _, hooked, refused = said.messages
    assert about["result"]["methods"] == ["notes.retain", "notes.recall"]
    assert setting["params"] == {"key": "p1/1", "value": "tea at five"}
    assert (telling["method"], telling["params"]) == ("notes.kept", kept)
    assert (retained["result"], found["result"], hooked["result"]) == (kept, "no idea", {"inject": "1 notes"})
    assert refused["error"] == {"code": -32602, "message": "what should be retained?"}


def test_vai(tmp_path):
    (tmp_path / "bin").mkdir()
    path = program(tmp_path / "bin/plugin", VAI)
    command = [sys.executable, "-m", "plughost_sdk.vai", "generate", "--package-id", "acme/words", path]
    ran = subprocess.run(command, env={"PYTHONPATH": str(SDK)}, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    with Talk([path]) as talk:
        assert talk.hello()["plugin"] == {"package_id": "acme/words", "version": "0.1.0"}
        number = talk.request("tool.invoke", "count", input={"text": "one two"})
        assert talk.hear()["event"]["message"] == "counting"
        assert talk.answer(number)["result"]["structured_output"] == {"words": 2}
        assert talk.ask("hook.handle", "heard", event={"type": "x"})["status"] == "retryable_failure"
        assert talk.end() == 0


def test_a_class(tmp_path):
    said = lines(program(tmp_path / "plugin", CLASS), *[{"id": 1, "method": "next"}] * 2)
    assert [message["result"] for message in said.messages] == [1, 2]


def test_claiming(tmp_path):
    said = lines(program(tmp_path / "plugin", CLAIM), {"id": 1, "method": "echo", "params": 5})
    assert said.messages == [{"id": 1, "result": 5}]
    assert said.stderr.startswith("The Zen of Python")
