"""vai-plugin.toml: the manifest of the contract's own text, and every way to get one wrong."""

from __future__ import annotations

import time

import pytest

import plughost
from plughost.contracts.vai import manifest, target_platform
from plughost.contracts.vai.manifest_rules import inside
from plughost.contracts.vai.target_platform import TargetPlatform
from tests.support import ROOT

SEED = ROOT / "tests/contracts/vai/seed"
TEXT = (SEED / manifest.FILE).read_text()

SMALL = """\
api_version = "vai.plugin.v1"
package_id = "acme/small"
version = "1.0.0-rc.1+linux"
name = "Small"

[runtime]
protocol = "vai.rpc.v1"
transport = "stdio"
entrypoint = ["bin/plugin", "--serve"]
os = ["linux"]
arch = ["amd64"]

[[exports]]
id = "look"
kind = "tool"
display_name = "Look"
default_timeout_ms = 1000
[exports.tool]
input_schema = "schemas/look.json"
"""


def parse(text: str, **options):
    return manifest.parse(text.encode(), **options)


def problems(text: str, **options) -> list[str]:
    with pytest.raises(plughost.InvalidConfig) as caught:
        parse(text, **options)
    return [f"{problem.line} {problem.field}: {problem.message}" for problem in caught.value.problems]


def changed(old: str, new: str, text: str = TEXT) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


@pytest.mark.clause("VAI-10", "VAI-20", "VAI-21", "VAI-22", "VAI-23", "VAI-24", "VAI-28")
def test_the_manifest_of_the_contract_s_text_parses_as_it_stands():
    told = manifest.read(SEED)
    assert told == manifest.read(SEED / manifest.FILE) == parse(TEXT)
    assert (told.package_id, told.publisher, told.version) == ("acme/devkit", "acme", "0.1.0")
    assert told.source == "oci://ghcr.io/acme/devkit:0.1.0"
    assert told.runtime.entrypoint == ["./bin/plugin"]
    assert [(export.id, export.kind) for export in told.exports] == [
        ("triage", "harness"), ("jira_search", "tool"), ("slack_notify", "hook"), ("coder_window", "compactor"),
    ]  # fmt: skip
    triage = told.export("triage")
    assert triage is not None
    assert (triage.default_timeout_ms, triage.max_concurrency) == (1_800_000, 4)
    assert triage.permissions.network == "egress"
    assert triage.permissions.filesystem == "scratch"
    assert "chains:write" in triage.permissions.gateway_api_scopes
    assert triage.permissions.secret_slots == ["anthropic_key", "openai_key"]
    assert told.export("nobody") is None


@pytest.mark.clause("VAI-25", "VAI-26", "VAI-27", "VAI-29")
def test_each_kind_has_its_own_table():
    triage, jira, slack, window = manifest.read(SEED).exports
    assert triage.harness is not None
    assert (triage.harness.mode, triage.harness.fidelity) == ("composite", "checkpoint")
    assert triage.harness.supports == ["continue", "branch_session", "compact", "tool"]
    assert jira.tool is not None
    assert (jira.tool.effect_class, jira.tool.streaming) == ("read_only", False)
    assert jira.schemas == {
        "config_schema": "schemas/jira_search_config.json",
        "input_schema": "schemas/jira_search_input.json",
        "output_schema": "schemas/jira_search_output.json",
    }
    assert slack.hook is not None
    assert slack.hook.subscribes_to == ["run.completed", "chain.compacted"]
    assert window.compactor is not None
    assert (window.compactor.target_context, window.compactor.supports_pinned_items) == ("coding", True)
    assert [triage.tool, jira.hook, slack.compactor, window.harness] == [None] * 4


@pytest.mark.clause("VAI-11", "VAI-29")
def test_what_is_left_out_has_its_usual_value():
    told = parse(SMALL)
    assert (told.description, told.license, told.source) == ("", "", "")
    look = told.exports[0]
    assert look.execution_class == "isolated"
    assert (look.description, look.max_concurrency, look.config_schema) == ("", None, None)
    assert look.permissions == manifest.PermissionsSection()
    assert (look.permissions.network, look.permissions.filesystem) == ("none", "none")
    assert look.tool == manifest.ToolExport(input_schema="schemas/look.json")
    assert (look.tool.effect_class, look.tool.streaming) == ("unknown", False)


