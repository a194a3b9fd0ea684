"""`plughost push` and `plughost pull`: transfers packages to and from registries."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from plughost.cli.commands.vai.packing import as_json_option, plain_http_option, trust_option
from plughost.cli.ui import output
from plughost.cli.ui.progress import ProgressBar


@click.command()
@plain_http_option
@as_json_option
@click.argument("package", metavar="FILE|LAYOUT|REFERENCE")
@click.argument("reference", metavar="TO")
def push(package: str, reference: str, plain_http: bool, as_json: bool) -> None:
    """Publish a package and its signatures in a registry.

    If TO has no tag, the package's version is the tag. A published tag cannot be changed to other contents.
    User and password come from docker's or podman's login, or from PLUGHOST_REGISTRY_USER and
    PLUGHOST_REGISTRY_PASSWORD.

    \b
    Examples:
      plughost push my-plugin-1.0.0.vai.tar registry.example/acme/my-plugin
      plughost push registry.example/acme/my-plugin:1.0.0 other.example/acme/my-plugin
      plughost push my-plugin-1.0.0.vai.tar oci-layout:some/folder
    """
    from plughost.vai.packages import push as publishing
    from plughost.vai.packages.oci.reference import parse_reference

    with ProgressBar("pushing") as bar:
        pushed = asyncio.run(publishing.push(package, parse_reference(reference), bar, plain_http=plain_http))
    if as_json:
        output.answer(pushed)
    else:
        output.print_line(pushed.reference)


@click.command()
@click.option(
    "--out", "into", default=".", metavar="FILE|DIR|oci-layout:DIR",
    help="Where to write: a *.vai.tar file for the package alone, any other *.tar file to include its "
    "signatures. "
    "Default: this folder.",
)  # fmt: skip
@trust_option
@plain_http_option
@as_json_option
@click.argument("reference")
def pull(reference: str, into: str, trust_file: Path | None, plain_http: bool, as_json: bool) -> None:
    """Download a package and its signature from a registry.

    An interrupted download is resumed. If there are several signatures, one by a trusted key is preferred.

    \b
    Examples:
      plughost pull registry.example/acme/my-plugin:1.0.0
      plughost pull registry.example/acme/my-plugin:1.0.0 --out all-of-it.tar
    """
    from plughost.vai.packages import pull as pulling
    from plughost.vai.packages.oci.reference import parse_reference
    from plughost.vai.packages.trust import publishers

    source, who = parse_reference(reference), publishers.read(trust_file)
    with ProgressBar("pulling") as bar:
        pulled = asyncio.run(pulling.pull(source, into, bar, who, plain_http=plain_http))
    if as_json:
        output.answer(pulled)
    else:
        output.print_line(f"{pulled.file} {pulled.release.digest}")
