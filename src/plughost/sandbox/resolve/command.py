"""Resolves a command to the files that must be visible to run it: program, interpreter, loader, libraries,
nothing else.

Trust decides. What the operator says (the command, PATH, grants) may name any file. What is written in a
file, whoever named that file (shebangs, program headers, symlinks in the plugin's directory), can add files
that are public, the plugin's own, or granted; anything else is refused. `trusted_files.py` defines what is
public.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence

import msgspec

from plughost.errors import LaunchFailed, SandboxUnavailable
from plughost.sandbox.resolve import interpreters, shared_libraries, trusted_files
from plughost.sandbox.resolve.code_dirs import CodeDirs, with_absolute_script
from plughost.sandbox.resolve.elf import Elf, read_elf
from plughost.sandbox.resolve.path_recorder import PathRecorder
from plughost.sandbox.resolve.shared_libraries import LoadedProgram
from plughost.sandbox.resolve.shebang import Shebang, read_shebang, without_env
from plughost.sandbox.resolve.trusted_files import Word

MOST_INTERPRETERS = 5
"""How often a script's interpreter may be a script again: the kernel's own limit."""


class ResolvedCommand(msgspec.Struct, frozen=True):
    """A command with every file that it needs. Real paths, except `path` and the symlinks in `links`."""

    path: str
    """The program to execute, with `argv`."""
    argv: tuple[str, ...]
    code: tuple[str, ...]
    """The plugin's own directories."""
    reads: tuple[str, ...]
    executes: tuple[str, ...]
    """Program files: the command's, its interpreter's, its dynamic loader; granted programs."""
    libraries: tuple[str, ...]
    library_mounts: tuple[str, ...]
    """What to mount to make the libraries visible: their directories where those are public, or else the
    files."""
    links: tuple[tuple[str, str], ...]


