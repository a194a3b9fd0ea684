"""The whole programs in the documents run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support import ROOT

PROGRAMS = [
    (document, program)
    for document in ("docs/catalogue.md", "docs/observing.md")
    for program in re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
]


@pytest.mark.parametrize(("document", "program"), PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_of_a_document_runs_and_says_something(document, program):
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    assert "echo" in ran.stdout + ran.stderr
