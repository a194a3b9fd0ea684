"""Finds the code directories of a plugin: it may read them whole, and their contents count as the plugin's
word."""

from __future__ import annotations

import os

from plughost.errors import SandboxUnavailable
from plughost.sandbox.resolve import interpreters
from plughost.sandbox.resolve.path_recorder import PathRecorder, stamp
from plughost.sandbox.resolve.trusted_files import ExposurePolicy, is_beneath, is_broad

NO_SCRIPT = ("-c", "-m")
"""Options after which an interpreter takes code or a module's name, not a script."""


class CodeDirs:
    """Adds the code directories of one plugin to `policy.code`. `excluded_file` is a file that no code
    directory may contain."""

    def __init__(
        self,
        command: tuple[str, ...],
        cwd: str | None,
        excluded_file: str | None,
        policy: ExposurePolicy,
        recorder: PathRecorder,
    ) -> None:
        self._command = command
        self._cwd = cwd
        self._excluded_file = excluded_file
        self._policy = policy
        self._recorder = recorder

    def by_folder(self, folder: str) -> None:
        """Add the directory that the operator named; SandboxUnavailable when it holds far more than one
        plugin's code."""
        real = self._recorder(folder).real
        if self._is_shared(real):
            raise SandboxUnavailable(
                f"its folder would be {real}, which contains far more than its own code",
                hint="give the plugin its own folder (cwd), and grant the other files that it needs",
            )
        self._policy.code.append(real)

    def by_command(self, start: str) -> str | None:
        """Add the directory of what the command names: the script, or the program itself.

        Returns the file alone where its directory is shared with others and so is not the plugin's.
        """
        by_interpreter = interpreters.is_interpreter(start) and (self._cwd or len(self._command) > 1)
        if by_interpreter:
            script = _script(self._command)
            start = os.path.join(self._cwd or "", "" if script is None else self._command[script])
            self._recorder.stamps[start] = stamp(start)
            if not start.startswith("/") or not os.path.isfile(start):
                return None
        if (package := self._package(start)) is not None:
            self._policy.code.append(package)
            return None
        if (
            not by_interpreter
            and "/" not in self._command[0]
            and self._policy.may_lead(self._recorder(start), by_plugin=True)
        ):
            return None  # a public program of the system, not the plugin's code
        walked = self._recorder(os.path.dirname(start))
        folder = walked.real
        if any(map(self._policy.is_authors, (folder, *(link for link, _ in walked.links)))):
            return None
        if self._is_shared(folder) or os.path.basename(folder) in ("bin", "sbin"):
            return os.path.join(folder, os.path.basename(start))
        self._policy.code.append(folder)
        return None

    def _package(self, start: str) -> str | None:
        """The package directory of a program from `npm install -g`: `bin/x` is a symlink to
        `lib/node_modules/x/…`."""
        place, real = os.path.realpath(os.path.dirname(start)), os.path.realpath(start)
        modules = f"{os.path.dirname(place)}/lib/node_modules"
        folder = os.path.dirname(real)
        while folder != modules and is_beneath(folder, modules):
            if os.path.isfile(f"{folder}/package.json") and not self._policy.is_own(folder):
                return None if self._is_shared(folder) else folder
            folder = os.path.dirname(folder)
        return None

    def _is_shared(self, folder: str) -> bool:
        return is_broad(folder) or (
            self._excluded_file is not None and is_beneath(self._excluded_file, folder)
        )


def with_absolute_script(command: tuple[str, ...]) -> tuple[str, ...]:
    """Make a relative script path absolute: the command is written for the host's working directory, but
    starts elsewhere."""
    at = _script(command)
    if at is None or not interpreters.is_interpreter(command[0]) or command[at - 1] in NO_SCRIPT:
        return command
    path = os.path.abspath(command[at])
    return (*command[:at], path, *command[at + 1 :]) if os.path.isfile(path) else command


def _script(command: tuple[str, ...]) -> int | None:
    """The index of the script in an interpreter's command."""
    return next((at for at, word in enumerate(command) if at and not word.startswith("-")), None)
