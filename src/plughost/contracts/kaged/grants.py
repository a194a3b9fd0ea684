"""The effect of the operator's grants, compared with what a kaged manifest declares.

A kaged plugin holds what it was granted. A declaration alone gives nothing, and a grant may add what a
manifest forgot; lints report both. `declared` grants what the manifest declares, except what needs the
operator's explicit grant: private hosts, files that other users cannot read, and anything to write. Those are
granted by name.
"""

from __future__ import annotations

from collections.abc import Iterable

from plughost._util.real_path import real_path
from plughost.contracts.kaged import capabilities
from plughost.contracts.kaged.capabilities import NO_NETWORK, HeldCapabilities
from plughost.contracts.kaged.manifest import KagedManifest
from plughost.errors import InvalidSpec
from plughost.permissions.access import Access
from plughost.permissions.addresses import is_private_host
from plughost.permissions.public_files import is_file, is_public, is_public_folder

DECLARED = "declared"
BY_NAME = "`declared` covers no private hosts, no private files and no writing: grant those by name"


def effect_of(words: Iterable[str], manifest: KagedManifest, plugin: str) -> dict[str, HeldCapabilities]:
    """The effect of each grant, by its text. Raises InvalidSpec for an invalid grant."""
    listed = list(words)
    if capabilities.contradicts(listed):
        raise InvalidSpec(f"grants: {NO_NETWORK} cannot be combined with another net: entry", plugin=plugin)
    held = {}
    for word in listed:
        try:
            held[word] = _declared_effect(manifest) if word == DECLARED else capabilities.by_name(word)
        except ValueError as error:
            raise InvalidSpec(f"the grant {word!r:.200} is not valid: {error}", plugin=plugin) from None
    return held


def _declared_effect(manifest: KagedManifest) -> HeldCapabilities:
    """The effect of the grant `declared`: the public part of what the manifest declares."""
    held = capabilities.together(manifest.capabilities)
    if "/" in (*held.access.read, *held.access.write):
        raise ValueError("its manifest asks for the whole file system; grant folders and files by name")
    asked = held.access
    read = {path: real for path in asked.read if (real := _public_real_path(path, folders=True)) is not None}
    execute = {path: real for path in asked.execute if (real := _public_real_path(path)) is not None}
    public = Access(
        read=tuple(read),
        execute=tuple(execute),
        connect=tuple(each for each in asked.connect if each.host == "*" or not is_private_host(each.host)),
    )
    return HeldCapabilities(held.capabilities, public, {**read, **execute})


def _public_real_path(path: str, folders: bool = False) -> str | None:
    """The real path, if it is public; None otherwise."""
    real = real_path(path)
    return real if (is_file(real) and is_public(real)) or (folders and is_public_folder(real)) else None


def grant_lints(words: Iterable[str], manifest: KagedManifest, held: HeldCapabilities) -> Iterable[str]:
    """Lints: what is declared and not granted, and what is granted and not declared."""
    declared = capabilities.together(manifest.capabilities)
    listed = list(words)
    why = f" ({BY_NAME})" if DECLARED in listed else ""
    for word in manifest.capabilities:
        if not held.covers(capabilities.parse(word)):
            yield f"declared, but not granted: {word}{why}"
    for word in listed:
        if word != DECLARED and not declared.covers(capabilities.parse(word)):
            yield f"granted, though its manifest does not declare it: {word}"
