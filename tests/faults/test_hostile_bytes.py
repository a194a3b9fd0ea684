"""Whatever bytes a plugin sends: a value, a typed error or a drop; never a hang, a crash of the host or a mix-up."""

from __future__ import annotations

import asyncio

import pytest

import plughost
from tests.support import puppet, seen
from tests.support.scripts import MCPTEST, PARLEY, PLAYS, RUNE, Play

DEEP = "[" * 100 + "]" * 100
TOO_DEEP = "[" * 100_000 + "]" * 100_000


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth - 1):
        value = [value]
    return value


FINE = {
    "an escaped NUL": (r'"a\u0000b"', "a\0b"),
    "nesting of 100": (DEEP, nested(100)),
    "a doubled key": ('{"a":1,"a":2}', {"a": 2}),
    "an escaped pair of surrogates": (r'"\ud83d\ude00"', "\U0001f600"),
    "UTF-8": ('"Ã©"', "é"),
    "white space": (' \t[ 1 ,\t2 ] ', [1, 2]),
    "a carriage return as white space": ("\r1\r", 1),
    "a line separator": ('"\xe2\x80\xa8"', "\u2028"),
    "an integer of 64 bits": ("18446744073709551615", 2**64 - 1),
    "a small number": ("1e-400", 0.0),
}  # fmt: skip

WRONG = {
    "a NUL byte": '"a\0b"',
    "invalid UTF-8": '"\xff\xfe"',
    "cut off UTF-8": '"\xe2\x82"',
    "a surrogate as UTF-8": '"\xed\xa0\x80"',
    "nesting of 100,000": TOO_DEEP,
    "NaN": "NaN",
    "Infinity": "-Infinity",
    "a number past all bounds": "1e999",
    "a control character": '"\x01"',
    "a comment": "1/*x*/",
    "two values": "1 2",
    "a trailing comma": "[1,]",
    "nothing": "",
}


@pytest.mark.parametrize("play", PLAYS.values(), ids=PLAYS)
@pytest.mark.parametrize(("payload", "value"), FINE.values(), ids=FINE)
async def test_odd_but_valid_payloads_arrive_as_they_are(host, mark, play, payload, value):
    plugin = await host.add(play.spec([*play.with_answer(play.answer(payload)), ["wait"]], mark))
    async with asyncio.timeout(30):
        assert await plugin.call("echo", 1) == value


@pytest.mark.parametrize("play", PLAYS.values(), ids=PLAYS)
@pytest.mark.parametrize("payload", WRONG.values(), ids=WRONG)
async def test_a_payload_that_is_no_json_never_becomes_a_value(host, mark, play, payload):
    steps = [*play.with_answer(play.answer(payload)), ["wait"]]
    if play is PARLEY:  # it drops what is no message; the true answer follows
        steps[-1:] = [play.steps[-1], ["wait"]]
    plugin = await host.add(play.spec(steps, mark))
    async with asyncio.timeout(30):
        (outcome,) = await asyncio.gather(plugin.call("echo", 1), return_exceptions=True)
    if isinstance(outcome, plughost.Malformed):
        assert outcome.plugin == "player"
        assert len(str(outcome)) < 2000
    else:
        assert (play, outcome, seen(plugin)["dropped"]) == (PARLEY, 1, 1)


@pytest.mark.parametrize("payload", WRONG.values(), ids=WRONG)
async def test_after_a_wrong_line_the_next_call_works(host, mark, payload):
    good = MCPTEST.steps
    plugin = await host.add(
        MCPTEST.spec([*MCPTEST.with_answer(MCPTEST.answer(payload)), *good, ["wait"]], mark)
    )
    async with asyncio.timeout(30):
        with pytest.raises(plughost.Malformed):
            await plugin.call("echo", 1)
        assert await plugin.call("echo", 1) == 1


ENVELOPES = {
    "an unknown id": '{"id":77,"result":1}',
    "an id of another type": '{"id":"$ID","result":1}',
    "a fraction for an id": '{"id":$ID.0,"result":1}',
    "an id past all bounds": '{"id":1' + "0" * 5000 + ',"result":1}',
    "a negative id": '{"id":-1,"result":1}',
    "null for an id": '{"id":null,"result":1}',
    "a list": "[1]",
    "a scalar": "1",
    "nothing in it": "{}",
    "a byte order mark": '\xef\xbb\xbf{"id":$ID,"result":1}',
    "no JSON": "print noise",
    "a doubled id": '{"id":$ID,"id":77,"result":1}',
}


