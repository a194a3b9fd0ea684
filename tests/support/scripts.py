"""The same conversation in every contract, step by step, so that a fault can be put anywhere in it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import plughost
from tests.support import PLUGINS, PYTHON, UNHURRIED, as_word

Step = list[Any]
OPTIONS: dict[str, dict[str, Any]] = {"parley": {"respawn": False}, "rune": UNHURRIED}


class Play(NamedTuple):
    """One call of `echo` with `1`, told from the plugin's side. It ends with the answer, the result 1."""

    contract: str
    steps: list[Step]
    rest: list[Step]
    """What a good plugin does after its answer."""

    def spec(self, steps: list[Step], mark: str, **options: Any) -> plughost.PluginSpec:
        return plughost.PluginSpec(
            contract=self.contract,
            name="player",
            command=[*PYTHON, str(PLUGINS / "player.py"), as_word(steps), mark],
            options={**OPTIONS.get(self.contract, {}), **options},
        )

    def with_answer(self, answer: str) -> list[Step]:
        """The play up to the answer, and these bytes in its place."""
        return [*self.steps[:-1], ["write", answer]]

    def framed(self, body: str) -> str:
        """`body` as one frame; latin-1, so a character is a byte."""
        return headered(body) if self.contract == "parley" else body + "\n"

    def answer(self, result: str) -> str:
        """A whole answer with `result` as its payload."""
        if self.contract == "rune":
            return self.framed('{"type":"response","request_id":"$ID","status":"ok","output":' + result + "}")
        return self.framed('{"id":$ID,"result":' + result + "}")


def headered(body: str) -> str:
    # The player puts a number of one digit in the place of "$ID".
    return f"Content-Length: {len(body) - 2 * body.count('$ID')}\r\n\r\n{body}"


_MANIFEST = {
    "plugin_id": "player",
    "plugin_version": "1.0.0",
    "protocol_version": "rterm.plugin.v1",
    "exposed_tools": ["echo"],
}

MCPTEST = Play("mcptest", [["line"], ["write", '{"id":$ID,"result":1}\n']], [["wait"]])
RUNE = Play(
    "rune",
    [
        ["line"],
        ["write", json.dumps({"type": "handshake", "manifest": _MANIFEST}) + "\n"],
        ["line"],
        ["write", '{"type":"response","request_id":"$ID","status":"ok","output":1}\n'],
    ],
    [["wait"]],
)
PARLEY = Play(
    "parley",
    [
        ["message"],
        ["write", headered('{"id":$ID,"result":{}}')],
        ["message"],  # the greeting
        ["message"],
        ["write", headered('{"id":$ID,"result":1}')],
    ],
    [["wait"]],
)
PLAYS = {"mcptest": MCPTEST, "rune": RUNE, "parley": PARLEY}
