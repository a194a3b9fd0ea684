"""Nothing that a stranger says is obeyed by a terminal, whichever command shows it, on stdout and on stderr."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import plughost
from plughost._util.plugin_names import MAX_NAME, name_problem
from plughost._util.text import escape_json_controls
from plughost.cli.main import COMMANDS
from plughost.cli.ui import output
from plughost.errors import InvalidConfig, InvalidSpec
from tests.support import ROOT
from tests.support.terminal import EVIL, obeyed, run
from tests.support.vai_packages import packaged

PROGRAM = f"""#!/usr/bin/python3
import json, sys
EVIL = {EVIL!r}
print("stderr", EVIL, file=sys.stderr, flush=True)
sys.stderr.buffer.write(b"\\x9b31m\\xff\\x1bc\\n"); sys.stderr.flush()
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "fail":
        said = {{"error": {{"code": 1, "message": EVIL, EVIL: EVIL}}}}
    elif asked["method"] == "die":
        sys.exit(7)
    else:
        said = {{"result": {{EVIL: [EVIL, asked.get("params")]}}}}
    # C1 and directions as they are, which JSON allows
    print(json.dumps({{"id": asked["id"], **said}}, ensure_ascii=False), flush=True)
"""
"""An mcptest plugin that says nothing but that."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all kinds of hostile things in it."""
    base = tmp_path_factory.mktemp("evil")
    evil = base / "evil"
    evil.mkdir()
    (evil / "main.py").write_text(PROGRAM)
    command = json.dumps([sys.executable, "-ISE", "main.py", EVIL])
    (evil / "plughost.toml").write_text(f'[plugins.evil]\ncontract = "mcptest"\ncommand = {command}\n')
    shebang = base / "shebang"
    shebang.mkdir()
    (shebang / "run").write_bytes(b"#!/no/such/\x1b[38;5;199m\x07/python\x9b\nx\n")
    (shebang / "run").chmod(0o755)
    (shebang / "plughost.toml").write_text('[plugins.shebang]\ncontract = "mcptest"\ncommand = ["./run"]\n')
    named = base / "named"
    named.mkdir()
    (named / "plughost.toml").write_text(
        f'[plugins.{json.dumps(EVIL)}]\ncontract = "mcptest"\ncommand = ["true"]\n'
    )
    kaged = base / "kaged"
    kaged.mkdir()
    manifest = {
        "name": "kaged", "version": "1.0.0", "kaged_api": 1, "description": EVIL, "author": EVIL, EVIL: EVIL,
        "methods": ["kaged.hi"], "command": ["/bin/sh", EVIL], "capabilities": [f"read:fs:/{EVIL}"],
    }  # fmt: skip
    (kaged / "manifest.yaml").write_text(json.dumps(manifest))
    ainb = base / "roots" / "talker"
    ainb.parent.mkdir()
    shutil.copytree(ROOT / "plugins" / "echo-ainb", ainb)
    (ainb / "echo-ainb").rename(ainb / "talker")
    about = (ainb / "manifest.toml").read_text().replace("echo-ainb", "talker")
    told = json.dumps(EVIL)
    (ainb / "manifest.toml").write_text(
        about.replace('["echo"]', f'["echo", {told}]').replace('"The ref', f"{told} #")
    )
    package = base / "package"
    shutil.copytree(ROOT / "plugins" / "echo-vai", package, ignore=shutil.ignore_patterns("__pycache__"))
    vai = (package / "vai-plugin.toml").read_text()
    (package / "vai-plugin.toml").write_text(f"{vai}\n[{told}]\n{told} = {told}\n")
    (package / EVIL.replace("/", "")).write_text("x")
    (base / f"{EVIL.replace('/', '')}.vai.tar").write_bytes(b"\x1b[38;5;199m\x07" * 200)
    (base / "trust.toml").write_text(f"[[publishers]]\nname = {told}\nkeys = [{told}]\n{told} = {told}\n")
    (base / "evil.traffic").write_text(json.dumps({"plugin": EVIL, "contract": EVIL, "framing": EVIL}) + "\n")
    return base


TAR = f"{EVIL.replace('/', '')}.vai.tar"

