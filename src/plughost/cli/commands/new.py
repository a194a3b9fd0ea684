"""`plughost new`: creates a plugin from templates."""

from __future__ import annotations

from pathlib import Path

import click

from plughost.cli.ui import output
from plughost.scaffold import writer


@click.command()
@click.option(
    "--lang", "language", default="python", show_default=True, metavar="LANGUAGE",
    help="Language: python, node, go or rust.",
)  # fmt: skip
@click.option(
    "--dir",
    "parent",
    type=click.Path(path_type=Path),
    default=Path(),
    help="Folder in which to create it. Default: this one.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, failures too.")
@click.argument("contract")
@click.argument("name")
def new(contract: str, name: str, language: str, parent: Path, as_json: bool) -> None:
    """Create a plugin with tests and a README in a new folder.

    CONTRACT is mcptest, rune, ainb, kaged, vai or one that you have installed.

    \b
    Examples:
      plughost new mcptest greeter
      plughost new ainb greeter --lang go
    """
    made = writer.write(contract, name, language, parent)
    if as_json:
        output.answer(made)
        return
    output.print_line(f"{made.folder}: a plugin for {made.contract} in {made.language}. Next:")
    for command in made.next.values():
        output.print_line(f"  {command}")
