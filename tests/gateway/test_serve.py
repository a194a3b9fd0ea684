"""`plughost serve` as a process: its first start, its folder, its clients, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from plughost.errors import HostFailed
from plughost.gateway import server
from plughost.gateway.gateway import Gateway
from tests.support.postgres import Server


@contextlib.contextmanager
def serving(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A gateway process that is ready, and its URL."""
    command = [
        sys.executable,
        "-m",
        "plughost.cli",
        "serve",
        "--data",
        str(folder),
        "--port",
        "0",
        "--json",
        *words,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, process.stderr and process.stderr.read()
            yield process, json.loads(line)["url"]
        finally:
            if process.poll() is None:
                process.kill()


def get(url: str, folder: Path) -> httpx.Response:
    key = (folder / "admin.key").read_text().strip()
    return httpx.get(f"{url}/v1/projects", headers={"Authorization": f"Bearer {key}"})


@pytest.mark.clause("GW-01", "GW-09")
def test_the_first_start_makes_a_project_and_a_key_that_still_work_after_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with serving(folder) as (process, url):
        first = get(url, folder).json()["items"]
        assert [project["name"] for project in first] == ["first"]
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        for name in ("admin.key", "master.key", "vai.db"):
            assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600, name
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    with serving(folder) as (process, url):
        assert get(url, folder).json()["items"] == first
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


@pytest.mark.clause("GW-01")
def test_a_second_gateway_on_the_same_folder_is_refused_with_the_cause(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with serving(folder):
        words = [sys.executable, "-m", "plughost.cli", "serve", "--data", str(folder), "--port", "0"]
        refused = subprocess.run(words, capture_output=True, text=True, timeout=30)
        assert refused.returncode not in (0, -9)
        assert "another gateway uses the data folder" in refused.stderr


@pytest.mark.clause("GW-11")
def test_it_listens_on_loopback_only(tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "plughost.cli",
        "serve",
        "--data",
        str(tmp_path / "d"),
        "--host",
        "0.0.0.0",
    ]
    refused = subprocess.run(words, capture_output=True, text=True, timeout=30)
    assert refused.returncode == 2
    assert "0.0.0.0 is not a loopback address" in refused.stderr


@pytest.mark.clause("GW-01")
async def test_processes_that_start_at_once_on_a_new_postgresql_make_one_organisation(
    tmp_path: Path, postgres: Server
) -> None:
    url, key = await postgres.create(), os.urandom(32)
    folders = [tmp_path / f"{number}" for number in range(4)]
    async with contextlib.AsyncExitStack() as stack:
        gateways = await asyncio.gather(
            *(
                stack.enter_async_context(Gateway(str(folder), database=url, master_key=key, port=0))
                for folder in folders
            )
        )
        [made] = [gateway.admin_key_file for gateway in gateways if gateway.admin_key_file is not None]
        admin = Path(made).read_text().strip()
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {admin}"}) as client:
            for gateway in gateways:
                orgs = (await client.get(f"{gateway.url}/v1/orgs")).json()["items"]
                assert len(orgs) == 1


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with Gateway(str(tmp_path / "data"), port=0, grace=1.0) as running:
        yield running


@pytest.mark.clause("GW-10")
@pytest.mark.parametrize(
    "sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: localho"], ids=["silence", "half a head"]
)
async def test_a_client_that_does_not_finish_its_head_is_cut_off(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.2)
    host, port = gateway._listener.getsockname()
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(sent)
    with contextlib.suppress(ConnectionError):
        assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"{gateway.url}/healthz")).status_code == 200


async def test_many_requests_on_one_connection_are_answered(gateway: Gateway, monkeypatch) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.5)
    async with httpx.AsyncClient() as client:
        for _ in range(20):
            assert (await client.get(f"{gateway.url}/healthz")).status_code == 200
            await asyncio.sleep(0.04)  # longer together than the time for one head


@pytest.mark.clause("GW-09")
async def test_requests_finish_when_the_gateway_ends(tmp_path: Path) -> None:
    gateway = Gateway(str(tmp_path / "data"), port=0, grace=5.0)
    await gateway.__aenter__()
    reader, writer = await asyncio.open_connection(*gateway._listener.getsockname())
    body = b'{"name": "late"}'
    key = (tmp_path / "data" / "admin.key").read_text().strip()
    head = (
        f"POST /v1/projects HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body[:4])
    await asyncio.sleep(0.1)  # its steps are done: it waits for the rest of its body
    ending = asyncio.create_task(gateway.__aexit__(None, None, None))
    await asyncio.sleep(0.1)
    writer.write(body[4:])
    assert (await asyncio.wait_for(reader.readline(), 10)).startswith(b"HTTP/1.1 201")
    writer.close()
    await asyncio.wait_for(ending, 20)


async def test_a_folder_that_others_can_enter_and_a_port_in_use_are_told_plainly(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(HostFailed, match="can be entered by other users"):
        await Gateway(str(tmp_path / "open"), port=0).__aenter__()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(HostFailed, match="cannot listen on 127.0.0.1 port"):
            await Gateway(str(tmp_path / "data"), port=taken.getsockname()[1]).__aenter__()


@pytest.mark.clause("GW-01")
async def test_the_owner_of_the_folder_recovers_a_lost_key(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with Gateway(str(folder), port=0):
        pass
    lost = (folder / "admin.key").read_text()
    (folder / "admin.key").unlink()
    words = [sys.executable, "-m", "plughost.cli", "gw", "keys", "recover", "--data", str(folder), "--json"]
    ran = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True, timeout=30)
    assert json.loads(ran.stdout) == {"key_file": str(folder / "admin.key")}, ran.stderr
    assert (folder / "admin.key").read_text() != lost
    async with Gateway(str(folder), port=0) as gateway, httpx.AsyncClient() as client:
        key = (folder / "admin.key").read_text().strip()
        answer = await client.get(f"{gateway.url}/v1/orgs", headers={"Authorization": f"Bearer {key}"})
        assert answer.status_code == 200
