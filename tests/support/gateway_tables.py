"""The tables of docs/gateway.md that come from the code: routes with their scopes, and codes of problems.

`python -m tests.support.gateway_tables` writes them anew (`make tables`).
"""

from __future__ import annotations

import re
from typing import Any

from plughost.gateway.api.all_routes import ROUTES
from plughost.gateway.openapi import scope_table
from plughost.gateway.problems import CODES
from tests.support import ROOT

FILE = ROOT / "docs/gateway.md"


def routes() -> str:
    """The table of routes and scopes."""
    from litestar import Litestar
    from litestar.di import Provide

    app = Litestar(route_handlers=[*ROUTES], dependencies={"api": Provide(_nothing, sync_to_thread=False)})
    rows = [
        f"| `{method} {path}` | {f'`{scope}`' if scope else 'public'} |"
        for method, path, scope in scope_table(app)
    ]
    return "\n".join(["| route | scope |", "|---|---|", *rows])


def _nothing() -> Any:
    return None


def problems() -> str:
    """The table of codes."""
    rows = [f"| `{name}` | {code.status} | {code.title}. | {code.remedy} |" for name, code in CODES.items()]
    return "\n".join(["| code | status | meaning | remedy |", "|---|---|---|---|", *rows])


def written(text: str) -> str:
    """The document with both tables as the code has them."""
    for name, table in (("routes", routes()), ("problems", problems())):
        mark = f"<!-- table: {name} -->"
        text = re.sub(
            rf"{mark}\n.*?\n{mark}", lambda _, m=mark, t=table: f"{m}\n{t}\n{m}", text, flags=re.DOTALL
        )
    return text


if __name__ == "__main__":
    FILE.write_text(written(FILE.read_text()))
