"""A worker process for work on untrusted data that may take long: a process can be killed, a thread cannot.

The worker is started with an empty environment, in `/`, with limits on memory, files and processes, and with
no descriptor but its two pipes. It ends when its host does: the kernel kills it with the thread that started
it, and the end of its input ends it as well. Requests and replies are a head (JSON) and a body (bytes):

    4 bytes: length of the head · 4 bytes: length of the body · head · body
"""

from __future__ import annotations

import gc
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

HEADER = struct.Struct(">II")
MAX_MEMORY = 1 << 30
"""Limit of the worker's address space in bytes."""
_ROOT = str(Path(__file__).parents[2])
_START = """
import importlib, json, sys
sys.path[:] = json.loads(sys.argv[1])
importlib.import_module(sys.argv[2]).main(int(sys.argv[3]))
"""
"""The script of a worker."""
Handler = Callable[[dict[str, Any], bytes], tuple[dict[str, Any], bytes]]


def start(module: str) -> subprocess.Popen[bytes]:
    """Start a worker that runs `main` of a module of plughost. Raises OSError when there is no room for
    one."""
    path = [_ROOT, *(each for each in sys.path if os.path.isabs(each) and each != _ROOT)]
    argv = [_interpreter(), "-ISE", "-c", _START, json.dumps(path), module, str(os.getpid())]
    return subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        env={},
        cwd="/",
        start_new_session=True,  # Ctrl-C is for the host only
    )


def _interpreter() -> str:
    """The path of the running interpreter, also if its name leads through a folder that this user may not
    enter."""
    if sys.executable and os.access(sys.executable, os.X_OK):
        return sys.executable
    return "/proc/self/exe"


def ask_once(
    module: str, head: dict[str, Any], body: bytes, seconds: float
) -> tuple[dict[str, Any], bytes] | None:
    """Start a worker for one request and return its reply; None when there is none within `seconds`.
    Blocking."""
    worker = start(module)
    try:
        output, _ = worker.communicate(pack(head, body), timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        worker.kill()
        worker.wait()
    if len(output) < HEADER.size:
        return None
    size, _ = HEADER.unpack_from(output)
    reply_head: dict[str, Any] = json.loads(output[HEADER.size : HEADER.size + size])
    return reply_head, output[HEADER.size + size :]


def pack(head: dict[str, Any], body: bytes = b"") -> bytes:
    """Encode a request."""
    written = json.dumps(head).encode()
    return HEADER.pack(len(written), len(body)) + written + body


def serve(handle: Handler, host: int) -> None:
    """The main loop of a worker: answer requests until the host, of process id `host`, closes the pipe or
    dies."""
    _confine(host)
    gc.disable()  # JSON values have no reference cycles
    requests, replies = os.fdopen(0, "rb"), os.fdopen(1, "wb")
    while len(sizes := requests.read(HEADER.size)) == HEADER.size:
        head_size, body_size = HEADER.unpack(sizes)
        head, body = json.loads(_read(requests, head_size)), _read(requests, body_size)
        try:
            reply_head, reply = handle(head, body)
        except (MemoryError, RecursionError) as error:
            reply_head, reply = {"failed": type(error).__name__}, b""
        del body
        written = json.dumps(reply_head, default=msgspec.to_builtins).encode()
        replies.write(HEADER.pack(len(written), len(reply)) + written)
        replies.write(reply)
        replies.flush()


def _read(requests: BinaryIO, size: int) -> bytes:
    data = requests.read(size)
    if len(data) < size:
        raise SystemExit(0)
    return data


def _confine(host: int) -> None:
    import ctypes
    import resource
    import signal

    for limit, most in (
        (resource.RLIMIT_AS, MAX_MEMORY),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_NOFILE, 16),
    ):
        _, hard = resource.getrlimit(limit)
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (allowed, allowed))
    set_death_signal = 1
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)
    if os.getppid() != host:  # the host died before the signal was set
        raise SystemExit(0)
