"""manifest.toml as data. Importing tomllib takes half as long as starting Python: plain manifests do without.

In a plain one each line is a `[section]`, or a bare key with a value that JSON writes the same way, or a
comment. Anything else is tomllib's.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def load(path: str) -> dict[str, Any]:
    """OSError when it cannot be read, ValueError when it is no TOML."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    manifest = plain(text)
    if manifest is None:
        import tomllib

        manifest = tomllib.loads(text)
    return manifest


def plain(text: str) -> dict[str, Any] | None:
    """The manifest, if it is a plain one."""
    manifest: dict[str, Any] = {}
    table = manifest
    decoder = json.JSONDecoder(parse_constant=_refuse)
    try:
        for line in map(str.strip, text.splitlines()):
            if line.startswith("["):
                name, bracket, rest = line[1:].partition("]")
                if not (_is_bare(name) and bracket and _is_comment(rest)) or name in manifest:
                    return None
                table = manifest[name] = {}
            elif not _is_comment(line):
                key, equals, value = line.partition("=")
                key = key.rstrip()
                if not (_is_bare(key) and equals) or key in table:
                    return None
                value = value.lstrip()
                table[key], end = decoder.raw_decode(value)
                if not _is_comment(value[end:]) or isinstance(table[key], (dict, float, type(None))):
                    return None
    except ValueError:
        return None
    return manifest


def _is_bare(word: str) -> bool:
    return bool(word) and word.isascii() and word.replace("_", "").replace("-", "").isalnum()


def _is_comment(text: str) -> bool:
    text = text.strip()
    return not text or text.startswith("#")


def _refuse(word: str) -> None:
    raise ValueError(word)
