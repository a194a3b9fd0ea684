"""kaged: manifests, as the contract has them and as they are found in the wild."""

from __future__ import annotations

import time

import msgspec
import pytest

import plughost
from plughost import config
from plughost.contracts.kaged import manifest
from plughost.contracts.kaged.contract import CONTRACT
from plughost.contracts.kaged.manifest import KagedManifest
from tests.support import processes
from tests.support.cpu_time import within_cpu_seconds
from tests.support.kaged import folder, spec

GOOD = """\
name: notes
version: 1.0.0
kaged_api: 1
description: Keeps notes
command: [python3, main.py]
methods: [notes.add, notes.list-all.by_tag]
"""
WILD = """\
name: memory
version: 0.1.1
kaged_api: 1
description: >-
  Remembers things in
  plain files
license: MIT
homepage: https://example.com/memory
command: [/usr/bin/env, bun, ./src/main.ts]
env:
  LOG_LEVEL: info
roles: [observer, compactor]
hooks: [on_session_start, on_session_idle, pre_compact, post_compact]
methods: []
tools:
  - name: retain
    description: Keep something
    parameters_schema: {type: object, required: [content], properties: {content: {type: string}}}
  - name: list_tags
    description: What there is
    parameters_schema: {type: object}
notifications: []
capabilities:
  - kaged:storage:read
  - "net:[]"
system_config_schema: {type: object}
knobs:
  store: {type: path, label: Where, binds_to: config.store}
hook_timeout_sec: 7
shutdown_timeout_sec: 5
health_interval_sec: 30
"""


def read(tmp_path, text, file="manifest.yaml"):
    (tmp_path / file).write_text(text)
    path = manifest.find(tmp_path)
    assert path is not None
    return manifest.read(path)


def problems(tmp_path, text):
    with pytest.raises(plughost.InvalidConfig) as caught:
        read(tmp_path, text)
    return [(problem.line, problem.field) for problem in caught.value.problems]


def changed(**fields):
    """GOOD with other values, each where it was or at the end."""
    lines = GOOD.splitlines()
    for name, value in fields.items():
        places = [number for number, line in enumerate(lines) if line.startswith(f"{name}:")]
        if places:
            lines[places[0]] = f"{name}: {value}"
        else:
            lines.append(f"{name}: {value}")
    return "\n".join(lines) + "\n"


@pytest.mark.clause("KAGED-01", "KAGED-02", "KAGED-03", "KAGED-04")
def test_six_fields_are_required_and_the_others_have_their_usual_values(tmp_path):
    told = read(tmp_path, GOOD)
    assert told.lints == ()
    assert told.manifest == KagedManifest(
        name="notes",
        version="1.0.0",
        kaged_api=1,
        description="Keeps notes",
        command=["python3", "main.py"],
        methods=["notes.add", "notes.list-all.by_tag"],
    )
    usual = told.manifest
    assert (usual.env, usual.capabilities, usual.notifications, usual.config_schema) == ({}, [], [], None)
    assert (usual.shutdown_timeout_sec, usual.health_interval_sec) == (5, 30)
    assert (usual.author, usual.license, usual.homepage) == (None, None, None)


@pytest.mark.clause("KAGED-01", "KAGED-06")
@pytest.mark.parametrize("field", ["name", "version", "kaged_api", "description", "command", "methods"])
def test_what_is_required_is_missed(tmp_path, field):
    text = "".join(line for line in GOOD.splitlines(keepends=True) if not line.startswith(f"{field}:"))
    (found,) = problems(tmp_path, text)
    assert found in ((0, ""), (0, "methods"))


