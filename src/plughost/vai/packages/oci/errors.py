"""What can go wrong while content moves; below `PluginError` like everything.

TransferFailed     it could not be moved: no connection, no answer, no room
├── NotFound       it is not there
├── Unauthorized   the registry wants other credentials
└── BadContent     what came is not what it was said to be; nothing of it is kept
    └── NoLayout   a file that never was an OCI layout
"""

from __future__ import annotations

import errno
import os

from plughost.errors import PluginError


class TransferFailed(PluginError):
    code = "transfer_failed"


class NotFound(TransferFailed):
    code = "not_found"


class Unauthorized(TransferFailed):
    code = "unauthorized"


class BadContent(TransferFailed):
    code = "bad_content"


class NoLayout(BadContent):
    pass


def no_room(error: OSError, where: object) -> TransferFailed:
    """A file that could not be read or written."""
    hint = "make room on that disk and try again" if _full(error) else ""
    return TransferFailed(f"{where}: {os.strerror(error.errno) if error.errno else error}", hint=hint)


def _full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)
