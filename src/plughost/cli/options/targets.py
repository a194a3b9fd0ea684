"""The options that select a plugin: a name from plughost.toml, a folder, or a bare command."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from plughost import config
from plughost._util.nearest import did_you_mean
from plughost.contracts.registry import get_contract
from plughost.permissions import parse
from plughost.permissions.access import Access
from plughost.spec import PluginSpec

if TYPE_CHECKING:
    from plughost.sandbox.explain.report import GrantSource


Command = Callable[..., None]


def _absolute_from_environment(
    context: click.Context, option: click.Parameter, file: Path | None
) -> Path | None:
    """Refuses a relative $PLUGHOST_CONFIG: in another working folder it would name a stranger's file."""
    from_environment = context.get_parameter_source(option.name or "") is ParameterSource.ENVIRONMENT
    if file is not None and from_environment and not file.is_absolute():
        raise click.UsageError(f"$PLUGHOST_CONFIG is {str(file)!r}; it must be an absolute path")
    return file


_CHOOSING = {
    "file": click.option(
        "-c",
        "--config",
        "file",
        type=click.Path(path_type=Path),
        envvar="PLUGHOST_CONFIG",
        callback=_absolute_from_environment,
        help="Your plughost.toml. Only a file named here or in $PLUGHOST_CONFIG can grant access. "
        "Default: plughost.toml in this folder, which cannot grant access.",
    ),
    "contract": click.option("--contract", metavar="NAME", help="Contract of the command after `--`."),
    "name": click.option("--name", help="Plugin name for the command after `--`. Default: its file name."),
    "grants": click.option(
        "--grant", "grants", multiple=True, metavar="WORD", help="Grant a capability; can be repeated."
    ),
    "env": click.option(
        "--env", multiple=True, metavar="NAME=VALUE", help="Set an environment variable of the plugin."
    ),
    "cwd": click.option("--cwd", type=click.Path(file_okay=False), help="Working folder of the plugin."),
}
_CONFINING = {
    "sandbox": click.option(
        "--sandbox",
        type=click.Choice(["strict", "landlock", "none"]),
        help="Sandbox class. Default: that of the contract.",
    ),
    "allow": click.option(
        "--allow",
        multiple=True,
        metavar="KIND=WHAT",
        help="Allow access to files or the network, such as read=~/notes or connect=api.example.com:443.",
    ),
    "limit": click.option(
        "--limit",
        multiple=True,
        metavar="NAME=AMOUNT",
        help="Limit a resource, such as memory=256M or processes=8.",
    ),
}


def options(function: Command) -> Command:
    """A decorator that adds the options to select and adjust a plugin; the command gets a `target`."""
    return _with_target(function, {**_CHOOSING, **_CONFINING})


def adjusting(function: Command) -> Command:
    """A decorator that adds only the options to grant and sandbox, for a command with its own folder
    argument."""
    return _with_target(function, {name: _CHOOSING[name] for name in ("file", "grants", "env")} | _CONFINING)


def _with_target(function: Command, offered: Mapping[str, Callable[[Command], Command]]) -> Command:
    @functools.wraps(function)
    def command_with_target(**given: Any) -> None:
        values = {name: given.pop(name) for name in offered}
        function(target=Target(**values, bare=click.get_current_context().obj or ()), **given)

    command: Command = command_with_target
    for option in reversed([*offered.values()]):
        command = option(command)
    return command


