"""python -m plughost_sdk.vai generate [--check] [--package-id ID] PROGRAM     vai-plugin.toml and schemas/
python -m plughost_sdk.vai vendor FOLDER                                    the SDK into the package's lib/
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from pathlib import Path

from plughost_sdk.vai import generate
from plughost_sdk.vai.plugin import MANIFEST, Plugin
from plughost_sdk.vendor import PLACE, vendor


def main() -> int:
    parser = argparse.ArgumentParser("python -m plughost_sdk.vai", description="Packages for vai.")
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser(
        "generate", help="write vai-plugin.toml and schemas/ from a program's functions"
    )
    making.add_argument("program", type=Path, help="the Python file with `plugin`; it is imported, not run")
    making.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if something would change"
    )
    making.add_argument("--package-id", help="publisher/name, for a package without a manifest")
    bringing = commands.add_parser("vendor", help="copy this SDK into a package's lib/")
    bringing.add_argument("folder", type=Path)
    told = parser.parse_args()
    if told.command == "vendor":
        if not (told.folder / MANIFEST).exists():
            parser.error(f"{told.folder} is not a package: it has no {MANIFEST}")
        print(f"{len(vendor(told.folder, 'vai'))} files in {told.folder / PLACE}")
        return 0
    return _generate(parser, told.program, told.package_id, check=told.check)


def _generate(parser: argparse.ArgumentParser, program: Path, package_id: str | None, *, check: bool) -> int:
    folder = _folder(program)
    manifest = folder / MANIFEST
    if manifest.exists():
        before = manifest.read_text("utf-8")
    elif package_id:
        before = generate.head(package_id)
    else:
        parser.error(f"no {MANIFEST} in {folder} yet: pass --package-id publisher/name")
    plugin = _plugin(parser, program)
    try:
        written = generate.files(plugin, before)
    except generate.NoSchema as error:
        parser.error(str(error))
    if check:
        wrong = generate.stale(folder, written, before)
        for path in wrong:
            print(f"{folder / path} does not match the functions", file=sys.stderr)
        return 1 if wrong else 0
    for path in generate.left_over(folder, written, before):
        os.unlink(folder / path)
        print(f"removed {folder / path}")
    for path, text in written.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text, "utf-8")
        print(f"wrote {folder / path}")
    return 0


def _folder(program: Path) -> Path:
    """The package's: the nearest one with a manifest; of a new one the program's own, or that of `bin`."""
    here = program.resolve().parent
    for folder in (here, *here.parents):
        if (folder / MANIFEST).exists():
            return folder
    return here.parent if here.name in ("bin", "lib") else here


def _plugin(parser: argparse.ArgumentParser, program: Path) -> Plugin:
    """Imported under a name of its own, which types are looked up by."""
    sys.path[:0] = [str(program.resolve().parent), str(_folder(program) / "lib")]
    loader = SourceFileLoader("plughost_sdk_vai_program", str(program))
    sys.modules[loader.name] = module = module_from_spec(ModuleSpec(loader.name, loader))
    loader.exec_module(module)
    found = [each for each in vars(module).values() if isinstance(each, Plugin)]
    if not found:
        parser.error(f"{program} has no plugin = vai.Plugin()")
    return found[0]


if __name__ == "__main__":
    sys.exit(main())
