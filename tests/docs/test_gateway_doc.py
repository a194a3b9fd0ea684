"""docs/gateway.md: its tables come from the code, and its first steps work as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gateway.test_serve import serving
from tests.support.gateway_tables import FILE, written


@pytest.mark.clause("GW-17")
def test_the_tables_of_routes_and_problems_are_those_of_the_code() -> None:
    text = FILE.read_text()
    assert written(text) == text, "write them anew: make tables"


def test_the_first_steps_work_as_they_stand(tmp_path: Path) -> None:
    [steps] = re.findall(r"## First steps\n.*?```sh\n(.*?)```", FILE.read_text(), re.DOTALL)
    with serving(tmp_path / "gateway") as (_, url):
        script = steps.replace("http://127.0.0.1:8750", url).replace("curl ", "curl -sS --fail-with-body ")
        ran = subprocess.run(
            ["bash", "-euc", script], cwd=tmp_path, capture_output=True, text=True, timeout=30
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert '"name":"first"' in ran.stdout
        assert "vai_key_" in ran.stdout
        assert '"keys.create"' in ran.stdout


def test_the_help_of_serve_names_every_option_of_the_document() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "plughost.cli", "serve", "--help"], capture_output=True, text=True
    ).stdout
    for option in ("--data", "--database", "--grace"):
        assert option in shown
        assert option in FILE.read_text()
