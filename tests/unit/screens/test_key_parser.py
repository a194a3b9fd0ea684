"""What a terminal sends, byte by byte: keys in the contract's words, and nothing that ends the program."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from textual import events

from plughost.contracts.ainb.messages import (
    ALT,
    CTRL,
    SHIFT,
    Backspace,
    Char,
    Enter,
    F,
    KeyCode,
    KeyEvent,
    Right,
    Up,
)
from plughost.screens.terminal.input_events import key_event
from plughost.screens.terminal.key_parser import KeyParser


def keys(text: str) -> list[KeyEvent]:
    heard = (event for event in KeyParser().feed(text) if isinstance(event, events.Key))
    return [key for event in heard if (key := key_event(event.key, event.character)) is not None]


@pytest.mark.clause("AINB-26", "AINB-41")
@pytest.mark.parametrize(
    ("sent", "code", "mods"),
    [
        *((f"\x1b{letter}", Char(letter), ALT) for letter in "1-/@+.\\ abf"),
        ("\x1bA", Char("A"), ALT | SHIFT),
        ("\x1b\r", Enter(), ALT),
        ("\x1b\x7f", Backspace(), ALT),
        ("\x1b\x01", Char("a"), ALT | CTRL),
        ("\x1c", Char("\\"), CTRL),
        ("\x1f", Char("_"), CTRL),
        ("\x1b[47;5u", Char("/"), CTRL),
        ("\x1b[95;5u", Char("_"), CTRL),
        ("\x1b[64;3u", Char("@"), ALT),
        ("\x1b[43;3u", Char("+"), ALT),
        ("\x1b[97;5:1u", Char("a"), CTRL),
        ("\x1b[97:65;2;65u", Char("A"), SHIFT),
        ("\x1b[1;1:2A", Up(), 0),
        ("\x1b[A", Up(), 0),
        ("\x1b[1;5C", Right(), CTRL),
        ("\x1bOP", F(1), 0),
        ("é", Char("é"), 0),
    ],
)
def test_a_key_is_what_was_pressed(sent: str, code: KeyCode, mods: int) -> None:
    assert keys(sent) == [KeyEvent(code, mods)]


@pytest.mark.parametrize(
    "sent",
    [
        "\x1b[97;1:3u",
        "\x1b[1114112u",
        "\x1b[55555555555555555555u",
        "\x1b[55296u",
        "\x1b[0u",
        "\x1b[;:u",
    ],
)
def test_what_is_no_key_is_none_and_the_next_one_is(sent: str) -> None:
    assert keys(sent + "x") == [KeyEvent(Char("x"))]


sequences = st.from_regex(r"\A\x1b[\[O]?[0-9:;<?]{0,12}[a-zA-Z~$]?\Z") | st.text(max_size=5)


@given(st.lists(sequences, max_size=5).map("".join))
@example("\x1b[200~" + "\x1b[97;1:3u" + "\x1b[201~")
@example("\x1b]11;rgb:0000/0000/0000\x1b\\")
def test_nothing_that_is_sent_ends_it(text: str) -> None:
    keyboard = KeyParser()
    for character in text:
        for event in keyboard.feed(character):
            if isinstance(event, events.Key):
                key = key_event(event.key, event.character)
                assert key is None or not isinstance(key.code, Char) or key.code.ch.encode()
    assert not keyboard.is_eof
