"""A program that dies with a secret in its memory leaves no core that holds it, and neither does the host."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import until
from tests.vai.invocations.conftest import SECRET, TENANT, Bench

PATTERN = Path("/proc/sys/kernel/core_pattern").read_text().strip()
"""Where cores go: a name in the working folder of whoever dies, an absolute path, or a program."""
DEADLY = [signal.SIGABRT, signal.SIGSEGV]


@pytest.fixture
def cores_allowed() -> Iterator[None]:
    """As large as they may be, so that nothing but what is tested keeps them away."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, before)


def cores_can_be_made() -> None:
    """Skips where a core would not be a file in the working folder."""
    if PATTERN.startswith(("|", "/")):
        pytest.skip(f"cores go to {PATTERN} here, not into the working folder")
    if resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY:
        pytest.skip("nobody here may dump core")


def found_in(*folders: Path) -> list[Path]:
    """The files that hold the secret, or look like a core."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if path.name.startswith("core") or SECRET.encode() in path.read_bytes()]


def frames(scratch: Path, number: int) -> bytes:
    context = {"scratch_dir": str(scratch)}
    body = {"input": {"do": "die", "of": number}, "context": context, "secrets": {"key": SECRET}}
    request = {"type": "request", "id": "req_1", "op": "tool.invoke", "body": body}
    said = b""
    for frame in ({"type": "hello"}, request):
        text = json.dumps({"protocol": "vai.rpc.v1", **frame}).encode()
        said += b"Content-Length: %d\r\n\r\n%b" % (len(text), text)
    return said


def recorded(folder: Path) -> bytes:
    found = b""
    for path in folder.glob("state/*"):
        with contextlib.suppress(
            OSError
        ):  # a folder, or gone since: whoever closes a database removes its log
            found += path.read_bytes()
    return found


@pytest.mark.usefixtures("cores_allowed")
def test_the_same_program_by_itself_leaves_its_secret_in_a_core(ground: Path, tmp_path: Path) -> None:
    """What the next test looks for is there to be found."""
    cores_can_be_made()
    command = [ground / "lab/bin/plugin"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as ran:
        assert ran.stdin is not None
        ran.stdin.write(frames(tmp_path, signal.SIGABRT))
        ran.stdin.flush()
        assert ran.wait(30) == -signal.SIGABRT
    (core,) = found_in(tmp_path)
    assert SECRET.encode() in core.read_bytes()


@pytest.mark.clause("VAI-90")
@pytest.mark.usefixtures("strict", "cores_allowed")
@pytest.mark.parametrize("number", DEADLY)
async def test_a_confined_one_leaves_none(bench, monkeypatch, number: int) -> None:
    """In its scratch folder, where it dies, before that is removed; and nowhere else of the host's."""
    lab: Bench = bench(sandbox="strict")
    seen: list[Path] = []
    left: list[Path] = []
    remove = lab.invoker._executor.scratch.remove

    async def searched(path: str) -> None:
        seen.append(Path(path))
        left.extend(found_in(Path(path)))
        await remove(path)

    monkeypatch.setattr(lab.invoker._executor.scratch, "remove", searched)
    outcome = await lab.tool("writes", do="die", of=int(number))
    assert (outcome.status, outcome.reason) == ("failed", "crashed")
    assert outcome.message == f"it exited with code {128 + number}"
    assert seen, "it had a folder to die in"
    assert not left
    places = [lab.folder / "lab", *lab.folder.glob("plughost-scratch-*"), lab.folder / "state"]
    assert not found_in(*(place for place in places if place.exists()))
    assert not [path for path in Path.cwd().glob("core*") if path.is_file()]


@pytest.mark.clause("VAI-90")
@pytest.mark.usefixtures("cores_allowed")
async def test_nor_does_a_host_that_dies_with_it(ground: Path, tmp_path: Path) -> None:
    cores_can_be_made()
    command = [
        sys.executable, "-m", "plughost.cli", "invoke", str(ground / "lab"), "writes",
        '{"do": "say and wait"}', "--stream", "--sandbox", "none", "--state", str(tmp_path / "state"),
        "--org", TENANT.org_id, "--secret", "key=secret://org_1/key", "--secrets", str(ground / "secrets"),
    ]  # fmt: skip
    with subprocess.Popen(command, cwd=tmp_path, env=os.environ, stdout=subprocess.PIPE) as ran:
        await until(lambda: b"waiting" in recorded(tmp_path), 30)
        os.kill(ran.pid, signal.SIGABRT)
        assert ran.wait(30) == -signal.SIGABRT
    assert not found_in(tmp_path)
