"""How long one tool's answer holds the event loop, at worst, for everybody else."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from pathlib import Path
from time import perf_counter

from benchmarks.contenders.invoking import Invoking, write_package
from benchmarks.effort import Effort
from benchmarks.sheet import Sheet
from benchmarks.turns import turns

NAME = "loop"
PATTERN = "(?:a[ab]{3000}c|b[ab]{3000}d)"
SMALL = "100 B"
HUGE = "an answer of 8 MB"
HOSTILE = "1 MB and a pattern that takes minutes"
SIZES = {SMALL: 50, HUGE: 4_000_000, HOSTILE: 500_000}
DEADLINE = 3000


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    note = f"longest pause between two passes of the loop; the last one has a deadline of {DEADLINE} ms"
    sheet = Sheet(NAME, note, {"gap": "ms", "time": "ms"}, SIZES, base=SMALL)
    with tempfile.TemporaryDirectory(prefix="plughost-bench-") as made:
        os.chmod(made, 0o755)
        folder = Path(made)
        write_package(folder / "package")
        write_package(folder / "hostile")
        manifest = folder / "hostile" / "vai-plugin.toml"
        output = 'output_schema = "schemas/{}.json"'
        manifest.write_text(manifest.read_text().replace(output.format("text"), output.format("hostile")))
        schema = {"properties": {"text": {"pattern": PATTERN}}}
        (folder / "hostile" / "schemas" / "hostile.json").write_text(json.dumps(schema))
        for number, name in enumerate(turns(sheet.name, [*SIZES], effort.neighbour_rounds)):
            package = folder / ("hostile" if name == HOSTILE else "package")
            sheet.add(
                name, **asyncio.run(_gap(Invoking(name, package, folder / str(number), "isolated"), name))
            )
    return [sheet]


async def _gap(tool: Invoking, name: str) -> dict[str, float]:
    await tool.open()
    await tool.call({"text": "ab"})  # its process is there
    worst, over = 0.0, False

    async def beat() -> None:
        nonlocal worst
        last = perf_counter()
        while not over:
            await asyncio.sleep(0)
            now = perf_counter()
            worst, last = max(worst, now - last), now

    text = "ab" * SIZES[name]
    beating = asyncio.ensure_future(beat())
    began = perf_counter()
    outcome = await tool.call({"text": text}, timeout_ms=DEADLINE if name == HOSTILE else None)
    time = perf_counter() - began
    over = True
    await beating
    assert outcome.ok or (name == HOSTILE and outcome.reason == "deadline_exceeded"), outcome
    await tool.close()
    return {"gap": worst * 1e3, "time": time * 1e3}
