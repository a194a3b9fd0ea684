"""Builds the launcher and its inner step; without a C compiler the Python launcher serves.

Nothing of an earlier build is used: each one has a folder of its own, and `build/` is not read.
"""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from setuptools import Command, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build

FOLDER = "plughost/engine/launcher"
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
REMEDY = "Install a C compiler with a static libc (Debian: apt install gcc libc6-dev), then build again."
NO_INNER = "plugins cannot be confined: the sandbox classes strict and landlock will not start"


class FreshBuild(build):
    """Builds in a new folder, so that no file of an earlier build gets into a wheel."""

    def finalize_options(self) -> None:
        if self.build_base == "build":  # the default: nobody has asked for another
            self.build_base = tempfile.mkdtemp(prefix="plughost-build-")
            atexit.register(shutil.rmtree, self.build_base, ignore_errors=True)
        super().finalize_options()


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
        for target in self.targets.values():
            target.unlink(missing_ok=True)  # one of an earlier build in the source tree
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if not sys.platform.startswith("linux") or not compiler:
            self.lost(f"there is no C compiler: {NO_LAUNCHER}; {NO_INNER}")
            return
        subprocess.run([sys.executable, GENERATOR, FILTERS], check=True)
        if not self.compiled(compiler, "plughost-launcher", "-static"):
            self.lost(f"the launcher did not compile (is a static libc installed?): {NO_LAUNCHER}")
        if not self.compiled(compiler, "plughost-inner", "-static"):  # or LD_PRELOAD would be in it
            self.lost(f"plughost-inner did not compile (is a static libc installed?): {NO_INNER}")

    def lost(self, what: str) -> None:
        """Say so loudly. pip shows it with -v only, so `plughost doctor` says it again."""
        line = "!" * 100
        print(f"{line}\nplughost: {what}.\n{REMEDY}\n{line}", file=sys.stderr, flush=True)

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


PACKED = {
    "plugins/canaries/ainb": "plughost/conformance/ainb/canaries",  # for `plughost conform --host`
    "sdk/python/src/plughost_sdk": "plughost/scaffold/sdk/plughost_sdk",  # for `plughost new`
}


class PackFolders(Command):
    """Copy folders from elsewhere in the repository into the package; a checkout has them anyway."""

    editable_mode = False
    build_lib: str | None = None

    def initialize_options(self) -> None:
        self.build_lib = None

    def finalize_options(self) -> None:
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def run(self) -> None:
        if self.editable_mode:
            return
        for source, target in PACKED.items():
            place = Path(self.build_lib or "build/lib") / target
            shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)

    def get_source_files(self) -> list[str]:
        found = (path for source in PACKED for path in Path(source).rglob("*"))
        return [str(path) for path in found if path.is_file() and path.suffix != ".pyc"]

    def get_outputs(self) -> list[str]:
        return []

    def get_output_mapping(self) -> dict[str, str]:
        return {}


build.sub_commands += [("build_launcher", None), ("pack_folders", None)]
setup(
    cmdclass={
        "bdist_wheel": PlatformWheel,
        "build": FreshBuild,
        "build_launcher": BuildLauncher,
        "pack_folders": PackFolders,
    }
)
