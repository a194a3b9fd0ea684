"""`plughost data`: shows the data kept under a plugin's name, and changes its owner."""

from __future__ import annotations

import os

import click

from plughost._util import data_owner
from plughost.cli.options import targets
from plughost.cli.options.groups import Group
from plughost.cli.ui import output
from plughost.contracts.registry import get_contract
from plughost.errors import InvalidSpec
from plughost.services.storage.service import default_folder, storage_file
from plughost.spec import PluginSpec


@click.group(cls=Group)
def data() -> None:
    """Show the data that plugins store, or change its owner."""


@data.command()
@targets.options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("words", nargs=-1, metavar="TARGET")
def show(target: targets.Target, as_json: bool, words: tuple[str, ...]) -> None:
    """Show where a plugin's data is kept and which folder owns it."""
    spec = _take_spec(target, words)
    kept = [{"path": path, "owner": data_owner.owner_of(path)} for path in _paths(spec)]
    if as_json:
        output.answer(kept)
        return
    for each in kept:
        output.print_line(f"{each['path']}  owner: {each['owner'] or 'none'}")


@data.command()
@targets.options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("words", nargs=-1, metavar="TARGET")
def adopt(target: targets.Target, as_json: bool, words: tuple[str, ...]) -> None:
    """Make a plugin's current folder the owner of its stored data.

    Use it when you have moved a plugin's folder. The previous owner loses access to the data.

    \b
    Example:
      plughost data adopt plugins/notes
    """
    spec = _take_spec(target, words)
    folder = get_contract(spec.contract).resolve(spec).folder
    paths = [path for path in _paths(spec) if os.path.exists(path)]
    if folder is None or not paths:
        raise InvalidSpec(f"no data is kept under the name {spec.name!r}", plugin=spec.name)
    try:
        for path in paths:
            data_owner.adopt(path, folder)
    except OSError as error:
        raise InvalidSpec(f"the owner cannot be recorded: {error}", plugin=spec.name) from error
    if as_json:
        output.answer([{"path": path, "owner": folder} for path in paths])
    else:
        for path in paths:
            output.say(f"{path} now belongs to {folder}")


def _take_spec(target: targets.Target, words: tuple[str, ...]) -> PluginSpec:
    spec, rest = target.take(words)
    if rest:
        raise click.UsageError(f"unexpected: {' '.join(rest)}")
    return spec


def _paths(spec: PluginSpec) -> list[str]:
    """The plugin's data folder, and its storage database."""
    resolved = get_contract(spec.contract).resolve(spec)
    if resolved.folder is None:
        return []
    folders = [] if resolved.sandbox.data is None else [resolved.sandbox.data.path]
    return [*folders, storage_file(default_folder(), spec.name)]
