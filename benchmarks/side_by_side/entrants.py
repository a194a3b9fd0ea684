"""Who is compared, how each is started, and who cannot take part."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contenders.apart import Apart, Failed
from benchmarks.paths import C_ECHO, HERE, PEERS, PLAIN, PYTHON_ECHO, ROOT
from benchmarks.roster import YARDSTICK
from benchmarks.side_by_side.progress import progress

OURS = "plughost"


@dataclass(frozen=True)
class Entrant:
    name: str
    command: tuple[str, ...]
    needs: Path | None = None
    """What its installation leaves behind."""
    pipelines: bool = True
    misbehaves: bool = True
    """Whether it has a plugin that can be made to misbehave."""

    def apart(self) -> Apart:
        return Apart(self.name, self.command, self.pipelines)


def in_environment(name: str, environment: Path, package: str) -> Entrant:
    command = (str(environment / "bin" / "python"), "-m", f"benchmarks.peers.{package}.client")
    return Entrant(name, command, environment / "ok")


def ours(name: str, loop: str, plugin: tuple[str, ...], misbehaves: bool = True) -> Entrant:
    command = (sys.executable, "-m", "benchmarks.peers.plughost.client", loop, *plugin)
    return Entrant(name, command, misbehaves=misbehaves)


NODE = HERE / "peers" / "mcp_typescript"
GO = HERE / "peers" / "go_plugin" / "bin" / "host"

ENTRANTS = (
    Entrant(
        YARDSTICK,
        (sys.executable, "-m", "benchmarks.peers.raw_pipe.client", *PLAIN),
        pipelines=False,
        misbehaves=False,
    ),
    ours(OURS, "asyncio", PLAIN),
    ours("plughost, uvloop", "uvloop", PLAIN),
    ours("plughost ↔ msgspec plugin", "asyncio", PYTHON_ECHO, misbehaves=False),
    ours("plughost ↔ C plugin", "asyncio", C_ECHO, misbehaves=False),
    in_environment("pylsp-jsonrpc", ROOT / ".venv-pylsp", "pylsp_jsonrpc"),
    in_environment("pygls", ROOT / ".venv-pygls", "pygls"),
    Entrant("go-plugin (gRPC)", (str(GO),), GO),
    Entrant(
        "MCP TypeScript SDK",
        ("node", "--expose-gc", str(NODE / "client.mjs")),
        NODE / "node_modules" / ".package-lock.json",
    ),
    in_environment("MCP Python SDK", PEERS, "mcp_python"),
    in_environment("FastMCP", ROOT / ".venv-fastmcp", "fastmcp"),
)


@dataclass
class Field:
    """Those who take part with their versions, and those who do not with the reason."""

    versions: dict[str, dict[str, str]]
    absent: dict[str, str]

    def entrants(self) -> list[Entrant]:
        return [entrant for entrant in ENTRANTS if entrant.name in self.versions]

    def drop(self, failed: Failed) -> None:
        self.versions.pop(failed.contender, None)
        self.absent[failed.contender] = failed.why


def muster(names: Sequence[str]) -> Field:
    """Everyone of these names starts once, and answers one call."""
    field = Field({}, {})
    asked = [entrant for entrant in ENTRANTS if entrant.name in names]
    with ThreadPoolExecutor(max_workers=2) as pool:  # nothing is timed here
        for entrant, found in zip(asked, pool.map(_try, asked), strict=True):
            if isinstance(found, Failed):
                progress(f"not measured: {found}")
                field.drop(found)
            else:
                progress(f"ready: {entrant.name}")
                field.versions[entrant.name] = found
    return field


def _try(entrant: Entrant) -> dict[str, str] | Failed:
    if entrant.needs is not None and not entrant.needs.exists():
        return Failed(entrant.name, f"not installed ({entrant.needs.relative_to(ROOT)} is missing)")
    apart = entrant.apart()
    try:
        with apart.started() as versions:
            apart.do("open", count=1)
    except Failed as failed:
        return failed
    return versions
