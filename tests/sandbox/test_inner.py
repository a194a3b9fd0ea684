"""The inner step gives up files, ports, limits and privileges; without its words, each would be there."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess

import pytest

from plughost.engine.launcher.launch import Launch, LaunchReport
from plughost.errors import SandboxUnavailable
from plughost.sandbox.file_identity import file_identity
from tests.support import ROOT
from tests.support.confinable import PUBLIC_PYTHON
from tests.support.sandbox_env import CONFINE, NOBODY, PYTHON, ROOT_HOST, SYSTEM, run

SH = ["/bin/sh", "-c"]
UNHELD = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if ROOT_HOST else {}


@pytest.fixture
def folders(ground):
    """Everything here belongs to the plugin's own user: only Landlock is in the way."""
    own = ground / "own"
    for name in ("listable", "readable", "writable", "secret", "programs"):
        (own / name).mkdir()
        (own / name / "file").write_text(f"of {name}\n")
        (own / name / "program").write_bytes(open("/bin/echo", "rb").read())
        (own / name / "program").chmod(0o755)
    if ROOT_HOST:
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", own], check=True)
    return own


def granted(own):
    return [
        *SYSTEM,
        *("list", str(own / "listable")),
        *("read", str(own / "readable")),
        *("write", str(own / "writable")),
        *("execute", str(own / "programs")),
        *("write", "/dev/null"),
        *("read", str(own / "not there")),
    ]


ATTEMPTS = {
    "read": "cat {}/file",
    "list": "ls {}",
    "write": "echo more >> {}/file",
    "truncate": f"{PUBLIC_PYTHON} -c 'import os, sys; os.truncate(sys.argv[1], 0)' {{}}/file",
    "create": "echo new > {}/new",
    "folder": "mkdir {}/below",
    "link": "ln -s x {}/link",
    "rename": "mv {}/file {}/other",
    "remove": "rm {}/program",
    "execute": "{}/program hello",
}
MAY = {
    "listable": {"list"},
    "readable": {"read", "list"},
    "writable": set(ATTEMPTS) - {"execute"},
    "programs": {"read", "list", "execute"},
    "secret": set(),
}


@pytest.mark.parametrize("where", MAY)
@pytest.mark.parametrize("held", [True, False], ids=["landlock", "unheld"])
async def test_files_are_what_landlock_grants(inner, folders, where, held):
    order = sorted(ATTEMPTS, key=["rename", "remove"].__contains__)  # these two last: others need the files
    path = folders / where
    script = "\n".join(
        f"({ATTEMPTS[name].format(path, path)}) >/dev/null 2>&1 && echo {name}" for name in order
    )
    words = [*granted(folders), *(["landlock"] if held else [])]
    ran = await inner(words, [*SH, script + "\n:"])
    assert ran.failure is None
    assert set(ran.out.split()) == (MAY[where] if held else set(ATTEMPTS)), ran.err
    assert [word.split()[0] for word in ran.confined_by if not word.startswith("uid")] == ["landlock"] * held


async def test_what_is_not_granted_cannot_be_reached_by_a_link_or_a_move(inner, folders):
    """Renaming out of a folder would be reading with a detour."""
    script = f"""
    ln -s {folders}/secret/file {folders}/writable/link && cat {folders}/writable/link && echo followed
    ln {folders}/secret/file {folders}/writable/hard && echo linked
    mv {folders}/secret/file {folders}/writable/moved && echo moved
    :"""
    ran = await inner([*granted(folders), "landlock"], [*SH, script])
    assert ran.out == ""
    assert ran.err.count("Permission denied") + ran.err.count("cross-device") == 3


async def test_no_symlink_is_followed_to_what_is_granted(inner, folders):
    (folders / "link").symlink_to(folders / "secret")
    for path in (folders / "link", folders / "link" / "file"):
        ran = await inner(
            [*SYSTEM, "read", str(path), "landlock"], ["/bin/cat", str(folders / "secret/file")]
        )
        assert f"{path} is no longer what it was" in ran.failure.message
        assert ran.out == ""


