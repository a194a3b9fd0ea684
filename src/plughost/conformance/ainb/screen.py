"""The axes of the user interface: frames and command lines."""

from __future__ import annotations

from typing import Any

from plughost.conformance.ainb.hosted_plugin import hosted
from plughost.conformance.ainb.stub_host import AinbStubHost, manifest_of, open_stub, read
from plughost.conformance.axis import Axis, require
from plughost.conformance.plugin_under_test import PluginUnderTest
from plughost.contracts.ainb.contract import Ainb
from plughost.contracts.ainb.messages import CliDispatchResult, RenderResult

SIZES = ((80, 24), (1, 1), (40, 12))
SETTLING = 20
"""Frames that a plugin may draw until two in a row are equal."""
STEADY = 3


async def render(subject: PluginUnderTest) -> None:
    """Checks size and stability of frames."""
    async with open_stub(subject) as host:
        await host.init()
        for width, height in SIZES:
            await _frame(host, width, height)
        last, now = None, await _frame(host, *SIZES[-1])
        for _ in range(SETTLING):
            last, now = now, await _frame(host, *SIZES[-1])
            if last == now:
                break
        require(
            last == now, f"no two consecutive frames are the same within {SETTLING}, though nothing happens"
        )
        for _ in range(STEADY):
            require(
                await _frame(host, *SIZES[-1]) == now,
                "a frame differs from the previous one, although nothing happened in between",
            )
    async with hosted(subject) as scene:
        for width, height in SIZES:
            drawn = await scene.within(Ainb(scene.plugin).render(width, height), "a frame")
            _check(drawn, width, height)


async def _frame(host: AinbStubHost, width: int, height: int) -> RenderResult:
    viewport = {"width": width, "height": height}
    response = await host.ask("plugin/render", {"viewport": viewport, "generation": 0})
    require("result" in response, f"it answered plugin/render with the error {response.get('error')}")
    drawn: RenderResult = read(response["result"], RenderResult, "its frame")
    _check(drawn, width, height)
    return drawn


def _check(drawn: RenderResult, width: int, height: int) -> None:
    buffer = drawn.buffer
    require(
        (buffer.width, buffer.height) == (width, height),
        f"for a viewport of {width}x{height} its buffer is {buffer.width}x{buffer.height}",
    )
    for at, cell in buffer.cells:
        require(
            at.x < width and at.y < height,
            f"it paints {cell.symbol!r} at {at.x},{at.y}, outside of {width}x{height}",
        )


async def cli(subject: PluginUnderTest) -> None:
    """Checks the output of command lines in each CLI namespace."""
    namespaces = manifest_of(subject).provides.cli_namespaces
    async with open_stub(subject) as host:
        await host.init()
        for namespace in namespaces:
            for argv in (["--help"], [], ["--größe", ""]):
                response = await host.ask("plugin/cli_dispatch", {"namespace": namespace, "argv": argv})
                if argv == ["--help"]:
                    require("result" in response, f"`{namespace} --help` is answered with an error")
                if "result" in response:
                    _check_output(response["result"], f"{namespace} {' '.join(argv)}".strip())
    async with hosted(subject) as scene:
        for namespace in namespaces:
            await scene.within(
                Ainb(scene.plugin).cli(namespace, ["--help"]), f"the output of {namespace} --help"
            )


def _check_output(result: Any, line: str) -> None:
    for stream in ("stdout", "stderr"):
        text = isinstance(result, dict) and isinstance(result.get(stream), str)
        require(text, f"in the answer to `{line}`, {stream} must be a base64 string")
    read(result, CliDispatchResult, f"the answer to `{line}`")


def _no_screen(subject: PluginUnderTest) -> str | None:
    return None if manifest_of(subject).provides.screens else "its manifest provides no screens"


def _no_namespace(subject: PluginUnderTest) -> str | None:
    return None if manifest_of(subject).provides.cli_namespaces else "its manifest provides no cli_namespaces"


AXES = (
    Axis(
        name="render",
        promise="draws a frame of the viewport's size, with every cell inside it, and the same frame again "
        "when nothing happened",
        test=render,
        skip_reason=_no_screen,
    ),
    Axis(
        name="cli",
        promise="answers a command line of each namespace with stdout and stderr in base64 and an exit code; "
        "--help is not an error",
        test=cli,
        skip_reason=_no_namespace,
    ),
)
