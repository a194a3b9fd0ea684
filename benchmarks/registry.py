"""A registry on this machine, for as long as it is needed."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.paths import ROOT

PROGRAM = ROOT / ".tools" / "usr" / "bin" / "docker-registry"
CONFIG = """
version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}/data}}}}
http: {{addr: "127.0.0.1:0"}}
"""


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Its `HOST:PORT`; it keeps its things in `folder`."""
    (folder / "config.yml").write_text(CONFIG.format(folder=folder))
    log = folder / "log"
    with log.open("wb") as out:
        server = subprocess.Popen([PROGRAM, "serve", folder / "config.yml"], stdout=out, stderr=out)
    try:
        while not (told := re.search(r"listening on (127\.0\.0\.1:[0-9]+)", log.read_text())):
            if server.poll() is not None:
                raise RuntimeError(log.read_text())
            time.sleep(0.01)
        yield told[1]
    finally:
        server.terminate()
        server.wait()
