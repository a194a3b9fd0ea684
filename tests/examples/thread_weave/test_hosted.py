"""The package under the real host: confined, with the SDK that it brings along, and nothing of this tree."""

from __future__ import annotations

import msgspec
import pytest

from plughost.contracts.vai.contract import Vai, spec_of
from plughost.contracts.vai.request_bodies import (
    CompactionSource,
    CompactionTarget,
    CompactorBody,
    GatewayAccess,
    Inline,
    RequestContext,
)
from tests.support import confinable
from tests.support.confinable import PUBLIC_PYTHON
from tests.support.vai_packages import packaged

"""One that any user can reach: of a root host a confined plugin is another."""


def compaction(blocks, budget):
    ids = {
        f"{name}_id": name for name in ("invocation", "trace", "org", "project", "session", "chain", "run")
    }
    gateway = GatewayAccess(base_url="http://gateway.invalid")
    return CompactorBody(
        export_id="thread_weave",
        context=RequestContext(
            **ids, deadline_at="2099-01-01T00:00:00Z", scratch_dir="/tmp", gateway=gateway
        ),
        compaction_id="cmp_1",
        source=CompactionSource("ch_1", Inline(blocks=blocks, pinned_items=["b1"], token_estimate=9000)),
        target=CompactionTarget(budget, "gpt-5.4"),
    )


@pytest.mark.clause("VAI-85")
async def test_it_compacts_confined_with_nothing_but_its_package(host):
    confinable.needs("strict")
    with confinable.open_folder() as place:
        folder = packaged("thread-weave", place)
        spec = spec_of(folder)
        command = [PUBLIC_PYTHON, *spec.command]
        options = {"hello_timeout": 60}
        plugin = await host.add(
            msgspec.structs.replace(spec, command=command, sandbox="strict", options=options)
        )
        blocks = [
            {"id": f"b{n}", "kind": "output", "content": [{"type": "text", "text": "word " * 80}]}
            for n in range(20)
        ]
        view = Vai(plugin)
        woven = await view.compact(compaction(blocks, 1000), timeout=60)
        assert (woven.status, plugin.sandbox) == ("succeeded", "strict")
        assert woven.result.diagnostics["output_tokens_estimate"] <= 1000
        assert woven.result.seed_blocks[1]["content"] == blocks[1]["content"]
        assert (
            "[woven: 17 blocks of chain ch_1, b2 to b18]" in woven.result.seed_blocks[2]["content"][0]["text"]
        )
        failed = await view.compact(compaction(blocks, 5), timeout=60)
        assert (failed.status, "holds no block" in failed.problem.message) == ("failed", True)
