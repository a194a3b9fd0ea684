"""Interpreters: their standard libraries, virtual environments, and the shims of version managers (pyenv,
nodenv, rbenv)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from plughost.sandbox.resolve.elf import open_file

MOST_MODULES = 256

_PYTHON = re.compile(r"(?:python|pypy)(?P<version>[0-9]+(?:\.[0-9]+)?)?[a-z]?")
_NAMES = re.compile(
    r"(?:python|pypy)[0-9.]*[a-z]?|node(?:js)?|bun|deno|java|ruby[0-9.]*|perl[0-9.]*|php[0-9.]*|lua[0-9.]*|"
    r"sh|bash|dash|ash|zsh|ksh|busybox|tclsh[0-9.]*|guile|julia|Rscript"
)
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}")
_MANAGERS = {"pyenv": ".python-version", "nodenv": ".node-version", "rbenv": ".ruby-version"}


class InterpreterFiles(NamedTuple):
    """What an interpreter needs besides its program file; some of it may not exist."""

    folders: tuple[str, ...] = ()
    """Files and directories to read."""
    modules: tuple[str, ...] = ()
    """Its own shared libraries that are loaded at run time."""


def is_interpreter(program: str) -> bool:
    """Whether a program is a known interpreter, by its file name."""
    return _NAMES.fullmatch(os.path.basename(program)) is not None


def interpreter_files(program: str, triplet: str) -> InterpreterFiles:
    """The files of the interpreter with this real path; empty for a program that needs none."""
    name, prefix = os.path.basename(program), os.path.dirname(os.path.dirname(program))
    if (python := _PYTHON.fullmatch(name)) is not None:
        return _python(prefix, python["version"] or "")
    if name in ("node", "nodejs") and prefix == "/usr":
        return InterpreterFiles(("/usr/share/nodejs",))
    if name == "java" and os.path.exists(f"{prefix}/lib/modules"):
        folders = (f"{prefix}/lib", f"{prefix}/conf", f"{prefix}/release", *_java_settings(f"{prefix}/conf"))
        modules = [*_modules(f"{prefix}/lib"), *_modules(f"{prefix}/lib/server")]
        return InterpreterFiles(folders, tuple(modules))
    if name.startswith("perl") and prefix == "/usr":
        lib = f"/usr/lib/{triplet}"
        return InterpreterFiles(
            (f"{lib}/perl-base", f"{lib}/perl", f"{lib}/perl5", "/usr/share/perl", "/usr/share/perl5")
        )
    return InterpreterFiles()


def venv_of(program: str) -> str | None:
    """The virtual environment that contains a path such as `…/bin/python`; None when there is none."""
    folder = os.path.dirname(os.path.dirname(program))
    return folder if os.path.isfile(f"{folder}/pyvenv.cfg") else None


def behind_shim(shim: str, cwd: str | None, env: Mapping[str, str]) -> str | None:
    """The program that a version manager's shim runs, found as the manager finds it; None when the file is
    not a shim.

    A file in the plugin's directory or a variable in its environment may choose one of the installed
    versions: then that is not the operator's choice.
    """
    manager = _manager(shim)
    if manager is None:
        return None
    return _program_of_version(
        shim, env.get(f"{manager.upper()}_VERSION") or _version_file(cwd, _MANAGERS[manager])
    )


def operator_choice(shim: str) -> str | None:
    """The program that a shim runs by the host's own environment and the manager's settings."""
    manager = _manager(shim)
    return (
        None
        if manager is None
        else _program_of_version(shim, os.environ.get(f"{manager.upper()}_VERSION", ""))
    )


def _manager(shim: str) -> str | None:
    folder = os.path.dirname(shim)
    manager = os.path.basename(os.path.dirname(folder)).lstrip(".")
    return manager if os.path.basename(folder) == "shims" and manager in _MANAGERS else None


def _program_of_version(shim: str, chosen: str) -> str | None:
    """The program of the chosen version, or else of the manager's default version."""
    folder, name = os.path.split(shim)
    root = os.path.dirname(folder)
    for version in re.split(r"[:\s]+", chosen or _text(f"{root}/version")):
        if not _VERSION.fullmatch(version):
            continue
        for installed in _matching_versions(f"{root}/versions", version):
            if os.path.exists(found := f"{root}/versions/{installed}/bin/{name}"):
                return found
    return None


def _matching_versions(versions: str, wanted: str) -> list[str]:
    """That version, or the newest one that it is a prefix of."""
    if os.path.isdir(f"{versions}/{wanted}"):
        return [wanted]
    numbers = re.compile(re.escape(wanted) + r"\.([0-9]+)")
    found = [(int(match[1]), name) for name in _list_dir(versions) if (match := numbers.fullmatch(name))]
    return [name for _, name in sorted(found, reverse=True)]


def _version_file(cwd: str | None, file: str) -> str:
    folder = cwd or os.getcwd()
    for _ in range(64):
        if text := _text(f"{folder}/{file}"):
            return text
        if folder == "/":
            break
        folder = os.path.dirname(folder)
    return ""


def _text(path: str) -> str:
    fd = open_file(path)
    if fd is None:
        return ""
    try:
        return os.fsdecode(os.pread(fd, 1024, 0)).strip()
    finally:
        os.close(fd)


def _python(prefix: str, version: str) -> InterpreterFiles:
    for lib in ("lib", "lib64"):
        for name in sorted(_list_dir(f"{prefix}/{lib}"), reverse=True):
            match = _PYTHON.fullmatch(name)
            if match is None or not (match["version"] or "").startswith(version):
                continue
            own = f"{prefix}/{lib}/{name}"
            if not os.path.exists(f"{own}/os.py"):
                continue
            folders = [own]
            if prefix == "/usr":
                folders += ["/usr/lib/python3", f"/usr/local/lib/{name}"]
            if lib == "lib64":
                folders.append(f"{prefix}/lib/{name}")
            return InterpreterFiles(tuple(folders), tuple(_modules(f"{own}/lib-dynload")))
    return InterpreterFiles()


def _java_settings(folder: str) -> list[str]:
    """Debian keeps Java's settings in a directory of /etc, with a symlink to each of them."""
    for name in _list_dir(folder):
        path = f"{folder}/{name}"
        if os.path.islink(path) and (real := os.path.realpath(path)).startswith("/etc/"):
            return ["/".join(real.split("/")[:3])]
    return []


def _modules(folder: str) -> Iterator[str]:
    names = sorted(name for name in _list_dir(folder) if name.endswith(".so"))
    return (f"{folder}/{name}" for name in names[:MOST_MODULES])


def _list_dir(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
