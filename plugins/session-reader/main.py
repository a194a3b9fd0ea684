"""session-reader: the program that a host starts."""

import ctypes
from contextlib import suppress

from session_reader.plugin import make

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
BLOCKS = 64 << 20
"""Bytes, more than all that is read at a time. Blocks of megabytes come and go, and without this each one is
given back to the kernel and fetched from it again, page by page: a fifth of the time that reading takes."""

with suppress(OSError, AttributeError):  # another libc than glibc
    for limit in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
        ctypes.CDLL(None).mallopt(limit, BLOCKS)
make().run()