@pytest.mark.parametrize("frame", ENVELOPES.values(), ids=ENVELOPES)
async def test_a_frame_that_is_no_answer_fails_a_call_of_mcptest_and_is_dropped_by_a_tolerant_contract(
    host, mark, frame
):
    plugin = await host.add(
        MCPTEST.spec([*MCPTEST.with_answer(frame + "\n"), *MCPTEST.steps, ["wait"]], mark)
    )
    async with asyncio.timeout(30):
        with pytest.raises(plughost.Malformed):
            await plugin.call("echo", 1)
        assert await plugin.call("echo", 1) == 1
    if "$ID" in frame and "77" not in frame and "\xef" not in frame:
        return  # its length depends on the number
    body = frame.replace("$ID", "2")
    noisy = [*PARLEY.with_answer(f"Content-Length: {len(body)}\r\n\r\n{body}"), PARLEY.steps[-1], ["wait"]]
    await host.remove("player")
    plugin = await host.add(PARLEY.spec(noisy, mark))
    async with asyncio.timeout(30):
        assert await plugin.call("echo", 1) == 1
    assert seen(plugin)["dropped"] == 1


@pytest.mark.parametrize("play", [MCPTEST, RUNE], ids=["mcptest", "rune"])
@pytest.mark.parametrize("end", ["\r\n", " \r\n", "\t\n"])
async def test_lines_may_end_as_windows_ends_them(host, mark, play, end):
    answer = play.steps[-1][1].rstrip("\n") + end
    plugin = await host.add(play.spec([*play.with_answer(answer), ["wait"]], mark))
    async with asyncio.timeout(30):
        assert await plugin.call("echo", 1) == 1


async def test_noise_between_headered_frames_ends_the_conversation_with_its_head(host, mark):
    """There is no way to know where the next frame begins."""
    plugin = await host.add(
        PARLEY.spec([*PARLEY.with_answer("print noise\n"), PARLEY.steps[-1], ["wait"]], mark)
    )
    async with asyncio.timeout(30):
        with pytest.raises(plughost.Malformed) as caught:
            await plugin.call("echo", 1)
    assert b"print noise" in caught.value.head


async def test_answers_out_of_order_and_doubled_reach_their_own_callers(host, mark):
    steps = [["line"], ["line"], ["line"]]
    steps += [["write", "".join(f'{{"id":{n},"result":{n}}}\n' for n in (3, 1, 1, 3, 2, 2))], ["line"]]
    steps += [["write", '{"id":1,"result":"stale"}\n{"id":$ID,"result":4}\n'], ["wait"]]
    plugin = await host.add(MCPTEST.spec(steps, mark, max_in_flight=3))
    async with asyncio.timeout(30):
        calls = [asyncio.create_task(plugin.call("echo", n)) for n in (1, 2, 3)]
        assert await asyncio.gather(*calls) == [1, 2, 3]
        assert await plugin.call("echo", 4) == 4
    assert seen(plugin)["dropped"] == 4


@pytest.mark.parametrize("play", [MCPTEST, PARLEY], ids=["mcptest", "parley"])
async def test_a_byte_at_a_time_is_as_good_as_any(host, mark, play: Play):
    steps = [*play.steps[:-1], *(["write", byte] for byte in play.steps[-1][1].replace("$ID", "1")), ["wait"]]
    if play is PARLEY:
        steps = [
            *play.steps[:-1],
            *(["write", byte] for byte in play.steps[-1][1].replace("$ID", "2")),
            ["wait"],
        ]
    plugin = await host.add(play.spec(steps, mark))
    async with asyncio.timeout(30):
        assert await plugin.call("echo", 1) == 1


async def test_a_deeply_nested_error_is_a_typed_error_for_a_caller_deep_in_its_own_stack(host, mark):
    plugin = await host.add(puppet(mark))
    data = "[" * 600 + "]" * 600
    line = f'{{"id":$ID,"error":{{"code":1,"message":"x","data":{data}}}}}\n'

    async def call(depth: int) -> None:
        await (call(depth - 1) if depth else plugin.call("raw", [line]))

    with pytest.raises(plughost.PluginError):
        await call(500)
    assert await plugin.call("ping") == "pong"
