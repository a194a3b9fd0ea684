"""Lines of a journal that the database refuses: set aside in a file, so that they hold up no other line."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from plughost.errors import HostFailed

FILE = "refused-records.jsonl"
MAX_BYTES = 16 << 20
"""Bytes of the file, above which further lines are only reported."""


async def set_aside(folder: str, lines: Sequence[bytes]) -> None:
    """Appends lines to the file in a state folder, and reports that to the event loop's exception handler."""
    if not lines:
        return
    path = os.path.join(folder, FILE)
    try:
        await asyncio.to_thread(_append, path, lines)
        what = f"they are in {path}"
    except OSError as error:
        what = f"{path} cannot be written: {error.strerror}"
    context = {
        "message": "the database refused records",
        "exception": HostFailed(f"the database refused {len(lines)} lines of records; {what}"),
    }
    asyncio.get_running_loop().call_exception_handler(context)


def _append(path: str, lines: Sequence[bytes]) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    with open(os.open(path, flags, 0o600), "ab") as file:
        for line in lines:
            if file.tell() + len(line) < MAX_BYTES:
                file.write(line + b"\n")
