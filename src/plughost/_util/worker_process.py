"""A child process for work on strangers' data that may take long: it can be killed, its host's loop cannot.

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

SIZES = struct.Struct(">II")
MEMORY = 1 << 30
"""Bytes of address space."""
_ROOT = str(Path(__file__).parents[2])
_START = """
import importlib, json, sys, types
sys.path[:] = json.loads(sys.argv[1])
for name in ("plughost", "plughost.contracts", "plughost.contracts.vai.contract", "plughost.vai.invocations"):
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = [sys.path[0] + "/" + name.replace(".", "/")]
importlib.import_module(sys.argv[2]).main(int(sys.argv[3]))
"""
"""The packages on the way are not run: they would import all of the host."""
Handler = Callable[[dict[str, Any], bytes], tuple[dict[str, Any], bytes]]


def start(module: str) -> subprocess.Popen[bytes]:
    """Start a worker that runs `main` of a module of ours. OSError when there is no room for one."""
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
        start_new_session=True,  # Ctrl-C is for its host
    )


def _interpreter() -> str:
    """The one that runs this, also where its name leads through a folder that this user may not enter."""
    if sys.executable and os.access(sys.executable, os.X_OK):
        return sys.executable
    return "/proc/self/exe"


def ask_once(
    module: str, head: dict[str, Any], body: bytes, seconds: float
) -> tuple[dict[str, Any], bytes] | None:
    """The reply of a worker that is started for one request; None when there is none in time. Blocking."""
    worker = start(module)
    try:
        said, _ = worker.communicate(packed(head, body), timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        worker.kill()
        worker.wait()
    if len(said) < SIZES.size:
        return None
    size, _ = SIZES.unpack_from(said)
    told: dict[str, Any] = json.loads(said[SIZES.size : SIZES.size + size])
    return told, said[SIZES.size + size :]


def packed(head: dict[str, Any], body: bytes = b"") -> bytes:
    written = json.dumps(head).encode()
    return SIZES.pack(len(written), len(body)) + written + body


def serve(handle: Handler, host: int) -> None:
    """In the worker: answer requests until its host, of process id `host`, closes the pipe or dies."""
    _confine(host)
    gc.disable()  # values of JSON lead nowhere back
    given, taken = os.fdopen(0, "rb"), os.fdopen(1, "wb")
    while len(sizes := given.read(SIZES.size)) == SIZES.size:
        head_size, body_size = SIZES.unpack(sizes)
        head, body = json.loads(_read(given, head_size)), _read(given, body_size)
        try:
            told, reply = handle(head, body)
        except (MemoryError, RecursionError) as error:
            told, reply = {"failed": type(error).__name__}, b""
        del body
        written = json.dumps(told, default=msgspec.to_builtins).encode()
        taken.write(SIZES.pack(len(written), len(reply)) + written)
        taken.write(reply)
        taken.flush()


def _read(given: BinaryIO, size: int) -> bytes:
    data = given.read(size)
    if len(data) < size:
        raise SystemExit(0)
    return data


def _confine(host: int) -> None:
    import ctypes
    import resource
    import signal

    for limit, most in (
        (resource.RLIMIT_AS, MEMORY),
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
    if os.getppid() != host:  # it died before it could be heard of
        raise SystemExit(0)
