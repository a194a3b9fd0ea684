"""Real programs in the real sandbox: they run, and see and change nothing but what is theirs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from plughost.errors import SandboxUnavailable
from plughost.permissions.access import Access, Endpoint, ResourceLimits
from plughost.sandbox.run_dir import RunDir
from tests.support import ROOT
from tests.support.confinable import PUBLIC_PYTHON
from tests.support.sandbox import ENV, as_nobody, confinement, run

pytestmark = pytest.mark.usefixtures("strict")

LOOK = """
import json, os, sys
def attempt(deed):
    try:
        return deed() or "done"
    except OSError as error:
        return error.strerror
print(json.dumps({name: attempt(lambda: eval(deed)) for name, deed in json.loads(sys.argv[1]).items()}))
"""


@pytest.fixture(autouse=True)
def _system_python():
    if not os.path.exists(PUBLIC_PYTHON):
        assert not os.environ.get("CI"), "no system Python"
        pytest.skip("no system Python")


def look(run_dir, deeds, **how):
    """What came of each deed, tried by a Python program inside."""
    ran = run(confinement(run_dir, [PUBLIC_PYTHON, "-c", LOOK, json.dumps(deeds)], **how).launch)
    assert ran.status == 0, (ran.err, ran.report)
    return json.loads(ran.out)


def test_everything_that_confines_is_in_place(run_dir):
    ran = run(confinement(run_dir, ["/bin/sh", "-c", "echo here"]).launch)
    assert (ran.status, ran.out) == (0, "here\n"), ran
    assert [line.split()[0] for line in ran.report if line.split()[0] in ("landlock", "seccomp")] == [
        "landlock",
        "seccomp",
    ]


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("sh", ["sh", "echo.sh"]),
        ("c", ["./bin/echo"]),
        ("go", ["./bin/echo"]),
        ("node", ["node", "echo.js"]),
        ("", [PUBLIC_PYTHON, "echo.py"]),
    ],
)
def test_plugins_in_any_language_run(run_dir, folder, kind, command):
    source = ROOT / "plugins" / f"echo-mcptest{'-' if kind else ''}{kind}"
    if not (source / command[0]).exists() and shutil.which(command[0], path=ENV["PATH"]) is None:
        assert not os.environ.get("CI"), f"{command[0]} is missing"
        pytest.skip(f"{command[0]} is missing")
    home = folder / source.name
    shutil.copytree(source, home)
    shared = str(shutil.copy(ROOT / "plugins" / "json_text.sh", folder))
    asked = '{"id":1,"method":"echo","params":{"text":"hi"}}\n'
    ran = run(confinement(run_dir, command, cwd=home, access=Access(read=(shared,))).launch, asked)
    assert json.loads(ran.out)["id"] == 1, ran


@pytest.mark.parametrize("command", [["python3", "main.py"], ["./main.py"]])
def test_a_virtual_environment_behind_a_shim_is_what_runs(run_dir, folder, command, monkeypatch):
    root, code = folder / ".pyenv", folder / "code"
    venv = root / "versions" / "3.99.1" / "envs" / "mine"
    subprocess.run([PUBLIC_PYTHON, "-m", "venv", "--without-pip", venv], check=True)
    (root / "versions" / "mine").symlink_to(venv)
    (root / "shims").mkdir()
    code.mkdir()
    (root / "shims" / "python3").write_text("#!/bin/sh\nexit 1\n")
    (root / "shims" / "python3").chmod(0o755)
    (root / "version").write_text("mine\n")
    (code / "main.py").write_text("#!/usr/bin/env python3\nimport sys\nprint(sys.executable, sys.prefix)\n")
    (code / "main.py").chmod(0o755)
    path = f"{root}/shims:{ENV['PATH']}"
    monkeypatch.setenv("PATH", path)
    ran = run(confinement(run_dir, command, cwd=code, env={"PATH": path}).launch)
    mine = f"{root}/versions/mine"
    assert ran.out.split() == [f"{mine}/bin/python3", mine], ran


def test_a_tool_that_npm_installed_finds_its_own_modules(run_dir, folder, monkeypatch):
    if (node := shutil.which("node", path=ENV["PATH"])) is None:
        assert not os.environ.get("CI"), "node is missing"
        pytest.skip("node is missing")
    prefix = folder / "v20.1.0"
    package = prefix / "lib" / "node_modules" / "tool"
    (package / "lib").mkdir(parents=True)
    (prefix / "bin").mkdir()
    (package / "package.json").write_text('{"name": "tool", "bin": "main.js"}')
    (package / "lib" / "word.js").write_text("module.exports = 'found'")
    (package / "main.js").write_text(f"#!{node}\nconsole.log(require('./lib/word'))\n")
    (package / "main.js").chmod(0o755)
    (prefix / "bin" / "tool").symlink_to("../lib/node_modules/tool/main.js")
    monkeypatch.setenv("PATH", f"{prefix}/bin:{ENV['PATH']}")
    ran = run(confinement(run_dir, ["tool"]).launch)
    assert ran.out == "found\n", ran


def test_the_code_is_there_and_read_only(run_dir, folder):
    code = folder / "code"
    code.mkdir()
    (code / "data").write_text("mine")
    seen = look(
        run_dir,
        {
            "read": "open('data').read()",
            "write": "open('data', 'w')",
            "create": "open('new', 'w')",
            "where": "os.getcwd()",
        },
        cwd=code,
    )
    assert seen["read"] == "mine"
    assert seen["where"] == str(code)
    assert seen["write"] in ("Read-only file system", "Permission denied")
    assert seen["create"] in ("Read-only file system", "Permission denied")
    assert not (code / "new").exists()


def test_nothing_else_of_the_machine_can_be_read_or_changed(run_dir, folder):
    secret = folder / "secret"
    secret.write_text("s")
    secret.chmod(0o644)
    seen = look(
        run_dir,
        {
            "secret": f"open({str(secret)!r}).read()",
            "home": "os.listdir('/root') or os.listdir('/home')",
            "ls": "open('/bin/ls', 'rb').read(4)",
            "curl": "os.stat('/usr/bin/curl')",
            "passwd": "open('/etc/passwd').read().count('\\n')",
            "shadow": "open('/etc/shadow').read()",
            "root": "open('/new', 'w')",
            "etc": "open('/etc/new', 'w')",
            "usr": "open('/usr/lib/new', 'w')",
            "dev": "open('/dev/new', 'w')",
            "null": "open('/dev/null', 'w').write('x')",
            "tmp": "open('/tmp/own', 'w').write('mine')",
            "shm": "open('/dev/shm/own', 'w').write('mine')",
            "listing": "os.listdir('/tmp')",
        },
    )
    assert seen.pop("passwd") == 2
    assert seen.pop("null") == 1
    assert seen.pop("tmp") == 4
    assert seen.pop("shm") == 4
    assert seen.pop("listing") == ["own"]
    refusals = {"No such file or directory", "Permission denied", "Read-only file system"}
    assert all(value in refusals for value in seen.values()), seen


def test_programs_that_stand_among_libraries_can_neither_be_run_nor_read(run_dir):
    """Libraries are mounted by the folder; what holds a program in there is Landlock's right to read."""
    arch = os.path.dirname(os.path.realpath("/lib64/ld-linux-x86-64.so.2"))
    helpers = [
        path
        for path in Path(arch).rglob("*")
        if path.is_file() and os.access(path, os.X_OK) and ".so" not in path.name and not path.is_symlink()
    ]
    if not helpers:
        pytest.skip("no program among the libraries here")
    seen = look(
        run_dir,
        {
            "seen": f"os.stat({str(helpers[0])!r}).st_size",
            "read": f"open({str(helpers[0])!r}, 'rb').read(4)",
            "run": f"os.execv({str(helpers[0])!r}, ['x'])",
        },
    )
    assert seen["seen"] == helpers[0].stat().st_size
    assert seen["read"] == seen["run"] == "Permission denied"


