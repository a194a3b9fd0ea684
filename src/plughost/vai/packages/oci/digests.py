"""SHA-256 digests of OCI content: parsing, computing and checking."""

from __future__ import annotations

import hashlib
import re

from plughost.vai.packages.oci.content_store import Descriptor
from plughost.vai.packages.oci.errors import BadContent

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def is_digest(text: str) -> bool:
    """Whether a text is `sha256:` and 64 lower-case hexadecimal digits."""
    return _DIGEST.fullmatch(text) is not None


def hex_of(digest: str) -> str:
    """The hexadecimal digits of a digest, safe as a file name."""
    if not is_digest(digest):
        raise BadContent(f"{digest[:80]!a} is not a sha256 digest")
    return digest.removeprefix("sha256:")


def digest_of(data: bytes) -> str:
    """The digest of the bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def describe(data: bytes, media_type: str, *, artifact_type: str = "") -> Descriptor:
    """The OCI descriptor of the bytes."""
    return Descriptor(media_type, digest_of(data), len(data), artifactType=artifact_type)


def check(data: bytes, digest: str) -> None:
    """Raises BadContent unless the bytes have this digest."""
    found = digest_of(data)
    if found != digest:
        raise BadContent(f"expected content with digest {digest}, got {found}")
