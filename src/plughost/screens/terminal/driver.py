"""The terminal driver: no input ends the program, and nothing waits for a terminal that is gone."""

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

POLL_MILLISECONDS = 100
"""Milliseconds: how soon a lone Escape counts as the key, and an exit is noticed."""
CHUNK = 4096
STDERR = 2
"""Textual draws on stderr."""
RESTORE_SEQUENCE = b"".join(
    b"\x1b[%b" % mode
    for mode in (
        *(b"?2004l", b"?7h", b"?1000l", b"?1003l", b"?1015l", b"?1006l"),  # paste, wrapping, mouse
        *(b"<u", b"?1049l", b"?25h", b"?1004l"),  # keys, the other screen, cursor, focus
    )
)


class TerminalDriver(LinuxDriver):
    """Textual's Linux driver, hardened against odd input and a lost terminal."""

    _lost = False

    def write(self, data: str) -> None:
        """Write, unless the terminal is gone: Textual's writer thread ends with the terminal, and a write
        would then block for ever."""
        if not self._lost and self._writer_thread is not None and self._writer_thread.is_alive():
            self._writer_thread.write(data)

    def run_input_thread(self) -> None:
        """Read and parse the terminal's input until the app exits."""
        parser, decode = KeyParser(), getincrementaldecoder("utf-8")("replace").decode
        terminal = select.poll()
        terminal.register(self.fileno, select.POLLIN)
        while not self.exit_event.is_set():
            text = ""
            if terminal.poll(POLL_MILLISECONDS):
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
            except Exception:  # drop the input; the parser's state is broken
                parser = KeyParser()

    def _sigcont_application(self, *_: Any) -> None:
        """Resume only after a suspend: Textual would start everything a second time."""
        if self._must_signal_resume:
            super()._sigcont_application()

    def lose(self) -> None:
        """Stop using the terminal: it is gone."""
        self._lost = True
        self.exit_event.set()

    def restore(self) -> None:
        """Restore the terminal's modes, as far as possible without waiting."""
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # also when we are a background process by now
        with suppress(OSError, termios.error):
            if self.attrs_before is not None:
                termios.tcsetattr(self.fileno, termios.TCSANOW, self.attrs_before)
            if select.select([], [STDERR], [], 0)[1]:
                os.write(STDERR, RESTORE_SEQUENCE)
