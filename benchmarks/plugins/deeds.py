"""What the plugins of the comparison with peers can do: text in, text out."""

from __future__ import annotations

import time
from collections.abc import Callable


def echo(text: str) -> str:
    return text


def hang(text: str) -> str:
    """Works without an end, and minds nothing else."""
    time.sleep(60)
    return text


def noise(text: str) -> str:
    """The line that somebody forgot in there."""
    print("loading the model ...", flush=True)
    return text


def huge(text: str) -> str:
    """That many bytes."""
    return "x" * int(text)


def child(text: str) -> str:
    """Starts a process of its own and leaves it to sleep."""
    import subprocess  # late: it would be half of a small plugin's start

    null = subprocess.DEVNULL
    subprocess.Popen(["sleep", "60"], stdin=null, stdout=null, stderr=null)
    return text


DEEDS: dict[str, Callable[[str], str]] = {deed.__name__: deed for deed in (echo, hang, noise, huge, child)}
