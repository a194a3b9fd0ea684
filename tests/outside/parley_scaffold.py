"""Where the templates of parley are."""

from __future__ import annotations

from pathlib import Path

TEMPLATES = Path(__file__).parent / "parley_templates"
