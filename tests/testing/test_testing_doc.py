"""The examples of docs/testing.md, run by pytest as their readers would."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.support import ROOT

EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/testing.md").read_text(), re.S)


def test_every_example_passes_as_it_stands(tmp_path):
    settings = tmp_path / "pytest.ini"
    settings.write_text("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    for number, example in enumerate(EXAMPLES):
        (tmp_path / f"test_example_{number}.py").write_text(example)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(settings), str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'sdk/python/src'}"},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{sum(example.count('def test_') for example in EXAMPLES)} passed" in ran.stdout
