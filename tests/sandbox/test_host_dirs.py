"""No plugin is given what hosts keep for themselves: through their sockets it would have others' powers."""

from __future__ import annotations

import os

import pytest

from plughost.errors import SandboxUnavailable
from plughost.permissions.access import Access
from plughost.sandbox.host_dirs import bases, check_private
from tests.support.sandbox import confinement, run

BASES = ("/tmp", "/run/user/1000")


@pytest.mark.parametrize(
    "path",
    ["/", "/tmp", "/run", "/run/user", "/run/user/1000", "/tmp/plughost-host-x1", "/tmp/plughost-host-x1/0/scratch",
     "/run/user/1000/plughost", f"/tmp/plughost-{os.getuid()}/1.sock"],
)  # fmt: skip
def test_what_holds_a_hosts_own_or_is_part_of_it_is_refused(path):
    with pytest.raises(SandboxUnavailable, match=f"{path} cannot be granted: "):
        check_private([path], BASES)


def test_what_stands_beside_it_is_not():
    check_private(["/tmp/notes", "/tmpfiles", "/run/user/10001", "/run/user/1000/app", "/home"], BASES)


def test_hosts_settle_where_the_environment_says(monkeypatch, folder):
    (folder / "run").symlink_to("really")
    (folder / "really").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "run"))
    assert bases("/q")[:2] == ("/q", str(folder / "really"))


@pytest.mark.usefixtures("strict")
def test_a_grant_of_the_folder_that_hosts_settle_in_is_refused(run_dir, folder):
    for access in (
        Access(read=(run_dir.base,)),
        Access(write=(str(folder),)),
        Access(read=(run_dir.path,)),
    ):
        with pytest.raises(SandboxUnavailable, match="cannot be granted"):
            confinement(run_dir, ["/bin/sh"], access=access)
    beside = os.path.join(run_dir.base, "beside")
    os.mkdir(beside)
    found = confinement(run_dir, ["/bin/sh", "-c", "echo here"], access=Access(read=(beside,)))
    assert run(found.launch).out == "here\n"
