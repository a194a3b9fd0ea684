"""Nothing in a plugin's folder chooses what of the user's machine is shown to it."""

from __future__ import annotations

import os
import socket
import struct
from itertools import accumulate

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plughost.errors import LaunchFailed, SandboxUnavailable
from plughost.permissions.access import Access
from plughost.sandbox.resolve import command_cache, elf, shared_libraries, trusted_files
from plughost.sandbox.resolve.grants import resolve_grants
from tests.support.cpu_time import within_cpu_seconds
from tests.support.sandbox import ENV


@pytest.fixture
def home(folder):
    """Somebody's: a key, a tool and a Python of their own. In tests that run as root these belong to root, too,
    as /tmp does not: what is below it is nobody's to trust."""
    (folder / "home" / ".ssh").mkdir(parents=True)
    (folder / "home" / ".ssh" / "id").write_text("key")
    (folder / "home" / "py" / "bin").mkdir(parents=True)
    (folder / "home" / "py" / "lib" / "python3.99").mkdir(parents=True)
    (folder / "home" / "py" / "lib" / "python3.99" / "os.py").write_text("")
    (folder / "home" / "py" / "bin" / "python3.99").write_bytes(program())
    return folder / "home"


@pytest.fixture
def code(folder):
    (folder / "code").mkdir()
    return folder / "code"


