"""A host's private folder: locked while it lives, swept when it was killed."""

from __future__ import annotations

import os
import resource
import signal
import stat
import threading
from pathlib import Path

import pytest

from plughost.errors import SandboxUnavailable
from plughost.sandbox import run_dir as module
from plughost.sandbox.run_dir import PREFIX, RunDir, default_base, remove_abandoned
from plughost.sandbox.users import Users


@pytest.fixture
def base(folder):
    (folder / "base").mkdir()
    return str(folder / "base")


@pytest.fixture
def killed(base):
    """The quarters of a host that was killed."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        run_dir = RunDir(base, Users(f"{base}/../uids"))
        with open(os.path.join(run_dir.plugin_dir("p").scratch(), "left"), "w"):
            os.write(writer, run_dir.path.encode())
        signal.pause()
    os.close(writer)
    path = os.read(reader, 4096).decode()
    os.close(reader)
    assert os.path.isdir(path)
    remove_abandoned(base)
    assert os.path.exists(f"{path}/0/scratch/left"), "its host lived"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return path


def test_what_a_killed_host_left_is_removed_at_the_next_start(base, killed):
    with RunDir(base) as run_dir:
        assert not os.path.exists(killed)
        assert os.listdir(base) == [os.path.basename(run_dir.path)]
    assert os.listdir(base) == []


def test_live_hosts_and_other_peoples_folders_are_left_alone(base):
    outside = os.path.join(base, "keep")
    os.mkdir(outside)
    os.symlink(outside, os.path.join(base, PREFIX + "link"))
    with open(os.path.join(base, PREFIX + "file"), "w"):
        pass
    with RunDir(base) as first, RunDir(base) as second:
        remove_abandoned(base)
        assert os.path.isdir(first.path)
        assert os.path.isdir(second.path)
        assert first.path != second.path
    assert sorted(os.listdir(base)) == ["keep", PREFIX + "file", PREFIX + "link"]


@pytest.mark.parametrize("moment", ["made", "opened"])
def test_a_sweep_between_making_and_locking_costs_another_try(base, monkeypatch, moment):
    made = []
    make, lock = module.tempfile.mkdtemp, module.fcntl.flock

    def making(**how):
        made.append(make(**how))
        if moment == "made" and len(made) == 1:
            remove_abandoned(base)
        return made[-1]

    def locking(fd, how):
        if moment == "opened" and len(made) == 1:
            monkeypatch.setattr(module.fcntl, "flock", lock)
            remove_abandoned(base)
        lock(fd, how)

    monkeypatch.setattr(module.tempfile, "mkdtemp", making)
    monkeypatch.setattr(module.fcntl, "flock", locking)
    with RunDir(base) as run_dir:
        assert len(made) == 2
        assert run_dir.path == made[1]
        assert os.path.isdir(run_dir.path)


def test_nobody_else_gets_in(base):
    with RunDir(base, Users(f"{base}/../uids")) as run_dir:
        root = os.geteuid() == 0
        assert stat.S_IMODE(os.stat(run_dir.path).st_mode) == (0o711 if root else 0o700)
        plugin_dir = run_dir.plugin_dir("a/plugin with any name")
        assert run_dir.plugin_dir("a/plugin with any name") is plugin_dir
        assert (plugin_dir.user is not None) == root
        info = os.stat(plugin_dir.path)
        assert (stat.S_IMODE(info.st_mode), info.st_uid) == (0o710 if root else 0o700, os.geteuid())
        assert os.stat(plugin_dir.scratch()).st_uid == (plugin_dir.user.uid if root else os.geteuid())
        assert len(f"{plugin_dir.path}/way-out/proxy") < 108


def test_scratch_of_any_depth_is_removed(base):
    kept = os.path.join(base, "kept")
    os.mkdir(kept)
    with RunDir(base, Users(f"{base}/../uids")) as run_dir:
        scratch = run_dir.plugin_dir("p").scratch()
        os.symlink(kept, os.path.join(scratch, "link"))
        os.mkdir(os.path.join(scratch, ".1"))
        os.mkdir(os.path.join(scratch, "closed"), 0)
        os.mkfifo(os.path.join(scratch, "fifo"))
        here = os.open(scratch, os.O_RDONLY)
        name = "d" * 200
        for _ in range(40):  # a path twice as long as any may be
            os.mkdir(name, dir_fd=here)
            below = os.open(name, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(here)
    assert os.listdir(base) == ["kept"]


def test_a_base_that_cannot_be_used_is_explained(base):
    with pytest.raises(SandboxUnavailable, match="no private folder") as caught:
        RunDir(f"{base}/missing")
    assert "TMPDIR" in caught.value.hint


def test_the_session_folder_is_preferred(base, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", base)
    assert default_base() == (base if os.geteuid() else os.path.abspath(os.environ.get("TMPDIR") or "/tmp"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/no/such")
    assert default_base() == os.path.abspath(os.environ.get("TMPDIR") or "/tmp")


def test_a_forked_child_leaves_the_hosts_quarters_alone(base):
    with RunDir(base, Users(f"{base}/../uids")) as run_dir:
        pid = os.fork()
        if pid == 0:
            run_dir.close()
            os._exit(0)
        os.waitpid(pid, 0)
        assert os.path.isdir(run_dir.path)
        assert run_dir.plugin_dir("p").path.startswith(run_dir.path)


def test_a_copy_that_a_full_disk_cut_short_is_not_run_but_made_again(tmp_path):
    program = tmp_path / "program"
    program.write_bytes(b"x" * 100_000)
    (tmp_path / "base").mkdir()
    with RunDir(str(tmp_path / "base")) as run_dir:
        most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, most[1]))
        try:
            with pytest.raises(OSError, match="File too large"):
                run_dir.reachable(str(program))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, most)
        assert Path(run_dir.reachable(str(program))).read_bytes() == program.read_bytes()


def test_a_plugin_that_leaves_while_its_host_closes_leaves_nothing(tmp_path, monkeypatch):
    """Both remove the plugin's directory; one waits for the other."""
    run_dir = RunDir(str(tmp_path))
    plugin = Path(run_dir.plugin_dir("one").path)
    (plugin / "full").mkdir()
    removing, go_on = threading.Event(), threading.Event()
    real = module.rmtree

    def slow(path):
        if path == str(plugin):
            removing.set()
            go_on.wait(10)
        real(path)

    monkeypatch.setattr(module, "rmtree", slow)
    leaving = threading.Thread(target=run_dir.leave, args=("one",))
    leaving.start()
    removing.wait(10)
    closing = threading.Thread(target=run_dir.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive(), "it waits for what is being removed"
    go_on.set()
    leaving.join()
    closing.join()
    assert not Path(run_dir.path).exists()
