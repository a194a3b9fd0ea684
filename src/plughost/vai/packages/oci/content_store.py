"""What holds OCI content, and how a piece of it is named: the seam between packages and where they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

Progress = Callable[[int], object]
"""Told how many more bytes have moved; a negative number when some of them must move again."""
Watch = Callable[[int, int], object]
"""Told how many bytes of how many have moved."""

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
EMPTY = "application/vnd.oci.empty.v1+json"
"""The config of an artifact that has none: the two bytes `{}`."""

MAX_MANIFEST = 4 << 20
MAX_BLOB = 1 << 40


class Descriptor(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of content: what it is, and the only bytes that it can be."""

    mediaType: str
    digest: str
    """`sha256:` and 64 hexadecimal digits."""
    size: int
    annotations: dict[str, str] = {}
    artifactType: str = ""


class ContentStore(Protocol):
    """Anything that holds OCI content: a layout folder, a layout tar, a registry's repository."""

    async def manifest(self, reference: str) -> tuple[Descriptor, bytes]:
        """By tag or digest, its bytes checked against the digest; `NotFound` when there is none.

        A layout also knows the empty reference: its only artifact, signatures and the like left aside.
        """

    async def fetch(self, blob: Descriptor, into: Path, progress: Progress) -> None:
        """All of the blob into a new file, its bytes checked against the digest, or none.

        What came before a failure stays beside it as `into` + `.partial`; the next fetch goes on there.
        """

    async def referrers(self, digest: str, artifact_type: str) -> list[Descriptor]:
        """The manifests that say of this one to be about it; of any type when `artifact_type` is empty."""

    async def push_blob(self, blob: Descriptor, source: Path | bytes, progress: Progress) -> None:
        """Nothing is moved when it is there already."""

    async def push_manifest(self, body: bytes, media_type: str, reference: str | None) -> Descriptor:
        """Under a tag, or only under its digest. From then on `referrers` finds one with a `subject`."""


def no_progress(moved: int) -> None:
    """The progress that nobody looks at."""


def no_watch(done: int, total: int) -> None:
    """The watch that nobody keeps."""


def counting(watch: Watch, total: int) -> Progress:
    """The progress of all that belongs together."""
    done = 0

    def progress(moved: int) -> None:
        nonlocal done
        done += moved
        watch(done, total)

    return progress
