"""From a wheel alone: `plughost new` and every line that it prints; and what a wheel is made of."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from plughost.scaffold import writer
from plughost.scaffold.builtin import OURS
from tests.support import ROOT, confinable
from tests.support.wheel import build, checkout, install

NOBODY = 65534
CONFINED = {"kaged", "vai"}
PLACES = {"vai": "/tmp"}
"""Where plugins are written, if not below /var/tmp: elsewhere the sandbox cannot list a package's folder yet."""
POISON = "from an earlier build"


def poisoned(folder: Path) -> Path:
    """A checkout in which an earlier build has left things, also in the source tree."""
    for name in (
        "build/lib/plughost/poison.py",
        "build/lib/plughost/engine/launcher/plughost-launcher",
        "build/bdist.linux-x86_64/wheel/plughost/poison.py",
        "src/plughost/engine/launcher/plughost-launcher",
        "src/plughost/engine/launcher/plughost-inner",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(POISON)
    return folder


def contents(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel by their path in site-packages."""
    with zipfile.ZipFile(wheel) as archive:
        return {name.partition("/purelib/")[2] or name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = poisoned(checkout(tmp_path_factory.mktemp("checkout")))
    return build(source, tmp_path_factory.mktemp("wheel"))[0]


@pytest.fixture(scope="session")
def installed(wheel: Path) -> Iterator[Path]:
    """An environment outside /tmp that every user can reach, and this checkout cannot be reached from."""
    with tempfile.TemporaryDirectory(prefix="plughost-wheel-", dir="/var/tmp") as place:
        os.chmod(place, 0o755)
        yield install(wheel, Path(place) / "venv")


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[Path]:
    contract = request.node.callspec.params.get("contract", "")
    where = PLACES.get(contract, "/var/tmp")
    with tempfile.TemporaryDirectory(prefix="plughost-newcomer-", dir=where) as made:
        os.chmod(made, 0o755)
        if user_for(contract) is not None:
            os.chown(made, NOBODY, NOBODY)
        yield Path(made)


def user_for(contract: str) -> int | None:
    """An ordinary user, where this one is root; a host that confines has more ways to do it as root."""
    return NOBODY if os.geteuid() == 0 and contract not in CONFINED else None


def run(command: str, cwd: Path, venv: Path, user: int | None = None) -> subprocess.CompletedProcess[str]:
    home = cwd.parent if cwd.name == "greeter" else cwd
    env = {"PATH": f"{venv}/bin:{confinable.PATH}", "HOME": str(home), "LANG": "C.UTF-8"}
    groups = () if user is not None else None
    return subprocess.run(
        command, shell=True, cwd=cwd, env=env, user=user, group=user, extra_groups=groups, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100,
    )  # fmt: skip


def test_a_wheel_has_nothing_of_an_earlier_build(wheel):
    packed = contents(wheel)
    assert not [name for name, data in packed.items() if "poison" in name or data == POISON.encode()]
    if shutil.which("cc"):
        for program in ("plughost-launcher", "plughost-inner"):
            assert packed[f"plughost/engine/launcher/{program}"].startswith(b"\x7fELF")


def test_a_wheel_has_the_whole_sdk_and_the_canaries(wheel):
    packed = contents(wheel)
    sources = {path.relative_to(writer.sdk()) for path in writer.sdk().rglob("*.py")}
    assert {f"plughost/scaffold/sdk/plughost_sdk/{path}" for path in sources} <= packed.keys()
    assert "plughost/conformance/ainb/canaries/canary.py" in packed


def test_without_a_compiler_the_build_says_what_is_lost_and_takes_no_old_launcher(tmp_path):
    source = poisoned(checkout(tmp_path / "checkout"))
    wheel, said = build(source, tmp_path / "wheel", PATH=str(tmp_path / "empty"), CC="")
    assert "there is no C compiler" in said
    assert "plugins cannot be confined" in said
    assert "apt install gcc libc6-dev" in said
    assert not [
        name for name in contents(wheel) if Path(name).name in ("plughost-launcher", "plughost-inner")
    ]


def test_the_checkout_cannot_be_reached_from_it(installed):
    ran = run(
        "python3 -c 'import plughost; print(plughost.__file__)'; python3 -c 'import plughost_sdk'",
        Path("/"),
        installed,
    )
    assert ran.stdout.startswith(f"{installed}/lib/")
    assert "No module named 'plughost_sdk'" in ran.stdout


@pytest.mark.parametrize("contract", OURS)
def test_every_next_line_works_from_a_wheel_alone(contract, installed, place):
    if contract in CONFINED:
        confinable.needs("strict")
        if os.geteuid() == 0 and not os.path.realpath(installed / "bin/python3").startswith("/usr/"):
            pytest.skip(f"confined plugins of root cannot reach {sys.executable}")
    user = user_for(contract)
    ran = run(f"plughost new {contract} greeter", place, installed, user)
    said, *lines = ran.stdout.splitlines()
    assert (ran.returncode, said.endswith("Next:")) == (0, True), ran.stdout
    assert lines.pop(0) == "  cd greeter"
    assert len(lines) >= 4
    for line in lines:
        command = f"{line} --until-eof" if "plughost dev" in line else line
        ran = run(command, place / "greeter", installed, user)
        assert ran.returncode == 0, f"{command}\n{ran.stdout}"


def test_what_installing_leaves_behind_is_ignored_by_git_and_by_the_linters():
    left = [
        "build/lib/plughost/poison.py",
        "sdk/python/build/lib/plughost_sdk/poison.py",
        "sdk/python/src/plughost_sdk.egg-info/SOURCES.txt",
        "src/plughost.egg-info/SOURCES.txt",
    ]
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a git checkout")
    ran = subprocess.run(["git", "check-ignore", *left], cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert ran.stdout.split() == left  # ruff follows .gitignore
