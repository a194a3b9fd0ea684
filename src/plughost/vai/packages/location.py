"""Package locations, as people write them: a path on this machine or a reference.

    ./x  ../x  /x            a path
    oci://…  oci-layout:…    a reference
    …:…  …@…                 a reference: a tag, a port or a digest is in it
    HOST/…                   a reference: HOST has a dot or is localhost; but *.vai.tar is a file
    anything else            a path: no reference is spelled like that

The spelling alone decides, never what happens to be in the current directory. A digest at the end is checked
in both.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from plughost._util.text import escape_controls
from plughost.errors import InvalidSpec
from plughost.vai.packages.oci.digests import is_digest
from plughost.vai.packages.oci.reference import Reference, parse_reference
from plughost.vai.packages.pack import SUFFIX

DIGEST = "@sha256:"


class LocalPath(msgspec.Struct, frozen=True):
    """The path of a packed file or an OCI layout (a folder, or a tar of one)."""

    path: Path
    digest: str = ""
    """The package must have this digest; empty when none was given."""


def is_explicit_path(text: str) -> bool:
    """Whether the text is explicitly a path, whatever else it could be."""
    return text.startswith(("/", "./", "../")) or text in (".", "..")


def parse_location(text: str) -> LocalPath | Reference:
    """Parses the location of a package; InvalidSpec says what is wrong with it."""
    if is_explicit_path(text):
        return _local(text)
    if not _is_spelled_as_reference(text):
        return LocalPath(Path(text))
    try:
        return parse_reference(text)
    except InvalidSpec as error:
        if os.path.lexists(text):
            error.hint = f"for the file or folder of that name, write ./{escape_controls(text)}"
        raise


def _is_spelled_as_reference(text: str) -> bool:
    if ":" in text or "@" in text:
        return True
    first, slash, _ = text.partition("/")
    if not slash or text.endswith(SUFFIX) or first.startswith("."):
        return False
    return "." in first or first.lower() == "localhost"


def _local(text: str) -> LocalPath:
    """A path, with the digest at its end, which is checked even where it is part of the file's name."""
    name = text.rstrip("/")
    if DIGEST not in name.rpartition("/")[2]:
        return LocalPath(Path(text))
    before, _, digest = name.rpartition("@")
    if not is_digest(digest):
        raise InvalidSpec(
            f"{escape_controls(text)}: a digest is sha256: and 64 lower-case hexadecimal digits"
        )
    whole = Path(name)
    return LocalPath(whole if whole.exists() else Path(before), digest)
