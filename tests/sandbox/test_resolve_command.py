"""What a command needs, as far as first lines, symlinks and version managers hide it."""

from __future__ import annotations

import os
import re
import shutil

import pytest

from plughost.errors import LaunchFailed, SandboxUnavailable
from plughost.sandbox.resolve import command_cache, shebang
from plughost.sandbox.resolve.shebang import Shebang
from tests.support.sandbox import ENV

SHELL = os.path.realpath("/bin/sh")


@pytest.fixture
def code(folder):
    (folder / "code").mkdir()
    return folder / "code"


def executable(path, text="#!/bin/sh\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def interpreter(path, lib):
    """A Python that is somebody's own: a shell of another name, with a library."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(SHELL, path)
    own = path.parent.parent / "lib" / lib
    own.mkdir(parents=True)
    (own / "os.py").write_text("")
    return str(own)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"#!/bin/sh\nrest", Shebang("/bin/sh", ())),
        (b"#! /bin/sh -e -x \n", Shebang("/bin/sh", ("-e -x",))),
        (b"#!/usr/bin/env python3\n", Shebang("python3", (), True)),
        (b"#!/usr/bin/env\tpython3\n", Shebang("python3", (), True)),
        (b"#!/usr/bin/env -S python3 -u 'a b'\n", Shebang("python3", ("-u", "a b"), True)),
        (b"#!/usr/bin/env /bin/sh\n", Shebang("/bin/sh", (), False)),
        (b"#!/usr/bin/env -vS python3 -u\n", Shebang("python3", ("-u",), True)),
        (b"#!/usr/bin/env --split-string=python3 -u\n", Shebang("python3", ("-u",), True)),
        (b"#!/bin/sh -e\0-x\n", Shebang("/bin/sh", ("-e",))),
        (b"#!\n", None),
        (b"echo\n", None),
    ],
)
def test_first_lines(line, expected):
    assert shebang.parse(line) == expected


@pytest.mark.parametrize(
    "rest",
    ["-S A=1 python3", "A=1 python3", "-i python3", "-S -i python3", "-S 'open", "--split-string= -u A sh"],
)
def test_a_first_line_that_says_more_to_env_is_refused_by_name(code, rest):
    executable(code / "run", f"#!/usr/bin/env {rest}\n")
    with pytest.raises(
        SandboxUnavailable,
        match=re.escape(f"{code}/run cannot be used in a sandbox: #!/usr/bin/env {rest}. "),
    ):
        command_cache.resolve_command(["./run"], str(code), ENV)


def test_a_relative_script_is_found_from_where_the_host_is(code, monkeypatch):
    executable(code / "main.py")
    executable(code / "tool")
    monkeypatch.chdir(code.parent)
    found = command_cache.resolve_command(["sh", "-e", f"{code.name}/main.py", "x"], None, ENV)
    assert found.argv == ("sh", "-e", f"{code}/main.py", "x")
    assert found.code == (str(code),)
    monkeypatch.chdir("/")
    assert command_cache.resolve_command(["sh", "-e", f"{code.name}/main.py", "x"], None, ENV).code == ()
    monkeypatch.chdir(code)
    assert command_cache.resolve_command(["sh", "-c", "tool"], None, ENV).argv == ("sh", "-c", "tool")


@pytest.mark.parametrize("line", ["#!/bin/s\0h\n", "#!\0/bin/sh\n", "#!/usr/bin/env \0sh\n"])
def test_a_first_line_is_cut_at_a_nul_as_the_kernel_does(code, line):
    executable(code / "run", line)
    try:
        found = command_cache.resolve_command(["./run"], str(code), ENV)
    except LaunchFailed:
        return
    assert SHELL not in found.executes


def test_env_is_not_needed_to_find_an_interpreter(code):
    executable(code / "run", "#!/usr/bin/env -S sh -e\n")
    found = command_cache.resolve_command(["./run", "word"], str(code), ENV)
    assert found.argv == ("sh", "-e", f"{code}/run", "word")
    assert os.path.realpath(found.path) == SHELL
    assert os.path.realpath("/usr/bin/env") not in found.executes


@pytest.mark.parametrize("env", ["env", "/usr/bin/env"])
def test_a_command_that_begins_with_env_is_the_program_behind_it(code, env):
    executable(code / "main")
    found = command_cache.resolve_command([env, "sh", str(code / "main")], str(code), ENV)
    assert found.argv == ("sh", str(code / "main"))
    assert found == command_cache.resolve_command(["sh", str(code / "main")], str(code), ENV)
    assert not any(os.path.basename(path) == "env" for path in found.executes)


def test_env_with_words_of_its_own_stays_what_it_is(code):
    assert shebang.without_env(("env", "-i", "sh")) == ("env", "-i", "sh")
    assert shebang.without_env(("env", "A=1", "sh")) == ("env", "A=1", "sh")
    assert shebang.without_env(("env",)) == ("env",)


def test_the_interpreter_is_looked_up_on_the_plugins_path(code, folder):
    lib = interpreter(folder / "py" / "bin" / "python3", "python3.99")
    executable(code / "run", "#!/usr/bin/env python3\n")
    found = command_cache.resolve_command(["./run"], str(code), {"PATH": f"{folder}/py/bin"})
    assert found.path == f"{folder}/py/bin/python3"
    assert found.reads == (lib,)
    with pytest.raises(LaunchFailed, match="not found on PATH"):
        command_cache.resolve_command(["./run"], str(code), {"PATH": "/nowhere"})


def test_a_path_that_is_the_plugins_own_word_leads_to_what_is_public_only(code, folder):
    interpreter(folder / "py" / "bin" / "python3", "python3.99")
    executable(code / "run", "#!/usr/bin/env python3\n")
    env = {"PATH": f"{folder}/py/bin"}
    with pytest.raises(SandboxUnavailable, match="neither part of the plugin nor a public program"):
        command_cache.resolve_command(["./run"], str(code), env, path_from_plugin=True)
    found = command_cache.resolve_command(
        ["./run"], str(code), env, path_from_plugin=True, execute=[f"{folder}/py/bin/python3"]
    )
    assert found.path == f"{folder}/py/bin/python3"
    (folder / "own").mkdir()
    (folder / "own" / "sh").symlink_to("/usr/bin/sh")
    executable(code / "run", "#!/usr/bin/env sh\n")
    with pytest.raises(
        SandboxUnavailable,
        match="own/sh, but the path leads through a folder that is neither part of the plugin nor public",
    ) as caught:
        command_cache.resolve_command(["./run"], str(code), {"PATH": f"{folder}/own"}, path_from_plugin=True)
    assert "in `command`" in caught.value.hint
    assert (
        command_cache.resolve_command([f"{folder}/own/sh", "run"], str(code), ENV).path == f"{folder}/own/sh"
    )
    assert (
        command_cache.resolve_command(["./run"], str(code), {"PATH": "/usr/bin"}, path_from_plugin=True).path
        == "/usr/bin/sh"
    )


def test_a_venv_brings_its_packages_and_its_base(code, folder):
    lib = interpreter(folder / "base" / "bin" / "python3.99", "python3.99")
    venv = folder / "venv"
    (venv / "lib" / "python3.99" / "site-packages").mkdir(parents=True)
    (venv / "bin").mkdir()
    (venv / "pyvenv.cfg").write_text(f"home = {folder}/base/bin\n")
    (venv / "bin" / "python3").symlink_to(folder / "base" / "bin" / "python3.99")
    (venv / "bin" / "python").symlink_to("python3")
    found = command_cache.resolve_command([f"{venv}/bin/python", "x.py"], str(code), ENV)
    assert found.path == f"{venv}/bin/python"
    assert set(found.reads) == {f"{venv}/pyvenv.cfg", f"{venv}/lib", lib}
    assert dict(found.links)[f"{venv}/bin/python"] == "python3"
    assert f"{folder}/base/bin/python3.99" in found.executes


@pytest.mark.parametrize(
    ("env", "local", "overall", "expected"),
    [
        ({}, "", "3.99.1", "3.99.1"),
        ({}, "3.99.1\n", "3.99.1", "3.99.1"),
        ({}, "3.98.0\n", "3.99.1", "refused"),
        ({"PYENV_VERSION": "3.99"}, "3.98.0", "", "refused"),
        ({}, "../../../evil", "3.99.1", None),
        ({}, "absent", "3.99.1", None),
    ],
)
def test_a_shim_is_seen_through(code, folder, env, local, overall, expected, monkeypatch):
    root = folder / ".pyenv"
    executable(root / "shims" / "python3", "#!/usr/bin/env sh\n")
    libs = {
        version: interpreter(root / "versions" / version / "bin" / "python3", "python3.99")
        for version in ("3.98.0", "3.99.1", "3.99.10")
    }
    (root / "version").write_text(overall)
    (code / ".python-version").write_text(local)
    monkeypatch.setenv("PATH", f"{root}/shims:/usr/bin:/bin")
    if expected == "refused":  # which private interpreter runs is the operator's choice
        with pytest.raises(SandboxUnavailable, match="neither part of the plugin nor a public program"):
            command_cache.resolve_command(["python3", "x.py"], str(code), {**ENV, **env})
        return
    found = command_cache.resolve_command(["python3", "x.py"], str(code), {**ENV, **env})
    if expected is None:
        assert found.argv[0] == "sh", "the shim itself, which will say what is wrong"
    else:
        assert found.path == found.argv[0] == f"{root}/versions/{expected}/bin/python3"
        assert found.reads == (libs[expected],)


@pytest.mark.parametrize("name", ["tool", "@team/tool"])
def test_a_package_that_npm_installed_comes_whole(folder, name, monkeypatch):
    prefix = folder / "v20.1.0"
    package = prefix / "lib" / "node_modules" / name
    executable(package / "dist" / "main.js", "#!/usr/bin/env sh\n")
    (package / "package.json").write_text("{}")
    executable(package.parent / "other" / "index.js")
    (prefix / "bin").mkdir()
    (prefix / "bin" / "tool").symlink_to(f"../lib/node_modules/{name}/dist/main.js")
    monkeypatch.setenv("PATH", f"{prefix}/bin:/usr/bin:/bin")
    for command in (["tool"], [f"{prefix}/bin/tool"], ["sh", f"{prefix}/bin/tool"]):
        assert command_cache.resolve_command(command, None, ENV).code == (str(package),)
    elsewhere = executable(folder / "lib" / "node_modules" / "evil" / "main.js", "#!/usr/bin/env sh\n")
    (elsewhere.parent / "package.json").write_text("{}")
    (prefix / "bin" / "lost").symlink_to(elsewhere)
    assert command_cache.resolve_command(["lost"], None, ENV).code == ()


def test_the_plugins_own_code_is_told_by_its_folder_or_its_command(code, folder):
    script = executable(code / "x.py")
    tool = code / "tool"
    shutil.copy(SHELL, tool)
    (folder / "bin").mkdir()
    lonely = shutil.copy(SHELL, folder / "bin" / "tool")
    (folder / "key").write_text("")
    for command, cwd, expected in (
        (["/bin/sh", "x.py"], str(code), (str(code),)),
        (["/bin/sh", "-e", str(script)], None, (str(code),)),
        ([str(tool)], None, (str(code),)),
        ([str(lonely)], None, ()),
        (["/bin/sh", "-c", "true", f"{folder}/key"], None, ()),
        (["/bin/sh", f"{code}/missing"], None, ()),
    ):
        assert command_cache.resolve_command(command, cwd, ENV).code == expected, command


def test_a_tool_on_the_users_path_brings_the_venv_that_it_was_installed_in(folder):
    lib = interpreter(folder / "tools" / "x" / "bin" / "python3", "python3.99")
    (folder / "tools" / "x" / "pyvenv.cfg").write_text("")
    tool = executable(folder / "tools" / "x" / "bin" / "x", f"#!{folder}/tools/x/bin/python3\n")
    (folder / "bin").mkdir()
    (folder / "bin" / "x").symlink_to(tool)
    found = command_cache.resolve_command([f"{folder}/bin/x"], None, ENV)
    assert found.code == ()
    assert {str(tool), f"{folder}/tools/x/bin/python3"} <= set(found.executes)
    assert lib in found.reads or os.path.dirname(lib) in found.reads


def test_what_is_found_is_remembered_until_a_file_changes(code):
    script = executable(code / "run")
    first = command_cache.resolve_command(["./run"], str(code), ENV)
    assert command_cache.resolve_command(["./run"], str(code), ENV) is first
    executable(script, "#!/usr/bin/env sh\n")
    os.utime(script, ns=(1, 1))
    assert command_cache.resolve_command(["./run"], str(code), ENV).argv[0] == "sh"


def test_a_static_program_needs_nothing(code):
    go = os.path.join(os.path.dirname(__file__), "../../plugins/echo-mcptest-go/bin/echo")
    if not os.path.exists(go):
        assert not os.environ.get("CI"), "the Go example was not built"
        pytest.skip("the Go example was not built")
    shutil.copy(go, code / "echo")
    found = command_cache.resolve_command(["./echo"], str(code), ENV)
    assert (found.reads, found.libraries, found.executes) == ((), (), (f"{code}/echo",))


def test_a_program_that_is_not_there_is_a_failed_launch(code):
    for command in (["./missing"], ["no-such-program-anywhere"], ["/bin"]):
        with pytest.raises(LaunchFailed, match="cannot execute"):
            command_cache.resolve_command(command, str(code), ENV)
