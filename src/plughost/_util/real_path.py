"""Where a path leads, found out once: whoever keeps a path to use it later keeps what this returns."""

from __future__ import annotations

import os

from plughost.errors import InvalidSpec


def real_path(path: str | os.PathLike[str]) -> str:
    """The path without symlinks, whether all of it is there or not; InvalidSpec when that cannot be told,
    as when somebody replaces a part of it at that moment."""
    try:
        return os.path.realpath(path)
    except ValueError:
        raise InvalidSpec(f"no file can have the path {os.fspath(path)!r:.200}") from None
    except OSError as error:
        raise InvalidSpec(
            f"{os.fspath(path)} was replaced while it was looked at: {error.strerror}",
            hint="try again; if it happens again, find out who may write there",
        ) from error