class CommandResolver:
    """Resolves one command, once. `stamps` records every file that was looked at and its state then, for the
    cache."""

    def __init__(
        self,
        command: Sequence[str],
        cwd: str | None,
        env: Mapping[str, str],
        execute: tuple[str, ...],
        read: tuple[str, ...],
        cwd_is_plugin_dir: bool,
        command_from_manifest: bool,
        path_from_plugin: bool,
        excluded_file: str | None,
        partial_dirs: tuple[str, ...] = (),
        resolved: tuple[tuple[str, str], ...] = (),
    ) -> None:
        words = without_env(tuple(command))
        self._command = with_absolute_script(words) if cwd is None else words
        self._cwd = cwd
        self._cwd_is_own = cwd_is_plugin_dir
        self._command_is_told = command_from_manifest
        self._path_from_plugin = path_from_plugin
        self._kept_from = excluded_file
        self._env = env
        self._execute = execute
        known = dict(resolved)
        programs = (known.get(path) or os.path.realpath(path) for path in execute)
        self._policy = trusted_files.ExposurePolicy((*programs, *read), partial_dirs)
        self._reads: dict[str, None] = {}
        self._executes: dict[str, None] = {}
        self._programs: list[LoadedProgram] = []
        self._recorder = PathRecorder(self._command[0], self._policy, known)
        self.stamps = self._recorder.stamps

    def run(self) -> ResolvedCommand:
        """Resolve the command; LaunchFailed when a program is missing, SandboxUnavailable when one may not be
        used."""
        start = self._locate(self._command[0])
        code_dirs = CodeDirs(self._command, self._cwd, self._kept_from, self._policy, self._recorder)
        if self._cwd is not None and self._cwd_is_own:
            code_dirs.by_folder(self._cwd)
        elif self._cwd is None and self._command_is_told and os.path.isabs(self._command[0]):
            code_dirs.by_folder(os.path.dirname(self._command[0]))
        if self._command_is_told:
            by_name = "/" not in self._command[0] and interpreters.is_interpreter(start)
            path, argv = self._resolve_chain(start, self._command, Word.OPERATOR if by_name else Word.PLUGIN)
        else:
            if (single_file := code_dirs.by_command(start)) is not None:
                self._expose(single_file, os.path.dirname(single_file), Word.OPERATOR)
            path, argv = self._resolve_chain(start, self._command)
        for granted in self._execute:
            self._resolve_chain(granted, (granted,))
        self._programs += [
            LoadedProgram(path, Elf(elf.kind, None, shared_libraries.STANDING))
            for path, elf, _ in self._programs[:1]
            if elf.loader is not None
        ]
        needed = (self._library(library) for library in shared_libraries.closure(self._programs))
        found = tuple(dict.fromkeys(path for path in needed if path is not None))
        public = {folder: trusted_files.is_public(folder) for folder in map(os.path.dirname, found)}
        return ResolvedCommand(
            path,
            argv,
            tuple(self._policy.code),
            tuple(self._reads),
            tuple(self._executes),
            found,
            tuple(
                dict.fromkeys(folder if public[folder := os.path.dirname(path)] else path for path in found)
            ),
            tuple(self._recorder.links.items()),
        )

    def _locate(self, name: str) -> str:
        """The program's path as the launcher finds it: a bare name on the host's PATH, a relative path from
        the working directory."""
        if "/" in name:
            return os.path.join(self._cwd or os.getcwd(), name.removeprefix("./"))
        found = shutil.which(name, path=os.environ.get("PATH", os.defpath))
        if found is None:
            raise LaunchFailed(
                f"cannot execute {name!r}: not found on PATH",
                hint="install it, or give the command with its path",
            )
        return os.path.abspath(found)

    # Programs and their interpreters

    def _resolve_chain(
        self, path: str, argv: tuple[str, ...], word: Word = Word.OPERATOR
    ) -> tuple[str, tuple[str, ...]]:
        """Add a program with its chain of interpreters; returns what to execute, and its argv.

        `word` tells who named the path. From the first file of the plugin's author on that is the plugin,
        until the operator's PATH resolves an interpreter's name.
        """
        start = path
        by_kernel = False
        script: str | None = None
        for _ in range(MOST_INTERPRETERS + 1):
            real, word = self._program(path, word, script)
            is_authors = self._policy.is_authors(real)
            behind = None if is_authors else interpreters.behind_shim(real, self._cwd, self._env)
            if behind is not None:
                path = behind
                if behind != interpreters.operator_choice(real):
                    word = Word.PLUGIN
                if not by_kernel:  # interpreters find their files by argv[0]
                    start, argv = path, (path, *argv[1:])
                self.stamps[real] = None  # the version may change without the shim: never cached
                continue
            self._executes[real] = None
            elf = read_elf(real)
            line = read_shebang(real) if elf is None else None
            if elf is not None:
                self._add_native(path, real, elf, word)
            if line is None:
                return start, argv  # if it is not a program at all, the kernel reports that
            if line.by_name:
                found = self._by_name(line, real)
                if not by_kernel:
                    argv = (line.interpreter, *line.words, path, *argv[1:])
                    start = found
                path, script = found, None
                word = Word.PLUGIN if self._path_from_plugin else Word.OPERATOR
            else:
                path, script, by_kernel = line.interpreter, real, True
        raise SandboxUnavailable(
            f"the interpreter of {start!r} is a script, whose interpreter is a script in turn, and so on"
        )

    def _program(self, path: str, word: Word, script: str | None) -> tuple[str, Word]:
        """The real path of a program that may be used, and who counts as the author of what is written in it.

        `script` is the file whose shebang names it, if one does.
        """
        if not path.startswith("/"):
            raise SandboxUnavailable(f"the interpreter {path!r} is not an absolute path")
        walked = self._recorder(path)
        if not os.path.isfile(walked.real):
            raise LaunchFailed(
                f"cannot execute {path!r}: it is not a program", hint="check the path of the command"
            )
        after = self._policy.word_after(walked, word)
        if self._policy.may_lead(walked, by_plugin=word is Word.PLUGIN or script is not None):
            return walked.real, after
        if after is Word.OPERATOR and script is not None and self._is_venv_interpreter(script, walked):
            return walked.real, after
        if trusted_files.is_public(walked.real):
            raise SandboxUnavailable(
                f"it tries to run {path}, but the path leads through a folder that is neither part of the "
                "plugin nor public",
                hint="if that is intended, name the program in `command` in a plughost.toml of your own",
            )
        raise SandboxUnavailable(
            f"its program leads to {walked.real}, which is neither part of the plugin nor a public program",
            hint=f"if that is intended, grant it: execute {walked.real}",
        )

    def _is_venv_interpreter(self, script: str, walked: trusted_files.Walk) -> bool:
        """Whether the interpreter is in the virtual environment of the script. A tool that is installed in
        one names its interpreter there, which is a symlink to one that may be anywhere. The target must be an
        interpreter by its name and its content.

        Only for a tool that the operator has named, and that is not from the plugin's author.
        """
        if interpreters.venv_of(script) is None:
            return False
        places = (walked.real, *(link for link, _ in walked.links))
        return (
            any(os.path.dirname(place) == os.path.dirname(script) for place in places)
            and interpreters.is_interpreter(walked.real)
            and read_elf(walked.real) is not None
        )

    def _by_name(self, line: Shebang, script: str) -> str:
        if not interpreters.is_interpreter(line.interpreter):
            raise SandboxUnavailable(
                f"the first line of {script} names {line.interpreter!r}, which is not a known interpreter",
                hint="put the interpreter into `command`",
            )
        found = shutil.which(line.interpreter, path=self._env.get("PATH", os.defpath))
        if found is None:
            raise LaunchFailed(
                f"the first line of {script} names {line.interpreter!r}, which is not found on PATH",
                hint="install it, or set the plugin's PATH to include it",
            )
        return os.path.abspath(found)

    def _add_native(self, path: str, real: str, elf: Elf, word: Word) -> None:
        is_authors = self._policy.is_authors(real)
        prefix = os.path.dirname(os.path.dirname(real))
        prefixes = (*self._policy.code, *self._policy.partial_dirs) if is_authors else (prefix,)
        self._programs.append(LoadedProgram(real, elf, prefixes))
        if elf.loader is not None:
            walked = self._recorder(elf.loader)
            if not self._policy.may_lead(walked, by_plugin=True):
                raise SandboxUnavailable(
                    f"{real} needs the loader {elf.loader}, which is not a public file of the system",
                    hint=f"build it for this system, or statically; or grant it: execute {walked.real}",
                )
            self._executes[walked.real] = None
        if is_authors:
            return
        venv = interpreters.venv_of(f"{self._recorder(os.path.dirname(path)).real}/{os.path.basename(path)}")
        if venv is not None and not self._policy.is_authors(venv):
            for part in ("pyvenv.cfg", "lib", "lib64"):
                self._expose(f"{venv}/{part}", venv, word)
        files = interpreters.interpreter_files(real, shared_libraries.triplet(elf))
        # Root has installed a public program, so root answers for what it names.
        by = Word.OPERATOR if trusted_files.is_public(real) else word
        for folder in files.folders:
            self._expose(folder, prefix, by)
        self._programs += [
            LoadedProgram(module, found, prefixes) for module in files.modules if (found := read_elf(module))
        ]

    # Exposed files

    def _expose(self, path: str, prefix: str, word: Word) -> None:
        """Make a file that belongs to a program readable, if whoever named it may expose it. Private files of
        a prefix come only with a program that the operator has named."""
        if not os.path.exists(path):
            return
        real = self._recorder(path).real
        beneath = trusted_files.is_beneath(real, prefix) and trusted_files.is_plain(real)
        if word is Word.PLUGIN and not self._policy.may_pass(real):
            return
        public = trusted_files.is_public(real) and (
            trusted_files.is_file(real) or trusted_files.is_public(prefix)
        )
        if beneath or public:
            self._reads[real] = None

    def _library(self, library: LoadedProgram) -> str | None:
        """A library's real path; None for one that is visible anyway, or may not be exposed."""
        walked = trusted_files.walk(library.path)
        by_plugin = any(self._policy.is_authors(prefix) for prefix in library.prefixes)
        if self._policy.is_own(walked.real) or not self._policy.may_lead(walked, by_plugin):
            return None
        prefixes = (prefix for prefix in library.prefixes if not trusted_files.is_broad(prefix))
        beneath = any(trusted_files.is_beneath(walked.real, prefix) for prefix in prefixes)
        if not beneath and not trusted_files.is_public(walked.real):
            return None
        return self._recorder(library.path).real