@pytest.mark.clause("KAGED-01", "KAGED-02", "KAGED-03", "KAGED-04", "KAGED-05", "KAGED-08", "KAGED-10")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "Notes"), ("name", "1notes"), ("name", "-n"), ("name", "a_b"), ("name", '""'), ("name", '"a\\n"'),
        ("name", "a" * 65), ("name", "[notes]"), ("version", "1.0"), ("version", "v1.0.0"), ("version", '""'),
        ("kaged_api", "0"), ("kaged_api", "-1"), ("kaged_api", "2"), ("kaged_api", '"1"'), ("kaged_api", "1.0"),
        ("kaged_api", "true"), ("description", '""'), ("description", "x" * 201), ("homepage", "example.com"),
        ("homepage", "ftp://example.com"), ("author", "3"), ("license", "[MIT]"), ("command", "[]"),
        ("command", '[""]'), ("command", "python3 main.py"), ("env", "[A]"), ("env.A", "1"), ("methods", "[notes]"),
        ("methods", "[a.b.c.d.e]"), ("methods", "[Notes.add]"), ("methods", "[notes..add]"),
        ("methods", "[notes.add.]"), ("methods", "['notes.add ']"), ("methods", "[kaged.add]"),
        ("methods", "[system.add]"), ("methods", "[health.check]"), ("methods", "[initialize]"),
        ("methods", "[initialized]"), ("methods", "[shutdown]"), ("methods", "[]"), ("notifications", "['']"),
        ("notifications", "[1]"), ("capabilities", "[read:fs:notes]"), ("capabilities", "[everything]"),
        ("capabilities", "[net:a.example:0]"), ("capabilities", "['net:[]', 'net:*']"), ("config_schema", "[]"),
        ("config_schema", "{type: nonsense}"), ("shutdown_timeout_sec", "0"), ("shutdown_timeout_sec", "31"),
        ("shutdown_timeout_sec", "1.5"), ("health_interval_sec", "4"), ("health_interval_sec", "301"),
        ("hook_timeout_sec", "0"), ("hooks", "['../x']"), ("tools", "[{description: x}]"), ("tools", "[retain]"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_one_problem_at_its_line(tmp_path, field, value):
    name, _, inner = field.partition(".")
    text = changed(**{name: f"{{{inner}: {value}}}" if inner else value})
    line = next(number for number, line in enumerate(text.splitlines(), 1) if line.startswith(f"{name}:"))
    (found,) = problems(tmp_path, text)
    assert found[0] == line
    assert found[1].startswith(name)


@pytest.mark.clause("KAGED-01", "KAGED-03", "KAGED-04")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "a"), ("name", "a" * 64), ("name", "a-1-"), ("version", "1.0.0-rc.1+build"), ("description", "x" * 200),
        ("methods", "[a.b.c.d]"), ("methods", "[0-_.x]"), ("methods", "[kagedx.a]"), ("methods", "[health.checks]"),
        ("shutdown_timeout_sec", "1"), ("shutdown_timeout_sec", "30"), ("health_interval_sec", "5"),
        ("health_interval_sec", "300"), ("license", "Apache-2.0 OR MIT"), ("capabilities", "['net:[]']"),
        ("homepage", "https://example.com/x?y"), ("config_schema", "{type: object}"),
    ],
)  # fmt: skip
def test_values_at_the_edges_are_taken(tmp_path, field, value):
    assert read(tmp_path, changed(**{field: value})).lints == ()


@pytest.mark.clause("KAGED-06")
async def test_every_problem_is_told_at_once_and_nothing_is_started(host, tmp_path, mark):
    place = folder(tmp_path / mark)
    good = spec(place)
    (place / "manifest.yaml").write_text(
        changed(name="Notes", version="one", kaged_api="7", command="[]", capabilities="[a, b]", name2="x")
        + "name: twice\n"
    )
    with pytest.raises(plughost.InvalidConfig) as caught:
        await host.add(good)
    found = [(problem.line, problem.field) for problem in caught.value.problems]
    assert found == [
        (1, "name"), (2, "version"), (3, "kaged_api"), (5, "command"), (7, "capabilities[0]"),
        (7, "capabilities[1]"), (9, "name"),
    ]  # fmt: skip
    assert all(problem.file == str(place / "manifest.yaml") for problem in caught.value.problems)
    assert not processes(mark)


