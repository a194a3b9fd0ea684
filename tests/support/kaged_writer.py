"""`python -m tests.support.kaged_writer FOLDER PLUGINS`: a host whose kaged plugins all store, until it is killed.

Each acknowledged step is a line `PLUGIN STEP` on stdout: by then the plugin has heard that the step's own key is
stored, that the key of two steps before is deleted, and that `counter` holds the step.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import plughost
from plughost.services.storage.service import Storage
from tests.support.kaged import folder, spec
from tests.support.storage_writer import padded


async def store_on(plugin: plughost.Plugin) -> None:
    async def ask(method: str, **params: Any) -> Any:
        asked = {"method": f"kaged.storage.{method}", "params": params}
        return (await plugin.call("p.ask", asked, timeout=300))["result"]

    step = (await ask("get", key="counter"))["value"] or 0
    while True:
        step += 1
        await ask("set", key=f"step{step}", value=padded(step).decode().strip('"'))
        await ask("delete", key=f"step{step - 2}")
        await ask("set", key="counter", value=step)
        os.write(1, f"{plugin.name} {step}\n".encode())


async def main(root: Path, plugins: int) -> None:
    os.write(1, b"ready 0\n")
    async with plughost.Host() as host:
        host.provide("storage", Storage(root))
        places = {f"p{number}": root / "plugins" / f"p{number}" for number in range(plugins)}
        for name, place in places.items():
            if not place.exists():
                folder(place, name=name)
        storage = ("kaged:storage:read", "kaged:storage:write")
        specs = [spec(place / "puppet", *storage, init_timeout=120) for place in places.values()]
        await asyncio.gather(*[store_on(await host.add(each)) for each in specs])


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
