"""ContentStore: the protocol of what holds OCI content, and descriptors of that content."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

Progress = Callable[[int], object]
"""Called with the number of bytes transferred; negative when some must be transferred again."""
Watch = Callable[[int, int], object]
"""Called with the bytes transferred so far, and the total."""

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
EMPTY = "application/vnd.oci.empty.v1+json"
"""The config of an artifact that has none: the two bytes `{}`."""

MAX_MANIFEST = 4 << 20
MAX_BLOB = 1 << 40


class Descriptor(msgspec.Struct, frozen=True, omit_defaults=True):
    """An OCI descriptor: media type, digest and size of a piece of content."""

    mediaType: str
    digest: str
    """`sha256:` and 64 hexadecimal digits."""
    size: int
    annotations: dict[str, str] = {}
    artifactType: str = ""


class ContentStore(Protocol):
    """A store of OCI content: a layout folder, a layout tar, a repository of a registry."""

    async def manifest(self, reference: str) -> tuple[Descriptor, bytes]:
        """A manifest by tag or digest, verified against its digest; `NotFound` when there is none.

        A layout also accepts the empty reference: its only artifact, signatures and the like left aside.
        """

    async def fetch(self, blob: Descriptor, into: Path, progress: Progress) -> None:
        """Fetches a blob into a new file, verified against its digest, or not at all.

        After a failure the partial content stays as `into` + `.partial`, and the next fetch resumes there.
        """

    async def referrers(self, digest: str, artifact_type: str) -> list[Descriptor]:
        """The manifests whose subject is this digest; of any type when `artifact_type` is empty."""

    async def push_blob(self, blob: Descriptor, source: Path | bytes, progress: Progress) -> None:
        """Stores a blob; transfers nothing when it is there already."""

    async def push_manifest(self, body: bytes, media_type: str, reference: str | None) -> Descriptor:
        """Stores a manifest under a tag, or only under its digest. One with a `subject` is then among the
        `referrers`."""


def no_progress(moved: int) -> None:
    """A progress callback that does nothing."""


def no_watch(done: int, total: int) -> None:
    """A watch callback that does nothing."""


def counting(watch: Watch, total: int) -> Progress:
    """A progress callback that adds up the bytes of several transfers for `watch`."""
    done = 0

    def progress(moved: int) -> None:
        nonlocal done
        done += moved
        watch(done, total)

    return progress
