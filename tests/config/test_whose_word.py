"""Whose word counts: the files of a plugin's folder are its author's, and grant nothing.

All settings of all contracts are tried through every way in which a folder gets to a host. A setting that is
added later is tried with them, and is the operator's alone until its type says otherwise.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest
from click.testing import CliRunner

import plughost
from plughost import config
from plughost.cli.main import plughost as cli
from plughost.contracts.registry import contract_names, get_contract
from plughost.contracts.settings import author_rule
from plughost.permissions.access import NONE, ResourceLimits
from plughost.testing import drive
from plughost.testing.replay import play_host
from tests.support import ROOT, settings_table

NAME = {"ainb": "echo-ainb", "kaged": "echo-kaged", "vai": "acme/echo"}
FOLDER = {
    "ainb": "echo-ainb",
    "kaged": "echo-kaged",
    "vai": "echo-vai",
    "mcptest": "echo-mcptest",
    "rune": "echo-rune",
}
CONTRACTS = [name for name in contract_names() if name in FOLDER]
OTHER = {"mcptest": "rune", "rune": "mcptest"}
SECRET = "PLUGHOST_TEST_SECRET"
REQUIRED = {"contract", "command"}


@pytest.fixture
def folder(request, tmp_path, monkeypatch) -> Path:
    """A plugin of ours, as somebody may have downloaded it."""
    monkeypatch.setenv(SECRET, "hunter2")
    place = tmp_path / FOLDER[request.param]
    shutil.copytree(ROOT / "plugins" / FOLDER[request.param], place, ignore=shutil.ignore_patterns("lib"))
    return place


def bind(place: Path, its: str, settings: dict[str, Any]) -> str:
    """Write the folder's own plughost.toml; the name it binds."""
    told = None if its in OTHER else config.detect_contract(place)
    name = "p" if told is None else told.name
    table = {"contract": its, "command": ["python3", "echo.py"] if told is None else list(told.command)}
    lines = [f"{json.dumps(key)} = {toml(value)}" for key, value in {**table, **settings}.items()]
    (place / config.FILE).write_text("\n".join([f"[plugins.{json.dumps(name)}]", *lines, ""]))
    return name


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(key)} = {toml(each)}' for key, each in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value)


# The ways in: each ends with an error that says why, or the test fails.


