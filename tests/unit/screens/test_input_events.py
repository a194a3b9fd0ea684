"""Keys and the mouse in the contract's words, and how often frames are asked for."""

from __future__ import annotations

import msgspec
import pytest

from plughost.contracts.ainb.messages import ALT, CTRL, SHIFT, HandleMouseParams, KeyEvent, MouseEvent
from plughost.screens.frame_rate import IDLE, MOST_REDRAWS, STILL, FrameRate, missed_frames
from plughost.screens.terminal.input_events import LONGEST_PASTE, key_event, mouse_event, paste_events


@pytest.mark.clause("AINB-26", "AINB-41")
@pytest.mark.parametrize(
    ("name", "character", "code", "mods"),
    [
        ("a", "a", {"type": "char", "ch": "a"}, 0),
        ("A", "A", {"type": "char", "ch": "A"}, SHIFT),
        ("é", "é", {"type": "char", "ch": "é"}, 0),
        ("space", " ", {"type": "char", "ch": " "}, 0),
        ("plus", "+", {"type": "char", "ch": "+"}, 0),
        ("+", "+", {"type": "char", "ch": "+"}, 0),
        ("question_mark", "?", {"type": "char", "ch": "?"}, 0),
        ("ctrl+c", "\x03", {"type": "char", "ch": "c"}, CTRL),
        ("ctrl+backslash", "\x1c", {"type": "char", "ch": "\\"}, CTRL),
        ("ctrl+circumflex_accent", "\x1e", {"type": "char", "ch": "^"}, CTRL),
        ("alt+X", "X", {"type": "char", "ch": "X"}, ALT | SHIFT),
        ("alt+shift+x", None, {"type": "char", "ch": "x"}, ALT | SHIFT),
        ("\ud800", "\ud800", None, 0),
        ("\0", "\0", None, 0),
        ("enter", "\r", {"type": "enter"}, 0),
        ("tab", "\t", {"type": "tab"}, 0),
        ("shift+tab", None, {"type": "back_tab"}, SHIFT),
        ("escape", "\x1b", {"type": "esc"}, 0),
        ("backspace", "\x7f", {"type": "backspace"}, 0),
        ("delete", None, {"type": "delete"}, 0),
        ("ctrl+shift+left", None, {"type": "left"}, CTRL | SHIFT),
        ("pageup", None, {"type": "page_up"}, 0),
        ("pagedown", None, {"type": "page_down"}, 0),
        ("f7", None, {"type": "f", "n": 7}, 0),
        ("insert", None, None, 0),
        ("<ignore>", "\x1b[x", None, 0),
    ],
)
def test_a_key_is_sent_in_the_contracts_words(name, character, code, mods):
    event = key_event(name, character)
    if code is None:
        assert event is None
        return
    assert msgspec.to_builtins(event) == {"code": code, "mods": mods, "kind": "press"}
    assert msgspec.json.decode(msgspec.json.encode(event), type=KeyEvent) == event


def test_what_is_pasted_is_typed_and_bounded():
    codes = [msgspec.to_builtins(event.code) for event in paste_events("a\r\n\tb\x1b")]
    kinds = [code.get("ch", code["type"]) for code in codes]
    assert kinds == ["a", "enter", "tab", "b"]
    assert len(list(paste_events("x" * 1_000_000))) == LONGEST_PASTE


@pytest.mark.parametrize(
    ("kind", "button", "told"),
    [
        ("MouseDown", 1, {"type": "down", "button": {"type": "left"}}),
        ("MouseUp", 3, {"type": "up", "button": {"type": "right"}}),
        ("MouseMove", 2, {"type": "drag", "button": {"type": "middle"}}),
        ("MouseMove", 0, {"type": "moved"}),
        ("MouseScrollDown", 0, {"type": "scroll_down"}),
        ("MouseDown", 9, None),
    ],
)
def test_the_mouse_is_told_in_the_contracts_words(kind, button, told):
    event = mouse_event(kind, button, 7, 2, shift=True, ctrl=False, meta=True)
    if told is None:
        assert event is None
        return
    assert msgspec.to_builtins(event) == {"kind": told, "col": 7, "row": 2, "mods": SHIFT | ALT}
    assert msgspec.json.decode(msgspec.json.encode(event), type=MouseEvent) == event


def test_the_shortest_form_of_a_mouse_event_is_read():
    params = b'{"screen_id":"s","mouse":{"kind":{"type":"moved"},"col":1,"row":1},"generation":0}'
    assert msgspec.json.decode(params, type=HandleMouseParams).mouse.mods == 0


def test_nothing_outside_of_the_screen_is_told():
    assert mouse_event("MouseMove", 0, -1, 0, shift=False, ctrl=False, meta=False) is None


def test_frames_come_fast_while_something_moves_and_seldom_while_nothing_does():
    pace = FrameRate(50)
    assert pace.after(changed=True, redraw=False) == 0.02
    waits = [pace.after(changed=False, redraw=False) for _ in range(STILL)]
    assert waits == [0.02] * (STILL - 1) + [IDLE]
    assert pace.after(changed=True, redraw=False) == 0.02
    for _ in range(STILL):
        pace.after(changed=False, redraw=False)
    pace.wake()
    assert pace.after(changed=False, redraw=False) == 0.02


def test_a_plugin_that_asks_for_another_frame_for_ever_is_not_believed_for_ever():
    pace = FrameRate(50)
    waits = [pace.after(changed=False, redraw=True) for _ in range(MOST_REDRAWS + STILL)]
    assert waits[:MOST_REDRAWS] == [0.02] * MOST_REDRAWS
    assert waits[-1] == IDLE
    pace.wake()
    assert pace.after(changed=False, redraw=True) == 0.02


def test_frames_that_were_due_meanwhile_are_missed():
    assert [missed_frames(took, 0.1) for took in (0.0, 0.09, 0.11, 0.35)] == [0, 0, 1, 3]