def program(loader=None, needed=(), search=""):
    """An ELF file that says whatever it likes."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in (*needed, search))
    lengths = [len(name.encode()) + 1 for name in (*needed, search)]
    offsets = [1 + before for before in accumulate([0, *lengths[:-1]])]
    interp = (loader or "").encode() + b"\0"
    table = 64 + 3 * 56
    at = table + len(interp)
    dynamic = b"".join(struct.pack("<qQ", 1, offset) for offset in offsets[:-1])
    dynamic += struct.pack("<qQ", 29, offsets[-1]) if search else b""
    entries = dynamic + struct.pack("<qQqQqQ", 5, at + len(dynamic) + 48, 10, len(names), 0, 0)
    body = interp + entries + names
    head = (
        b"\x7fELF"
        + bytes([2, 1, 1])
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0, 64, 0, 0, 64, 56, 3, 0, 0, 0)
    )
    whole = table + len(body)
    headers = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, whole, whole, 1)
    headers += struct.pack("<IIQQQQQQ", 2, 4, at, at, at, len(entries), len(entries), 1)
    headers += struct.pack(
        "<IIQQQQQQ", 3 if loader else 4, 4, table, table, table, len(interp), len(interp), 1
    )
    return head + headers + body


def find(code, command, env=ENV, **granted):
    return command_cache.resolve_command(command, str(code), env, **granted)


def brought(found):
    return {*found.reads, *found.executes, *found.libraries}


def script(code, first_line, name="run"):
    (code / name).write_text(f"#!{first_line}\n")
    (code / name).chmod(0o755)


def test_the_program_of_this_test_is_read_as_meant(code):
    (code / "p").write_bytes(program("/lib/ld.so", ("libx.so", "/etc/secret"), "/home/x:$ORIGIN/lib"))
    found = elf.read_elf(str(code / "p"))
    assert found == elf.Elf((62, 2), "/lib/ld.so", ("libx.so", "/etc/secret"), ("/home/x", "$ORIGIN/lib"))


def test_a_first_line_brings_no_private_file(code, home):
    script(code, str(home / ".ssh" / "id"))
    with pytest.raises(SandboxUnavailable, match="neither part of the plugin nor a public program") as caught:
        find(code, ["./run"])
    assert f"execute {home / '.ssh' / 'id'}" in caught.value.hint
    script(code, str(home / "py" / "bin" / "python3.99"))
    with pytest.raises(SandboxUnavailable):
        find(code, ["./run"])


def test_a_grant_lets_a_first_line_name_a_private_interpreter(code, home):
    python = str(home / "py" / "bin" / "python3.99")
    script(code, python)
    assert python in find(code, ["./run"], execute=(python,)).executes


def test_a_first_line_brings_a_public_interpreter(code):
    script(code, "/bin/sh")
    found = find(code, ["./run"])
    assert os.path.realpath("/bin/sh") in found.executes
    assert (found.path, found.argv) == (f"{code}/run", ("./run",))


@pytest.mark.parametrize("way", ["straight", "through a link in the home", "folder"])
def test_a_symlink_brings_no_private_file(code, home, way):
    if way == "straight":
        (code / "run").symlink_to(home / ".ssh" / "id")
    elif way == "folder":
        (code / "in").symlink_to(home / ".ssh")
        (code / "run").symlink_to("in/id")
    else:
        (home / "py" / "bin" / "python3").symlink_to("/bin/sh")
        (home / "py" / "pyvenv.cfg").write_text("home = /usr/bin\n")
        (code / "run").symlink_to(home / "py" / "bin" / "python3")
    with pytest.raises(SandboxUnavailable):
        find(code, ["./run"])


@pytest.mark.parametrize("name", ["run", "python3"])
def test_a_program_that_alone_says_which_folder_is_its_own_leads_nowhere_either(code, home, name):
    (home / "py" / "bin" / "python3").symlink_to(os.path.realpath("/bin/sh"))
    (home / "py" / "pyvenv.cfg").write_text("")
    for target in (home / ".ssh" / "id", home / "py" / "bin" / "python3"):
        (code / name).unlink(missing_ok=True)
        (code / name).symlink_to(target)
        with pytest.raises(SandboxUnavailable):
            command_cache.resolve_command([str(code / name)], None, ENV)


def test_a_symlink_to_a_socket_or_a_device_brings_nothing(code, folder):
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket"))
        (code / "run").symlink_to(folder / "socket")
        with pytest.raises(LaunchFailed):
            find(code, ["./run"])
        with pytest.raises(SandboxUnavailable, match="neither a file nor a folder"):
            resolve_grants(Access(read=(str(folder / "socket"),)))
    (code / "dev").symlink_to("/dev/null")
    with pytest.raises(LaunchFailed):
        find(code, ["./dev"])


def test_a_program_brings_no_private_libraries_and_no_private_loader(code, home):
    (home / "libsecret.so").write_bytes(program())
    (code / "run").write_bytes(
        program(
            None, ("libsecret.so", str(home / "libsecret.so"), "../home/libsecret.so", "libc.so.6"), str(home)
        )
    )
    found = find(code, ["./run"])
    assert not any(trusted_files.is_beneath(path, str(home)) for path in brought(found))
    assert any("libc.so.6" in path for path in found.libraries)
    (code / "run").write_bytes(program(str(home / ".ssh" / "id")))
    with pytest.raises(SandboxUnavailable, match="not a public file"):
        find(code, ["./run"])


@pytest.mark.parametrize("named", ["/usr", "/", "granted"])
def test_a_loader_is_a_file_and_never_a_folder_with_all_that_is_in_it(code, home, named):
    place = str(home / ".ssh") if named == "granted" else named
    (code / "run").write_bytes(program(place))
    with pytest.raises(SandboxUnavailable, match="not a public file"):
        find(code, ["./run"], read=(str(home / ".ssh"),))


def test_a_program_is_read_as_the_kernel_reads_it(code):
    told = program("/lib64/ld-linux-x86-64.so.2")
    for place, value in ((4, 1), (5, 2), (16, 4), (18, 3)):
        forged = bytearray(told)
        forged[place] = value  # word size, byte order, a memory dump, another machine
        (code / "p").write_bytes(forged)
        assert elf.read_elf(str(code / "p")) is None, place
    second = bytearray(program("/first"))
    second[64:68] = struct.pack("<I", 3)  # the first header is one for a loader, too: it begins at 0
    (code / "p").write_bytes(second)
    found = elf.read_elf(str(code / "p"))
    assert found is not None
    assert found.loader != "/first"


def test_a_library_of_its_own_that_is_a_symlink_brings_nothing(code, home):
    (home / "libsecret.so").write_bytes(program())
    (code / "libsecret.so").symlink_to(home / "libsecret.so")
    (code / "run").write_bytes(program(None, ("libsecret.so",), "$ORIGIN"))
    assert not any(trusted_files.is_beneath(path, str(home)) for path in brought(find(code, ["./run"])))


def test_a_library_reached_through_somebodys_symlink_is_not_followed(code, home):
    """Not even to a public one: where that symlink leads is somebody's own business."""
    (home / "link").symlink_to(os.path.realpath("/bin/sh"))
    (code / "libx.so").symlink_to(home / "link")
    (code / "run").write_bytes(program(None, ("libx.so",), "$ORIGIN"))
    found = find(code, ["./run"])
    assert not any(trusted_files.is_beneath(link, str(home)) for link, _ in found.links)
    assert os.path.realpath("/bin/sh") not in found.libraries


def test_a_program_cannot_name_libraries_in_the_prefix_of_a_granted_one(code, home):
    (home / "py" / "lib" / "private.so").write_bytes(program())
    (code / "run").write_bytes(program(None, ("private.so",), str(home / "py" / "lib")))
    python = str(home / "py" / "bin" / "python3.99")
    assert str(home / "py" / "lib" / "private.so") not in brought(find(code, ["./run"], execute=(python,)))