def test_grants_open_what_they_name(run_dir, folder):
    for name in ("given", "open"):
        (folder / name).mkdir()
        (folder / name / "file").write_text(name)
        (folder / name / "file").chmod(0o666)
        (folder / name).chmod(0o777)
    (folder / "link").symlink_to("given")
    given, opened = str(folder / "given"), str(folder / "open")
    seen = look(
        run_dir,
        {
            "read": f"open('{given}/file').read()",
            "through": f"open('{folder}/link/file').read()",
            "closed": f"open('{given}/file', 'w')",
            "write": f"open('{opened}/new', 'w').write('here')",
            "cat": "__import__('subprocess').check_output(['/bin/cat', '/etc/nsswitch.conf']).decode()[:6]",
            "ls": "__import__('subprocess').check_output(['/bin/ls'])",
        },
        access=Access(read=(str(folder / "link"),), write=(opened,), execute=("/bin/cat",)),
    )
    assert seen["read"] == seen["through"] == "given"
    assert seen["closed"] in ("Read-only file system", "Permission denied")
    assert (folder / "open" / "new").read_text() == "here"
    assert seen["cat"] == "passwd"
    assert seen["ls"] == "No such file or directory"


def test_a_file_of_etc_can_be_granted(run_dir):
    seen = look(
        run_dir,
        {"given": "open('/etc/os-release').read()", "not": "open('/etc/fstab').read()"},
        access=Access(read=("/etc/os-release",)),
    )
    assert seen == {"given": Path("/etc/os-release").read_text(), "not": "No such file or directory"}