CASES: dict[str, list[tuple[str, ...]]] = {
    "new": [("mcptest", EVIL), (EVIL, "name"), ("mcptest", "name", "--lang", EVIL)],
    "call": [
        ("./evil", "ok", json.dumps({EVIL: EVIL})), ("./evil", "fail"), ("./evil", "die"), ("./evil", EVIL, EVIL),
        ("./shebang", "x"), ("./named", "x"), (EVIL,), ("-c", EVIL, "x"),
        ("--contract", EVIL, "x", "--", "true"), ("--contract", "mcptest", "x", "--", EVIL),
        ("--contract", "mcptest", "x", "--name", EVIL, "--", "true"),
    ],
    "inspect": [("./evil",), ("./kaged",), ("./named",), ("./shebang",), ("roots/talker/",), (EVIL,)],
    "methods": [("./evil",), ("./kaged",), ("./named",), ("roots/talker/",), ("./kaged", "--json"), (EVIL,)],
    "explain": [("./evil",), ("./kaged",), ("./roots/talker/",), ("./kaged", "--sandbox", "strict"), (EVIL,)],
    "run": [("./evil",), ("./named",), ("./kaged",), ("--root", "roots", EVIL), (EVIL,)],
    "dev": [("./named",), ("./evil",), (EVIL,)],
    "screen": [("./roots/talker", EVIL), (EVIL,)],  # its own driver shows what is not an error
    "conform": [("./evil", "--sample", "ok", "--axis", "lines"), ("./kaged",), ("./evil", "--axis", EVIL)],
    "replay": [("evil.traffic",), ("evil.traffic", "--as-host", "./evil"), (EVIL,)],
    "x": [("--root", "roots", "echo", EVIL), ("--root", "roots", EVIL, EVIL), ("--root", EVIL, "x")],
    "ps": [(EVIL,), ("--socket-dir", EVIL)],
    "logs": [(EVIL,), (EVIL, EVIL)],
    "start": [(EVIL,), ("--host", EVIL, EVIL)],
    "restart": [(EVIL,)],
    "reload": [(EVIL,), ()],
    "stop": [(EVIL,)],
    "doctor": [(EVIL,)],
    "pack": [("package",), (EVIL,)],
    "keygen": [(f"no/such/{EVIL}",)],
    "sign": [(TAR, "--key", EVIL)],
    "verify": [(TAR,), (TAR, "--trust", "trust.toml"), (EVIL,)],
    "push": [(TAR, "oci-layout:x"), (EVIL, EVIL)],
    "pull": [(EVIL,), (f"127.0.0.1:1/{EVIL}",)],
    "install": [(TAR, "--development"), (EVIL,)],
    "packages": [(EVIL,), ("show", EVIL), ("rm", EVIL), ("diff", EVIL, EVIL), ("ls", "--trust", "trust.toml")],
    "invoke": [("./package", EVIL, EVIL), (EVIL, EVIL, "{}"), ("./package", "echo", "{}", "--binding", EVIL)],
    "data": [("show", EVIL), ("adopt", EVIL)],
    "invocations": [(EVIL,), ("show", EVIL), ("ls", "--status", EVIL)],
    "serve": [(EVIL,), ("--host", EVIL), ("--database", EVIL, "--data", "d", "--port", "0")],
    "gw": [(EVIL,), ("keys", EVIL), ("keys", "recover", "--data", EVIL)],
    "database": [(EVIL,), ("import", EVIL), ("restore", EVIL), ("export", "x", "--database", EVIL)],
}  # fmt: skip


def test_every_command_is_tried():
    assert CASES.keys() == COMMANDS.keys()


@pytest.mark.parametrize("command", CASES)
def test_no_command_lets_a_terminal_obey_a_stranger(place, tmp_path, command):
    env = {f"XDG_{kind}_HOME": str(tmp_path) for kind in ("DATA", "STATE", "CONFIG")}
    for words in CASES[command]:
        enough = {
            "run": b"ready",
            "dev": b"ready" if words == ("./evil",) else b"is not a valid plugin name",
        }.get(command)
        seen = run(command, *words, cwd=place, env=env, enough=enough)
        assert seen.out or seen.err or words[0] == "ls", words
        assert (obeyed(seen.out), obeyed(seen.err)) == ([], []), (words, seen)
        assert b"Traceback" not in seen.err, seen.err.decode()


