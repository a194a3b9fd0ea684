"""The table of docs/security.md that says who may set what, out of the settings' own types.

`python -m tests.settings_table` writes it anew (`make tables`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from plughost import config
from plughost.contracts.contract import contract, names
from plughost.contracts.settings import author_rule
from tests.support import ROOT

FILE = ROOT / "docs/security.md"
BEGIN, END = "<!-- settings: written by `make tables` -->", "<!-- settings: end -->"


def table() -> str:
    rows = ["| setting | may its author set it? |", "|---|---|"]
    rows += _rows("", config.Common)
    for name in names():
        if type(contract(name)).__module__.startswith("plughost."):
            rows += _rows(f"{name}: ", contract(name).options)
    return "\n".join(rows)


def _rows(prefix: str, kind: type[msgspec.Struct]) -> Iterator[str]:
    operators = []
    for field in msgspec.structs.fields(kind):
        rule = author_rule(field)
        if rule is None:
            operators.append(f"`{field.encode_name}`")
        else:
            yield f"| {prefix}`{field.encode_name}` | yes: {rule.describe(field.default)} |"
    if operators:
        yield f"| {prefix}{', '.join(operators)} | no |"


def main() -> None:
    text = FILE.read_text()
    between = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.S)
    FILE.write_text(between.sub(lambda _: f"{BEGIN}\n{table()}\n{END}", text))


if __name__ == "__main__":
    main()
