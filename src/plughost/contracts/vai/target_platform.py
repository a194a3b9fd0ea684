"""Whether this machine can run a package: operating system and architecture, as manifests name them."""

from __future__ import annotations

import os
from typing import NamedTuple

from plughost.contracts.vai.manifest import VaiManifest
from plughost.errors import InvalidSpec

_ARCHES = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "i386": "386",
    "i686": "386",
    "armv6l": "arm",
    "armv7l": "arm",
}


class TargetPlatform(NamedTuple):
    """An operating system and an architecture, as manifests name them."""

    os: str
    arch: str

    def __str__(self) -> str:
        return f"{self.os} on {self.arch}"


def current_platform() -> TargetPlatform:
    """The platform of this machine."""
    uname = os.uname()
    return TargetPlatform(uname.sysname.lower(), _ARCHES.get(uname.machine, uname.machine.lower()))


def runs_here(manifest: VaiManifest, machine: TargetPlatform | None = None) -> bool:
    """Whether a package is built for `machine`. Default: this machine."""
    machine = machine or current_platform()
    return machine.os in manifest.runtime.os and machine.arch in manifest.runtime.arch


def refuse_foreign(manifest: VaiManifest, machine: TargetPlatform | None = None) -> None:
    """Raises InvalidSpec for a package that is built for other platforms."""
    machine = machine or current_platform()
    if not runs_here(manifest, machine):
        built = f"{', '.join(manifest.runtime.os)} on {', '.join(manifest.runtime.arch)}"
        raise InvalidSpec(
            f"{manifest.package_id} {manifest.version} is built for {built}; this machine is {machine}",
            plugin=manifest.package_id,
            hint=f"build it for {machine}, or run it on a machine that it is built for",
        )