def test_what_a_plugin_answers_stays_one_json_document_of_the_same_meaning(place):
    seen = run("call", "./evil", "ok", "[1]", cwd=place)
    assert json.loads(seen.out) == {EVIL: [EVIL, [1]]}
    assert seen.out.count(b"\n") == 1
    seen = run("call", "./evil", "fail", "--json", cwd=place)
    assert EVIL in json.loads(seen.out)["error"]["message"]
    assert obeyed(seen.out) == []


def test_what_a_package_answers_and_its_records_are_text(tmp_path):
    """The tool gives back what it is given: keys and values, while it works and at its end."""
    packaged("echo-vai", tmp_path)
    state = ("--state", str(tmp_path / "state"))
    asked = json.dumps({"value": EVIL, "say": 2})
    for words in (
        ("invoke", *state, "--sandbox", "none", "./echo-vai", "echo", asked),
        ("invoke", *state, "--sandbox", "none", "./echo-vai", "echo", asked, "--json"),
        ("invocations", "ls", *state),
        ("invocations", "ls", "--json", *state),
    ):
        seen = run(*words, cwd=tmp_path)
        assert (obeyed(seen.out), obeyed(seen.err)) == ([], []), seen
        assert (seen.code, bool(seen.out)) == (0, True), seen


def test_run_ps_and_logs_show_a_hostile_plugin_as_text(place, tmp_path):
    sockets = tmp_path / "s"
    words = [sys.executable, "-m", "plughost.cli", "run", "./evil", "--socket-dir", str(sockets)]
    with subprocess.Popen(words, cwd=place, stderr=subprocess.PIPE) as running:
        assert running.stderr is not None
        said = b""
        try:
            for line in running.stderr:
                said += line
                if line.startswith(b"ready"):
                    break
            for command in (("ps",), ("ps", "--json"), ("logs",), ("logs", "evil", "--json"), ("stop", EVIL)):
                seen = run(*command, "--socket-dir", str(sockets), cwd=place)
                assert (obeyed(seen.out), obeyed(seen.err)) == ([], []), seen
        finally:
            running.terminate()
            said += running.stderr.read()
    assert obeyed(said) == [], said


def test_x_passes_bytes_on_to_a_program_and_text_to_a_terminal(place):
    words = ("x", "--root", "roots", "echo", "\x1b[38;5;199m\x07")
    piped = subprocess.run(
        [sys.executable, "-m", "plughost.cli", *words], cwd=place, capture_output=True, check=False
    )
    assert b"\x1b[38;5;199m\x07" in piped.stdout, piped
    shown = run(*words, cwd=place)
    assert b"\\x1b[38;5;199m\\x07" in shown.out
    assert obeyed(shown.out) == []


def test_a_traceback_and_a_log_line_are_text(tmp_path):
    program = (
        "import logging, plughost.cli.ui.output as output, warnings\n"
        "output.guard_streams()\n"
        f"evil = {EVIL!r}\n"
        "logging.error(evil); warnings.warn(evil); print(evil)\n"
        "raise ValueError(evil)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, cwd=ROOT)
    assert ran.returncode == 1
    assert b"ValueError" in ran.stderr
    assert (obeyed(ran.stdout), obeyed(ran.stderr)) == ([], [])


# Only one module writes

FORBIDDEN = {"print", "click.echo", "click.secho", "click.echo_via_pager", "click.progressbar", "os.write",
             "sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"}  # fmt: skip
EXEMPT = {
    ("teller.py", "os.write"),  # lines that only `output` makes, by their type
    ("x.py", "sys.stdout"), ("x.py", "sys.stderr"),  # a plugin's own output: `output.write` decides
}  # fmt: skip


def _written(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "print":
            found.add("print")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.add(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.Import):
            found.update(
                alias.name.partition(".")[0] for alias in node.names if alias.name.startswith("rich")
            )
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            found.update(f"{module}.{alias.name}" for alias in node.names)
            if module.split(".")[0] == "rich":
                found.add("rich")
    return found


def test_only_one_module_of_the_command_line_writes():
    ways = {
        (file.name, way)
        for file in (ROOT / "src/plughost/cli").glob("*.py")
        if file.name != "output.py"
        for way in _written(ast.parse(file.read_text())) & {*FORBIDDEN, "rich"}
        if (file.name, way) not in EXEMPT
    }
    # `rich` types are imported for the type checker alone
    assert ways - {("progress.py", "rich")} == set()


# Names


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "echo-kaged",
        "acme/hello",
        "acme/hello:greet#12",
        "@scope/tool",
        "my tool",
        "v1.2_x+y~z",
        "café",
        "한글",
        "a:b",
        "x" * MAX_NAME,
    ],
)
def test_a_name_of_any_contract_is_one(name):
    assert name_problem(name) is None
    assert plughost.PluginSpec(contract="mcptest", name=name, command=["true"]).name == name


