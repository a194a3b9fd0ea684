"""real_path: resolves symlinks once. Code that stores a path for later use stores the resolved path."""

from __future__ import annotations

import os

from plughost.errors import InvalidSpec


def real_path(path: str | os.PathLike[str]) -> str:
    """The path without symlinks, whether it exists or not. Raises InvalidSpec when it cannot be resolved,
    such as when a part of it is replaced at that moment."""
    try:
        return os.path.realpath(path)
    except ValueError:
        raise InvalidSpec(f"{os.fspath(path)!r:.200} is not a valid file path") from None
    except OSError as error:
        raise InvalidSpec(
            f"{os.fspath(path)} was replaced while it was being checked: {error.strerror}",
            hint="try again; if it happens again, find out who can write to that folder",
        ) from error