def test_the_environment_is_the_plugins_own_and_never_on_a_command_line(run_dir, folder):
    env = {**ENV, "TOKEN": "s3cret", "LD_PRELOAD": str(folder / "evil.so")}
    found = confinement(run_dir, ["/bin/sh", "-c", 'echo "$TOKEN $LD_PRELOAD"'], env=env)
    assert not any("s3cret" in word for word in found.launch.command)
    assert "LD_PRELOAD" not in found.launch.env, "bubblewrap itself would obey it"
    ran = run(found.launch)
    assert ran.out == f"s3cret {folder}/evil.so\n", ran
    deed = {"all": "dict(os.environ)"}
    assert look(run_dir, deed, env={**ENV, "A": "1"})["all"].items() - {
        ("PWD", "/tmp"),
        ("LC_CTYPE", "C.UTF-8"),
    } == {
        ("A", "1"),
        *ENV.items(),
    }
    assert "bwrap: " not in ran.err


def test_limits_hold(run_dir):
    limits = ResourceLimits(memory=256 << 20, processes=8, open_files=32, file_size=1 << 20, scratch=1 << 20)
    seen = look(
        run_dir,
        {
            "scratch": "open('/tmp/big', 'wb').write(bytes(1 << 20)) + open('/tmp/more', 'wb').write(b'x' * 8192)",
            "processes": "[os.fork() or __import__('signal').pause() for _ in range(32)]",
            "files": "[os.open('/dev/null', 0) for _ in range(64)]",
        },
        limits=limits,
    )
    assert seen["files"] == "Too many open files"
    assert seen["scratch"] == "No space left on device"
    assert seen["processes"] == "Resource temporarily unavailable"
    hungry = confinement(run_dir, [PUBLIC_PYTHON, "-c", "x = bytearray(512 << 20)"], limits=limits)
    assert "MemoryError" in run(hungry.launch).err


def test_there_is_no_network(run_dir):
    reach = "__import__('socket').create_connection(('{}', {}), 1)"
    seen = look(
        run_dir,
        {"loopback": reach.format("127.0.0.1", 22), "outside": reach.format("192.0.2.1", 80)},
    )
    refused = {"Permission denied", "Network is unreachable", "Connection refused"}
    assert set(seen.values()) <= refused, seen


def test_endpoints_need_a_way_out(run_dir):
    with pytest.raises(SandboxUnavailable, match="the proxy to reach them is missing"):
        confinement(run_dir, ["/bin/sh"], access=Access(connect=(Endpoint("example.com", 443),)))


def test_a_venv_is_visible_as_one(run_dir, folder):
    made = subprocess.run([PUBLIC_PYTHON, "-m", "venv", "--without-pip", str(folder / "venv")], check=False)
    if made.returncode:
        pytest.skip("this Python makes no virtual environments")
    site = next((folder / "venv" / "lib").glob("python*")) / "site-packages"
    (site / "only_here.py").write_text("word = 'found'\n")
    ran = run(
        confinement(
            run_dir,
            [
                str(folder / "venv/bin/python"),
                "-c",
                "import only_here, sys; print(only_here.word, sys.prefix)",
            ],
        ).launch
    )
    assert ran.out == f"found {folder}/venv\n", ran


def test_the_landlock_class_closes_files_and_sockets_without_namespaces(run_dir, folder):
    (folder / "secret").write_text("s")
    seen = look(
        run_dir,
        {
            "secret": f"open('{folder}/secret').read()",
            "ls": "open('/bin/ls', 'rb').read(4)",
            "tmp": f"open('/tmp/{folder.name}-x', 'w')",
            "scratch": "open(os.environ['TMPDIR'] + '/x', 'w').write('mine')",
            "socket": "__import__('socket').socket()",
            "run": "os.execv('/bin/ls', ['ls'])",
        },
        class_="landlock",
    )
    assert seen.pop("scratch") == 4
    assert set(seen.values()) <= {
        "Permission denied",
        "Operation not permitted",
        "Address family not supported by protocol",
    }


