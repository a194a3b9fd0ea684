"""The gateway's client: where it goes, what it sends, what it takes for an answer."""

from __future__ import annotations

import pickle
import threading
from contextlib import nullcontext
from urllib.parse import quote

import pytest

from plughost_sdk.vai import Cancelled, Context, Gateway, GatewayBusy, GatewayError, Retryable, Secrets
from plughost_sdk.vai.gateway import SOCKET
from tests.support.vai_http import serving

TOKEN = "vai_dlg_secret"


def gateway(base_url, remaining=10.0, token=TOKEN):
    told = {"base_url": base_url, "delegation_token": token, "scopes": ["runs:read"]}
    return Gateway(told, lambda: remaining, lambda end: nullcontext())


def echo(asked):
    return 200, {"path": asked.path, "body": asked.body}


def test_every_form_of_address_leads_there(tmp_path, monkeypatch):
    with serving(echo) as server:
        for url in (server.url, server.url + "/", server.url + "/api"):
            said = gateway(url).get("/v1/runs", limit=5, after=None)
            assert said["path"] == f"{url.removeprefix(server.url).rstrip('/')}/v1/runs?limit=5"
        gateway(server.url).post("/v1/runs", {"é": 1}, idempotency_key="k1")
        last = server.asked[-1]
        assert (last.method, last.body) == ("POST", {"é": 1})
        assert (last.headers["authorization"], last.headers["idempotency-key"]) == (f"Bearer {TOKEN}", "k1")
    path = tmp_path / "gateway.sock"
    with serving(echo, socket=path) as server:
        assert gateway(f"unix:{path}").get("/a")["path"] == "/a"
        assert gateway(f"http+unix://{quote(str(path), safe='')}/api").get("/a")["path"] == "/api/a"
        monkeypatch.setenv(SOCKET, str(path))
        assert gateway("http://gateway.internal/api").get("/a")["path"] == "/api/a"
        assert server.asked[-1].headers["host"] == "gateway.internal"


@pytest.mark.parametrize(
    ("answer", "status", "code", "words"),
    [
        (
            (403, {"code": "scope.missing", "detail": "needs runs:write"}),
            403,
            "scope.missing",
            "needs runs:write",
        ),
        ((500, b"oh no"), 500, "", "oh no"),
        ((302, b"http://elsewhere/"), 302, "", "302"),
        ((200, b"<html>"), 502, "gateway.no_json", "<html>"),
    ],
)
def test_refusals_are_told(answer, status, code, words):
    with serving(lambda asked: answer) as server, pytest.raises(GatewayError) as refused:
        gateway(server.url).get("/v1/runs")
    assert (refused.value.status, refused.value.code) == (status, code)
    assert words in str(refused.value)


@pytest.mark.clause("VAI-38")
def test_a_gateway_without_time_is_a_retryable_failure():
    busy = {"code": "busy", "title": "later"}
    with serving(lambda asked: (503, busy)) as server, pytest.raises(GatewayBusy, match="later"):
        gateway(server.url).get("/v1/runs")
    with pytest.raises(GatewayBusy, match="cannot be reached"):
        gateway("http://127.0.0.1:1").get("/v1/runs")
    assert issubclass(GatewayBusy, Retryable)


@pytest.mark.clause("VAI-36")
def test_a_cancel_ends_what_waits_for_the_gateway():
    asked, released = threading.Event(), threading.Event()

    def never(request):
        asked.set()
        released.wait(20)
        return 200, {}

    with serving(never) as server:
        lent = {"base_url": server.url, "delegation_token": TOKEN, "scopes": ["runs:read"]}
        context = Context({"context": {"gateway": lent}}, print)
        caller = threading.Thread(target=lambda: asked.wait(20) and context._cancel("enough"))
        caller.start()
        with pytest.raises(GatewayError):
            context.gateway.get("/v1/runs")
        assert not released.is_set()
        released.set()
        caller.join()
        with pytest.raises(Cancelled, match="enough"):
            context.gateway.get("/v1/runs")


def test_what_cannot_be_ended_does_not_keep_the_cancel_from_the_others(capsys):
    context = Context({"context": {}}, print)
    ended = threading.Event()
    with context.on_cancel(lambda: 1 // 0), context.on_cancel(ended.set):
        context._cancel("enough")
    assert ended.is_set()
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_an_empty_answer_is_none():
    with serving(lambda asked: (204, b"")) as server:
        assert gateway(server.url).post("/v1/x") is None


def test_without_scopes_or_time_nothing_is_sent():
    with serving(echo) as server:
        with pytest.raises(GatewayError, match="no scopes"):
            gateway(server.url, token=None).get("/v1/runs")
        with pytest.raises(GatewayBusy, match="deadline"):
            gateway(server.url, remaining=0).get("/v1/runs")
        with pytest.raises(ValueError, match="slash"):
            gateway(server.url).get("v1/runs")
        assert server.asked == []
    with pytest.raises(GatewayError, match="is not an address"):
        gateway("ftp://x").get("/a")


@pytest.mark.clause("VAI-90")
def test_the_token_and_secrets_are_not_shown_and_not_pickled():
    for hiding in (gateway("http://x"), Secrets({"token": TOKEN})):
        assert TOKEN not in f"{hiding!r} {hiding} {hiding:}"
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(hiding)
    secrets = Secrets({"a": "abc", "b": "abcdef", "c": ""})
    assert secrets.redact("abcdef abc x") == "[secret] [secret] x"
    assert (secrets["a"], secrets.get("z"), sorted(secrets), len(secrets)) == (
        "abc",
        None,
        ["a", "b", "c"],
        3,
    )
    with pytest.raises(KeyError, match="map it in the binding"):
        secrets["z"]
