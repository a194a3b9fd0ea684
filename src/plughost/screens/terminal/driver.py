"""The terminal itself: nothing that it says ends the program, and once it is gone nobody waits for it."""

from __future__ import annotations

import os
import select
import signal
import termios
from codecs import getincrementaldecoder
from contextlib import suppress
from typing import Any

from textual.drivers.linux_driver import LinuxDriver

from plughost.screens.terminal.key_parser import KeyParser

LOOK = 100
"""Milliseconds: how soon a lone Escape is taken for the key, and the end is noticed."""
CHUNK = 4096
STDERR = 2
"""Where the library draws."""
GOODBYE = b"".join(
    b"\x1b[%b" % mode
    for mode in (
        *(b"?2004l", b"?7h", b"?1000l", b"?1003l", b"?1015l", b"?1006l"),  # paste, wrapping, mouse
        *(b"<u", b"?1049l", b"?25h", b"?1004l"),  # keys, the other screen, cursor, focus
    )
)


class TerminalDriver(LinuxDriver):
    _gone = False

    def write(self, data: str) -> None:
        """The library's thread ends when the terminal does, and whoever then waits for it waits for ever."""
        if not self._gone and self._writer_thread is not None and self._writer_thread.is_alive():
            self._writer_thread.write(data)

    def run_input_thread(self) -> None:
        parser, decode = KeyParser(), getincrementaldecoder("utf-8")("replace").decode
        terminal = select.poll()
        terminal.register(self.fileno, select.POLLIN)
        while not self.exit_event.is_set():
            text = ""
            if terminal.poll(LOOK):
                try:
                    data = os.read(self.fileno, CHUNK)
                except OSError:
                    return
                if not data:
                    return
                text = decode(data)
            try:
                for event in (*(parser.feed(text) if text else ()), *parser.tick()):
                    self.process_message(event)
            except Exception:  # what the parser could not read is dropped, and it is of no use any more
                parser = KeyParser()

    def _sigcont_application(self, *_: Any) -> None:
        """Only who was suspended is resumed: the library would start everything a second time."""
        if self._must_signal_resume:
            super()._sigcont_application()

    def lose(self) -> None:
        """Nobody is there any more."""
        self._gone = True
        self.exit_event.set()

    def restore(self) -> None:
        """Give the terminal back as it was, where that can be done at once."""
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # also when it is another's by now
        with suppress(OSError, termios.error):
            if self.attrs_before is not None:
                termios.tcsetattr(self.fileno, termios.TCSANOW, self.attrs_before)
            if select.select([], [STDERR], [], 0)[1]:
                os.write(STDERR, GOODBYE)
