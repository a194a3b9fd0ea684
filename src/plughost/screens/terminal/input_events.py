"""Translates key, paste and mouse events of Textual to those of the ainb contract."""

from __future__ import annotations

from collections.abc import Iterator

from textual.keys import REPLACED_KEYS, key_to_character

from plughost.contracts.ainb import messages
from plughost.contracts.ainb.messages import ALT, CTRL, SHIFT, SUPER, Button, KeyCode, KeyEvent, MouseEvent

MODIFIERS = {"shift": SHIFT, "ctrl": CTRL, "alt": ALT, "super": SUPER, "meta": SUPER}
NAMED: dict[str, KeyCode] = {
    "enter": messages.Enter(),
    "return": messages.Enter(),
    "tab": messages.Tab(),
    "escape": messages.Esc(),
    "backspace": messages.Backspace(),
    "delete": messages.Delete(),
    "up": messages.Up(),
    "down": messages.Down(),
    "left": messages.Left(),
    "right": messages.Right(),
    "home": messages.Home(),
    "end": messages.End(),
    "pageup": messages.PageUp(),
    "pagedown": messages.PageDown(),
    "space": messages.Char(" "),
    **{f"f{number}": messages.F(number) for number in range(1, 25)},
}
BUTTONS = {1: Button("left"), 2: Button("middle"), 3: Button("right")}
SCROLLS: dict[str, messages.MouseKind] = {
    "MouseScrollUp": messages.ScrollUp(),
    "MouseScrollDown": messages.ScrollDown(),
    "MouseScrollLeft": messages.ScrollLeft(),
    "MouseScrollRight": messages.ScrollRight(),
}
LONGEST_PASTE = 4096
"""Characters: each becomes a message."""


def key_event(name: str, character: str | None) -> KeyEvent | None:
    """The event for a key such as `ctrl+shift+left` and the character that it types; None when the contract
    has no such key."""
    *modifiers, last = name.split("+") if name != "+" else ["+"]
    mods = sum({MODIFIERS.get(word, 0) for word in modifiers})
    if last == "tab" and mods & SHIFT:
        return KeyEvent(messages.BackTab(), mods)
    code = NAMED.get(last) or _character_key(last, character)
    if code is None:
        return None
    if isinstance(code, messages.Char) and code.ch.isupper():
        mods |= SHIFT
    return KeyEvent(code, mods)


def _character_key(name: str, character: str | None) -> KeyCode | None:
    """The character key. With Ctrl held the character is a control character, and only the name tells the
    key."""
    for typed in (character, name, key_to_character(REPLACED_KEYS.get(name, name))):
        if typed is not None and len(typed) == 1 and typed.isprintable():
            return messages.Char(typed)
    return None


def paste_events(text: str) -> Iterator[KeyEvent]:
    """Pasted text as key events."""
    for character in text[:LONGEST_PASTE].replace("\r\n", "\n"):
        if character in "\r\n":
            yield KeyEvent(messages.Enter())
        elif character == "\t":
            yield KeyEvent(messages.Tab())
        elif character.isprintable():
            yield KeyEvent(messages.Char(character))


def mouse_event(
    kind: str, button: int, x: int, y: int, *, shift: bool, ctrl: bool, meta: bool
) -> MouseEvent | None:
    """The event for a Textual mouse event of class `kind`, at a cell of the plugin's own viewport; None when
    the contract has none."""
    mods = shift * SHIFT | ctrl * CTRL | meta * ALT
    action = SCROLLS.get(kind) or _button_action(kind, BUTTONS.get(button))
    return None if action is None or x < 0 or y < 0 else MouseEvent(action, x, y, mods)


def _button_action(kind: str, button: Button | None) -> messages.MouseKind | None:
    if kind == "MouseMove":
        return messages.Moved() if button is None else messages.Dragged(button)
    if button is not None and kind == "MouseDown":
        return messages.Pressed(button)
    if button is not None and kind == "MouseUp":
        return messages.Released(button)
    return None