@pytest.fixture(autouse=True)
def no_running_host(tmp_path_factory, monkeypatch):
    """A word is a name of a plugin in a running host first: there is none here."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))


def command_line(*words: str, cwd: Path) -> str:
    before = os.getcwd()
    os.chdir(cwd)
    try:
        ran = CliRunner().invoke(cli, words, catch_exceptions=True)
    finally:
        os.chdir(before)
    assert ran.exit_code not in (0, None), ran.output
    if isinstance(ran.exception, plughost.PluginError):
        return ran.exception.message
    return ran.output + str(ran.exception)


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(plughost.InvalidSpec) as caught:
        call()
    return caught.value.message


async def by_library(place: Path, name: str) -> str:
    async with plughost.Host() as host:
        with pytest.raises(plughost.InvalidSpec) as caught:
            await host.add(place, start=False)
    return caught.value.message


async def by_replay(place: Path, name: str) -> str:
    with pytest.raises(plughost.InvalidSpec) as caught:
        await play_host(None, place)  # type: ignore[arg-type]
    return caught.value.message


WAYS: dict[str, Callable[[Path, str], Any]] = {
    "folder": lambda place, name: command_line("call", f"{place}/", "ping", cwd=place.parent),
    "folder, confined": lambda place, name: command_line(
        "call", "--sandbox", "strict", str(place), "ping", cwd=place.parent
    ),
    "a word that is a folder": lambda place, name: command_line("call", place.name, "ping", cwd=place.parent),
    "dot": lambda place, name: command_line("call", ".", "ping", cwd=place),
    "own name": lambda place, name: command_line("call", name, "ping", cwd=place),
    "inspect": lambda place, name: command_line("inspect", ".", cwd=place),
    "explain": lambda place, name: command_line("explain", ".", cwd=place),
    "run": lambda place, name: command_line("run", cwd=place),
    "run dot": lambda place, name: command_line("run", ".", cwd=place),
    "x": lambda place, name: command_line("x", f"{place}/", "echo", "hi", cwd=place.parent),
    "screen": lambda place, name: command_line("screen", f"{place}/", "--svg", "x.svg", cwd=place.parent),
    "conform": lambda place, name: command_line("conform", ".", cwd=place),
    "dev": lambda place, name: refused(lambda: config.load_folder(place)),
    "replay": by_replay,
    "library": by_library,
    "drive": lambda place, name: refused(lambda: drive(None, place).__enter__()),  # type: ignore[arg-type]
}


async def tried(way: Callable[[Path, str], Any], place: Path, name: str) -> str:
    told = way(place, name)
    return await told if hasattr(told, "__await__") else told


def fields(its: str) -> Iterator[msgspec.structs.FieldInfo]:
    yield from msgspec.structs.fields(config.Common)
    yield from msgspec.structs.fields(get_contract(its).options)


def values(field: msgspec.structs.FieldInfo, place: Path) -> Iterator[Any]:
    """Some that its type allows: the default, one beyond it, the least, another."""
    if field.encode_name == "allow":
        yield {"read": ["/etc"]}
    elif field.encode_name == "limits":
        yield {"memory": "none"}
    else:
        yield from _values(field.type, field.default, place)


def _values(kind: Any, default: Any, place: Path) -> Iterator[Any]:
    if get_origin(kind) is not None and hasattr(kind, "__metadata__"):
        yield from _values(get_args(kind)[0], default, place)
    elif get_origin(kind) is Literal:
        yield from get_args(kind)
    elif kind is bool:
        yield from (True, False)
    elif kind is int:
        yield from (100_000_000_000, 1)
    elif kind is float:
        yield from (1e9, 0.5)
    elif kind is str:
        yield str(place.parent / "not-yet-there")
    elif get_origin(kind) in (list, tuple):
        yield [next(_values(get_args(kind)[0], None, place))]
    elif get_origin(kind) is dict:
        yield {"key": next(_values(get_args(kind)[1], None, place), "x")}
    elif kind is Any:
        yield "x"
    else:  # a union
        for each in get_args(kind):
            if each is not type(None):
                yield from _values(each, default, place)


FORBIDDEN = [
    pytest.param(its, field, id=f"{its}-{field.encode_name}")
    for its in CONTRACTS
    for field in fields(its)
    if author_rule(field) is None
]
ALLOWED = [
    pytest.param(its, field, id=f"{its}-{field.encode_name}")
    for its in CONTRACTS
    for field in fields(its)
    if author_rule(field) is not None and field.encode_name not in REQUIRED
]


@pytest.mark.parametrize(("folder", "field"), FORBIDDEN, indirect=["folder"])
async def test_an_operators_setting_in_an_authors_file_is_refused_whichever_way_it_comes(
    folder, field, request
):
    its = request.node.callspec.params["folder"]
    for value in values(field, folder):
        name = bind(folder, its, {field.encode_name: value})
        for way, reach in WAYS.items():
            told = await tried(reach, folder, name)
            assert "only the operator can set this" in told, (way, value, told)
            assert f".{field.encode_name}: " in told, (way, value, told)
    assert os.listdir(folder.parent) == [folder.name]


@pytest.mark.parametrize(("folder", "field"), ALLOWED, indirect=["folder"])
def test_an_authors_setting_raises_no_bound_and_reaches_nothing_outside(folder, field, request):
    its = request.node.callspec.params["folder"]
    bind(folder, its, {})
    usual = config.load_folder(folder)
    accepted = 0
    for value in values(field, folder):
        bind(folder, its, {field.encode_name: value})
        try:
            spec = config.load_folder(folder)
        except plughost.InvalidSpec:
            continue
        accepted += 1
        assert (spec.grants, spec.allow, spec.limits) == (usual.grants, NONE, ResourceLimits())
        assert spec.command_from_manifest
        assert Path(spec.cwd).is_relative_to(folder)
        assert spec.sandbox != "none" or get_contract(its).sandbox == "none"
        given = msgspec.structs.asdict(get_contract(its).resolve(spec).policy)
        for bound, most in msgspec.structs.asdict(get_contract(its).resolve(usual).policy).items():
            if isinstance(most, int | float) and bound != "max_in_flight":
                assert given[bound] <= most, bound
    assert accepted or field.encode_name == "cwd"


@pytest.mark.parametrize("folder", CONTRACTS, indirect=True)
@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"env": {"A": f"${{{SECRET}}}"}}, f"${{{SECRET}}} cannot be used in a file"),
        ({"env": {"A": "secret://x"}}, "secret store"),
        ({"cwd": ".."}, "outside the plugin's folder"),
        ({"cwd": "/etc"}, "outside the plugin's folder"),
        ({"cwd": "way-out"}, "outside the plugin's folder"),
        ({"sandbox": "none"}, "weaker than the contract's own"),
        ({"max_line": 100_000_000_000}, ""),
        ({"call_timeout": float("1e400")}, ""),
    ],
    ids=lambda each: next(iter(each.items()))[0] if isinstance(each, dict) else "",
)
async def test_what_an_author_cannot_say_is_refused_whichever_way_it_comes(folder, request, said, told):
    its = request.node.callspec.params["folder"]
    if said == {"sandbox": "none"} and get_contract(its).sandbox == "none":
        pytest.skip("it is what its contract has anyhow")
    (folder / "way-out").symlink_to("/etc")
    name = bind(folder, its, said)
    text = (folder / config.FILE).read_text().replace("Infinity", "inf")
    (folder / config.FILE).write_text(text)
    for way, reach in WAYS.items():
        answer = await tried(reach, folder, name)
        assert told in answer, (way, answer)
        assert "hunter2" not in answer, way


NUMBERS = [
    pytest.param(its, field, id=f"{its}-{field.encode_name}")
    for its in CONTRACTS
    for field in fields(its)
    if author_rule(field) is not None and type(field.default) in (int, float)
]


@pytest.mark.parametrize(("folder", "field"), NUMBERS, indirect=["folder"])
@pytest.mark.parametrize("value", ["0", "-1", "-1.0", "-inf", "inf", "nan", "true", "1" + "0" * 400])
def test_an_author_sets_a_number_only_to_a_positive_one(folder, field, value, request):
    its = request.node.callspec.params["folder"]
    bind(folder, its, {field.encode_name: "VALUE"})
    file = folder / config.FILE
    file.write_text(file.read_text().replace('"VALUE"', value))
    with pytest.raises(plughost.InvalidSpec, match=field.encode_name):
        config.load_folder(folder)


def test_an_operators_zero_still_means_the_default_of_a_rune_plugin(tmp_path):
    file = tmp_path / config.FILE
    file.write_text('[plugins.p]\ncontract = "rune"\ncommand = ["python3", "p.py"]\ntimeout = -1.0\n')
    spec = config.load(file)["p"]
    assert get_contract("rune").resolve(spec).policy.call_timeout == 5.0


@pytest.mark.parametrize("folder", ["ainb", "kaged", "vai"], indirect=True)
@pytest.mark.parametrize("claimed", ["mcptest", "rune"])
@pytest.mark.parametrize("inner", [False, True])
async def test_a_file_does_not_change_the_contract_that_a_manifest_names(folder, claimed, inner):
    cwd = folder.name if inner else None  # the manifest is in the folder where it starts
    folder = folder.parent if inner else folder
    name = "p"
    (folder / config.FILE).write_text(
        f'[plugins.p]\ncontract = "{claimed}"\ncommand = ["python3", "x.py"]\n'
        + (f'cwd = "{cwd}"\n' if cwd else "")
    )
    for way, reach in WAYS.items():
        assert "has a manifest of the contract" in await tried(reach, folder, name), way


def test_a_folder_with_two_manifests_is_not_run_by_the_weaker_contract(tmp_path):
    for name in ("echo-ainb", "echo-vai"):
        shutil.copytree(ROOT / "plugins" / name, tmp_path / "echo-ainb", dirs_exist_ok=True)
    with pytest.raises(plughost.InvalidSpec, match="manifests of several contracts: ainb and vai"):
        config.load_folder(tmp_path / "echo-ainb")
    assert [problem.message for problem in config.load_root(tmp_path).problems]


@pytest.mark.parametrize("cwd", [{}, {"cwd": "."}])
@pytest.mark.parametrize("folder", ["vai"], indirect=True)
def test_a_file_gives_a_package_no_more_of_its_folder_than_its_manifest_does(folder, cwd):
    bind(folder, "vai", cwd)
    assert not config.load_folder(folder).cwd_is_plugin_dir
    assert not next(iter(config.load_found(folder / config.FILE).values())).cwd_is_plugin_dir


@pytest.mark.parametrize(
    "command",
    [["plugs/notes/run"], ["python3", "evil.py"], ["{victim}/notes"]],
    ids=["relative", "bare", "absolute"],
)
async def test_a_file_does_not_take_the_identity_of_another_plugin(tmp_path, monkeypatch, command):
    """Its manifest, and with it its data, is that of the folder itself, wherever its command leads."""
    victim, evil = tmp_path / "plugs/notes", tmp_path / "evil"
    (evil / "plugs/notes").mkdir(parents=True)
    victim.mkdir(parents=True)
    (victim / "manifest.toml").write_text(
        '[plugin]\nname = "notes"\nversion = "1.0.0"\nabi_version = 2\n[capabilities]\nwrite_plugin_data = true\n'
    )
    words = [word.format(victim=victim) for word in command]
    (evil / config.FILE).write_text(f'[plugins.notes]\ncontract = "ainb"\ncommand = {toml(words)}\n')
    for here in (tmp_path, victim):
        monkeypatch.chdir(here)
        with pytest.raises(plughost.InvalidSpec, match="manifest.toml"):
            config.load_folder(evil)
    shutil.copy(victim / "manifest.toml", evil)
    (evil / "notes").touch(0o755)
    monkeypatch.chdir(victim)
    evil.rename(tmp_path / "dl-notes")
    (tmp_path / "dl").mkdir()
    (tmp_path / "dl-notes").rename(tmp_path / "dl/notes")
    spec = config.load_folder(tmp_path / "dl/notes")
    data = get_contract("ainb").resolve(spec).sandbox.data
    assert data is not None
    assert data.owner == str(tmp_path / "dl/notes")


def test_no_plugin_is_called_dot(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / config.FILE).write_text(
        '[plugins."."]\ncontract = "mcptest"\ncommand = ["python3"]\nallow.read = ["/etc"]\n'
    )
    assert "is not a valid plugin name" in command_line("call", ".", "ping", cwd=tmp_path)


def test_a_file_that_is_named_is_the_operators(tmp_path, monkeypatch):
    monkeypatch.setenv(SECRET, "hunter2")
    file = tmp_path / config.FILE
    file.write_text(
        '[plugins.p]\ncontract = "mcptest"\ncommand = ["python3", "p.py"]\nallow.read = ["/etc"]\n'
        f'max_line = 100_000_000\nenv = {{ A = "${{{SECRET}}}" }}\n'
    )
    spec = config.load(file)["p"]
    assert (spec.allow.read, spec.options, spec.env) == (
        ("/etc",),
        {"max_line": 100_000_000},
        {"A": "hunter2"},
    )
    runner = CliRunner()
    for words, env in ((["-c", str(file)], {}), ([], {"PLUGHOST_CONFIG": str(file)})):
        ran = runner.invoke(cli, ["inspect", *words, "p", "--json"], env=env)
        assert ran.exit_code == 0, ran.output


def test_a_relative_path_in_the_environment_names_nobodys_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / config.FILE).write_text(
        '[plugins.p]\ncontract = "mcptest"\ncommand = ["python3"]\nallow.read = ["/etc"]\n'
    )
    ran = CliRunner().invoke(cli, ["inspect", "p"], env={"PLUGHOST_CONFIG": config.FILE})
    assert ran.exit_code == 2
    assert "must be an absolute path" in ran.output


@pytest.mark.parametrize("said", [["--env", "TOKEN=x"], ["--grant", "declared"]])
@pytest.mark.parametrize("command", ["run", "x", "screen"])
def test_variables_and_grants_are_not_for_every_plugin_of_a_root(tmp_path, said, command):
    shutil.copytree(ROOT / "plugins/echo-ainb", tmp_path / "echo-ainb")
    shutil.copytree(ROOT / "plugins/echo-kaged", tmp_path / "echo-kaged")
    words = {"x": ["echo", "hi"], "screen": ["echo-ainb", "--svg", "x.svg"], "run": []}[command]
    ran = CliRunner().invoke(cli, [command, "--root", str(tmp_path), *said, *words])
    assert ran.exit_code == 2
    assert "apply to one plugin" in ran.output


def test_what_nobody_classified_is_the_operators():
    class Options(msgspec.Struct):
        new: int = 3

    assert [author_rule(field) for field in msgspec.structs.fields(Options)] == [None]


def test_the_table_in_the_documentation_is_the_one_of_the_code():
    text = (ROOT / "docs/security.md").read_text()
    assert settings_table.table() in text, "run `make tables`"


def test_every_contract_is_tried():
    ours = {name for name in contract_names() if type(get_contract(name)).__module__.startswith("plughost.")}
    assert ours == set(CONTRACTS)
    assert len(list(itertools.chain(*map(fields, CONTRACTS)))) == len(FORBIDDEN) + len(ALLOWED) + 2 * len(
        CONTRACTS
    )