async def test_what_was_replaced_since_it_was_looked_at_is_not_used(inner, folders):
    readable, secret = folders / "readable", folders / "secret"
    seen = file_identity(str(readable))
    ran = await inner(["same", str(readable), seen], ["/bin/echo", "here"])
    assert (ran.failure, ran.out) == (None, "here\n")
    readable.rename(folders / "old")
    for replace in (lambda: None, readable.mkdir, lambda: (readable.rmdir(), readable.symlink_to(secret))):
        replace()
        ran = await inner(["same", str(readable), seen], ["/bin/echo", "here"])
        assert f"{readable} is no longer what it was" in ran.failure.message
        assert "reload" in ran.failure.hint
        assert ran.out == ""
    with pytest.raises(SandboxUnavailable, match="its path now has a symlink"):
        file_identity(str(readable / "file"))
    with pytest.raises(SandboxUnavailable, match="disappeared"):
        file_identity(str(folders / "gone"))


NETWORK = """
import json, os, socket, sys
port, name, pid = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
def attempt(what):
    try:
        what()
        return "done"
    except OSError as error:
        return error.strerror
def bind():
    with socket.socket() as s: s.bind(("127.0.0.1", 0))
def abstract():
    with socket.socket(socket.AF_UNIX) as s: s.connect("\\0" + name)
print(json.dumps({
    "connect": attempt(lambda: socket.create_connection(("127.0.0.1", port)).close()),
    "bind": attempt(bind), "abstract": attempt(abstract), "signal": attempt(lambda: os.kill(pid, 0)),
}))
"""


@pytest.mark.parametrize("held", ["unheld", "landlock", "with the port"])
async def test_ports_signals_and_abstract_sockets(inner, held, mark):
    port_words = {"unheld": [], "landlock": ["connect", "1", "landlock"]}
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, **UNHELD) as neighbour,
    ):
        abstract.bind("\0" + mark)
        abstract.listen()
        port = str(server.getsockname()[1])
        words = [*SYSTEM, *port_words.get(held, ["connect", port, "landlock"])]
        # Without a PID namespace: the neighbour's number means something inside.
        ran = await inner(words, [*PYTHON, NETWORK, port, mark, str(neighbour.pid)], mode="subreaper")
        neighbour.stdin.close()
    abi = next((int(word.split()[1]) for word in ran.confined_by if word.startswith("landlock")), 0)
    tcp = "Permission denied" if abi >= 4 else "done"
    scoped = "Operation not permitted" if abi >= 6 else "done"
    assert json.loads(ran.out) == {
        "connect": "done" if held == "with the port" else tcp,
        "bind": tcp,
        "abstract": scoped,
        "signal": scoped,
    }, ran.err


async def test_limits_hold_for_the_plugin(inner):
    names = {"nofile": 64, "nproc": 500, "fsize": 100_000, "data": 400_000_000, "cpu": 5, "core": 0}
    words = [word for name, value in names.items() for word in ("limit", name, str(value))]
    script = "import resource as r; print([r.getrlimit(getattr(r, 'RLIMIT_' + n.upper())) for n in %r])" % [
        *names
    ]
    ran = await inner([*words, "seccomp"], [*PYTHON, script])
    assert ran.out.strip() == str([(value, value + (name == "cpu")) for name, value in names.items()])


async def test_a_limit_that_cannot_be_set_is_told_by_name(inner):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for words, why in (
        (["limit", "nofile", str(hard + 2**30)], "EPERM"),
        (["limit", "nofile", "many"], "EINVAL"),
        (["limit", "sleep", "1"], "EINVAL"),
    ):
        ran = await inner(words, ["/bin/true"])
        assert f"the limit of {words[1]}" in ran.failure.message
        assert why in ran.failure.message


