"""`python -m benchmarks.peers.plughost.invoking PACKAGE RECORDS EXPORT`: its invocations, on uvloop."""

from __future__ import annotations

import sys
from pathlib import Path

import uvloop

from benchmarks.contenders.invoking import Invoking
from benchmarks.peers.obedience import obey

_, package, records, export = sys.argv
uvloop.run(
    obey(lambda: Invoking(export, Path(package), Path(records), export), "plughost", "msgspec", "uvloop")
)
