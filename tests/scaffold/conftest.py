from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from plughost.scaffold import writer
from tests.support.shared import locked, shared_folder
from tests.support.workshop import Workshop, need


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("workshop"))


@pytest.fixture(scope="session")
def made(
    workshop: Workshop, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], writer.Scaffold]:
    """A scaffold for a contract in a language, built once for all tests of all workers; each has a copy."""
    root = tmp_path_factory.mktemp("made")
    shared = shared_folder(tmp_path_factory) / "built"
    shared.mkdir(exist_ok=True)
    known: dict[tuple[str, str], writer.Scaffold] = {}

    def make(contract: str, language: str) -> writer.Scaffold:
        if (contract, language) not in known:
            need(language)
            new = writer.write(contract, f"{contract}-{language}", language, root)
            if build := new.next.get("build"):
                folder = Path(new.folder)
                with locked(shared / f"{folder.name}.lock"):
                    built = shared / folder.name
                    if built.exists():
                        shutil.copytree(built, folder, dirs_exist_ok=True)
                    else:
                        ran = workshop.run(build, folder)
                        assert ran.returncode == 0, ran.stdout
                        shutil.copytree(folder, built, ignore=shutil.ignore_patterns("target"))
            known[contract, language] = new
        return known[contract, language]

    return make


@pytest.fixture(autouse=True)
def _tools_of_the_workshop(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts find the author's python3, the one with the SDK."""
    monkeypatch.setenv("PATH", workshop.env["PATH"])
