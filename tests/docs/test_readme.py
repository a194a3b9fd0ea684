"""The README: a newcomer copies its three snippets in turn, and they do what is written there."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support import ROOT, until
from tests.support.newcomer import WHO, Newcomer, Tools, tools_outside_tmp

AUTHOR, EMBED, OPERATE = re.findall(r"```(?:sh|python)\n(.*?)```", (ROOT / "README.md").read_text(), re.S)


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with tools_outside_tmp() as tools:
        yield tools


@pytest.mark.parametrize("who", WHO)
async def test_the_snippets_of_the_readme_work_in_turn(who, tools):
    newcomer = Newcomer(who, tools)
    [promised] = re.findall(r"# (\{.*\})$", AUTHOR, re.M)
    assert newcomer.run(AUTHOR).splitlines()[-1] == promised

    (newcomer.home / "embed.py").write_text(EMBED)
    assert newcomer.run("python3 embed.py") == "{'greeting': 'Hello, Ada!'}\n"

    background = "plughost run -c plughost.toml &"
    assert background in OPERATE
    explained = newcomer.run(OPERATE[: OPERATE.index(background)])
    assert "api.example.com:443" in explained
    newcomer.run(f"mkdir -m 700 sockets; {background[:-1]} --socket-dir sockets >run.log 2>&1 &")
    await until(lambda: "ready: greeter" in (newcomer.home / "run.log").read_text())
    try:
        assert "greeter" in newcomer.run("plughost ps --socket-dir sockets")
    finally:
        newcomer.run("plughost stop --all --socket-dir sockets")
