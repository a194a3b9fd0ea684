"""The folders behind ainb's capabilities to read files."""

from __future__ import annotations

import os

FILE_CAPABILITIES = ("read_sessions", "read_claude_logs", "read_codex_logs")


def default_roots() -> dict[str, str]:
    """The folder of each capability; that of sessions is in $AINB_HOME, or else in ainb's home folder."""
    sessions = os.path.join(os.environ.get("AINB_HOME") or "~/.agents-in-a-box", "sessions")
    return dict(zip(FILE_CAPABILITIES, (sessions, "~/.claude/projects", "~/.codex/sessions"), strict=True))
