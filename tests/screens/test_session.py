"""The host behind screens."""

from __future__ import annotations

import pytest

from plughost import interrupt
from plughost.screens import session as stages
from tests.support import vouched
from tests.support.screens import easel


@pytest.mark.parametrize(
    ("soon", "told"), [(0.0, "waiting for easel to end; Ctrl-C ends them by force\n"), (3600.0, "")]
)
async def test_whoever_has_left_is_told_who_takes_long_to_end(tmp_path, monkeypatch, capsys, soon, told):
    monkeypatch.setattr(interrupt, "WAIT_NOTICE_DELAY", soon)
    specs = [vouched(easel(tmp_path, name)) for name in ("easel", "idle")]
    async with stages.open_session(specs, []) as ((plugin, _), *_):
        await plugin.start()
    assert capsys.readouterr().err == told
