"""A package enters the store, or nothing of it does."""

from __future__ import annotations

import os
from datetime import datetime
from functools import partial
from pathlib import Path

import msgspec

from plughost.contracts.vai.machine import refuse_foreign
from plughost.packages import disk
from plughost.packages.contents import Place
from plughost.packages.errors import PackageRefused
from plughost.packages.examining import Announced, announced, fetched
from plughost.packages.installed import Installed
from plughost.packages.integrity import MANIFEST, PACKAGE, SIGNATURE
from plughost.packages.layer import Layer
from plughost.packages.limits import USUAL, Limits
from plughost.packages.oci.content import Watch, nobody
from plughost.packages.oci.threads import in_thread
from plughost.packages.pins import Pins
from plughost.packages.signature import Verdict
from plughost.packages.store import Store
from plughost.packages.trust import Trust
from plughost.packages.unpacking import READ_ONLY, unpack

KEPT_IN_DEVELOPMENT = ("trusted", "unsigned", "unknown_key")


class Entered(msgspec.Struct, frozen=True):
    installed: Installed
    verdict: Verdict


async def install(
    place: Place,
    store: Store,
    trust: Trust,
    *,
    pins: Pins | None = None,
    now: datetime | None = None,
    watch: Watch = nobody,
    limits: Limits = USUAL,
) -> Entered:
    """Verify, fetch, check, unpack, put in its place; PackageRefused and its kin when it cannot be.

    In production only a trusted signature counts. In development a package that nobody trusted has signed is
    kept, with its posture. With `pins`, only what is pinned.
    """
    try:
        with store.staging() as folder:
            one = await announced(place, folder, trust, now, limits, pins)
            refuse_foreign(one.manifest)
            refuse_unwanted(one, trust)
            if pins is not None:
                pins.refuse(one.release, one.verdict)
            store.refuse_other(one.release)
            archived = await fetched(place, one, folder, watch, limits)
            staged = folder / "release"
            await in_thread(partial(_stage, one, archived, staged, limits))
            trusted = one.verdict.posture == "trusted"
            added = await in_thread(partial(store.add, staged, one.release, trusted=trusted))
            return Entered(added, one.verdict)
    except OSError as error:
        raise PackageRefused(
            f"it could not be installed: {os.strerror(error.errno) if error.errno else error}",
            hint=f"is there room on the disk of {store.root}?",
        ) from error


def refuse_unwanted(one: Announced, trust: Trust) -> None:
    """What the mode does not let in."""
    refusal = one.verdict.refusal(one.release)
    if refusal is not None and (trust.mode == "production" or one.verdict.posture not in KEPT_IN_DEVELOPMENT):
        raise refusal


def _stage(one: Announced, archived: Path, staged: Path, limits: Limits) -> None:
    disk.make_folder(staged)
    with Layer(archived, limits) as layer:
        unpack(layer, staged / PACKAGE)
    disk.write_new(staged / MANIFEST, one.body, READ_ONLY)
    if one.envelope is not None:
        disk.write_new(staged / SIGNATURE, one.envelope, READ_ONLY)