@pytest.mark.clause("KAGED-06")
def test_what_is_wrong_with_the_methods_is_told_beside_what_is_wrong_elsewhere(tmp_path):
    text = changed(
        version="3",
        methods="[A.b, 1, kaged.x, initialize]",
        hooks="[A]",
        notifications="[1, '']",
        tools="[3]",
    )
    assert problems(tmp_path, text) == [
        (2, "version"), (6, "methods[1]"), (6, "methods[0]"), (6, "methods[2]"), (6, "methods[3]"),
        (7, "hooks[0]"), (8, "notifications[0]"), (8, "notifications[1]"), (9, "tools[0]"),
    ]  # fmt: skip
    text = changed(name="7", methods="[]", tools="[{name: X}, {name: 1}]")
    assert problems(tmp_path, text) == [(1, "name"), (7, "tools[1].name"), (7, "tools[0].name")]


@pytest.mark.clause("KAGED-07")
def test_keys_that_nobody_knows_and_keys_without_a_value_are_in_nobodys_way(tmp_path):
    text = """\
name: wild
version: 1.0.0
kaged_api: 1
description: d
author:
command: [python3, main.py]
methods:
env:
tools:
  - name: t
    description:
    parameters_schema:
    annotations: {readOnlyHint: true, 1: one}
knobs:
  n: {type: enum, values: [0, 1], labels: {0: none, yes: one}, 1: &x 2, 1: *x}
2: what is this
"""
    told = read(tmp_path, text)
    assert told.manifest.all_methods == {"wild.t"}
    assert (told.manifest.env, told.manifest.tools[0].description) == ({}, "")
    assert [(lint.line, lint.field) for lint in told.lints] == [
        (5, "author"), (7, "methods"), (8, "env"), (11, "tools[0].description"),
        (12, "tools[0].parameters_schema"), (13, "tools[0].annotations"), (14, "knobs"), (16, "2"),
        (7, "methods"),
    ]  # fmt: skip
    assert problems(tmp_path, changed(name="")) == [(1, "name")], "what is required needs a value"
    assert problems(tmp_path, changed(env="{1: x}")) == [(7, "env.1")]


@pytest.mark.clause("KAGED-07")
def test_methods_and_tools_together_can_both_be_called(tmp_path):
    told = read(tmp_path, changed(tools="[{name: add}, {name: list_tags}, {name: Lost}]"))
    assert told.manifest.all_methods == {*told.manifest.methods, "notes.add", "notes.list_tags"}
    assert told.manifest.required_methods == {*told.manifest.methods}
    assert [(lint.line, lint.field) for lint in told.lints] == [(7, "tools[2].name")]
    assert "notes.list_tags" in CONTRACT.resolve(config.load_folder(tmp_path)).methods


def test_a_manifest_of_unknown_keys_that_are_wrong_too_is_read_quickly(tmp_path):
    begun = time.process_time()
    told = read(tmp_path, GOOD + "".join(f"x{n}: &a 1\n" for n in range(2000)))
    assert len(told.lints) == 2000
    assert time.process_time() - begun < 10


@pytest.mark.clause("KAGED-07")
def test_a_manifest_from_the_wild_loads_and_its_looseness_is_told(tmp_path):
    told = read(tmp_path, WILD, "kaged-plugin.yaml")
    assert told.manifest.all_methods == {"memory.retain", "memory.list_tags"}
    assert told.manifest.description == "Remembers things in plain files"
    assert (told.manifest.env, told.manifest.hook_timeout_sec) == ({"LOG_LEVEL": "info"}, 7)
    assert {(lint.line, lint.field) for lint in told.lints} == {
        (0, ""),
        (12, "roles"),
        (14, "methods"),
        (26, "system_config_schema"),
        (27, "knobs"),
    }
    plugin = config.load_folder(tmp_path)
    assert (plugin.contract, plugin.name, plugin.cwd) == ("kaged", "memory", str(tmp_path))
    assert CONTRACT.resolve(plugin).methods == {
        "memory.retain", "memory.list_tags", "kaged.hook.on_session_start", "kaged.hook.on_session_idle",
        "kaged.hook.pre_compact", "kaged.hook.post_compact",
    }  # fmt: skip


