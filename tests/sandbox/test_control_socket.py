"""A confined plugin does not get into the control socket of its host, even if it is granted the folder."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

import plughost
from plughost.control import Control, ControlClient
from plughost.permissions.access import Access
from tests.support.confinable import PATH
from tests.support.sandbox import as_nobody

pytestmark = pytest.mark.usefixtures("strict")

ASKS = """
import json, socket, sys
for line in sys.stdin:
    request = json.loads(line)
    try:
        with socket.socket(socket.AF_UNIX) as host:
            host.settimeout(20)
            host.connect(request["params"])
            host.sendall(b'{"do": "ps"}\\n')
            answer = host.makefile().readline()
            result = "plugins" if "plugins" in answer else f"silence{answer}"
    except OSError as error:
        result = error.strerror
    print(json.dumps({"id": request["id"], "result": result}), flush=True)
"""


async def outcome(folder: Path, sandbox: str, *, granted: bool) -> str:
    """What a plugin gets that asks the socket of its own host for its plugins."""
    sockets = folder / f"sockets-{os.geteuid()}"
    sockets.mkdir(mode=0o700, exist_ok=True)
    allow = Access(read=(str(sockets),), write=(str(sockets),)) if granted and sandbox != "none" else Access()
    spec = plughost.PluginSpec(
        contract="mcptest",
        name="asking",
        command=["/usr/bin/python3", "-ISE", str(folder / "asks.py")],
        sandbox=sandbox,
        allow=allow,
        env={"PATH": PATH},
    )
    async with plughost.Host() as host, Control(host, sockets, lambda: None) as door:
        plugin = await host.add(spec)
        result: str = await plugin.call("ask", str(door.path), timeout=60)
        async with ControlClient(door.path) as client:
            assert [each["name"] for each in (await client.ps())["plugins"]] == ["asking"]
        return result


@pytest.mark.parametrize("sandbox", ["strict", "landlock", "none"])
@pytest.mark.parametrize(
    ("who", "granted"),
    [("root", False), ("nobody", False), ("nobody", True)],
    ids=["root", "nobody", "granted"],
)
def test_no_confined_plugin_gets_an_answer_of_its_hosts_socket(folder, who, sandbox, granted):
    folder.chmod(0o777)
    (folder / "asks.py").write_text(ASKS)

    def deed():
        return asyncio.run(outcome(folder, sandbox, granted=granted))

    if who == "root" and os.geteuid() != 0:
        pytest.skip("only root is root")
    # A plugin of a root host has a user of its own, which cannot even be granted the folder.
    got = as_nobody(deed) if who == "nobody" else deed()
    assert (got == "plugins") == (sandbox == "none"), got