def test_the_operators_command_may_name_any_program_and_brings_its_prefix(code, home):
    (home / "py" / "lib" / "libown.so").write_bytes(program())
    python = home / "py" / "bin" / "python3.99"
    python.write_bytes(program(None, ("libown.so",), str(home / "py" / "lib")))
    found = find(code, [str(python), "x.py"])
    assert brought(found) == {
        str(python), str(home / "py" / "lib" / "python3.99"), str(home / "py" / "lib" / "libown.so"),
    }  # fmt: skip


@pytest.mark.parametrize("where", ["elsewhere", "bin", "public", "on PATH"])
@pytest.mark.parametrize("word", ["first line", "loader"])
def test_a_program_that_the_operator_named_brings_no_private_file_either(
    code, home, where, word, folder, monkeypatch
):
    """Wherever it is: beside its cwd, among others, where only root could put it, installed."""
    place = folder / ("bin" if where == "bin" else "evil")
    place.mkdir()
    key = str(home / ".ssh" / "id")
    (place / "run").write_bytes(program(key) if word == "loader" else f"#!{key}\n".encode())
    (place / "run").chmod(0o755)
    if where == "public":
        known = trusted_files.is_public
        monkeypatch.setattr(
            trusted_files, "is_public", lambda real: trusted_files.is_beneath(real, str(place)) or known(real)
        )
    monkeypatch.setenv("PATH", str(place))
    command = "run" if where == "on PATH" else str(place / "run")
    for cwd in (str(code), None):
        with pytest.raises(SandboxUnavailable):
            command_cache.resolve_command([command], cwd, ENV)


def test_a_program_named_by_its_path_has_its_folder(code, folder, monkeypatch):
    (folder / "tool").mkdir()
    (folder / "tool" / "run").write_bytes(program())
    for public in (trusted_files.is_public, lambda real: True):
        monkeypatch.setattr(trusted_files, "is_public", public)
        assert find(code, [str(folder / "tool" / "run")]).code == (str(code), str(folder / "tool"))


def test_a_tool_of_a_venv_reaches_an_interpreter_and_nothing_else(home, folder):
    (folder / "venv" / "bin").mkdir(parents=True)
    (folder / "venv" / "pyvenv.cfg").write_text("")
    script(folder / "venv" / "bin", folder / "venv" / "bin" / "python")
    other = home / "other" / "bin"
    other.mkdir(parents=True)
    (home / "other" / "pyvenv.cfg").write_text("")
    (home / "other" / "lib").mkdir()
    (other / "python").symlink_to(home / "py" / "bin" / "python3.99")
    (home / ".ssh" / "python3").write_text("key")
    link = folder / "venv" / "bin" / "python"
    tool = str(folder / "venv" / "bin" / "run")
    for target in (home / ".ssh" / "id", home / ".ssh" / "python3"):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        with pytest.raises(SandboxUnavailable):
            command_cache.resolve_command([tool], None, ENV)
    for target in (home / "py" / "bin" / "python3.99", other / "python"):
        link.unlink()
        link.symlink_to(target)
        found = command_cache.resolve_command([tool], None, ENV)
        assert str(home / "py" / "bin" / "python3.99") in found.executes
        assert set(found.reads) == {
            tool, str(folder / "venv" / "pyvenv.cfg"), str(home / "py" / "lib" / "python3.99"),
        }  # fmt: skip


@pytest.fixture
def fake_venv(code, home):
    """A plugin's folder that looks like a virtual environment, with somebody's Python as its interpreter."""
    (code / "pyvenv.cfg").write_text("")
    (code / "bin").mkdir()
    (code / "bin" / "python3.99").symlink_to(home / "py" / "bin" / "python3.99")
    script(code / "bin", code / "bin" / "python3.99")
    (code / "bin" / "run").chmod(0o755)
    return code


@pytest.mark.parametrize("told", [True, False])
def test_a_package_that_looks_like_a_venv_reaches_no_private_interpreter(fake_venv, told):
    """Of which the plugin is given parts: whoever has named the command, the first line is the author's."""
    with pytest.raises(SandboxUnavailable, match="neither part of the plugin nor a public program"):
        find(
            fake_venv,
            [str(fake_venv / "bin" / "run")],
            read=[str(fake_venv / "bin"), str(fake_venv / "pyvenv.cfg")],
            cwd_is_plugin_dir=False,
            command_from_manifest=told,
            partial_dirs=(str(fake_venv),),
        )


