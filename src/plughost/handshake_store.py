"""HandshakeStore: keeps what handshakes told can be called, so that the catalogue knows it before the next
start."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path

import msgspec

from plughost._util.untrusted_file import read_regular
from plughost.spec import PluginSpec
from plughost.wire.method_description import MethodDescription

MAX_FILE = 4 << 20
"""Bytes of a file; a larger handshake is not kept."""
MAX_FILES = 1000
"""Files in the folder; beyond that the oldest are removed."""
_OWN = re.compile(r"[0-9a-f]{64}\.")
"""The names of its files."""


def default_folder() -> Path:
    """The folder of this user: in $XDG_CACHE_HOME, or else in `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return Path(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "plughost", "handshakes")


class HandshakeStore:
    """A folder with a file for each plugin: a cache, so what cannot be read or written is not kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, spec: PluginSpec) -> tuple[MethodDescription, ...]:
        """What the last handshake of this plugin told; empty when nothing is kept."""
        try:
            return msgspec.json.decode(
                read_regular(self._file(spec), MAX_FILE), type=tuple[MethodDescription, ...]
            )
        except (OSError, ValueError, RecursionError):
            return ()

    def save(self, spec: PluginSpec, methods: Sequence[MethodDescription]) -> None:
        """Keep what a handshake told."""
        try:
            data = msgspec.json.encode(methods)
        except ValueError:  # half of a character
            return
        if len(data) > MAX_FILE:
            return
        file = self._file(spec)
        temporary = file.with_suffix(f".{secrets.token_hex(4)}")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
                opened.write(data)
            temporary.replace(file)
            self._prune()
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _prune(self) -> None:
        """Remove the oldest files beyond the limit, and nothing that others keep in the folder."""
        with os.scandir(self._folder) as entries:
            files = [
                (entry.stat(follow_symlinks=False).st_mtime, entry.path)
                for entry in entries
                if _OWN.match(entry.name) and not entry.is_dir(follow_symlinks=False)
            ]
        for _, path in sorted(files)[: max(len(files) - MAX_FILES, 0)]:
            Path(path).unlink(missing_ok=True)

    def _file(self, spec: PluginSpec) -> Path:
        """Another command, or another folder, is another plugin."""
        identity = msgspec.json.encode((spec.contract, spec.name, tuple(spec.command), spec.cwd, spec.folder))
        return self._folder / f"{hashlib.sha256(identity).hexdigest()}.json"
