"""A package's program: its exports, and who it is."""

from __future__ import annotations

import os
import re
import sys

from plughost_sdk.handlers import log
from plughost_sdk.hooks import Hooked
from plughost_sdk.manifest import plain
from plughost_sdk.vai.export import Export, Exported
from plughost_sdk.vai.session import Session
from plughost_sdk.wire import BrokenWire, LspContentLength

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MANIFEST = "vai-plugin.toml"


class Plugin(Hooked):
    """Handlers run side by side. Each takes its context as the last argument, or leaves it out."""

    wire = LspContentLength

    tool = Exported("input", "context")
    """Takes its input: as its parameters, or as one dataclass, TypedDict or dict. Returns any JSON value."""
    hook = Exported("event", "context")
    """Takes an event, and acknowledges it by returning. It may get one twice: see `context.delivery_id`."""
    compactor = Exported("compaction", "context")
    """Takes `compaction_id`, `source`, `target`, `policy`; returns `vai.Compaction`."""
    harness = Exported("run", "context")
    """Takes `mode`, `target`, `trigger`, `policy` and, to resume, `checkpoint`; returns `vai.Outcome`."""

    def __init__(self, manifest: str | None = None) -> None:
        """`manifest` is the path of vai-plugin.toml, if it is not beside the program or one folder up."""
        self.exports: dict[tuple[str, str], Export] = {}
        super().__init__()
        self._manifest = manifest

    def run(self, wire: LspContentLength | None = None) -> None:
        """Until the host says shutdown, or has gone."""
        identity = _identity(self._manifest or _found())
        if not self.exports:
            raise RuntimeError("a package has at least one export: write @plugin.tool above a function")
        for export in self.exports.values():
            if export.kind == "tool":
                export.signature.check()
        try:
            Session(wire or LspContentLength.claim(), identity, self.exports).serve()
        except BrokenWire as error:
            log(f"the host's stream cannot be read: {error}")
            sys.exit(1)

    def _export(self, export: Export, spelled: str) -> None:
        for (kind, name), other in self.exports.items():
            if name == export.id:
                both = f"{other.handler.name} ({kind}) and {export.handler.name} ({export.kind})"
                raise ValueError(f"two functions for {spelled}, {both}: ids are unique in a package")
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,63}", export.id):
            expected = "up to 64 letters, digits, - and _, with a letter first"
            raise ValueError(f"{spelled}: {export.id!r} is not a valid export id: expected {expected}")
        self.exports[export.kind, export.id] = export


def _found() -> str:
    here = os.path.dirname(os.path.abspath(sys.argv[0]))
    for folder in (here, os.path.dirname(here)):
        if os.path.exists(path := os.path.join(folder, MANIFEST)):
            return path
    raise FileNotFoundError(f"no {MANIFEST} beside the program or one folder up: {here}")


def _identity(path: str) -> dict[str, str]:
    """From the manifest's first lines, which come before any table; tomllib only if they are not plain."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    told: dict[str, Any] | None = plain(text.partition("\n[")[0])
    if told is None:
        import tomllib

        told = tomllib.loads(text)
    for name in ("package_id", "version"):
        if not isinstance(told.get(name), str):
            raise ValueError(f"{path} has no {name}")
    return {"package_id": told["package_id"], "version": told["version"]}
