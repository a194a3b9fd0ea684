"""burndown before somebody's eyes: in a real terminal, on the sample logs, with session-reader beside it."""

from __future__ import annotations

import pytest

from tests.support import ROOT
from tests.support.burndown import SAMPLES
from tests.support.screens import Terminal, screen_command

pytestmark = pytest.mark.serial


def test_days_projects_and_models_are_a_key_away(monkeypatch):
    monkeypatch.setenv("HOME", str(SAMPLES))
    monkeypatch.delenv("AINB_HOME", raising=False)
    # The checkout may be in a folder that others cannot reach: then its logs are private, and need our word.
    logs = [f"--allow=read={SAMPLES}/.claude/projects", f"--allow=read={SAMPLES}/.codex/sessions"]
    command = screen_command("--root", str(ROOT / "plugins"), *logs, "burndown")
    with Terminal(command, columns=100, rows=20) as terminal:
        terminal.until(lambda screen: "272k tokens" in screen and "2025-11-10" in screen)
        terminal.press("2")
        terminal.until(lambda screen: "tea-timer" in screen and "weather-station" in screen)
        terminal.press("/")
        terminal.type("weather")
        terminal.until(lambda screen: "weather-station" in screen and "tea-timer" not in screen)
        terminal.press("C-q")
        terminal.until("left with 0")