def test_node_runs_in_the_landlock_class(run_dir):
    if shutil.which("node", path=ENV["PATH"]) is None:
        assert not os.environ.get("CI"), "node is missing"
        pytest.skip("node is missing")
    ran = run(confinement(run_dir, ["node", "-e", "console.log(2)"], class_="landlock").launch)
    assert ran.out == "2\n", ran


def test_no_class_is_no_confinement(run_dir):
    found = confinement(run_dir, ["/bin/sh", "-c", "ls /"], class_="none")
    assert found.launch.command == ("/bin/sh", "-c", "ls /")
    assert found.launch.confine == "-"
    assert [(held.what, held.by) for held in found.enforcement] == [("everything", "nothing")]


def test_a_host_that_is_not_root_confines_as_itself(folder):
    base = folder / "nobodys"
    base.mkdir()
    base.chmod(0o777)
    (folder / "secret").write_text("s")
    deeds = {
        "uid": "os.getuid()",
        "secret": f"open('{folder}/secret').read()",
        "tmp": "open('/tmp/own', 'w').write('mine')",
        "etc": "open('/etc/new', 'w')",
        "namespace": "os.system('true') and 0 or __import__('ctypes').CDLL(None).unshare(0x10000000)",
    }

    def deed():
        with RunDir(str(base)) as run_dir:
            found = confinement(run_dir, [PUBLIC_PYTHON, "-c", LOOK, json.dumps(deeds)])
            assert found.launch.confine == "keep"
            ran = run(found.launch)
            assert ran.status == 0, ran
            return json.loads(ran.out)

    seen = as_nobody(deed)
    assert seen.pop("uid") == (os.getuid() or 65534)
    assert seen.pop("tmp") == 4
    assert seen.pop("namespace") == -1
    assert set(seen.values()) <= {"No such file or directory", "Permission denied", "Read-only file system"}
    assert list(base.iterdir()) == []


@pytest.mark.parametrize("class_", ["strict", "landlock"])
def test_a_plugin_of_the_same_user_cannot_take_all_its_inotify_instances(folder, class_):
    script = "import ctypes; print(sum(ctypes.CDLL(None).inotify_init() >= 0 for _ in range(200)))"
    base = folder / "nobodys"
    base.mkdir()
    base.chmod(0o777)

    def deed():
        with RunDir(str(base)) as run_dir:
            return run(confinement(run_dir, [PUBLIC_PYTHON, "-c", script], class_=class_).launch).out

    assert as_nobody(deed) == "16\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only a root host changes users")
def test_a_root_hosts_plugin_is_a_user_of_its_own_without_capabilities(run_dir):
    script = "import os; print(os.getuid(), os.getgroups(), [l.split()[1] for l in open('/proc/self/status') if l.startswith('Cap')])"
    first = run(confinement(run_dir, [PUBLIC_PYTHON, "-c", script], name="first").launch).out
    second = run(confinement(run_dir, [PUBLIC_PYTHON, "-c", script], name="second").launch).out
    assert first.split()[0] != second.split()[0]
    for told in (first, second):
        uid, rest = told.split(" ", 1)
        assert 61184 <= int(uid) < 65520
        assert rest.count("'0000000000000000'") == 5


@pytest.mark.skipif(os.geteuid() != 0, reason="only a root host changes users")
def test_an_interpreter_in_a_closed_home_is_explained(run_dir, folder):
    home = folder / "home"
    home.mkdir()
    shutil.copy("/bin/true", home / "tool")
    home.chmod(0o700)
    with pytest.raises(SandboxUnavailable) as caught:
        confinement(run_dir, [str(home / "tool")])
    assert f"{home} has mode 0700" in caught.value.message
    assert f"chmod o+x {home}" in caught.value.hint
    assert caught.value.plugin == "puppet"


@pytest.mark.skipif(os.geteuid() != 0, reason="only a root host changes users")
def test_a_folder_granted_for_writing_is_not_given_away_silently(run_dir, folder):
    (folder / "data").mkdir()
    with pytest.raises(SandboxUnavailable, match="is not accessible for uid") as caught:
        confinement(run_dir, ["/bin/sh"], access=Access(write=(str(folder / "data"),)))
    assert "chown" in caught.value.hint
    assert (folder / "data").stat().st_uid == 0
