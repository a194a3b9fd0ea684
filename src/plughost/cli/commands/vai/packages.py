"""`plughost install` and `plughost packages`: installs, lists, compares and removes packages."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from plughost.cli.commands.vai.packing import as_json_option, plain_http_option, trust_option
from plughost.cli.options.groups import Group
from plughost.cli.ui import output
from plughost.cli.ui.progress import ProgressBar

if TYPE_CHECKING:
    from plughost.vai.packages.diff import Value
    from plughost.vai.packages.store.installed import InstalledRelease
    from plughost.vai.packages.store.store import Store

store_option = click.option(
    "--store", "root", type=click.Path(path_type=Path), metavar="DIR",
    help="Folder of installed packages. Default: in /var/lib for root, else in $XDG_DATA_HOME.",
)  # fmt: skip
CARD = ("package_id", "version", "publisher", "posture", "why", "key_id", "source", "digest", "path")
MARKS = {"added": "+", "removed": "-", "changed": "~", "mode": "x"}


@click.command()
@store_option
@trust_option
@click.option(
    "--development",
    is_flag=True,
    help="Also install an untrusted package. It runs only where trust.toml has mode = development.",
)
@click.option("--locked", is_flag=True, help="Install only what the lock file pins.")
@click.option("--save", is_flag=True, help="Pin this release and its key in the lock file.")
@click.option(
    "--lock-file",
    type=click.Path(path_type=Path),
    default=Path("plughost-packages.lock"),
    show_default=True,
    help="The lock file.",
)
@plain_http_option
@as_json_option
@click.argument("package", metavar="FILE|LAYOUT|REFERENCE")
def install(
    package: str,
    root: Path | None,
    trust_file: Path | None,
    development: bool,
    locked: bool,
    save: bool,
    lock_file: Path,
    plain_http: bool,
    as_json: bool,
) -> None:
    """Install a package that has a trusted signature.

    \b
    Examples:
      plughost install my-plugin-1.0.0.vai.tar
      plughost install registry.example/acme/my-plugin:1.0.0 --locked
    """
    from plughost.vai.packages import locate, lockfile
    from plughost.vai.packages.install import InstallResult, install
    from plughost.vai.packages.trust import publishers

    if locked and save:
        raise click.UsageError(
            "give either --locked (install what is pinned) or --save (pin what is installed)"
        )
    who = publishers.read(trust_file)
    if development:
        who = msgspec.structs.replace(who, mode="development")
    if save:
        lockfile.check_writable(lock_file)
    pinned = lockfile.read(lock_file) if locked or (save and lock_file.exists()) else None
    store = _store(root)

    async def enter() -> InstallResult:
        async with locate.open_package(package, plain_http=plain_http) as place:
            return await install(place, store, who, pins=pinned if locked else None, watch=bar)

    with ProgressBar("installing") as bar:
        entered = asyncio.run(enter())
    release, verdict = entered.installed.release, entered.verdict
    if save:
        lockfile.save(lock_file, release, verdict)
    if as_json:
        where = str(entered.installed.package)
        output.answer({**msgspec.to_builtins(release), "posture": verdict.posture, "path": where})
        return
    output.print_line(f"{release} {release.digest}")
    if verdict.posture != "trusted":
        output.say(f"{release} is installed, but cannot be used: {verdict.why}")


@click.group(cls=Group)
def packages() -> None:
    """List, show, compare and remove installed packages."""


@packages.command()
@store_option
@trust_option
@as_json_option
def ls(root: Path | None, trust_file: Path | None, as_json: bool) -> None:
    """List installed packages and the state of their signatures.

    Exits with 1 if one is damaged.
    """
    store = _store(root)
    rows = [_row(store, installed, trust_file) for installed in store.installed()]
    damaged = [row for row in rows if not row["intact"]]
    if as_json:
        output.answer(rows)
    else:
        for row in rows:
            output.print_line(f"{row['package_id']}@{row['version']}  {row['posture']}  {row['digest']}")
        for row in damaged:
            output.say(f"{row['package_id']}@{row['version']} is damaged: {row['damage']}")
        if damaged:
            output.say(f"hint: {damaged[0]['remedy']}")
    if damaged:
        sys.exit(1)


@packages.command()
@store_option
@trust_option
@as_json_option
@click.argument("package", metavar="PACKAGE[@VERSION]")
def show(package: str, root: Path | None, trust_file: Path | None, as_json: bool) -> None:
    """Show an installed package and check that it is unchanged.

    Exits with 1 if it is not.
    """
    store = _store(root)
    installed = _find(store, package)
    row = {**_row(store, installed, trust_file), "path": str(installed.package)}
    intact = row["intact"]
    if intact:
        manifest = installed.manifest
        row["manifest"] = manifest
        row["source"] = manifest.source
    if as_json:
        output.answer(row)
    else:
        for name in CARD:
            if row.get(name):
                output.print_line(f"{name:10} {row[name]}")
        for export in manifest.exports if intact else ():
            asks = msgspec.to_builtins(export.permissions)
            words = ", ".join(f"{key} {_format_value(value)}" for key, value in asks.items() if value)
            output.print_line(f"{export.kind:10} {export.id}: {words}")
        if not intact:
            output.say(f"hint: {row['remedy']}")
    if not intact:
        sys.exit(1)


@packages.command()
@store_option
@click.option(
    "--forget",
    is_flag=True,
    help="Also forget the version number, so that it can be installed again with different contents.",
)
@as_json_option
@click.argument("names", nargs=-1, required=True, metavar="PACKAGE[@VERSION]...")
def rm(names: tuple[str, ...], root: Path | None, forget: bool, as_json: bool) -> None:
    """Remove installed packages.

    A version that was removed can be installed again only with the same contents, unless you --forget it.
    """
    store = _store(root)
    found = [_find(store, name) for name in names]
    for installed in found:
        store.remove(installed, forget=forget)
    if as_json:
        output.answer({"removed": [installed.release for installed in found]})


@packages.command()
@store_option
@as_json_option
@click.argument("before", metavar="PACKAGE@VERSION")
@click.argument("after", metavar="PACKAGE@VERSION")
def diff(before: str, after: str, root: Path | None, as_json: bool) -> None:
    """Compare two installed versions.

    Shows changed files, permissions, manifest fields and schemas.
    """
    from plughost.vai.packages.diff import diff

    store = _store(root)
    old, new = _find(store, before), _find(store, after)
    for installed in (old, new):
        store.check(installed)
    found = diff(old, new)
    if as_json:
        output.answer(found)
        return
    _print_changes("permission", found.permissions)
    for schema in found.schemas:
        output.print_line(f"schema     {MARKS[schema.change]} {schema.export}.{schema.field} ({schema.path})")
    _print_changes("manifest", found.manifest)
    for file in found.files:
        output.print_line(f"file       {MARKS[file.change]} {file.path}")


def _store(root: Path | None) -> Store:
    from plughost.vai.packages.store import store

    return store.Store((root or store.default_root()).absolute()).open()


def _find(store: Store, name: str) -> InstalledRelease:
    package_id, _, version = name.partition("@")
    return store.find(package_id, version)


def _row(store: Store, installed: InstalledRelease, trust_file: Path | None) -> dict[str, Any]:
    """An installed package as a table row. A signature does not count for damaged files: those are
    `damaged`."""
    from plughost.vai.packages.trust import publishers, signature

    verdict = signature.verify(
        installed.envelope, installed.release, publishers.read(trust_file), publishers.now()
    )
    damage = store.damage(installed)
    posture = verdict.posture if damage is None else "damaged"
    return {
        **msgspec.to_builtins(installed.release),
        "publisher": installed.release.publisher,
        "posture": posture,
        "available": posture == "trusted",
        "key_id": verdict.key_id,
        "why": verdict.why if damage is None else damage,
        "intact": damage is None,
        "damage": damage,
        "remedy": None if damage is None else installed.damaged(damage).hint,
    }


def _print_changes(what: str, values: list[Value]) -> None:
    """Prints changed values; an absent and an empty value are the same."""
    for value in values:
        before, after = _format_value(value.before), _format_value(value.after)
        if before != after:
            output.print_line(f"{what:10} {value.field}: {before} → {after}")


def _format_value(value: Any) -> str:
    if isinstance(value, list):
        value = " ".join(value)
    return str(value) if value not in (None, "") else "none"
