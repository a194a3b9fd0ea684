"""Master key sources: where the operator keeps the master key, as a setting.

`file:PATH` is a file of 32 bytes with mode 600. `env:NAME` is a variable, and `command:PROGRAM ARGUMENT…` the
output of a program, such as the client of a secret manager; both hold the 32 bytes in base64 or hex.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import shlex
import signal
from collections.abc import Sequence

from plughost.errors import HostFailed, InvalidSpec
from plughost.vai.database.master_key import read_key_file
from plughost.vai.database.sealing import KEY_BYTES

COMMAND_SECONDS = 30.0
"""How long the program may take."""
MAX_OUTPUT = 1024
"""Bytes that the program may write."""
_FORMS = "file:PATH, env:NAME or command:PROGRAM ARGUMENT…"


async def load_master_keys(sources: Sequence[str]) -> list[bytes]:
    """The master keys of all sources, in their order: the first encrypts. InvalidSpec for a text that is not
    a source, HostFailed when a key cannot be read. No message has a key or an argument of a program."""
    if not sources:
        raise InvalidSpec("there is no source of a master key", hint=f"write {_FORMS}")
    return [await load_master_key(source) for source in sources]


async def load_master_key(source: str, *, seconds: float = COMMAND_SECONDS) -> bytes:
    """The master key of one source; see `load_master_keys`."""
    kind, _, place = source.partition(":")
    if kind == "file" and place:
        return await asyncio.to_thread(_from_file, place)
    if kind == "env" and place:
        return _from_variable(place)
    if kind == "command" and place:
        return await _from_command(place, seconds)
    # The text may be a key that was written in the wrong place.
    raise InvalidSpec("the source of the master key has no known kind", hint=f"write {_FORMS}")


def _from_file(path: str) -> bytes:
    key = read_key_file(path)
    if key is None:
        raise HostFailed(
            f"the master key {path} does not exist",
            hint=f"create it once: head -c {KEY_BYTES} /dev/urandom > {path}, with mode 600",
        )
    return key


def _from_variable(name: str) -> bytes:
    text = os.environ.get(name)
    if text is None:
        raise HostFailed(f"the variable {name} with the master key is not set")
    return _decoded(text.encode(errors="replace"), f"the variable {name}")


async def _from_command(line: str, seconds: float) -> bytes:
    try:
        words = shlex.split(line)
    except ValueError:
        words = []
    if not words:
        raise InvalidSpec("the command of the master key is not a line of words", hint="check its quotes")
    what = f"the command {words[0]} of the master key"
    reading, writing = os.pipe()
    try:
        output, transport = await _reader(reading)
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            transport.close()
            raise HostFailed(f"{what} cannot be started: {error.strerror}") from None
    finally:
        os.close(writing)
    status = None
    try:
        async with asyncio.timeout(seconds):
            text = await _read(output)
            if len(text) > MAX_OUTPUT:
                raise HostFailed(f"{what} wrote more than {MAX_OUTPUT} bytes")
            status = await process.wait()
    except TimeoutError:
        raise HostFailed(f"{what} did not end within {seconds:g} seconds") from None
    finally:
        transport.close()
        if status is None:
            await _kill(process)
    if status != 0:
        raise HostFailed(f"{what} failed with the status {status}", hint="run the command by hand")
    return _decoded(text, what)


async def _reader(fd: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    """A stream over a pipe of our own. With asyncio's pipe, `wait` would not return before the pipe was read
    to its end, even if the program was killed."""
    stream = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(fd, "rb", 0)
    )
    return stream, transport


async def _read(stream: asyncio.StreamReader) -> bytes:
    """The output of a program until its end, or a little more than is allowed."""
    output = b""
    while len(output) <= MAX_OUTPUT and (part := await stream.read(MAX_OUTPUT + 1)):
        output += part
    return output


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kills a program that has not ended, with everything that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    await process.wait()


def _decoded(text: bytes, what: str) -> bytes:
    """The 32 bytes of a key in base64 (either alphabet) or hex."""
    text = text.strip()
    try:
        if len(text) == 2 * KEY_BYTES:
            key = bytes.fromhex(text.decode("ascii"))
        else:
            padded = text + b"=" * (-len(text) % 4)
            key = base64.b64decode(padded.translate(bytes.maketrans(b"-_", b"+/")), validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) != KEY_BYTES:
        raise HostFailed(
            f"{what} does not hold {KEY_BYTES} bytes in base64 or hex",
            hint=f"make a key with: head -c {KEY_BYTES} /dev/urandom | base64",
        )
    return key
