"""How much later than a bare script a plugin written with the Python SDK gives its first answer."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from time import perf_counter

from benchmarks.contenders.child import Child
from benchmarks.effort import Effort
from benchmarks.paths import FIRST_ANSWER, SDK_FOLDER
from benchmarks.sheet import Sheet
from benchmarks.turns import turns

BARE = "bare script"
SDK = "SDK, plain functions"
SCRIPTS = {BARE: "bare", SDK: "sdk"}

_INIT = (
    b'{"jsonrpc":"2.0","id":1,"method":"plugin/init",'
    b'"params":{"manifest_path":"","granted_capabilities":[],"abi_version":2}}'
)
FIRST = {
    "mcptest": b'{"method":"echo","id":1,"params":{"text":"hi"}}\n',
    "ainb": b"Content-Length: %d\r\n\r\n%b" % (len(_INIT), _INIT),
}
"""By contract, what a plugin is asked first."""


def label(contract: str) -> str:
    return f"first answer, {contract}"


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    return [_measure(contract, effort) for contract in FIRST]


def _measure(contract: str, effort: Effort) -> Sheet:
    note = "python3 -I -S -E, from before the spawn; not pinned"
    sheet = Sheet(label(contract), note, {"time": "ms"}, SCRIPTS, base=BARE)
    for who in SCRIPTS:
        _seconds(who, contract)  # bytecode is compiled once
    for who in turns(sheet.name, [*SCRIPTS], effort.spawns):
        sheet.add(who, time=_seconds(who, contract) * 1e3)
    return sheet


def _seconds(who: str, contract: str) -> float:
    script = FIRST_ANSWER / f"{SCRIPTS[who]}_{contract}.py"
    began = perf_counter()
    child = Child((sys.executable, "-I", "-S", "-E", str(script), str(SDK_FOLDER)))
    os.write(child.stdin, FIRST[contract])
    answer = os.read(child.stdout, 4096)
    took = perf_counter() - began
    child.close()
    assert b'"result"' in answer, answer
    return took
