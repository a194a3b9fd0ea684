"""Every promise of docs/contracts/rune.md, on real processes."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

import plughost
from plughost.contracts.rune.contract import (
    CapabilityNotAllowed,
    CapabilityNotDeclared,
    ExecutionError,
    MalformedResponse,
    ProtocolVersionMismatch,
    Rune,
    ToolNotExposed,
)
from plughost.events import Dropped, Exited
from tests.support import (
    PLUGINS,
    PYTHON,
    ROOT,
    UNHURRIED,
    all_gone,
    processes,
    rune_puppet,
    seen,
    unhurried,
    until,
)

OK = {"status": "ok", "output": 1}


async def outcome(host, script=None, **binding):
    """What one call of `echo` comes to."""
    plugin = await host.add(rune_puppet(script, **binding))
    try:
        return await plugin.call("echo", {"text": "hi"})
    finally:
        await host.remove("puppet")


# Life of one invocation


@pytest.mark.clause("RUNE-01")
@pytest.mark.parametrize(
    "change",
    [
        {"name": " "},
        {"command": [" "]},
        {"command": []},
        {"grants": [""]},
        {"grants": ["a", " a"]},
        {"grants": ["a", "b", "a"]},
        {"options": {"timeout": "soon"}},
        {"options": {"no_such_option": 1}},
    ],
)
async def test_a_wrong_binding_is_an_invalid_spec_before_any_process(host, change):
    fields = {"contract": "rune", "name": "p", "command": ["/bin/true"], **change}
    with pytest.raises(plughost.InvalidSpec) as caught:
        await host.add(plughost.PluginSpec(**fields))
    assert caught.value.code == "invalid_spec"


@pytest.mark.clause("RUNE-01", "RUNE-12")
async def test_a_wrong_request_is_an_invalid_spec_before_any_process(host, mark):
    plugin = await host.add(rune_puppet(mark=mark))
    with host.events() as events:
        for call in (
            plugin.call(" "),
            plugin.call("echo", object()),
            plugin.call("echo", "x" * (1 << 20)),
            plugin.call("echo", context={"planet": "earth"}),
        ):
            with pytest.raises(plughost.InvalidSpec):
                await call
        assert await plugin.call("echo", 1) == 1
        told = [(await events.get()).new for _ in range(5)]
    assert told == ["Stopped"] * 4 + ["Spawning"], "something was started for a wrong request"
    assert plugin.inspect()["instances"] == []


@pytest.mark.clause("RUNE-02")
async def test_nothing_is_inherited_but_a_bare_command_is_found(host, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_HOST", "x")
    out = tmp_path / "env"
    (tmp_path / "bare-plugin").write_text(f"#!/bin/sh\n/usr/bin/env > {out}\npwd >> {out}\n")
    (tmp_path / "bare-plugin").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    spec = plughost.PluginSpec(
        contract="rune",
        name="p",
        command=["bare-plugin"],
        env={"MINE": "1"},
        cwd=str(tmp_path),
        options=UNHURRIED,
    )
    with pytest.raises(plughost.Crashed):
        await (await host.add(spec)).call("x")
    lines = out.read_text().splitlines()
    assert set(lines) == {"MINE=1", f"PWD={tmp_path}", str(tmp_path)}  # PWD is the shell's own


@pytest.mark.clause("RUNE-03")
@pytest.mark.parametrize(
    "response",
    [
        '{"type":"response","request_id":"$ID","status":"ok","output":1}\r\n',
        '{"type":"response","request_id":"$ID","status":"ok","output":1}',
        ' \t{"type":"response","request_id":"$ID","status":"ok","output":1} \n',
    ],
)
async def test_crlf_padding_and_a_last_line_without_its_end_count(host, response):
    assert await outcome(host, {"response": response, "after_response": "exit 0"}) == 1


BAD_LINES = [
    "{bad json\n",
    "\n",
    "  \r\n",
    "null\n",
    "5\n",
    '"text"\n',
    "[]\n",
    '{"a":1}{"b":2}\n',
    '{"type":"\xff"}\n',
    '{"type":NaN}\n',
    '{"type":5}\n',
    "[" * 50_000 + "\n",
    "{" + " " * (1 << 20) + "}\n",
    '{"type":',
]


@pytest.mark.clause("RUNE-03", "RUNE-24")
@pytest.mark.parametrize("line", BAD_LINES)
@pytest.mark.parametrize("phase", ["handshake", "response"])
async def test_what_is_no_object_on_a_line_is_malformed_in_either_phase(host, phase, line):
    with pytest.raises(MalformedResponse) as caught:
        await outcome(host, {phase: line, f"after_{phase}": "exit 0"})
    assert caught.value.code == "malformed_response"
    assert caught.value.plugin == "puppet"


@pytest.mark.clause("RUNE-03")
async def test_a_line_of_exactly_the_limit_counts_and_one_byte_more_does_not(host):
    head = '{"type":"response","request_id":"$ID","status":"ok","output":"'
    room = (1 << 20) - len(head) - len('"}') - len("plugin_req_0123456789abcdef") + len("$ID")
    exact = head + "x" * room + '"}'
    assert len(await outcome(host, {"response": exact + "\r\n"})) == room
    with pytest.raises(MalformedResponse, match="longer than 1048576"):
        await outcome(host, {"response": exact + " \n"})


@pytest.mark.clause("RUNE-03")
async def test_a_line_without_end_is_refused_while_it_is_read(host):
    script = "import os\nwhile True: os.write(1, b'x' * 65536)"
    command = [*PYTHON, "-c", script]
    plugin = await host.add(
        plughost.PluginSpec(contract="rune", name="p", command=command, options=UNHURRIED)
    )
    with pytest.raises(MalformedResponse) as caught:
        await plugin.call("x")
    assert len(caught.value.head) <= 256


@pytest.mark.clause("RUNE-04", "RUNE-10", "RUNE-12")
async def test_the_exchange_is_handshake_request_end(host, tmp_path):
    log = tmp_path / "log"
    plugin = await host.add(rune_puppet({"log": str(log)}))
    context = {"workspace_id": "w", "repo_root": "/r"}
    assert (await Rune(plugin).execute("echo", {"a": 1}, context=context)).output == {"a": 1}
    assert (await Rune(plugin).execute("echo")).output == {}
    first, second, end, _, bare, _ = log.read_text().splitlines()
    assert json.loads(first) == {"type": "handshake", "protocol_version": "rterm.plugin.v1"}
    request = json.loads(second)
    assert re.fullmatch(r"plugin_req_[0-9a-f]{16}", request.pop("request_id"))
    assert request == {"type": "request", "tool_name": "echo", "context": context, "input": {"a": 1}}
    assert end == "EOF"
    assert json.loads(bare)["context"] == {}
    assert json.loads(bare)["input"] == {}


@pytest.mark.clause("RUNE-05")
async def test_times_have_defaults_and_zero_or_less_means_the_default(slow_host, clock):
    for options in (
        {},
        {"timeout": 0, "launch_timeout": -1, "handshake_timeout": 0.0, "teardown_timeout": -5},
    ):
        plugin = await slow_host.add(rune_puppet({"before_handshake": "hang"}, usual_times=True, **options))
        call = asyncio.create_task(plugin.call("echo"))
        await asyncio.sleep(0)
        assert clock.pending == [2, 5]  # launch and whole invocation
        clock.advance(0)
        await until(lambda: seen(plugin).get("held_by"))
        assert clock.pending == [2, 5]  # handshake and whole invocation
        clock.advance(2)
        with pytest.raises(plughost.Timeout, match="handshake within 2 s"):
            await call
        await slow_host.remove("puppet")


@pytest.mark.clause("RUNE-05", "RUNE-22")
async def test_a_plugins_own_times_beat_the_defaults(slow_host, clock):
    plugin = await slow_host.add(
        rune_puppet({"after_handshake": "hang"}, timeout=60, handshake_timeout=7, launch_timeout=9)
    )
    call = asyncio.create_task(plugin.call("echo"))
    await asyncio.sleep(0)
    assert clock.pending == [9, 60]
    await until(lambda: seen(plugin).get("state") == "Running")
    clock.advance(59.9)
    await asyncio.sleep(0)
    assert not call.done()
    clock.advance(0.1)
    with pytest.raises(plughost.Timeout):
        await call


@pytest.mark.clause("RUNE-05")
async def test_the_protocol_may_be_bound_and_blank_means_the_default(host):
    for asked, spoken in (("x.v9", "x.v9"), ("", "rterm.plugin.v1"), (" ", "rterm.plugin.v1")):
        assert await outcome(host, {"handshake": {"protocol_version": f" {spoken} "}}, protocol=asked)


@pytest.mark.clause("RUNE-06")
async def test_a_second_handshake_is_taken_as_the_response(host):
    with pytest.raises(MalformedResponse, match="handshake"):
        await outcome(host, {"response": '{"type":"handshake","manifest":{}}\n'})


@pytest.mark.clause("RUNE-06")
async def test_output_after_the_response_is_discarded_with_one_warning(host):
    plugin = await host.add(rune_puppet({"response": OK, "after_response": "say noise\n;" * 3}))
    with host.events() as events:
        assert await plugin.call("echo") == 1
        seen = []
        while not isinstance(event := await events.get(), Exited):
            seen.append(event)
    dropped = [event for event in seen if isinstance(event, Dropped)]
    assert [event.what for event in dropped] == ["output after the answer"]


# Messages


@pytest.mark.clause("RUNE-11", "RUNE-15", "RUNE-16")
@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ({"drop": ["plugin_id"]}, plughost.HandshakeFailed),
        ({"drop": ["plugin_version"]}, plughost.HandshakeFailed),
        ({"drop": ["protocol_version"]}, ProtocolVersionMismatch),
        ({"drop": ["exposed_tools"]}, plughost.HandshakeFailed),
        ({"handshake": {"plugin_id": None}}, plughost.HandshakeFailed),
        ({"handshake": {"exposed_tools": "echo"}}, MalformedResponse),
        ({"handshake": {"exposed_tools": [1]}}, MalformedResponse),
        ({"handshake": {"plugin_id": 5}}, MalformedResponse),
        ({"handshake": {"capabilities": {"a": 1}}}, MalformedResponse),
        ({"handshake": '{"type":"handshake","manifest":[]}\n'}, MalformedResponse),
        ({"handshake": '{"type":"handshake"}\n'}, plughost.HandshakeFailed),
        ({"handshake": '{"type":"handshake","manifest":null}\n'}, plughost.HandshakeFailed),
        ({"handshake": {"protocol_version": "  "}}, ProtocolVersionMismatch),
    ],
)
async def test_the_manifest_must_be_whole(host, script, kind):
    with pytest.raises(kind) as caught:
        await outcome(host, script)
    assert type(caught.value) is kind


@pytest.mark.clause("RUNE-15")
async def test_unknown_members_are_ignored_everywhere(host):
    script = {
        "handshake": {"new": {"x": 1}},
        "response": {**OK, "structured": True, "metadata": {"k": [1]}, "error": None},
    }
    plugin = await host.add(rune_puppet(script))
    result = await Rune(plugin).execute("echo")
    assert (result.output, result.metadata) == (1, {"k": [1]})


@pytest.mark.clause("RUNE-13")
@pytest.mark.parametrize(
    "response",
    [
        {"status": "ok", "error": {"code": "c", "message": "m"}},
        {"status": "error"},
        {"status": "error", "error": None},
        {"status": "error", "error": {"code": "c"}},
        {"status": "error", "error": {"code": "c", "message": " "}},
        {"status": "error", "error": {"code": 5, "message": "m"}},
        {"status": "error", "error": "m"},
        {"status": "maybe"},
        {"status": None},
        {},
        {"status": 1},
        {"status": "ok", "request_id": "plugin_req_0000000000000000"},
        {"status": "ok", "request_id": None},
        {"status": "ok", "type": "request"},
        {"status": "ok", "type": None},
        {"status": "ok", "metadata": []},
    ],
)
async def test_a_response_of_the_wrong_shape_is_malformed(host, response):
    with pytest.raises(MalformedResponse):
        await outcome(host, {"response": response})


@pytest.mark.clause("RUNE-13")
@pytest.mark.parametrize(
    "response", [{"status": "ok"}, {"status": "ok", "output": None, "error": None, "metadata": None}]
)
async def test_ok_without_output_gives_an_empty_object(host, response):
    assert await outcome(host, {"response": response}) == {}


@pytest.mark.clause("RUNE-14", "RUNE-17", "RUNE-13")
@pytest.mark.parametrize("code", ["invalid_input", "", None])
async def test_the_plugins_own_error_is_an_execution_error_told_at_once(slow_host, mark, code):
    """No time passes here: were it given a grace, it would never end."""
    script = {
        "response": {"status": "error", "error": {"code": code, "message": "no such text"}, "output": 1},
        "after_response": "hang",
        "exit": 3,
    }
    plugin = await slow_host.add(rune_puppet(script, mark=mark))
    with pytest.raises(ExecutionError, match="no such text") as caught:
        await asyncio.wait_for(plugin.call("echo"), 20)
    assert caught.value.error == {"code": code or "", "message": "no such text"}
    assert caught.value.code == "execution_error"
    assert processes(mark) == []


@pytest.mark.clause("RUNE-18")
async def test_concurrent_calls_share_neither_process_nor_request_id(host, tmp_path):
    log = tmp_path / "log"
    plugin = await host.add(rune_puppet({"log": str(log), "after_handshake": "sleep 0.05"}))
    assert await asyncio.gather(*(plugin.call("echo", n) for n in range(8))) == list(range(8))
    lines = [json.loads(line) for line in log.read_text().splitlines() if line != "EOF"]
    assert sum(line["type"] == "handshake" for line in lines) == 8
    assert len({line["request_id"] for line in lines if line["type"] == "request"}) == 8


@pytest.mark.clause("RUNE-18", "RUNE-32")
async def test_a_cancelled_caller_kills_its_plugin(host, mark):
    plugin = await host.add(rune_puppet({"after_handshake": "hang"}, mark=mark))
    call = asyncio.create_task(plugin.call("echo"))
    await until(lambda: seen(plugin).get("state") == "Running")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await all_gone(mark)
    await until(lambda: not plugin.inspect()["instances"])


# The nine codes


@pytest.mark.clause("RUNE-20")
@pytest.mark.parametrize(
    "kind", ["missing", "directory", "not executable", "bare", "no folder", "folder is a file"]
)
async def test_what_cannot_be_started_is_launch_failed(host, tmp_path, kind):
    path = tmp_path / "p"
    if kind == "directory":
        path.mkdir()
    elif kind == "not executable":
        path.write_text("")
    command = {"bare": "no-such-program", "no folder": "/bin/true", "folder is a file": "/bin/true"}.get(
        kind, str(path)
    )
    cwd = {"no folder": str(path), "folder is a file": __file__}.get(kind)
    spec = plughost.PluginSpec(contract="rune", name="p", command=[command], cwd=cwd)
    with pytest.raises(plughost.LaunchFailed) as caught:
        await (await host.add(spec)).call("x")
    assert caught.value.code == "launch_failed"


@pytest.mark.clause("RUNE-20")
async def test_a_launch_slower_than_its_time_is_launch_failed(clock, tmp_path):
    slow = tmp_path / "slow-launcher"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    async with plughost.Host(clock=clock, launcher=(str(slow),)) as host:
        plugin = await host.add(rune_puppet(usual_times=True))
        call = asyncio.create_task(plugin.call("echo"))
        await asyncio.sleep(0.05)
        clock.advance(1.9)
        await asyncio.sleep(0.02)
        assert not call.done()
        clock.advance(0.1)
        with pytest.raises(plughost.LaunchFailed, match="within 2 s"):
            await call


@pytest.mark.clause("RUNE-21")
@pytest.mark.parametrize(
    "script",
    [
        {"type": "hello"},
        {"type": None},
        {"handshake": "{}\n"},
        {"handshake": {"plugin_id": " "}},
        {"handshake": {"plugin_version": ""}},
        {"handshake": {"exposed_tools": []}},
        {"handshake": {"plugin_id": "somebody.else"}},
    ],
)
async def test_a_handshake_that_fails(host, tmp_path, script):
    log = tmp_path / "log"
    with pytest.raises(plughost.HandshakeFailed) as caught:
        await outcome(host, {**script, "log": str(log)})
    assert caught.value.code == "handshake_failed"
    assert '"request"' not in log.read_text()


@pytest.mark.clause("RUNE-22")
@pytest.mark.parametrize(
    ("script", "when"),
    [
        ({"before_handshake": "hang"}, 2),
        ({"after_handshake": "hang"}, 5),
    ],
)
async def test_no_answer_in_time_is_a_timeout_and_the_process_is_killed(slow_host, clock, mark, script, when):
    plugin = await slow_host.add(rune_puppet(script, mark=mark, usual_times=True))
    call = asyncio.create_task(plugin.call("echo"))
    state = "Spawning" if when == 2 else "Running"
    await until(lambda: seen(plugin).get("held_by") and seen(plugin)["state"] == state)
    clock.advance(when - 0.1)
    await asyncio.sleep(0.02)
    assert not call.done()
    clock.advance(0.1)
    with pytest.raises(plughost.Timeout) as caught:
        await call
    assert caught.value.code == "timeout"
    assert processes(mark) == []


@pytest.mark.clause("RUNE-22", "RUNE-05")
async def test_waiting_for_the_exit_is_part_of_the_whole_time(slow_host, clock, mark):
    plugin = await slow_host.add(
        rune_puppet(
            {"response": OK, "after_response": "hang"}, mark=mark, usual_times=True, teardown_timeout=60
        )
    )
    call = asyncio.create_task(plugin.call("echo"))
    await until(lambda: seen(plugin).get("state") == "ShuttingDown")
    clock.advance(5)
    with pytest.raises(plughost.Timeout):
        await call
    assert processes(mark) == []


@pytest.mark.clause("RUNE-23", "RUNE-04")
@pytest.mark.parametrize(
    ("script", "status"),
    [
        ({"before_handshake": "exit 3"}, 3),
        ({"before_handshake": "exit 0"}, 0),
        ({"after_handshake": "exit 4"}, 4),
        ({"response": "", "after_response": "exit 0"}, 0),
        ({"response": OK, "exit": 5}, 5),
        ({"response": OK, "after_response": "exit 1"}, 1),
        ({"before_reply": "close_stdin", "after_handshake": "hang"}, -9),
    ],
)
async def test_an_end_before_its_time_is_a_crash(host, script, status):
    with pytest.raises(plughost.Crashed) as caught:
        await outcome(host, script)
    assert (caught.value.code, caught.value.exit_status) == ("crashed", status)


@pytest.mark.clause("RUNE-23", "RUNE-04")
async def test_no_exit_within_the_teardown_time_is_a_crash(slow_host, clock, mark):
    plugin = await slow_host.add(
        rune_puppet({"response": OK, "after_response": "hang"}, mark=mark, usual_times=True)
    )
    call = asyncio.create_task(plugin.call("echo"))
    await until(lambda: seen(plugin).get("state") == "ShuttingDown")
    clock.advance(0.4)
    await asyncio.sleep(0.02)
    assert not call.done()
    clock.advance(0.1)
    with pytest.raises(plughost.Crashed, match="0.5 s after its answer"):
        await call
    assert processes(mark) == []


@pytest.mark.clause("RUNE-25", "RUNE-16")
async def test_another_protocol_version_is_a_mismatch(host):
    with pytest.raises(ProtocolVersionMismatch) as caught:
        await outcome(host, {"handshake": {"protocol_version": "rterm.plugin.v0"}})
    assert caught.value.code == "protocol_version_mismatch"


@pytest.mark.clause("RUNE-26")
async def test_a_tool_not_exposed_is_never_asked_for(host, tmp_path):
    log = tmp_path / "log"
    with pytest.raises(ToolNotExposed) as caught:
        await outcome(host, {"handshake": {"exposed_tools": ["Echo", "echo "]}, "log": str(log)})
    assert caught.value.code == "tool_not_exposed"
    assert '"request"' not in log.read_text()


@pytest.mark.clause("RUNE-27", "RUNE-28")
@pytest.mark.parametrize(
    ("declared", "grants", "kind"),
    [
        (None, ("a",), CapabilityNotDeclared),
        ([], ("a",), CapabilityNotDeclared),
        (["a", "a"], ("a",), CapabilityNotDeclared),
        ([""], ("a",), CapabilityNotDeclared),
        ([" a"], ("a",), CapabilityNotDeclared),
        (["a "], (), CapabilityNotDeclared),
        (["a", "b"], ("a",), CapabilityNotAllowed),
        (["a"], (), CapabilityNotAllowed),
        (["b", ""], ("a",), CapabilityNotAllowed),
        (["A"], ("a",), CapabilityNotAllowed),
        (None, (), None),
        ([], (), None),
        (["a"], ("a", "b"), None),
        (["b", "a"], ("a", "b"), None),
    ],
)
async def test_declared_must_be_granted_and_granted_must_be_declared(host, declared, grants, kind):
    script = {} if declared is None else {"handshake": {"capabilities": declared}}
    if kind is None:
        assert await outcome(host, script, grants=grants) == {"text": "hi"}
        return
    with pytest.raises(kind) as caught:
        await outcome(host, script, grants=grants)
    assert type(caught.value) is kind


@pytest.mark.clause("RUNE-29")
@pytest.mark.parametrize("first_wrong", range(8))
async def test_the_first_failure_wins(host, first_wrong):
    """With everything wrong from one check on, it is that check which tells."""
    wrong = [
        ({"type": "hello"}, plughost.HandshakeFailed, "type"),
        ({"protocol_version": "v0"}, ProtocolVersionMismatch, "v0"),
        ({"plugin_id": " "}, plughost.HandshakeFailed, "plugin_id"),
        ({"plugin_version": " "}, plughost.HandshakeFailed, "plugin_version"),
        ({"exposed_tools": []}, plughost.HandshakeFailed, "exposes no tools"),
        ({"plugin_id": "other"}, plughost.HandshakeFailed, "other"),
        ({"exposed_tools": ["x"]}, ToolNotExposed, "echo"),
        ({"capabilities": ["a", "a"]}, CapabilityNotAllowed, "'a'"),
    ]
    manifest: dict = {}
    script: dict = {"handshake": manifest}
    for change, _, _ in reversed(wrong[first_wrong:]):
        (script if "type" in change else manifest).update(change)
    _, kind, words = wrong[first_wrong]
    with pytest.raises(kind, match=words) as caught:
        await outcome(host, script)
    assert type(caught.value) is kind


@pytest.mark.clause("RUNE-30")
async def test_a_failure_keeps_code_bound_name_message_and_cause(host):
    with pytest.raises(plughost.HandshakeFailed) as caught:
        await outcome(host, {"handshake": {"plugin_id": "impostor"}})
    assert caught.value.plugin == "puppet"
    assert "impostor" in caught.value.message
    assert caught.value.report()["code"] == "handshake_failed"
    with pytest.raises(MalformedResponse) as caught:
        await outcome(host, {"response": "{bad\n"})
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.head == b"{bad"


@pytest.mark.clause("RUNE-31")
async def test_a_plugin_that_answers_and_exits_at_once_succeeds_under_load(host):
    plugin = await host.add(rune_puppet({"response": OK, "after_response": "exit 0"}))
    for _ in range(5):
        assert await asyncio.gather(*(plugin.call("echo") for _ in range(10))) == [1] * 10


@pytest.mark.clause("RUNE-31", "RUNE-32")
async def test_a_descendant_holding_stdout_neither_hangs_the_call_nor_survives_it(host, mark, tmp_path):
    escaped = tmp_path / "escaped"
    script = {"response": OK, "before_handshake": f"escape {escaped}"}
    plugin = await host.add(rune_puppet(script, mark=mark))
    assert await plugin.call("echo") == 1
    assert processes(mark) == []


@pytest.mark.clause("RUNE-32")
@pytest.mark.parametrize(
    "script", [{"after_handshake": "exit 1"}, {"response": "bad\n"}, {"handshake": {"plugin_id": "x"}}]
)
async def test_every_failure_ends_every_descendant(host, mark, tmp_path, script):
    with pytest.raises(plughost.PluginError):
        await outcome(host, {**script, "before_handshake": f"escape {tmp_path / 'e'}"}, mark=mark)
    assert processes(mark) == []


@pytest.mark.clause("RUNE-33")
async def test_stderr_is_drained_and_its_tail_kept(host):
    script = {"before_handshake": f"stderr {4 << 20}", "response": "bad\n"}
    with pytest.raises(MalformedResponse) as caught:
        await outcome(host, script)
    assert set(caught.value.stderr_tail) == {"e"}
    assert len(caught.value.stderr_tail) == 8192


async def test_the_reference_plugin_works_as_it_is(host):
    plugin = await host.add(unhurried(ROOT / "plugins/echo-rune"))
    result = await Rune(plugin).execute("echo", {"text": "hi"}, context={"mode_id": "m"})
    assert result.output == {"text": "hi"}
    assert result.metadata == {"context": {"mode_id": "m"}}
    assert (PLUGINS / "rune_puppet.py").exists()


@pytest.mark.clause("RUNE-05")
async def test_a_larger_request_needs_a_setting(host):
    large = {"text": "x" * (2 << 20)}
    script = {"response": {"status": "ok", "output": "read"}}
    plugin = await host.add(rune_puppet(script))
    with pytest.raises(plughost.PluginError, match=r"over the limit of 1048576"):
        await plugin.call("echo", large)
    await host.remove("puppet")
    plugin = await host.add(rune_puppet(script, max_request=4 << 20))
    assert await plugin.call("echo", large) == "read"
    await host.remove("puppet")
    for wrong in (0, (64 << 20) + 1):
        with pytest.raises(plughost.InvalidSpec, match="max_request"):
            await host.add(rune_puppet(script, max_request=wrong))


@pytest.mark.clause("RUNE-03")
async def test_a_text_that_a_plugin_cut_inside_an_emoji_arrives_with_a_replacement_character(host):
    command = [*PYTHON, str(PLUGINS / "wild_rune.py")]
    plugin = await host.add(
        plughost.PluginSpec(contract="rune", name="wild", command=command, options=UNHURRIED)
    )
    assert await plugin.call("excerpt", {"text": "\U0001f600\U0001f600"}) == "\U0001f600\ufffd"
