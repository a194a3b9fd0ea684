"""A child process and its two pipes, with nothing in between."""

from __future__ import annotations

import subprocess


class Child:
    def __init__(self, command: tuple[str, ...]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=0)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.stdin = self._process.stdin.fileno()
        self.stdout = self._process.stdout.fileno()

    def close(self) -> None:
        """Close its stdin and wait for its end."""
        self._process.communicate()