@pytest.mark.clause("VAI-11")
def test_without_a_class_each_kind_has_its_own():
    silent = parse("".join(line for line in TEXT.splitlines(True) if "execution_class" not in line))
    assert {export.kind: export.execution_class for export in silent.exports} == {
        "harness": "isolated", "tool": "isolated", "hook": "worker", "compactor": "worker",
    }  # fmt: skip
    inline = parse(
        changed(
            'execution_class = "worker"\ndefault_timeout_ms = 15000',
            'execution_class = "inline"\ndefault_timeout_ms = 15000',
        )
    )
    assert inline.exports[2].execution_class == "inline"


WRONG = [
    ('api_version = "vai.plugin.v1"', 'api_version = "vai.plugin.v2"', "1 api_version: expected vai.plugin.v1, got 'vai.plugin.v2'"),
    ('package_id = "acme/devkit"', 'package_id = "devkit"', "2 package_id: expected publisher/name"),
    ('package_id = "acme/devkit"', 'package_id = "acme/../devkit"', "2 package_id: expected publisher/name"),
    ('package_id = "acme/devkit"', 'package_id = "Acme/devkit"', "2 package_id: expected publisher/name"),
    ('package_id = "acme/devkit"', 'package_id = "acme/devkit\\n"', "2 package_id: expected publisher/name"),
    ('package_id = "acme/devkit"', f'package_id = "acme/{"a" * 65}"', "2 package_id: expected publisher/name"),
    ('version = "0.1.0"\n', 'version = "0.1"\n', "3 version: expected a semantic version"),
    ('name = "Acme Dev Kit"', 'name = ""', "4 name: expected 1 to 200 characters"),
    ('name = "Acme Dev Kit"', 'naem = "Acme Dev Kit"', "4 naem: unknown key; did you mean 'name'?"),
    ('source = "oci://ghcr.io/acme/devkit:0.1.0"', 'source = "x\\nposture trusted"', "7 source: expected text on one line"),
    ('license = "Apache-2.0"', 'license = "\\u001b[2J"', "6 license: expected text on one line"),
    ('description = "Harnesses, tools', 'description = "\\u001b[2J, tools', "5 description: expected at most 4000 characters that can be printed"),
    ('protocol = "vai.rpc.v1"', 'protocol = "grpc"', "10 runtime.protocol: expected vai.rpc.v1, got 'grpc'"),
    ('transport = "stdio"', 'transport = "http"', "11 runtime.transport: expected stdio, got 'http'"),
    ('entrypoint = ["./bin/plugin"]', "entrypoint = []", "12 runtime.entrypoint: expected 1 to 100 items, got 0"),
    ('entrypoint = ["./bin/plugin"]', 'entrypoint = ["/bin/sh"]', "12 runtime.entrypoint[0]: expected the relative path of a file in the package"),
    ('entrypoint = ["./bin/plugin"]', 'entrypoint = ["./plugin"]', "12 runtime.entrypoint[0]: expected a program in bin/, got './plugin'"),
    ('entrypoint = ["./bin/plugin"]', 'entrypoint = ["bin/a", "b\\u0000"]', "12 runtime.entrypoint[1]: expected text"),
    ('entrypoint = ["./bin/plugin"]', 'entrypoint = "./bin/plugin"', "12 runtime.entrypoint: expected `array`, got `str`"),
    ('os = ["linux", "darwin"]', 'os = ["linux", "plan9"]', "13 runtime.os[1]: expected one of linux, darwin"),
    ('os = ["linux", "darwin"]', "os = []", "13 runtime.os: expected 1 to 20 items, got 0"),
    ('arch = ["amd64", "arm64"]', 'arch = ["x86_64"]', "14 runtime.arch[0]: expected one of amd64, arm64"),
    ('arch = ["amd64", "arm64"]', 'arch = ["arm64", "arm64"]', "14 runtime.arch[1]: 'arm64' is listed twice"),
    ('id = "triage"', 'id = "tri age"', "18 exports[0].id: expected 1 to 64 letters, digits, _ and -"),
    ('id = "coder_window"', 'id = "jira_search"', "83 exports[3].id: 'jira_search' is already the id of exports[1]"),
    ('kind = "hook"', 'kind = "web_hook"', "66 exports[2].kind: expected one of harness, tool, hook, compactor, got 'web_hook'"),
    ("default_timeout_ms = 20000\n", "default_timeout_ms = 0\n", "48 exports[1].default_timeout_ms: expected `int` >= 1"),
    ("default_timeout_ms = 20000\n", "default_timeout_ms = 99999999999\n", "48 exports[1].default_timeout_ms: expected `int` <= 86400000"),
    ("default_timeout_ms = 20000\n", "", "43 exports[1]: `default_timeout_ms` is missing; expected int"),
    ("max_concurrency = 4", "max_concurrency = 100000", "24 exports[0].max_concurrency: expected `int` <= 1000"),
    ("max_concurrency = 4", "max_concurrency = true", "24 exports[0].max_concurrency: expected `int`, got `bool`"),
    ('"schemas/triage_config.json"', '"../triage_config.json"', "25 exports[0].config_schema: expected the relative path"),
    ('network = "none"', 'network = "all"', "91 exports[3].permissions.network: expected one of none, egress, got 'all'"),
    ('fidelity = "checkpoint"', 'fidelity = "perfect"', "39 exports[0].harness.fidelity: expected one of lossless"),
    ('mode = "composite"', 'mode = "start"', "38 exports[0].harness.mode: expected composite, got 'start'"),
    ('effect_class = "read_only"', 'effect_class = "write"', "58 exports[1].tool.effect_class: expected one of read_only"),
    ("streaming = false", 'streaming = "no"', "59 exports[1].tool.streaming: expected `bool`, got `str`"),
    ('subscribes_to = ["run.completed", "chain.compacted"]', "subscribes_to = []", "79 exports[2].hook.subscribes_to: expected 1 to"),
    ('subscribes_to = ["run.completed", "chain.compacted"]', 'subscribes_to = ["run"]', "79 exports[2].hook.subscribes_to[0]: expected an event type"),
    ('target_context = "coding"', 'target_context = ""', "97 exports[3].compactor.target_context: expected 1 to 64"),
    ('secret_slots = ["jira_token"]', 'secret_slots = ["jira token"]', "55 exports[1].permissions.secret_slots[0]: expected 1 to 64"),
    ('secret_slots = ["jira_token"]', 'secret_slots = ["a", "a"]', "55 exports[1].permissions.secret_slots[1]: 'a' is listed twice"),
    ("[exports.compactor]", "[exports.compaction]", "96 exports[3].compaction: unknown key; did you mean 'compactor'?"),
]  # fmt: skip


