"""The option --root: the plugins of a root folder, for commands that find a plugin by what it provides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from plughost import config
from plughost.cli.options.targets import Target
from plughost.cli.ui import output
from plughost.contracts.registry import detect_contract, get_contract
from plughost.errors import InvalidSpec
from plughost.spec import PluginSpec

option: Callable[[Any], Any] = click.option(
    "--root",
    type=click.Path(file_okay=False, path_type=Path),
    help=f"Folder of plugin folders. Default: {config.DEFAULT_ROOT}.",
)


def take(
    root: Path | None, words: Sequence[str], target: Target, warn: Callable[[str], object] = output.say
) -> tuple[list[PluginSpec], Sequence[str]]:
    """The plugins meant, and the remaining words: `--root DIR`, a plugin folder as the first word, or the
    plugins of the named configuration file.

    A folder must contain a slash, so that a namespace is never taken for one. `warn` is called with a message
    for each plugin that is left out.
    """
    if root is None and len(words) > 1 and "/" in words[0] and _is_plugin(Path(words[0])):
        return [target.adjusted(target.in_folder(Path(words[0])))], words[1:]
    if root is None and target.file is not None:
        return target.all(()), words
    if root is not None and not root.is_dir():
        raise click.UsageError(f"there is no folder {root}")
    found = config.load_root(root or config.DEFAULT_ROOT)
    if (target.env or target.grants) and len(found.specs) > 1:
        raise click.UsageError(
            "--env and --grant apply to one plugin, not to a whole root: name the plugin's folder"
        )
    for problem in found.problems:
        warn(f"skipped: {problem}")
    return [target.adjusted(spec) for spec in found.specs], words


def find_provider(
    specs: Sequence[PluginSpec], kind: str, word: str, warn: Callable[[str], object] = output.say
) -> PluginSpec | None:
    """The plugin that provides `word`; of several the first by name, with a warning."""
    found = [
        spec for spec in specs if word in get_contract(spec.contract).resolve(spec).provides.get(kind, ())
    ]
    if len(found) > 1:
        others = ", ".join(spec.name for spec in found[1:])
        warn(f"{word!r} is provided by {found[0].name}, which is used, and by {others}")
    return found[0] if found else None


def offered(specs: Sequence[PluginSpec], kind: str) -> list[str]:
    """Everything of a kind that the plugins provide, sorted."""
    return sorted(
        {word for spec in specs for word in get_contract(spec.contract).resolve(spec).provides.get(kind, ())}
    )


def _is_plugin(folder: Path) -> bool:
    try:
        return (folder / config.FILE).is_file() or detect_contract(folder) is not None
    except InvalidSpec:  # it has a manifest, which is wrong
        return True
