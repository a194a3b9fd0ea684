"""What a plugin was refused: found again by its name, with the grant that would allow it."""

from __future__ import annotations

import pytest

from plughost.events import Logged
from tests.support.ainb import ask, folder, spec


def denied(host, name: str = "puppet") -> list[str]:
    return [line.message for line in host.service("logs").recent(name) if line.source == "denied"]


@pytest.mark.parametrize(
    ("method", "params", "words"),
    [
        ("host/snapshot/get", {"topic": "t"}, ["event_bus"]),
        ("host/network/fetch", {"url": "http://127.0.0.1/"}, ["network"]),
        (
            "host/fs/read_file",
            {"path": "/etc/passwd"},
            ["read_sessions", "read_claude_logs", "read_codex_logs"],
        ),
    ],
)
async def test_a_denial_names_what_would_allow_it(host, tmp_path, method, params, words):
    plugin = await host.add(spec(folder(tmp_path, capabilities={})))
    with host.events() as events:
        assert (await ask(plugin, method, params))["code"] == -32001
        told = []
        while (event := events.take()) is not None:
            told += [event] if isinstance(event, Logged) and event.source == "denied" else []
    (line,) = denied(host)
    assert line.startswith(f"{method}: capability denied: ")
    assert all(word in line for word in words)
    assert [event.message for event in told] == [line]
    assert told[0].plugin == "puppet"


async def test_the_same_denial_is_told_once_a_generation(host, tmp_path):
    plugin = await host.add(spec(folder(tmp_path, capabilities={})))
    for _ in range(50):
        await ask(plugin, "host/snapshot/get", {"topic": "t"})
    assert len(denied(host)) == 1
    await plugin.reload()
    await ask(plugin, "host/snapshot/get", {"topic": "t"})
    assert len(denied(host)) == 2


async def test_a_publish_that_was_dropped_is_a_denial_too(host, tmp_path):
    plugin = await host.add(spec(folder(tmp_path, capabilities={})))
    await plugin.call("tell", {"method": "host/snapshot/publish", "params": {"topic": "t", "payload": ""}})
    await plugin.call("received")
    assert denied(host)
    assert "event_bus" in denied(host)[0]


async def test_endless_kinds_of_denials_stay_bounded(host, tmp_path):
    plugin = await host.add(spec(folder(tmp_path, capabilities={})))
    await ask(plugin, "host/snapshot/get", {"topic": "t"})
    logs = host.service("logs")

    class Caller:
        name, generation = "puppet", 1

    for number in range(5000):
        logs.on_denied(Caller(), f"thing {number}", "no")
    assert len(logs._denied["puppet"]) <= 1000
    assert len(logs.recent("puppet")) <= 1000