@pytest.mark.clause("VAI-28")
@pytest.mark.parametrize(("old", "new", "expected"), WRONG, ids=[wrong for _, _, wrong in WRONG])
def test_what_is_wrong_is_told_with_its_line_its_field_and_what_was_expected(old, new, expected):
    found = problems(changed(old, new))
    assert any(problem.startswith(expected) for problem in found), found


def test_a_description_may_have_lines():
    told = parse(changed('name = "Small"', 'name = "Small"\ndescription = "one\\n\\ttwo"', SMALL))
    assert told.description == "one\n\ttwo"


def test_a_stranger_s_key_is_told_on_one_line_that_no_terminal_obeys():
    with pytest.raises(plughost.InvalidConfig) as caught:
        parse(changed('name = "Small"', 'name = "Small"\n"\\u001b[2J\\nposture" = 1', SMALL))
    assert r"\x1b[2J\nposture: unknown key" in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.clause("VAI-28")
def test_all_problems_are_told_at_once_in_the_order_of_the_file():
    text = TEXT
    for old, new in (
        ('version = "0.1.0"\n', "version = 1\n"),
        ('kind = "harness"', 'kind = "harnes"'),
        ('input_schema = "schemas/jira_search_input.json"', 'input_schema = "/etc/passwd"'),
        ('display_name = "Slack Notifier"\n', ""),
        ("supports_pinned_items = true", "supports_pined_items = true"),
    ):
        text = changed(old, new, text)
    found = problems(text)
    assert [problem.split(":")[0] for problem in found] == [
        "3 version", "19 exports[0].kind", "60 exports[1].tool.input_schema", "64 exports[2]",
        "97 exports[3].compactor.supports_pined_items",
    ]  # fmt: skip


@pytest.mark.clause("VAI-23")
def test_an_export_has_the_table_of_its_kind_and_no_other():
    without = changed('[exports.hook]\nsubscribes_to = ["run.completed", "chain.compacted"]\n', "")
    assert problems(without) == ["64 exports[2]: `hook` is missing; expected the table [exports.hook]"]
    both = changed(
        "[exports.compactor]", '[exports.hook]\nsubscribes_to = ["run.completed"]\n[exports.compactor]'
    )
    assert problems(both) == ["96 exports[3].hook: expected no such table: this export is a compactor"]
    assert problems(SMALL.partition("[[exports]]")[0]) == ["0 : `exports` is missing; expected array"]


