"""`plughost gw`: commands for a gateway."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import click

from plughost.cli.commands.vai.invoke import default_state_folder
from plughost.cli.options.groups import Group
from plughost.cli.ui import output
from plughost.errors import InvalidSpec


@click.group(cls=Group)
def gw() -> None:
    """Commands for a gateway (`plughost serve`)."""


@gw.group(cls=Group)
def keys() -> None:
    """API keys of a gateway."""


@keys.command()
@click.option(
    "--data",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Data folder of the gateway. Default: the folder of `plughost serve`.",
)
@click.option("--database", metavar="URL", help="postgresql:// URL, if the gateway has one.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def recover(folder: Path | None, database: str | None, as_json: bool) -> None:
    """Make another administrator's key, if admin.key is lost.

    Only who can write to the data folder can do this. Keys that exist stay valid: revoke a stolen one.
    """
    place = folder or default_state_folder().with_name("gateway")
    if not place.is_dir():
        raise InvalidSpec(f"there is no folder {place}", hint="give the --data folder of the gateway")
    path = asyncio.run(_recover(str(place), database or os.environ.get("PLUGHOST_DATABASE")))
    if as_json:
        output.answer({"key_file": path})
    else:
        output.print_line(f"the new administrator's key is in {path}")


async def _recover(folder: str, url: str | None) -> str:
    try:
        from plughost.gateway.bootstrap import recover_key
    except ImportError as error:
        raise InvalidSpec(
            f"the gateway needs the package {error.name}", hint="pip install 'plughost[gateway]'"
        ) from error
    from plughost.vai.database.open_database import open_database

    database = open_database(folder, url)
    try:
        return await recover_key(database, folder)
    finally:
        await database.close()
