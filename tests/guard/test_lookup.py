"""Whether an address leads to another machine, in a network of our own."""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import subprocess
import sys

import pytest

from plughost.permissions import resolver
from plughost.permissions.resolver import is_remote

IN_A_NETWORK = """
import fcntl, ipaddress, json, socket, struct, sys
from plughost.permissions.resolver import is_remote

def set_up(name, address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        place = struct.pack("16sH2s4s8x", name, socket.AF_INET, b"", socket.inet_aton(address))
        fcntl.ioctl(way, 0x8916, place)  # SIOCSIFADDR
        fcntl.ioctl(way, 0x8914, struct.pack("16sh14x", name, 1))  # SIOCSIFFLAGS: up

set_up(b"lo", "127.0.0.1")
set_up(b"lo:1", "8.8.4.4")
print(json.dumps([is_remote(ipaddress.ip_address(address)) for address in sys.argv[1:]]))
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

    monkeypatch.setattr(resolver.socket, "socket", full)
    assert not is_remote(ipaddress.ip_address("8.8.8.8"))
