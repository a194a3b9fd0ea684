"""A lone surrogate, which JavaScript writes for a string cut inside an emoji, never costs a caller its answer."""

from __future__ import annotations

import asyncio

import pytest

import plughost
from plughost.contracts.rune import MalformedResponse
from plughost.contracts.vai import Vai
from plughost.wire.surrogates import MOST
from tests.contracts import ainb_support, kaged_support
from tests.support import puppet, rune_puppet
from tests.vai import support as vai_support

CUT = r"\ud83d\ude00\ud83d"
"""As `JSON.stringify("😀😀".slice(0, 3))` writes it."""
SEEN = "\U0001f600\ufffd"
TOO_MANY = r"\ud83d" * (MOST + 1)


def rpc(body: str) -> str:
    return '{"jsonrpc":"2.0","id":$ID,"result":"' + body + '"}'


def framed(body: str) -> str:
    number = body.replace("$ID", "2")
    return f"Content-Length: {len(number)}\r\n\r\n{number}"


async def mcptest(host, tmp_path, text):
    plugin = await host.add(puppet())
    return await plugin.call("raw", ['{"result":"' + text + '","id":$ID}\n'], timeout=60)


async def rune(host, tmp_path, text):
    said = '{"type":"response","request_id":"$ID","status":"ok","output":"' + text + '"}\n'
    plugin = await host.add(rune_puppet({"response": said}))
    return await plugin.call("echo", {}, timeout=60)


async def kaged(host, tmp_path, text):
    place = kaged_support.folder(tmp_path)
    plugin = await host.add(kaged_support.spec(place))
    return await plugin.call("p.raw", {"text": rpc(text) + "\n"}, timeout=60)


async def kaged_with_its_id_in_the_middle(host, tmp_path, text):
    place = kaged_support.folder(tmp_path)
    plugin = await host.add(kaged_support.spec(place))
    said = '{"result":"' + text + '","id":$ID,"jsonrpc":"2.0"}\n'
    return await plugin.call("p.raw", {"text": said}, timeout=60)


async def ainb(host, tmp_path, text):
    plugin = await host.add(ainb_support.spec(ainb_support.folder(tmp_path)))
    return await plugin.call("raw", {"text": framed(rpc(text))}, timeout=60)


async def vai(host, tmp_path, text):
    plugin = await host.add(vai_support.spec(vai_support.package(tmp_path)))
    output = '{"content":[],"structured_output":"' + text + '"}'
    body = '{"status":"succeeded","result":' + output + "}"
    said = '{"protocol":"vai.rpc.v1","type":"response","id":"req_1","ok":true,"body":' + body + "}"
    raw = f"Content-Length: {len(said)}\r\n\r\n{said}"
    outcome = await Vai(plugin).tool(vai_support.tool(do="raw", text=raw), timeout=60)
    return outcome.result.structured_output


ALL = [mcptest, rune, kaged, kaged_with_its_id_in_the_middle, ainb, vai]


@pytest.mark.clause("RUNE-03", "MCPT-05", "KAGED-35", "VAI-38")
@pytest.mark.parametrize("contract", ALL, ids=lambda contract: contract.__name__)
async def test_a_result_with_a_lone_surrogate_arrives_with_a_replacement_character(host, tmp_path, contract):
    async with asyncio.timeout(60):
        assert await contract(host, tmp_path, CUT) == SEEN


@pytest.mark.parametrize("contract", ALL, ids=lambda contract: contract.__name__)
async def test_a_result_with_too_many_fails_its_call_at_once(host, tmp_path, contract):
    async with asyncio.timeout(60):
        with pytest.raises(plughost.Malformed):
            await contract(host, tmp_path, TOO_MANY)


async def test_a_rune_manifest_and_an_error_may_hold_one(host):
    failed = (
        '{"type":"response","request_id":"$ID","status":"error","error":{"code":"x","message":"'
        + CUT
        + '"}}\n'
    )
    plugin = await host.add(rune_puppet({"response": failed}))
    with pytest.raises(plughost.CallFailed, match=f"error x: {SEEN}"):
        await plugin.call("echo", {})
    await host.remove("puppet")
    plugin = await host.add(rune_puppet({"handshake": {"plugin_version": "\ud83d"}}))
    assert await plugin.call("echo", {"text": "hi"}) == {"text": "hi"}
    await host.remove("puppet")
    plugin = await host.add(rune_puppet({"handshake": '{"type":"handshake","manifest":"\\ud83d"}\n'}))
    with pytest.raises(MalformedResponse, match="Expected `object"):
        await plugin.call("echo", {})


async def test_what_an_ainb_plugin_asks_and_tells_with_one_is_answered_and_logged(host, tmp_path):
    plugin = await host.add(ainb_support.spec(ainb_support.folder(tmp_path)))
    async with asyncio.timeout(
        20
    ):  # the puppet writes every string with escapes, as JavaScript would write this one
        reply = await plugin.call("echo", {"text": "x"})
        assert reply == {"text": "x"}
        body = '{"jsonrpc":"2.0","id":77,"method":"host/snapshot/subscribe","params":{"topic":"' + CUT + '"}}'
        asked = f"Content-Length: {len(body)}\r\n\r\n{body}"
        answer = framed('{"jsonrpc":"2.0","id":$ID,"result":"asked"}').replace('"id":2', '"id":3')
        assert await plugin.call("raw", {"text": asked + answer}) == "asked"
        await plugin.call("echo", {"text": "x"})
        assert {"id": 77, "jsonrpc": "2.0", "result": {}} in await plugin.call("received")


async def test_what_a_kaged_plugin_asks_with_one_is_answered(host, tmp_path):
    place = kaged_support.folder(tmp_path, capabilities=["kaged:storage:read", "kaged:storage:write"])
    plugin = await host.add(kaged_support.spec(place, "kaged:storage:read", "kaged:storage:write"))
    async with asyncio.timeout(60):
        await plugin.call("p.echo", {})
        told = '{"jsonrpc":"2.0","method":"p.happened","params":{"text":"' + CUT + '"}}\n'
        asked = (
            '{"jsonrpc":"2.0","id":"mine","method":"kaged.storage.set","params":{"key":"k","value":"'
            + CUT
            + '"}}\n'
        )
        assert await plugin.call("p.raw", {"text": told + asked + rpc("done") + "\n"}) == "done"
        answer = await plugin.call("p.ask", {"method": "kaged.storage.get", "params": {"key": "k"}})
        assert answer["result"]["value"] == SEEN
