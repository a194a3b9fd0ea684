"""The table of docs/security.md that says who may set what, out of the settings' own types.

`python -m tests.support.settings_table` writes it anew (`make tables`).
"""

from __future__ import annotations

import re

import msgspec

from plughost import config
from plughost.contracts.registry import contract_names, get_contract
from plughost.contracts.settings import author_rule
from tests.support import ROOT

FILE = ROOT / "docs/security.md"
BEGIN, END = "<!-- settings: written by `make tables` -->", "<!-- settings: end -->"


def table() -> str:
    rows = [
        "| contract | its author may set | only the operator may set |",
        "|---|---|---|",
        _row("all", config.Common),
    ]
    ours = [name for name in contract_names() if type(get_contract(name)).__module__.startswith("plughost.")]
    return "\n".join([*rows, *(_row(name, get_contract(name).options) for name in ours)])


def _row(name: str, kind: type[msgspec.Struct]) -> str:
    authors, operators = [], []
    for field in msgspec.structs.fields(kind):
        rule = author_rule(field)
        if rule is None:
            operators.append(f"`{field.encode_name}`")
        else:
            authors.append(f"`{field.encode_name}` ({rule.describe(field.default)})")
    return f"| {name} | {', '.join(authors)} | {', '.join(operators)} |"


def main() -> None:
    text = FILE.read_text()
    between = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.S)
    FILE.write_text(between.sub(lambda _: f"{BEGIN}\n{table()}\n{END}", text))


if __name__ == "__main__":
    main()
