"""What plugins of the outside contract `parley` must do: two axes, found by their entry point."""

from __future__ import annotations

from plughost.contract import Axis, PluginUnderTest, require


async def hello(subject: PluginUnderTest) -> None:
    async with subject.wire() as wire:
        wire.send({"id": 1, "method": "hello", "params": {"greeting": "salve"}})
        answer = await wire.message("the answer to hello")
        require(answer.get("id") == 1 and "result" in answer, "it does not want to talk")


async def calls(subject: PluginUnderTest) -> None:
    assert subject.sample is not None
    async with subject.hosted(respawn=False) as (_, plugin, _):
        await plugin.call(subject.sample.method, subject.sample.params)


def _needs_a_sample(subject: PluginUnderTest) -> str | None:
    return None if subject.sample else "no --sample was given"


AXES = (
    Axis(name="hello", promise="answers the greeting", test=hello),
    Axis(
        name="calls", promise="answers the sample call under a host", test=calls, skip_reason=_needs_a_sample
    ),
)
