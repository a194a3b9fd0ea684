"""Errors of transfers of OCI content, below `PluginError`.

TransferFailed     the transfer failed: no connection, no answer, no room
├── NotFound       it does not exist
├── Unauthorized   the registry wants other credentials
└── BadContent     the content is not what it was announced to be; nothing of it is kept
    └── NoLayout   a file that never was an OCI layout
"""

from __future__ import annotations

import errno
import os

from plughost.errors import PluginError


class TransferFailed(PluginError):
    """A transfer failed: no connection, no answer, or no disk space."""

    code = "transfer_failed"
    remedy = "check the network and the registry's address, then try again"


class NotFound(TransferFailed):
    """The registry or layout does not have the content."""

    code = "not_found"
    remedy = "check the name and the tag of the reference"


class Unauthorized(TransferFailed):
    """The registry refused the credentials, or requires some."""

    code = "unauthorized"
    remedy = "log in with docker or podman, or set PLUGHOST_REGISTRY_USER and PLUGHOST_REGISTRY_PASSWORD"


class BadContent(TransferFailed):
    """The content does not match its digest, size or type."""

    code = "bad_content"
    remedy = "try again; if that does not help, ask the operator of the registry"


class NoLayout(BadContent):
    """A file is not an OCI layout."""


def disk_error(error: OSError, where: object) -> TransferFailed:
    """The error for a file that could not be read or written."""
    hint = "free disk space and try again" if _is_full(error) else ""
    return TransferFailed(f"{where}: {os.strerror(error.errno) if error.errno else error}", hint=hint)


def _is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)
