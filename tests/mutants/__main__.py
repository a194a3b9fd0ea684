"""`python -m tests.mutants`: break the host in each small way and see that a test notices.

Each mutant is a copy of the package with one line changed; the tests that should notice run against it, up to
their first failure. One that passes them all has survived: exit 1.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.mutants import MUTANTS, Mutant

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 180
"""Seconds for one mutant's tests; one that makes them hang is noticed, too."""


def place(mutant: Mutant, root: Path = ROOT) -> Path:
    return root / "src/plughost" / mutant.file


def noticed(mutant: Mutant) -> str:
    """How the tests noticed; empty when they did not."""
    with tempfile.TemporaryDirectory(prefix="plughost-mutant-") as folder:
        shutil.copytree(ROOT / "src/plughost", Path(folder) / "src/plughost", symlinks=True)
        file = place(mutant, Path(folder))
        file.write_text(file.read_text().replace(mutant.old, mutant.new))
        words = ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=no", *mutant.tests.split()]
        environment = {**os.environ, "PYTHONPATH": f"{folder}/src", "PYTHONDONTWRITEBYTECODE": "1"}
        with subprocess.Popen(
            [sys.executable, *words],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                told, _ = process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return "the tests hung"
    if process.returncode == 0:
        return ""
    failures = [line for line in told.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if process.returncode != 1 and not failures:
        raise SystemExit(f"{mutant.name}: pytest itself failed:\n{told[-2000:]}")
    return (failures or ["a failure"])[0].split(" - ")[0]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", action="append", default=[], help="a mutant's name; may be repeated")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    unknown = set(arguments.only) - {mutant.name for mutant in MUTANTS}
    if unknown:
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}")
    chosen = [mutant for mutant in MUTANTS if not arguments.only or mutant.name in arguments.only]
    began, survivors = time.monotonic(), []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for mutant, how in zip(chosen, pool.map(noticed, chosen), strict=True):
            print(f"{'noticed ' if how else 'SURVIVED'}  {mutant.name:45} {how}", flush=True)
            survivors += [] if how else [mutant.name]
    took = time.monotonic() - began
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} noticed in {took:.0f} s")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
