"""Whether an address leads to another machine, in a network of our own."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import shutil
import subprocess
import sys
import threading

import pytest

from plughost.guard import lookup
from plughost.guard.lookup import leads_away
from tests.support import until

IN_A_NETWORK = """
import fcntl, ipaddress, json, socket, struct, sys
from plughost.guard.lookup import leads_away

def set_up(name, address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        place = struct.pack("16sH2s4s8x", name, socket.AF_INET, b"", socket.inet_aton(address))
        fcntl.ioctl(way, 0x8916, place)  # SIOCSIFADDR
        fcntl.ioctl(way, 0x8914, struct.pack("16sh14x", name, 1))  # SIOCSIFFLAGS: up

set_up(b"lo", "127.0.0.1")
set_up(b"lo:1", "8.8.4.4")
print(json.dumps([leads_away(ipaddress.ip_address(address)) for address in sys.argv[1:]]))
"""


def test_an_address_of_this_machine_leads_nowhere_else_however_public_it_is():
    command = ["unshare", "--user", "--map-root-user", "--net", "--"]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], check=False).returncode:
        assert not os.environ.get("CI"), "no user namespaces here"
        pytest.skip("no user namespaces here")
    addresses = ("8.8.4.4", "::ffff:8.8.4.4", "8.8.8.8", "2606:4700:4700::1111", "127.0.0.1", "10.0.0.1")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [*command, sys.executable, "-c", IN_A_NETWORK, *addresses], env=env, capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [False, False, True, True, False, False]


def test_where_it_cannot_be_found_out_it_does_not(monkeypatch):
    def full(*_):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(lookup.socket, "socket", full)
    assert not leads_away(ipaddress.ip_address("8.8.8.8"))


ABANDONED = """
import asyncio, socket, threading
from plughost.guard.lookup import Lookup

socket.getaddrinfo = lambda *_, **__: threading.Event().wait()  # a name server that never answers

async def main():
    lookup = Lookup(2, "test")
    for _ in range(4):
        try:
            await asyncio.wait_for(lookup("slow.test"), 0.01)
        except TimeoutError:
            print(threading.active_count() - 1)

asyncio.run(main())
"""


def test_a_name_server_that_never_answers_keeps_no_program_from_ending():
    """Nor do lookups that nobody waits for any more become more than there may be at once."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", ABANDONED]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=20, check=False)
    assert (ran.returncode, ran.stdout.split(), ran.stderr) == (0, ["1", "2", "2", "2"], "")


async def test_lookups_take_turns_and_tell_what_went_wrong():
    lookups = lookup.Lookup(1, "test")
    threads = [await lookups.in_thread(threading.get_ident) for _ in range(2)]
    assert threading.get_ident() not in threads
    with pytest.raises(ZeroDivisionError):
        await lookups.in_thread(lambda: 1 // 0)
    go, began = threading.Event(), threading.Event()
    first = asyncio.ensure_future(lookups.in_thread(lambda: (began.set(), go.wait())))
    await until(began.is_set)
    second = asyncio.ensure_future(lookups.in_thread(lambda: "second"))
    first.cancel()
    await asyncio.wait([first])
    assert not second.done(), "its thread is still taken"
    go.set()
    assert await second == "second"


async def test_where_no_thread_can_be_started_a_lookup_fails_and_the_next_one_may_work(monkeypatch):
    lookups = lookup.Lookup(1, "test")
    with monkeypatch.context() as short:
        short.setattr(threading.Thread, "start", lambda _: (_ for _ in ()).throw(RuntimeError("no thread")))
        with pytest.raises(OSError, match="no thread"):
            await lookups.in_thread(lambda: 1)
    assert await lookups.in_thread(lambda: 1) == 1
