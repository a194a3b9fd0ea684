"""The SDK says what the golden vectors say."""

from __future__ import annotations

import msgspec

from plughost.contracts.registry import get_contract
from tests.support.sdk import program
from tests.support.vectors import load, replay_plugin

ECHO = """
from plughost_sdk import vai
plugin = vai.Plugin()

@plugin.tool
def echo(input, context):
    for number in range(input.get("say", 0)):
        context.progress(f"{number + 1} of {input['say']}")
    if input.get("wait"):
        context.event({"type": "started"})
        context.wait(30)
        context.check()
    return input

@plugin.hook
async def note(event, context):
    pass

plugin.run()
"""


def test_it_replays_the_golden_vectors(tmp_path):
    vectors = load("vai")
    for name, text in vectors.spec.folder.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "bin").mkdir(exist_ok=True)
    place = program(tmp_path / vectors.spec.program, ECHO)
    spec = get_contract("vai").read_folder(tmp_path)
    assert spec is not None
    told = vectors.for_a_plugin("echo")
    assert len(told) > 5
    for conversation in told:
        replay_plugin(conversation, vectors.spec.name, msgspec.structs.replace(spec, command=[str(place)]))
