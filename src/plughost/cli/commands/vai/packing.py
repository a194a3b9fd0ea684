"""`plughost pack`, `keygen`, `sign`, `verify`: builds, signs and verifies package files."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click
import msgspec

from plughost.cli.ui import output
from plughost.cli.ui.progress import ProgressBar

POSTURES = {
    "trusted": "signed and trusted",
    "unknown_key": "signed by an unknown key",
    "unsigned": "unsigned",
    "altered": "altered",
    "invalid": "invalid",
}

plain_http_option = click.option(
    "--plain-http", is_flag=True, help="Use HTTP without TLS, even if the registry is on another machine."
)
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, failures too.")
trust_option = click.option(
    "--trust", "trust_file", type=click.Path(path_type=Path), metavar="FILE",
    help="File of trusted keys. Default: trust.toml in /etc/plughost for root, else in $XDG_CONFIG_HOME.",
)  # fmt: skip


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path(),
    metavar="PATH",
    help="Folder or *.vai.tar file to write. Default: this folder.",
)
@as_json_option
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
def pack(folder: Path, out: Path, as_json: bool) -> None:
    """Pack a plugin folder into one file, NAME-VERSION.vai.tar.

    The same folder gives the same bytes on every machine.

    \b
    Examples:
      plughost pack plugins/my-plugin
      plughost pack . --out dist
    """
    from plughost.vai.packages.pack import pack

    packed = pack(folder, out)
    if as_json:
        output.answer(packed)
    else:
        output.print_line(f"{packed.file} {packed.digest}")


@click.command()
@as_json_option
@click.argument("file", type=click.Path(path_type=Path))
def keygen(file: Path, as_json: bool) -> None:
    """Make a key pair for signing packages.

    FILE gets the private key. FILE.pub and stdout get the public key, for the trust.toml of others.

    \b
    Example:
      plughost keygen ~/.config/plughost/signing.key
    """
    from plughost.vai.packages.trust import keys

    public = keys.generate(file)
    if as_json:
        output.answer({"key": public.text, "key_id": public.id, "file": str(file)})
    else:
        output.print_line(public.text)


@click.command()
@click.option(
    "--key", required=True, type=click.Path(path_type=Path), help="Private key made by `plughost keygen`."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="File to write. Default: marketplace.signature.json beside the package.",
)
@plain_http_option
@as_json_option
@click.argument("package", metavar="FILE|LAYOUT|REFERENCE")
def sign(package: str, key: Path, out: Path | None, plain_http: bool, as_json: bool) -> None:
    """Sign a package.

    Writes marketplace.signature.json beside the file, or adds the signature to an OCI layout or registry.

    \b
    Example:
      plughost sign my-plugin-1.0.0.vai.tar --key signing.key
    """
    from plughost.vai.packages import locate
    from plughost.vai.packages import sign as signing
    from plughost.vai.packages.trust import keys, publishers

    private = keys.read_private(key)

    async def signed() -> signing.Signed:
        async with locate.open_package(package, plain_http=plain_http) as place:
            return await signing.sign(place, private, publishers.now(), out, bar)

    with ProgressBar("signing") as bar:
        answer = asyncio.run(signed())
    if as_json:
        output.answer(answer)


def vai_plugin_sign() -> None:
    """The console script `vai-plugin-sign`: the same as `plughost sign`."""
    from plughost.cli.main import main

    main(["sign", *sys.argv[1:]])


@click.command()
@trust_option
@plain_http_option
@as_json_option
@click.argument("package", metavar="FILE|LAYOUT|REFERENCE")
def verify(package: str, trust_file: Path | None, plain_http: bool, as_json: bool) -> None:
    """Check a package's contents and its signature.

    Exits with 1 if it is incomplete, altered or has no trusted signature.

    \b
    Example:
      plughost verify my-plugin-1.0.0.vai.tar --trust trust.toml
    """
    from plughost.vai.packages import locate
    from plughost.vai.packages.trust import publishers
    from plughost.vai.packages.verify import Verified, verify_package

    who = publishers.read(trust_file)

    async def found() -> Verified:
        async with locate.open_package(package, plain_http=plain_http) as place:
            return await verify_package(place, who, watch=bar)

    with ProgressBar("verifying") as bar:
        verified = asyncio.run(found())
    verdict, release = verified.verdict, verified.release
    if as_json:
        output.answer({**msgspec.to_builtins(verdict), "release": release})
    else:
        by = f" by {verdict.publisher} ({verdict.key_id[:16]})" if verdict.posture == "trusted" else ""
        why = f": {verdict.why}" if verdict.why else ""
        output.print_line(f"{release or package}: {POSTURES[verdict.posture]}{by}{why}")
    if verdict.posture != "trusted":
        sys.exit(1)
