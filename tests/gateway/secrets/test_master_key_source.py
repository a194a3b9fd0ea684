"""The master key from a file, a variable or a command, and nowhere else."""

from __future__ import annotations

import asyncio
import base64
import os
import shlex
import sys
import time
from pathlib import Path

import pytest

from plughost.errors import HostFailed, InvalidSpec
from plughost.gateway.secrets.master_key_source import load_master_key, load_master_keys
from plughost.vai.database.master_key import MasterKey
from tests.support import all_gone

KEY = os.urandom(32)
SPELLINGS = [KEY.hex(), KEY.hex().upper(), base64.b64encode(KEY).decode(), base64.urlsafe_b64encode(KEY).decode().rstrip("=")]  # fmt: skip


def command(code: str, *words: str) -> str:
    return "command:" + shlex.join([sys.executable, "-c", code, *words])


def shown(error: BaseException) -> str:
    return "".join(map(repr, (error, error.__cause__, error.__context__))) + str(vars(error))


@pytest.mark.clause("GW-31")
@pytest.mark.parametrize("text", SPELLINGS, ids=["hex", "upper-case hex", "base64", "base64 for URLs"])
async def test_a_key_from_each_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    file = tmp_path / "key"
    file.write_bytes(KEY)
    file.chmod(0o600)
    monkeypatch.setenv("A_KEY", f" {text}\n")
    sources = [f"file:{file}", "env:A_KEY", command("import sys; print(sys.argv[1])", text)]
    assert await load_master_keys(sources) == [KEY, KEY, KEY]


@pytest.mark.clause("GW-31")
async def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "key"
    with pytest.raises(HostFailed, match="does not exist"):
        await load_master_key(f"file:{file}")
    file.write_bytes(KEY)
    file.chmod(0o640)
    with pytest.raises(HostFailed, match="can be read by other users"):
        await load_master_key(f"file:{file}")


async def test_a_command_has_no_shell(tmp_path: Path) -> None:
    made = tmp_path / "made"
    source = command(
        "import sys; print(sys.argv[1:], file=sys.stderr)", f"$(touch {made})", ";", "touch", str(made)
    )
    with pytest.raises(HostFailed, match="does not hold 32 bytes in base64 or hex"):
        await load_master_key(source)
    assert not made.exists()
    with pytest.raises(HostFailed, match="cannot be started: No such file or directory"):
        await load_master_key("command:/nowhere/at-all token-in-an-argument")
    with pytest.raises(InvalidSpec, match="not a line of words"):
        await load_master_key("command:'unfinished")


async def test_a_command_has_little_time_and_room(mark: str) -> None:
    began = time.monotonic()
    child = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', '{mark}']); time.sleep(600)"
    with pytest.raises(HostFailed, match="did not end within 1 seconds"):
        await load_master_key(command(child, mark), seconds=1.0)
    endless = "import sys\nwhile True: sys.stdout.write('x' * 9999)"
    with pytest.raises(HostFailed, match="wrote more than 1024 bytes"):
        await load_master_key(command(endless, mark))
    task = asyncio.create_task(load_master_key(command(child, mark)))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await all_gone(mark)
    assert time.monotonic() - began < 20


@pytest.mark.clause("GW-31", "VAI-90")
async def test_no_message_shows_a_key_or_an_argument(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    text = SPELLINGS[2]
    monkeypatch.setenv("A_KEY", text[:-6])
    monkeypatch.setenv("HEX_KEY", "zz" + KEY.hex()[2:])
    monkeypatch.setenv("GAPS", KEY.hex()[:-4] + "    ")
    failing = "import sys; print(sys.argv[1]); print(sys.argv[1], file=sys.stderr); sys.exit(3)"
    for source, words in (
        ("env:A_KEY", "the variable A_KEY does not hold"),
        ("env:HEX_KEY", "the variable HEX_KEY does not hold"),
        ("env:GAPS", "the variable GAPS does not hold"),
        ("env:MISSING_KEY", "MISSING_KEY with the master key is not set"),
        (command(failing, text), "failed with the status 3"),
        (command("import sys; print(sys.argv[1] * 2)", text), "does not hold 32 bytes"),
        (text, "no known kind"),
        (f"key:{text}", "no known kind"),
        ("env:", "no known kind"),
    ):
        with pytest.raises((HostFailed, InvalidSpec), match=words) as caught:
            await load_master_key(source)
        assert not [each for each in (text[:20], KEY.hex()[8:28]) if each in shown(caught.value)]
    with pytest.raises(InvalidSpec):
        await load_master_keys([])
    captured = capfd.readouterr()
    assert text[:20] not in captured.out + captured.err


async def test_several_given_keys_are_one_master_key(tmp_path: Path) -> None:
    old, new = os.urandom(32), os.urandom(32)
    seal = await MasterKey(str(tmp_path), [new, old]).seal(create=False)
    assert seal is not None
    assert len(seal.key_ids) == 2
    for wrong in ([], [new, b"short"], [new, "k" * 32]):
        with pytest.raises(InvalidSpec, match="expected 32 bytes"):
            MasterKey(str(tmp_path), wrong)
