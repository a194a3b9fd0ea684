"""`plughost serve`: runs the gateway, the control plane over HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import click

from plughost import interrupt
from plughost.cli.commands.vai.invoke import default_state_folder
from plughost.cli.ui import output
from plughost.errors import InvalidSpec

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@click.command()
@click.option(
    "--data",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the database and keys. Default: plughost/gateway in /var/lib or $XDG_STATE_HOME.",
)
@click.option(
    "--database", metavar="URL", help="postgresql:// URL, for several processes. Default: SQLite in --data."
)
@click.option("--port", type=click.IntRange(0, 65535), default=8750, show_default=True, help="TCP port.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Loopback address to listen on.")
@click.option(
    "--grace",
    type=click.FloatRange(0, 600),
    default=10.0,
    show_default=True,
    help="Seconds for requests to finish when the gateway is stopped.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object when the gateway is ready.")
def serve(
    folder: Path | None, database: str | None, port: int, host: str, grace: float, as_json: bool
) -> None:
    """Run the gateway, an HTTP API, until Ctrl-C.

    It serves organisations, projects, API keys, secrets and the audit log. The first start makes an
    organisation, a project and an administrator's key, which is written to admin.key in the data folder.
    """
    if host not in LOOPBACK:
        raise InvalidSpec(
            f"{host} is not a loopback address", hint="put a proxy that speaks TLS before the gateway"
        )
    place = folder or default_state_folder().with_name("gateway")
    interrupt.run(_serve(place, database or os.environ.get("PLUGHOST_DATABASE"), host, port, grace, as_json))


async def _serve(
    folder: Path, database: str | None, host: str, port: int, grace: float, as_json: bool
) -> None:
    try:
        from plughost.gateway.gateway import Gateway
    except ImportError as error:
        raise InvalidSpec(
            f"the gateway needs the package {error.name}", hint="pip install 'plughost[gateway]'"
        ) from error
    asked_to_end = asyncio.Event()
    interrupt.ask_to_end(lambda _: asked_to_end.set(), signal.SIGINT, signal.SIGTERM)
    async with Gateway(str(folder), database=database, host=host, port=port, grace=grace) as gateway:
        if as_json:
            output.answer({"ready": True, "url": gateway.url, "data": str(folder)})
        else:
            _print_ready(gateway.url, folder, gateway.admin_key_file)
        sys.stdout.flush()
        await asked_to_end.wait()


def _print_ready(url: str, folder: Path, new_key: str | None) -> None:
    key_file = folder / "admin.key"
    made = "made now" if new_key is not None else "made by the first start"
    output.print_line(
        f"API: {url}",
        f"administrator's key: {key_file} ({made})",
        f'try: curl -H "Authorization: Bearer $(cat {key_file})" {url}/v1/projects',
        "ready; Ctrl-C stops the gateway",
    )