class Target(msgspec.Struct):
    """The values of these options, not yet validated."""

    file: Path | None = None
    contract: str | None = None
    name: str | None = None
    grants: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    cwd: str | None = None
    sandbox: str | None = None
    allow: tuple[str, ...] = ()
    limit: tuple[str, ...] = ()
    bare: Sequence[str] = ()

    def running_name(self, words: Sequence[str]) -> str | None:
        """The name of a plugin that a running host may have; None if a new process is meant: a folder, a bare
        command, a file on the command line, or a plugin that these options adjust."""
        source = click.get_current_context().get_parameter_source("file")
        adjusted = (
            self.contract,
            self.name,
            self.grants,
            self.env,
            self.cwd,
            self.sandbox,
            self.allow,
            self.limit,
        )
        new = any(adjusted) or self.bare or source is ParameterSource.COMMANDLINE
        if new or not words or ("/" in words[0] and Path(words[0]).exists()) or words[0] in (".", ".."):
            return None
        return words[0]

    def take(self, words: Sequence[str]) -> tuple[PluginSpec, Sequence[str]]:
        """The selected plugin, and the remaining words for the command itself."""
        if self.bare:
            return self.adjusted(self._bare_spec()), words
        if self.contract is not None:
            raise click.UsageError("--contract is only for a bare command after `--`")
        if not words:
            raise click.UsageError("which plugin? Give a folder, a name from plughost.toml, or -- COMMAND")
        return self.adjusted(self._named(words[0])), words[1:]

    def all(self, words: Sequence[str]) -> list[PluginSpec]:
        """Every plugin named, or without names every plugin in the file."""
        if self.bare:
            spec, rest = self.take(words)
            if rest:
                raise click.UsageError(f"unexpected arguments with a bare command: {' '.join(rest)}")
            return [spec]
        if words:
            return [self.take([word])[0] for word in words]
        return [self.adjusted(spec) for spec in self._file_specs().values()]

    def _bare_spec(self) -> PluginSpec:
        if self.contract is None:
            raise click.UsageError("a bare command needs --contract NAME")
        name = self.name or Path(self.bare[0]).name
        return PluginSpec(contract=self.contract, name=name, command=list(self.bare), cwd=self.cwd)

    def _named(self, word: str) -> PluginSpec:
        folder = Path(word)
        is_path = "/" in word or word in (".", "..")
        if self.file is None and folder.is_dir() and (is_path or not Path(config.FILE).exists()):
            return config.load_folder(folder)
        if self.file is None and not Path(config.FILE).exists():
            raise click.UsageError(
                f"there is no folder {word!r}, and no {config.FILE} here; "
                "`plughost new CONTRACT NAME` makes a new plugin"
            )
        specs = self._file_specs()
        if folder.is_dir() and word not in specs:
            return config.load_folder(folder)
        if word not in specs:
            where = f"in {self.file or config.FILE}{did_you_mean(word, specs)}"
            raise click.UsageError(f"there is no folder {word!r}, and no plugin of that name {where}")
        return specs[word]

    def in_folder(self, folder: Path) -> PluginSpec:
        """The plugin that the named file binds to that folder, or else the one that the folder contains."""
        place = str(folder.resolve())
        bound = {} if self.file is None else config.load(self.file)
        return next((spec for spec in bound.values() if spec.cwd == place), None) or config.load_folder(
            folder
        )

    def _file_specs(self) -> dict[str, PluginSpec]:
        """The plugins of the named file; otherwise of the file here, which may have come with a plugin."""
        if self.file is not None:
            return config.load(self.file)
        path = Path(config.FILE)
        if not path.exists():
            raise click.UsageError(
                f"there is no {config.FILE} in this folder; pass one with -c FILE, or name a plugin folder"
            )
        return config.load_found(path)

    def adjusted(self, spec: PluginSpec) -> PluginSpec:
        """The spec, changed as the command line says."""
        env = {**spec.env, **dict(pair("--env", "NAME=VALUE", word) for word in self.env)}
        has_default_grants = tuple(spec.grants) == get_contract(spec.contract).default_grants
        given = [] if self.grants and has_default_grants else list(spec.grants)
        grants = [*dict.fromkeys((*given, *self.grants))]
        limits = dict(pair("--limit", "NAME=AMOUNT", word) for word in self.limit)
        return msgspec.structs.replace(
            spec,
            env=env,
            grants=grants,
            cwd=self.cwd or spec.cwd,
            cwd_is_plugin_dir=self.cwd is not None or spec.cwd_is_plugin_dir,
            sandbox=self.sandbox or spec.sandbox,
            allow=parse.union(spec.allow, self._allowed()),
            limits=parse.parse_limits({**msgspec.structs.asdict(spec.limits), **limits}),
        )

    def _allowed(self) -> Access:
        allow: dict[str, list[str]] = {}
        for kind, what in (pair("--allow", "KIND=WHAT", word) for word in self.allow):
            allow.setdefault(kind, []).append(what)
        return parse.parse_access(allow, os.getcwd())

    def source(self) -> GrantSource:
        """Which parts of the configuration come from the command line."""
        from plughost.sandbox.explain.report import GrantSource

        return GrantSource(
            file=str(self.file or config.FILE),
            grants=self.grants,
            allow=self._allowed(),
            limits=tuple(pair("--limit", "NAME=AMOUNT", word)[0] for word in self.limit),
            sandbox=self.sandbox is not None,
        )


def pair(option: str, form: str, word: str) -> tuple[str, str]:
    """Splits a word such as NAME=VALUE."""
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise click.UsageError(f"{option} takes {form}, not {word!r}")
    return name, value
