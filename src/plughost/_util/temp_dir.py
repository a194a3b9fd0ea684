"""The folder for temporary files."""

from __future__ import annotations

import os


def shared_temp_dir() -> str:
    """The temporary folder: $TMPDIR or /tmp. Not tempfile.gettempdir, which creates a test file that a host
    killed at that moment would leave behind."""
    return os.path.abspath(os.environ.get("TMPDIR") or "/tmp")
