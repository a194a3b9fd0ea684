"""Runs what was confined: the real launcher, the real bubblewrap, the real last step."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from plughost.contracts.contract import PluginSpec
from plughost.guard.powers import Limits, Powers
from plughost.runtime.launch import Launch
from plughost.sandbox.confine import Confinement, WayOut
from plughost.sandbox.confined import confined
from plughost.sandbox.quarters import Quarters

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


class Ran(NamedTuple):
    status: int
    out: str
    err: str
    report: list[str]


def run(launch: Launch, given: str = "") -> Ran:
    """To its end. The report goes to a file: bubblewrap holds the pipe open for as long as it lives."""
    with tempfile.NamedTemporaryFile("r", prefix="report-") as report:
        ended = subprocess.run(
            ["/bin/sh", "-c", f'exec "$@" 3>{report.name}', "sh", *launch.argv()],
            env=dict(launch.env), input=given, capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        return Ran(ended.returncode, ended.stdout, ended.stderr, report.read().splitlines())


def confinement(
    quarters: Quarters,
    command: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] = ENV,
    powers: Powers | None = None,
    limits: Limits | None = None,
    class_: str = "strict",
    name: str = "puppet",
    way_out: WayOut | None = None,
) -> Confinement:
    spec = PluginSpec(
        contract="mcptest", name=name, command=list(command), cwd=None if cwd is None else os.fspath(cwd)
    )
    return confined(spec, env, powers or Powers(), limits or Limits(), class_, quarters, way_out=way_out)