@pytest.mark.parametrize(
    "name",
    [".", "..", "a/..", "../a", "a//b", "/a", "a/", "", " ", "a ", " a", "-a", "a/-b", "a\n", "a\nb", "a\tb", "a\x1b[0m",
     "a\x9b", "a\u202eb", "x[/bold]", "a\0", "caf\ud800", "x" * (MAX_NAME + 1), "a;b", "$(a)", "a\\b", "a'b",
     "good error: out of memory", "good#1 error", "a#", "a#b", "a#1#2", "a#1/b", "a#\u0661", "good\u3164", "good\u115f",
     "good\u1160", "good\uffa0", "good\u11a8", "good\u200b", "cafe\u0301", "\u212bngstrom", "\uff47ood", "x\u00b2"],
)  # fmt: skip
def test_what_is_no_name_is_refused_wherever_it_comes_from(name, tmp_path):
    with pytest.raises(InvalidSpec, match="is not a valid plugin name"):
        plughost.PluginSpec(contract="mcptest", name=name, command=["true"])
    if name.isprintable() or (name.isascii() and "\0" not in name):
        (tmp_path / "plughost.toml").write_text(
            f'\n[plugins.{json.dumps(name)}]\ncontract = "mcptest"\ncommand = ["true"]\n'
        )
        with pytest.raises(InvalidConfig, match=r"plughost\.toml:2: .*is not a valid plugin name"):
            plughost.config.load(tmp_path / "plughost.toml")


def test_a_manifest_cannot_name_a_plugin_otherwise(tmp_path):
    place = tmp_path / "x[bold]"
    shutil.copytree(ROOT / "plugins" / "echo-ainb", place)
    about = (place / "manifest.toml").read_text().replace("echo-ainb", place.name)
    (place / "manifest.toml").write_text(about)
    with pytest.raises(InvalidConfig, match=r"manifest\.toml:2: plugin\.name: .*is not a valid plugin name"):
        plughost.config.load_folder(place)


# JSON


@pytest.mark.parametrize(
    "document",
    [b'{"a": 1}', b'{\n\t"a":\r\n[1]}', '"\x7f\x9b\u202e\u2028\U000e0001ä€😀"'.encode(), b'"\\ud83d"'],
)
def test_json_is_escaped_without_another_meaning(document):
    escaped = escape_json_controls(document)
    assert escaped.decode().isprintable()
    assert json.loads(escaped) == json.loads(document)


def test_what_can_be_printed_stays_as_it_was():
    assert escape_json_controls('{"ä": "€😀"}'.encode()) == '{"ä": "€😀"}'.encode()


def test_json_holds_names_that_are_not_text():
    """Of a file, say: an error that names it must not end the command that shows it."""
    error = InvalidSpec("it leads to /tmp/\udcff").report()
    told = output.json_line({"error": error, "said": msgspec.Raw(b'{"a":1}')})
    assert json.loads(told)["error"]["message"] == "it leads to /tmp/\\udcff"
    assert json.loads(told)["said"] == {"a": 1}


def test_recorded_traffic_is_played_to_a_terminal_as_text_and_to_a_host_as_it_is(tmp_path):
    origin = {"plugin": "p", "contract": "mcptest", "framing": "Lines", "generation": 1}
    said = f'{{"result": "{EVIL}"}}\n'.encode()
    passage = {"way": "in", "data": said.decode("latin-1")}
    (tmp_path / "evil.traffic").write_text("\n".join(map(json.dumps, (origin, passage))))
    seen = run("replay", "evil.traffic", cwd=tmp_path)
    assert b"result" in seen.out
    assert obeyed(seen.out + seen.err) == []
    words = [sys.executable, "-m", "plughost.cli", "replay", str(tmp_path / "evil.traffic")]
    piped = subprocess.run(words, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    assert piped.stdout == said
