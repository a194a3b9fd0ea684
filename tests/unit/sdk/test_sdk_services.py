"""Everything that a plugin may ask of its host, from functions and from coroutines."""

from __future__ import annotations

import base64

import pytest

import plughost
from plughost.testing import drive
from plughost_sdk import ainb
from tests.support.sdk import ainb_folder


def packed(data: bytes) -> str:
    return base64.b64encode(data).decode()


ANSWERS = {
    "host/snapshot/get": {"payload": packed(b"value"), "version": 4},
    "host/snapshot/subscribe": {},
    "host/fs/read_dir": {
        "entries": [{"name": "a", "is_dir": True}, {"name": "b", "is_dir": False, "size": 3}]
    },
    "host/fs/read_file": {"bytes": [97, 98]},  # the older form of bytes
    "host/network/fetch": {"status": 200, "headers": [["a", "b"]], "body": packed(b"page")},
    "host/action/invoke": {"payload": packed(b"done")},
}


def everything(host):
    entries = host.fs.read_dir("/logs")
    response = host.network.fetch("http://example.org", "POST", b"body", [("x", "y")])
    host.snapshot.subscribe("more")
    host.snapshot.publish("t", b"said")
    host.log.warn("careful", number=1)
    payload, version = host.snapshot.get("t")
    return [
        [payload.decode(), version],
        [(entry.name, entry.is_dir, entry.size) for entry in entries],
        repr(entries),
        host.fs.read_file("/logs/b").decode(),
        [response.status, response.headers, response.body.decode()],
        host.action.invoke("notes", b"go", timeout_ms=50).decode(),
    ]


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_every_service_is_there_for_both_kinds_of_handlers(tmp_path, kind):
    place = ainb_folder(tmp_path, "")
    plugin = ainb.Plugin(str(place / "manifest.toml"))
    plugin.method("function")(lambda: everything(plugin.host))

    @plugin.method("coroutine")
    async def coroutine():
        return everything(plugin.host)

    with drive(plugin, place, answers=ANSWERS) as host:
        assert host.call(kind, {}) == [
            ["value", 4],
            [["a", True, 0], ["b", False, 3]],
            "[Entry('a', folder), Entry('b', 3)]",
            "ab",
            [200, [["a", "b"]], "page"],
            "done",
        ]
        asked = dict(host.requests)
        assert asked["host/network/fetch"] == {
            "url": "http://example.org", "method": "POST", "body": packed(b"body"), "headers": [["x", "y"]],
        }  # fmt: skip
        assert asked["host/action/invoke"] == {"action": "notes", "payload": packed(b"go"), "timeout_ms": 50}
        assert host.notifications == [
            ("host/snapshot/publish", {"topic": "t", "payload": packed(b"said")}),
            ("host/log", {"level": "warn", "message": "careful", "fields": {"number": 1}}),
        ]


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_a_refusal_is_an_error_with_the_hosts_code(tmp_path, kind):
    place = ainb_folder(tmp_path, "")
    plugin = ainb.Plugin(str(place / "manifest.toml"))
    plugin.method("function")(lambda: plugin.host.fs.read_file("/etc/passwd"))

    @plugin.method("coroutine")
    async def coroutine():
        return plugin.host.fs.read_file("/etc/passwd")

    refused = {"host/fs/read_file": plughost.Denied("capability denied: fs")}
    with drive(plugin, place, answers=refused) as host, pytest.raises(plughost.CallFailed) as caught:
        host.call(kind, {})
    assert (caught.value.error["code"], caught.value.error["message"]) == (-32001, "capability denied: fs")


@pytest.mark.parametrize("knows_parts", [True, False])
def test_a_part_of_a_file_is_the_same_from_a_host_that_knows_no_parts(tmp_path, knows_parts):
    content = bytes(range(100))

    def read(params):
        if not knows_parts:
            return {"bytes": packed(content)}
        offset = params.get("offset", 0)
        part = content[offset : offset + params.get("length", 100)]
        return {"bytes": packed(part), "offset": offset, "size": 100}

    place = ainb_folder(tmp_path, "")
    plugin = ainb.Plugin(str(place / "manifest.toml"))
    plugin.method("part")(lambda params: [*plugin.host.fs.read_file("/f", **params)])
    with drive(plugin, place, answers={"host/fs/read_file": read}) as host:
        for params in ({}, {"offset": 98}, {"length": 3}, {"offset": 50, "length": 2}, {"offset": 200}):
            offset = params.get("offset", 0)
            assert host.call("part", params) == [*content[offset : offset + params.get("length", 100)]]
        assert host.requests[0] == ("host/fs/read_file", {"path": "/f"})
        assert host.requests[3] == ("host/fs/read_file", {"path": "/f", "offset": 50, "length": 2})


def test_what_is_asked_for_ahead_comes_in_any_order(tmp_path):
    place = ainb_folder(tmp_path, "")
    plugin = ainb.Plugin(str(place / "manifest.toml"))

    @plugin.method("ahead")
    def ahead():
        first, second, third = (plugin.host.fs.reading(f"/{name}") for name in "abc")
        taken = [third().decode(), first().decode()]
        with pytest.raises(ainb.Error, match="no b"):
            second()
        return taken

    def read(params):
        if params["path"] == "/b":
            raise plughost.InvalidSpec("no b")
        return {"bytes": packed(params["path"].encode())}

    with drive(plugin, place, answers={"host/fs/read_file": read}) as host:
        assert host.call("ahead", {}) == ["/c", "/a"]
        assert [params["path"] for _, params in host.requests] == ["/a", "/b", "/c"]
