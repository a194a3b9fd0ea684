"""Builds the launcher and its inner step; without a C compiler the Python launcher serves."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Command, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build

FOLDER = "plughost/runtime"
PROGRAMS = {
    "plughost-launcher": ["launcher/plughost-launcher.c", "launcher/forwarder.c", "launcher/relay.c"],
    "plughost-inner": [
        "launcher/plughost-inner.c",
        "launcher/landlock.c",
        "launcher/real_path.c",
        "launcher/watch.c",
        "launcher/wanted.c",
    ],
}
FILTERS = "launcher/seccomp/filters.h"
GENERATOR = "launcher/seccomp/generate.py"
OTHER_SOURCES = [
    "launcher/landlock.h", "launcher/real_path.h", "launcher/watch.h", "launcher/wanted.h",
    "launcher/forwarder.h", "launcher/relay.h",
    "launcher/seccomp/policy.toml", "launcher/seccomp/numbers.toml", GENERATOR,
]  # fmt: skip
OPTIONS = ["-O2", "-Wall", "-Wextra", "-s"]
NO_LAUNCHER = "using the Python launcher, which is slower to start"
NO_INNER = "plugins cannot be confined: the sandbox classes strict and landlock will not start"


class BuildLauncher(Command):
    """Compile both programs, statically, so that a plugin's environment cannot reach their loader."""

    editable_mode = False
    build_lib: str | None = None

    def initialize_options(self) -> None:
        self.build_lib = None

    def finalize_options(self) -> None:
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    @property
    def targets(self) -> dict[str, Path]:
        folder = Path("src" if self.editable_mode else self.build_lib or "build/lib") / FOLDER
        return {name: folder / name for name in PROGRAMS}

    def run(self) -> None:
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if not sys.platform.startswith("linux") or not compiler:
            self.warn(f"no C compiler: {NO_LAUNCHER}; {NO_INNER}")
            return
        subprocess.run([sys.executable, GENERATOR, FILTERS], check=True)
        if not self.compiled(compiler, "plughost-launcher", "-static"):
            self.warn(f"the launcher did not compile (is a static libc installed?): {NO_LAUNCHER}")
        if not self.compiled(compiler, "plughost-inner", "-static"):  # or LD_PRELOAD would be in it
            self.warn(f"plughost-inner did not compile (is a static libc installed?): {NO_INNER}")

    def compiled(self, compiler: str, name: str, *options: str) -> bool:
        target = self.targets[name]
        target.parent.mkdir(parents=True, exist_ok=True)
        command = [compiler, *OPTIONS, *options, "-o", str(target), *PROGRAMS[name]]
        if subprocess.run(command, check=False).returncode == 0:
            return True
        target.unlink(missing_ok=True)
        return False

    def get_source_files(self) -> list[str]:
        return [*(source for sources in PROGRAMS.values() for source in sources), *OTHER_SOURCES]

    def get_outputs(self) -> list[str]:
        return [str(target) for target in self.targets.values()]

    def get_output_mapping(self) -> dict[str, str]:
        return {}


class PlatformWheel(bdist_wheel):
    """One wheel per platform, for any Python: its launcher is a program, not an extension."""

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