@pytest.mark.clause("VAI-45")
def test_an_unknown_scope_is_refused():
    found = problems(changed('["runs:read"]', '["runs:read", "runs:delete"]'))
    assert found == [
        "75 exports[2].permissions.gateway_api_scopes[1]: expected one of sessions:read, chains:read, "
        "chains:write, runs:read, runs:write, compactions:write, got 'runs:delete'"
    ]


@pytest.mark.clause("VAI-05")
@pytest.mark.parametrize(("number", "line", "kind"), [(1, 54, "tool"), (2, 75, "hook"), (3, 93, "compactor")])
def test_only_a_harness_may_ask_for_chains_write(number, line, kind):
    lines = TEXT.splitlines()
    assert lines[line - 1].startswith("gateway_api_scopes")
    lines[line - 1] = 'gateway_api_scopes = ["chains:write"]'
    (found,) = problems("\n".join(lines))
    field = f"{line} exports[{number}].permissions.gateway_api_scopes[0]"
    assert found.startswith(f"{field}: a {kind} cannot ask for chains:write")


@pytest.mark.clause("VAI-22", "VAI-23")
@pytest.mark.parametrize(
    "path",
    [
        "", ".", "..", "/etc/passwd", "../up", "a/../../b", "a/..", "a\\..\\b", "..\\up", "C:/x", "C:x", "a/",
        "a/.", "a\0b", "a\nb", "//host/share", "x" * 256,
    ],
)  # fmt: skip
def test_a_path_that_is_not_in_the_package_is_none(path):
    assert inside(path) is None


def test_paths_in_the_package_have_one_normal_form():
    assert inside("./bin/plugin") == inside("bin/plugin") == inside("bin//./plugin") == "bin/plugin"
    assert inside("schemas/größe.json") == "schemas/größe.json"


@pytest.mark.clause("VAI-28")
def test_files_that_it_names_must_be_there_when_it_is_known_what_is(tmp_path):
    assert problems(SMALL, holds={"bin/plugin"}.__contains__) == [
        "19 exports[0].tool.input_schema: the package has no file 'schemas/look.json'"
    ]
    (tmp_path / manifest.FILE).write_text(SMALL)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/plugin").write_text("")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/look.json").write_text("{}")
    (tmp_path / "schemas").symlink_to("elsewhere")
    with pytest.raises(plughost.InvalidConfig, match="has no file 'schemas/look.json'"):
        manifest.read(tmp_path, manifest.in_folder(tmp_path))
    (tmp_path / "schemas").unlink()
    (tmp_path / "elsewhere").rename(tmp_path / "schemas")
    assert manifest.read(tmp_path, manifest.in_folder(tmp_path)) == parse(SMALL)


@pytest.mark.clause("VAI-22")
def test_a_package_for_other_machines_is_refused_and_told_why():
    told = manifest.read(SEED)
    assert target_platform.runs_here(told, TargetPlatform("linux", "arm64"))
    for foreign in (TargetPlatform("linux", "riscv64"), TargetPlatform("windows", "amd64")):
        assert not target_platform.runs_here(told, foreign)
        with pytest.raises(plughost.InvalidSpec) as caught:
            target_platform.refuse_foreign(told, foreign)
        wanted = f"acme/devkit 0.1.0 is built for linux, darwin on amd64, arm64; this machine is {foreign}"
        assert caught.value.message == wanted
    assert target_platform.current_platform().os == "linux"
    assert target_platform.runs_here(told) == (target_platform.current_platform().arch in ("amd64", "arm64"))


@pytest.mark.clause("VAI-28")
def test_what_is_no_toml_is_one_problem(tmp_path):
    assert problems("api_version = \n") == ["1 : Invalid value"]
    with pytest.raises(plughost.InvalidConfig, match="out of a tar: not valid UTF-8"):
        manifest.parse(b"\xff", "out of a tar")
    with pytest.raises(plughost.InvalidConfig, match="No such file"):
        manifest.read(tmp_path / manifest.FILE)
    (tmp_path / manifest.FILE).write_text("#" * (manifest.LARGEST + 1))
    with pytest.raises(plughost.InvalidConfig, match="larger than"):
        manifest.read(tmp_path)


def test_a_manifest_full_of_mistakes_is_read_in_no_time():
    started = time.process_time()
    problems(changed('secret_slots = ["jira_token"]', "secret_slots = [" + '"-",' * 50_000 + "]"))
    problems(SMALL + '[[exports]]\nid="a"\n' * 10_000)
    assert time.process_time() - started < 10
