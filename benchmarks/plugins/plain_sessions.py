"""The plain way: every line of every session log below a home through json.loads, and nothing else."""

import json
import sys
from pathlib import Path

lines = 0
for path in Path(sys.argv[1]).rglob("*.jsonl"):
    with path.open("rb") as file:
        for line in file:
            json.loads(line)
            lines += 1
print(lines)
