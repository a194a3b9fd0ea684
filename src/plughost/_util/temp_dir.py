"""Where things go that do not last."""

from __future__ import annotations

import os


def shared_temp_dir() -> str:
    """Not tempfile.gettempdir, which tries folders out with a file that a host killed then would leave."""
    return os.path.abspath(os.environ.get("TMPDIR") or "/tmp")
