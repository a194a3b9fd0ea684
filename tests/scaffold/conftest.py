from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from plughost.scaffold import writer
from tests.support.workshop import Workshop, need


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("workshop"))


@pytest.fixture(scope="session")
def made(
    workshop: Workshop, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], writer.Scaffold]:
    """A scaffold for a contract in a language, built once for all tests."""
    root = tmp_path_factory.mktemp("made")
    known: dict[tuple[str, str], writer.Scaffold] = {}

    def make(contract: str, language: str) -> writer.Scaffold:
        if (contract, language) not in known:
            need(language)
            new = writer.write(contract, f"{contract}-{language}", language, root)
            ran = workshop.run(new.next.get("build", "true"), Path(new.folder))
            assert ran.returncode == 0, ran.stdout
            known[contract, language] = new
        return known[contract, language]

    return make


@pytest.fixture(autouse=True)
def _tools_of_the_workshop(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts find the author's python3, the one with the SDK."""
    monkeypatch.setenv("PATH", workshop.env["PATH"])