@pytest.mark.parametrize("name", ["run", "python3.99"])
def test_nor_does_a_folder_whose_file_binds_several_plugins(fake_venv, name):
    (fake_venv / "bin" / "base").mkdir()
    for cwd in (fake_venv, fake_venv / "bin" / "base"):
        with pytest.raises(SandboxUnavailable, match="neither part of the plugin nor a public program"):
            find(cwd, [str(fake_venv / "bin" / name)], cwd_is_plugin_dir=False, command_from_manifest=True)


@pytest.mark.parametrize("told", [True, False])
def test_a_program_of_a_package_brings_nothing_from_beside_the_package(code, home, told):
    """Its prefix is not where it looks like one: that is a folder of the user's."""
    package = home / "py" / "package"
    package.mkdir()
    (package / "python3.99").write_bytes(program(None, ("private.so",), str(home / "py" / "lib")))
    (package / "python3.99").chmod(0o755)
    (home / "py" / "lib" / "private.so").write_bytes(program())
    found = find(
        package,
        [str(package / "python3.99")],
        read=[str(package / "python3.99")],
        cwd_is_plugin_dir=False,
        command_from_manifest=told,
        partial_dirs=(str(package),),
    )
    assert {*brought(found)} == {str(package / "python3.99")}


def test_a_command_that_its_folder_tells_brings_what_is_public_and_an_interpreter(code, home, monkeypatch):
    def told(*command):
        return command_cache.resolve_command(command, str(code), ENV, command_from_manifest=True)

    (home / "py" / "bin" / "tool").write_bytes(program())
    for name in ("tool", "python3.99"):
        (home / "py" / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}/py/bin:/usr/bin:/bin")
    key = str(home / ".ssh" / "id")
    assert key not in brought(told("sh", "-e", key))
    assert told("/bin/sh", "-e", key).code == (str(code),)
    assert str(home / "py" / "bin" / "python3.99") in told("python3.99", "x.py").executes
    for program_ in (key, str(home / "py" / "bin" / "python3.99"), "../home/py/bin/tool", "tool"):
        with pytest.raises(SandboxUnavailable):
            told(program_)


def test_a_venv_or_a_prefix_brings_no_folder_from_elsewhere(code, home, folder):
    """Not even a public one: what is in it may be anybody's."""
    (folder / "venv" / "bin").mkdir(parents=True)
    (folder / "venv" / "pyvenv.cfg").write_text("")
    (folder / "venv" / "bin" / "python").symlink_to("/bin/sh")
    (folder / "venv" / "lib").symlink_to("/usr/share")
    assert find(code, [str(folder / "venv" / "bin" / "python")]).reads == (str(folder / "venv/pyvenv.cfg"),)
    (home / "py" / "lib").rename(home / "py" / "lib64")
    (home / "py" / "lib").mkdir()
    (home / "py" / "lib" / "python3.99").symlink_to("/usr/share")
    found = find(code, [str(home / "py" / "bin" / "python3.99")])
    assert found.reads == (str(home / "py" / "lib64" / "python3.99"),)


def test_a_symlink_in_the_plugins_folder_makes_no_other_folder_its_own(code, home):
    (code / "in").symlink_to(home / ".ssh")
    assert find(code, ["/bin/sh", str(code / "in" / "id")]).code == (str(code),)


def test_libraries_below_a_whole_home_are_not_a_programs_own(code, home, monkeypatch):
    monkeypatch.setenv("HOME", str(home))
    (home / "bin").mkdir()
    (home / "private.so").write_bytes(program())
    (home / "bin" / "run").write_bytes(program(None, ("private.so",), "$ORIGIN/.."))
    assert str(home / "private.so") not in brought(find(code, [str(home / "bin" / "run")]))


def test_only_an_interpreter_is_looked_up_by_name(code, home):
    (home / "py" / "bin" / "private-tool").write_bytes(program())
    (home / "py" / "bin" / "private-tool").chmod(0o755)
    env = {"PATH": str(home / "py" / "bin")}
    script(code, "/usr/bin/env private-tool")
    with pytest.raises(SandboxUnavailable, match="not a known interpreter"):
        find(code, ["./run"], env)


@pytest.mark.parametrize("broad", ["/", "/usr", "/tmp", "/home", os.path.expanduser("~")])
def test_a_folder_of_everybodys_is_no_plugins_own(broad):
    if not os.path.isdir(broad):
        pytest.skip("there is none here")
    with pytest.raises(SandboxUnavailable, match="far more than its own code"):
        command_cache.resolve_command(["/bin/sh"], broad, ENV)


