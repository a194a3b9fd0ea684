"""session-reader: the program that a host starts."""

import fcntl
from contextlib import suppress

from session_reader.plugin import make

PIPE = 1 << 20
"""Megabytes come in. The usual pipe holds 64 KiB, and the host would wake us for each of them."""

with suppress(OSError):
    fcntl.fcntl(0, fcntl.F_SETPIPE_SZ, PIPE)
make().run()
