"""What the operator's grants come to, beside what a manifest declares.

A kaged plugin holds what it was granted. A declaration alone gives nothing, and a grant may add what a
manifest forgot; the operator is told of both. `declared` grants all that the manifest declares, but no
private hosts: those are granted by name.
"""

from __future__ import annotations

from collections.abc import Iterable

from plughost.base.errors import InvalidSpec
from plughost.contracts.kaged import capabilities
from plughost.contracts.kaged.capabilities import NO_NETWORK, Held
from plughost.contracts.kaged.manifest import Manifest

DECLARED = "declared"


def given(words: Iterable[str], manifest: Manifest, plugin: str) -> dict[str, Held]:
    """What each of the words means; InvalidSpec for one that means nothing."""
    listed = list(words)
    if capabilities.contradicts(listed):
        raise InvalidSpec(f"grants: {NO_NETWORK} beside another net: entry", plugin=plugin)
    held = {}
    for word in listed:
        try:
            held[word] = _declared(manifest) if word == DECLARED else capabilities.by_name(word)
        except ValueError as error:
            raise InvalidSpec(f"the grant {word!r:.200} cannot be given: {error}", plugin=plugin) from None
    return held


def _declared(manifest: Manifest) -> Held:
    held = capabilities.together(manifest.capabilities)
    if "/" in (*held.powers.read, *held.powers.write):
        raise ValueError("its manifest wants the whole machine; grant folders and files by name")
    return held


def remarks(words: Iterable[str], manifest: Manifest, held: Held) -> Iterable[str]:
    """What is declared and not granted, and what is granted and not declared."""
    declared = capabilities.together(manifest.capabilities)
    for word in manifest.capabilities:
        if not held.covers(capabilities.parse(word)):
            yield f"declared, but not granted: {word}"
    for word in words:
        if word != DECLARED and not declared.covers(capabilities.parse(word)):
            yield f"granted, though its manifest does not declare it: {word}"