@pytest.mark.clause("KAGED-07")
def test_of_two_manifests_the_contracts_own_name_wins(tmp_path):
    (tmp_path / "kaged-plugin.yaml").write_text(WILD)
    (tmp_path / "manifest.yaml").write_text(GOOD)
    assert config.load_folder(tmp_path).name == "notes"


@pytest.mark.clause("KAGED-05", "KAGED-07")
@pytest.mark.parametrize(
    ("name", "tool"),
    [("kaged", "x"), ("system", "x"), ("health", "check"), ("a", "X"), ("a", "b.c.d.e"), ("a", "")],
)
def test_methods_that_come_from_tools_are_judged_like_others(tmp_path, name, tool):
    text = changed(name=name, methods="[]", tools=f"[{{name: '{tool}'}}]")
    assert problems(tmp_path, text) == [(7, "tools[0].name")]


@pytest.mark.clause("KAGED-07")
def test_hooks_alone_make_a_plugin(tmp_path):
    told = read(tmp_path, changed(methods="[]", hooks="[pre_compact, on_full_moon]"))
    assert told.manifest.all_methods == set()
    assert [lint.field for lint in told.lints] == ["methods", "hooks[1]"]


@pytest.mark.clause("KAGED-01")
def test_a_license_that_is_no_identifier_is_only_told(tmp_path):
    assert [lint.field for lint in read(tmp_path, changed(license="see the file")).lints] == ["license"]


@pytest.mark.clause("KAGED-08")
async def test_another_api_version_is_refused_before_anything_is_started(host, tmp_path, mark):
    with pytest.raises(plughost.InvalidConfig, match="kaged_api: expected 1, which this host speaks"):
        await host.add(folder(tmp_path / mark, kaged_api=2))
    assert not processes(mark)


@pytest.mark.clause("KAGED-02")
async def test_the_process_starts_in_the_plugins_own_folder_with_its_environment(
    host, tmp_path, mark, monkeypatch
):
    monkeypatch.setenv("KAGED_TEST_SECRET", "x")
    place = folder(tmp_path / mark, env={"LEVEL": "low", "WHO": "manifest"})
    plugin = await host.add(spec(place, env={"WHO": "operator"}))
    about = await plugin.call("p.about")
    assert about["cwd"] == str(place)
    env = about["env"]
    assert (env["LEVEL"], env["WHO"], env.get("KAGED_TEST_SECRET")) == ("low", "operator", None)


@pytest.mark.clause("KAGED-30")
async def test_the_configuration_is_judged_before_the_plugin_starts_and_reaches_it(host, tmp_path, mark):
    rules = {
        "type": "object",
        "required": ["store"],
        "additionalProperties": False,
        "properties": {"store": {"$ref": "#/$defs/path"}, "keep": {"type": "integer", "minimum": 1}},
        "$defs": {"path": {"type": "string", "pattern": "^/"}},
    }
    place = folder(tmp_path / mark, config_schema=rules)
    for wrong in ({}, None, {"store": "x"}, {"store": "/x", "keep": 0}, {"store": "/x", "more": 1}):
        with pytest.raises(plughost.InvalidSpec, match="config: "):
            await host.add(spec(place, config=wrong))
    with pytest.raises(plughost.InvalidSpec) as caught:
        await host.add(spec(place, config={"keep": 0}))
    assert len(caught.value.message.splitlines()) == 2
    assert not processes(mark)
    plugin = await host.add(spec(place, config={"store": "/x", "keep": 2}))
    (first, *_) = await plugin.call("p.received")
    assert first["params"]["config"] == {"store": "/x", "keep": 2}


