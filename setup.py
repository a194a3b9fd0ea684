"""Builds the launcher beside the Python code; without a C compiler the Python launcher serves."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Command, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build

SOURCE = "launcher/plughost-launcher.c"
BINARY = "plughost/runtime/plughost-launcher"


class BuildLauncher(Command):
    """Compile the launcher, statically, so that a plugin's environment cannot reach its loader."""

    editable_mode = False
    build_lib: str | None = None

    def initialize_options(self) -> None:
        self.build_lib = None

    def finalize_options(self) -> None:
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    @property
    def target(self) -> Path:
        return Path("src" if self.editable_mode else self.build_lib or "build/lib") / BINARY

    def run(self) -> None:
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if not sys.platform.startswith("linux") or not compiler:
            self.warn("no C compiler: plughost will use its slower Python launcher")
            return
        self.target.parent.mkdir(parents=True, exist_ok=True)
        command = [compiler, "-O2", "-Wall", "-Wextra", "-static", "-s", "-o", str(self.target), SOURCE]
        if subprocess.run(command, check=False).returncode:
            self.target.unlink(missing_ok=True)
            self.warn("the launcher did not compile (is a static libc installed?): using the Python launcher")

    def get_source_files(self) -> list[str]:
        return [SOURCE]

    def get_outputs(self) -> list[str]:
        return [str(self.target)]

    def get_output_mapping(self) -> dict[str, str]:
        return {}


class PlatformWheel(bdist_wheel):
    """One wheel per platform, for any Python: the launcher is a program, not an extension."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


CANARIES = "plugins/canaries/ainb"
PACKED = "plughost/conformance/ainb/canaries"


class PackCanaries(Command):
    """Copy the canaries into the package, for `plughost conform --host`; a checkout has them anyway."""

    editable_mode = False
    build_lib: str | None = None

    def initialize_options(self) -> None:
        self.build_lib = None

    def finalize_options(self) -> None:
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def run(self) -> None:
        if not self.editable_mode:
            target = Path(self.build_lib or "build/lib") / PACKED
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(CANARIES, target, ignore=ignore, dirs_exist_ok=True)

    def get_source_files(self) -> list[str]:
        return [str(path) for path in Path(CANARIES).rglob("*") if path.is_file() and path.suffix != ".pyc"]

    def get_outputs(self) -> list[str]:
        return []

    def get_output_mapping(self) -> dict[str, str]:
        return {}


build.sub_commands += [("build_launcher", None), ("pack_canaries", None)]
setup(cmdclass={"build_launcher": BuildLauncher, "pack_canaries": PackCanaries, "bdist_wheel": PlatformWheel})