@pytest.mark.skipif(not ROOT_HOST, reason="needs root, to hand it to a namespace of its own")
@pytest.mark.parametrize("who", [["-Ur"], ["-Uc", "--keep-caps"]], ids=["uid 0", "ambient"])
def test_no_capability_of_a_user_namespace_is_kept(ground, who):
    """Neither what uid 0 gets by an exec, nor what is handed on; the bounding set is emptied, too."""
    plain = ["/bin/cat", "/proc/self/status"]
    below = [ground / "plughost-inner", "--", plain[0], *plain]
    for command, held in ((plain, False), (below, True)):
        ran = subprocess.run(
            ["unshare", *who, *command], capture_output=True, text=True, cwd="/", **UNHELD, check=True
        )
        caps = {line.split()[1] for line in ran.stdout.splitlines() if line.startswith("Cap")}
        assert (caps == {"0" * 16}) is held


async def test_the_plugin_gets_three_descriptors_and_may_be_traced_by_its_own(inner):
    script = "import os; print(sorted(os.listdir('/proc/self/fd')), os.stat('/proc/self/mem').st_uid == os.getuid())"
    ran = await inner(["seccomp"], [*PYTHON, script])
    assert ran.out == "['0', '1', '2', '3'] True\n"  # the last is the listing's own


async def test_a_failed_exec_tells_which_program_and_why(inner, ground):
    (ground / "text").write_text("no program")
    (ground / "text").chmod(0o755)
    for program, why, hint in (
        ("/no/such/program", "ENOENT", "inside the sandbox"),
        (str(ground), "EACCES", "must be executable, granted"),
        (str(ground / "text"), "ENOEXEC", "first line"),
    ):
        ran = await inner(["seccomp"], [program])
        assert ran.failure.message.startswith(f"cannot execute '{program}'")
        assert why in ran.failure.message
        assert hint in ran.failure.hint
    ran = await inner([*SYSTEM, "landlock"], [str(ground / "plughost-inner")])
    assert "EACCES" in ran.failure.message


async def test_the_folder_to_start_in(inner, ground):
    ran = await inner(["cwd", str(ground / "own")], [*SH, "pwd"])
    assert ran.out == f"{ground / 'own'}\n"
    ran = await inner(["cwd", "/no/such/folder"], [*SH, "pwd"])
    assert "cannot start in folder '/no/such/folder'" in ran.failure.message


async def test_a_port_that_is_none_is_refused_as_a_rule(inner):
    ran = await inner(["connect", "https", "landlock"], ["/bin/true"])
    assert "Landlock" in ran.failure.message
    assert "EINVAL" in ran.failure.message


@pytest.mark.parametrize("words", [["dance"], ["read"], ["limit", "nofile"], ["--"], [""]])
async def test_words_that_make_no_sense_start_nothing(ground, words):
    ran = await run([str(ground / "plughost-inner"), *words])
    assert ran.failure.message.startswith("plughost-inner does not understand")


def test_every_failing_stage_is_explained():
    launch = Launch(("/usr/bin/bwrap",), {}, confine=CONFINE)
    for stage in ("uid", "landlock", "forward", "capabilities", "seccomp", "descriptors", "words", "limit"):
        report = LaunchReport()
        report.feed(f"mode pidns\nfail {stage} 1 nofile\n".encode())
        failure = report.failure(launch)
        assert "the launcher failed" not in failure.message
        assert "Operation not permitted (EPERM)" in failure.message
        assert failure.hint


def test_a_confined_launch_that_never_came_to_its_inner_step_is_no_success():
    report = LaunchReport()
    report.feed(b"mode pidns\nlandlock 7\nseccomp\n")
    assert report.failure(Launch(("x",), {})) is None
    assert report.failure(Launch(("x",), {}, confine="keep")) is not None
    report.feed(b"confined\n")
    assert report.failure(Launch(("x",), {}, confine="keep")) is None
    assert report.confined_by == ("landlock 7", "seccomp")


def test_the_source_of_the_inner_step_compiles_without_a_warning(tmp_path):
    names = ("plughost-inner.c", "landlock.c", "real_path.c", "watch.c", "wanted.c")
    sources = [ROOT / "launcher" / name for name in names]
    options = ["-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o", tmp_path / "inner"]
    ran = subprocess.run(["cc", *options, *sources], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert os.access(tmp_path / "inner", os.X_OK)