@pytest.mark.clause("KAGED-30")
async def test_without_a_schema_any_configuration_is_passed_on_and_none_is_left_out(host, tmp_path, mark):
    place = folder(tmp_path / mark)
    plugin = await host.add(spec(place, config={"a": [1, None]}))
    assert (await plugin.call("p.received"))[0]["params"]["config"] == {"a": [1, None]}
    await host.remove("puppet")
    plugin = await host.add(spec(place))
    assert "config" not in (await plugin.call("p.received"))[0]["params"]


@pytest.mark.clause("KAGED-30")
def test_a_configuration_that_cannot_be_sent_is_refused(tmp_path):
    place = folder(tmp_path)
    for wrong in ({"x": object()}, {"x": "y" * 4_000_000}):
        with pytest.raises(plughost.InvalidSpec, match="config"):
            CONTRACT.resolve(spec(place, config=wrong))


@pytest.mark.clause("KAGED-30")
@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "file:///etc/passwd"},
        {"$ref": "http://127.0.0.1:1/x"},
        {"$ref": "other.json"},
        {"$ref": "#"},
        {"$ref": "#/$defs/no"},
        {"$schema": "http://127.0.0.1:1/schema"},
        {"allOf": [{"$id": "http://a/b", "$ref": "#/x"}]},
        {"$dynamicRef": "#x"},
        {"$schema": "http://json-schema.org/draft-07/schema#"},
        {"definitions": {"a": {}}, "allOf": [{"$schema": "http://json-schema.org/draft-04/schema#", "id": "http://a/"}]},
        {"pattern": "(a"},
        {"pattern": "((a{1,1000}){1,1000}){1,1000}"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"$ref": "#/$defs/0", "$defs": {"15": {}} | {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 3} for n in range(15)}},
        {"$ref": "#/$defs/0", "$defs": {"31": {}} | {str(n): {"$ref": f"#/$defs/{n + 1}"} for n in range(31)}},
    ],
)  # fmt: skip
def test_a_schema_that_leads_elsewhere_or_grows_without_end_is_refused_at_once(tmp_path, schema):
    text = changed(config_schema=msgspec.json.encode(schema).decode())
    assert within_cpu_seconds(2, lambda: problems(tmp_path, text)) == [(7, "config_schema")]


@pytest.mark.clause("KAGED-30")
async def test_a_project_is_told_when_it_is_known_and_never_empty(host, tmp_path, mark):
    place = folder(tmp_path / mark)
    plugin = await host.add(spec(place))
    env = (await plugin.call("p.about"))["env"]
    assert not {"KAGED_PROJECT_ID", "KAGED_PROJECT_ROOT"} & env.keys()
    await host.remove("puppet")
    plugin = await host.add(spec(place, project_id="p1", project_root="/srv/p1"))
    env = (await plugin.call("p.about"))["env"]
    assert (env["KAGED_PROJECT_ID"], env["KAGED_PROJECT_ROOT"]) == ("p1", "/srv/p1")
    assert (await plugin.call("p.received"))[0]["params"]["projects"] == ["p1"]
    for empty in ({"project_id": ""}, {"project_root": ""}):
        with pytest.raises(plughost.InvalidSpec, match="empty"):
            CONTRACT.resolve(spec(place, **empty))


def test_a_folder_without_a_manifest_or_of_another_name_is_told(tmp_path):
    place = folder(tmp_path)
    good = spec(place)
    with pytest.raises(plughost.InvalidSpec, match="the name in its manifest is 'puppet'"):
        CONTRACT.resolve(msgspec.structs.replace(good, name="other"))
    with pytest.raises(plughost.InvalidSpec, match="must be its folder"):
        CONTRACT.resolve(msgspec.structs.replace(good, cwd=str(tmp_path)))
    assert CONTRACT.read_folder(tmp_path) is None
