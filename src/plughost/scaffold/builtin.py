"""The templates of our own contracts: a folder for each, registered as those of an outside contract are."""

from __future__ import annotations

from pathlib import Path

TEMPLATES = Path(__file__).parent / "templates"
SHARED = TEMPLATES / "shared"
"""Files that the templates of our own contracts share."""

OURS = ("ainb", "kaged", "mcptest", "rune", "vai")
"""Our own contracts that have templates."""

MCPTEST = TEMPLATES / "mcptest"
RUNE = TEMPLATES / "rune"
AINB = TEMPLATES / "ainb"
KAGED = TEMPLATES / "kaged"
VAI = TEMPLATES / "vai"
