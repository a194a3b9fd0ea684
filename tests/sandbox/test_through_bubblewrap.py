"""The chain of the strict class: launcher, bubblewrap, inner step, plugin."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.support.sandbox_env import CONFINE, PYTHON, ROOT_HOST, fields, run


def bubblewrap(inner, *options):
    if shutil.which("bwrap") is None:
        if os.environ.get("CI"):
            pytest.fail("bubblewrap is missing")
        pytest.skip("bubblewrap is not installed")
    links = [word for name in ("bin", "lib", "lib64") for word in ("--symlink", f"usr/{name}", f"/{name}")]
    view = [
        "--ro-bind",
        "/usr",
        "/usr",
        *links,
        "--ro-bind",
        str(inner),
        "/inner",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
    ]
    return ["bwrap", "--unshare-all", "--new-session", *view, *options, "--remount-ro", "/", "--", "/inner"]


async def test_the_report_goes_through_bubblewrap_and_its_pipe_does_not_reach_the_plugin(ground, launcher):
    words = ["limit", "nproc", "20", "execute", "/usr", "read", "/proc", "landlock", "seccomp"]
    script = (
        "import os; print(sorted(os.listdir('/proc/self/fd')), os.getuid(), open('/proc/self/status').read())"
    )
    python = ("/usr/bin/python3", *PYTHON[1:])
    command = [*bubblewrap(ground / "plughost-inner"), *words, "--", python[0], *python, script]
    ran = await run(command, launcher=launcher)
    assert ran.failure is None
    uid = CONFINE.split(":")[0] if ROOT_HOST else os.getuid()
    assert ran.out.startswith(f"['0', '1', '2', '3'] {uid} "), ran.err  # the fourth is the listing's own
    assert [word.split()[0] for word in ran.confined_by] == ["uid"] * ROOT_HOST + ["landlock", "seccomp"]
    assert fields(ran.out)["CapBnd"] == ["0" * 16]


async def test_a_bubblewrap_that_fails_is_a_failed_launch_not_a_crash(ground, launcher):
    command = [*bubblewrap(ground / "plughost-inner", "--bind", "/no/such", "/x"), "--", "/bin/true", "true"]
    ran = await run(command, launcher=launcher)
    assert "bwrap ended before the plugin was confined" in ran.failure.message
    assert "/no/such" in ran.err