def test_what_cannot_be_granted():
    for path, why in (
        ("relative", "relative"),
        ("/no/such", "No such file"),
        ("/proc/1", "cannot be granted to a plugin"),
        ("/", "cannot be granted to a plugin"),
    ):
        with pytest.raises(SandboxUnavailable, match=why):
            resolve_grants(Access(read=(path,)))


def test_public_is_what_everybody_may_read_and_only_root_may_change(folder):
    assert trusted_files.is_public(os.path.realpath("/bin/sh"))
    assert trusted_files.is_public("/usr")
    assert not trusted_files.is_public("/etc/shadow")
    assert not trusted_files.is_public("/dev/null")
    assert not trusted_files.is_public("/tmp")
    (folder / "file").write_text("")
    assert not trusted_files.is_public(str(folder / "file")), (
        "anybody could have put it there: /tmp is everybody's"
    )


def test_endless_and_huge_things_take_no_time(code):
    (code / "loop").symlink_to("loop")
    (code / "ring").symlink_to("ring2")
    (code / "ring2").symlink_to("ring")
    with open(code / "huge", "wb") as huge:
        huge.write(program("/lib64/ld-linux-x86-64.so.2", [f"lib{n}.so" for n in range(5000)], "/x:" * 5000))
        huge.truncate(4 << 30)
    os.mkfifo(code / "fifo")
    for name in range(10):
        script(code, code / f"s{(name + 1) % 10}", f"s{name}")

    def look() -> None:
        for name in ("loop", "ring", "fifo", "s0"):
            with pytest.raises(LaunchFailed):
                find(code, [f"./{name}"])
        find(code, ["./huge"])

    within_cpu_seconds(2, look)


def test_a_program_cannot_have_libraries_looked_for_without_end(code, monkeypatch):
    """Files of another machine, which the loader passes over, under many names in many folders."""
    names, folders = [f"n{n}" for n in range(100)], [f"{n:02x}" for n in range(100)]
    (code / "d").mkdir()
    other = bytearray(program(None, [f"j{n}" for n in range(256)]))
    other[18] = 183
    (code / "d" / names[0]).write_bytes(other)
    for name in names[1:]:
        os.link(code / "d" / names[0], code / "d" / name)
    for folder in folders:
        (code / folder).symlink_to("d")
    read = []
    monkeypatch.setattr(
        shared_libraries, "read_elf", lambda path, kind: read.append(path) or elf.read_elf(path, kind)
    )
    (code / "run").write_bytes(program(None, names, ":".join(f"$ORIGIN/{folder}" for folder in folders)))
    with pytest.raises(SandboxUnavailable, match="not found within the first 2000 places"):
        find(code, ["./run"])
    assert len(read) == len(set(read)) == 2000
    (code / "run").write_bytes(program(None, names[:10], ":".join(f"$ORIGIN/{folder}" for folder in folders)))
    find(code, ["./run"])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_bytes_of_a_program_break_the_reader_or_bring_in_a_private_file(code, data):
    text = bytearray(program("/lib64/ld-linux-x86-64.so.2", ("libc.so.6", "libm.so.6"), "$ORIGIN"))
    for _ in range(data.draw(st.integers(0, 6))):
        place = data.draw(st.integers(0, len(text) - 1))
        text[place] = data.draw(st.integers(0, 255))
    (code / "run").write_bytes(bytes(text[: data.draw(st.integers(0, len(text)))]))
    try:
        found = find(code, ["./run"])
    except LaunchFailed:
        return
    assert all(
        trusted_files.is_public(path) or trusted_files.is_beneath(path, str(code)) for path in brought(found)
    )


NAMES = st.sampled_from(["a", "b", "c", "..", ".", "/", "/etc/passwd", "/root", "a/b", "../../etc"])


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from("abc"), NAMES), max_size=4), st.sampled_from("abc"))
def test_a_walk_ends_where_the_kernels_does(code, links, start):
    for entry in code.iterdir():
        entry.unlink()
    for name, text in links:
        if not os.path.lexists(code / name):
            (code / name).symlink_to(text)
    try:
        real = trusted_files.walk(f"{code}/{start}").real
    except (OSError, SandboxUnavailable):
        real = None
    try:
        expected = os.path.realpath(f"{code}/{start}", strict=True)
    except OSError:
        expected = None
    assert real == expected


def test_libraries_are_found_as_the_loader_finds_them():
    shell = os.path.realpath("/bin/sh")
    found = elf.read_elf(shell)
    assert found is not None
    names = {
        os.path.basename(library.path)
        for library in shared_libraries.closure([shared_libraries.LoadedProgram(shell, found)])
    }
    assert set(found.needed) <= names
