"""ainb: manifests and their discovery."""

from __future__ import annotations

import os
import shutil

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import plughost
from plughost import config
from plughost._util.located.document import LocatedProblem
from plughost.contracts.ainb import manifest as manifests
from plughost.contracts.ainb.contract import CONTRACT
from plughost.contracts.ainb.manifest import (
    AinbAbout,
    AinbManifest,
    Capabilities,
    Lifecycle,
    Provides,
    Subscribes,
)
from plughost.permissions import parse
from tests.support.ainb import folder, spec

GOOD = '[plugin]\nname = "puppet"\nversion = "1.2.3"\nabi_version = 2\n'


def write(tmp_path, text, name="puppet"):
    place = folder(tmp_path, name)
    (place / "manifest.toml").write_text(text)
    return place


def problems(tmp_path, text) -> list[LocatedProblem]:
    place = write(tmp_path, text)
    with pytest.raises(plughost.InvalidConfig) as caught:
        manifests.read(place)
    return list(caught.value.problems)


@pytest.mark.clause("AINB-01")
def test_only_the_section_plugin_is_required(tmp_path):
    told = manifests.read(write(tmp_path, GOOD)).manifest
    assert told == AinbManifest(AinbAbout("puppet", "1.2.3", 2))
    assert (told.lifecycle.spawn, told.lifecycle.idle_reap_secs) == ("lazy", 600)


@pytest.mark.clause("AINB-01")
@pytest.mark.parametrize(
    ("text", "line", "field"),
    [
        ("", 0, ""),
        ('[plugin]\nversion = "1.2.3"\nabi_version = 2\n', 1, "plugin"),
        ('[plugin]\nname = "puppet"\nabi_version = 2\n', 1, "plugin"),
        ('[plugin]\nname = "puppet"\nversion = "1.2.3"\n', 1, "plugin"),
        ('[plugin]\nname = "puppet"\nversion = "1.2"\nabi_version = 2\n', 3, "plugin.version"),
        ('[plugin]\nname = "puppet"\nversion = "01.2.3"\nabi_version = 2\n', 3, "plugin.version"),
        ('[plugin]\nname = "puppet"\nversion = "1.2.3"\nabi_version = "2"\n', 4, "plugin.abi_version"),
        ('[plugin]\nname = "puppet"\nversion = "1.2.3"\nabi_version = 2.0\n', 4, "plugin.abi_version"),
        (GOOD + "[capabilities]\nnetwork = 1\n", 6, "capabilities.network"),
        (GOOD + '[capabilities]\nnetwork = "all"\n', 6, "capabilities.network"),
        (GOOD + '[lifecycle]\nspawn = "Lazy"\n', 6, "lifecycle.spawn"),
        (GOOD + "[lifecycle]\nidle_reap_secs = -1\n", 6, "lifecycle.idle_reap_secs"),
        (GOOD + "[provides]\nscreens = [1]\n", 6, "provides.screens[0]"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path, text, line, field):
    (problem,) = problems(tmp_path, text)
    assert (problem.line, problem.field) == (line, field)


@pytest.mark.clause("AINB-01")
def test_all_that_is_wrong_is_told_at_once(tmp_path):
    text = '[plugin]\nname = "x"\nversion = "?"\nabi_version = 7\n[capabilities]\nevent_bus = 3\n[lifecycle]\nspawn = "now"\n'
    assert [problem.line for problem in problems(tmp_path, text)] == [2, 3, 4, 6, 8]


@pytest.mark.clause("AINB-01")
def test_the_program_is_a_file_of_that_name_in_the_folder(tmp_path):
    place = folder(tmp_path)
    (place / "puppet").unlink()
    with pytest.raises(plughost.InvalidConfig, match="no program 'puppet'"):
        manifests.read(place)


@pytest.mark.clause("AINB-02", "AINB-74")
@pytest.mark.parametrize(
    ("grant", "held"),
    [("true", True), ("false", False), ("[]", False), ('["api.example.com"]', True)],
)
def test_a_capability_is_granted_by_true_or_by_a_list_with_something_in_it(tmp_path, grant, held):
    told = manifests.read(write(tmp_path, GOOD + f"[capabilities]\nnetwork = {grant}\nteleport = true\n"))
    granted = told.manifest.capabilities.granted()
    assert [capability.name for capability in granted] == (["network"] if held else [])
    if held and grant != "true":
        assert granted[0].scope == ("api.example.com",)


@pytest.mark.clause("AINB-03")
def test_every_section(tmp_path):
    text = GOOD + (
        '[provides]\nscreens = ["s"]\ncommands = ["/c"]\ncli_namespaces = ["n"]\nsnapshots = ["t"]\n'
        '[subscribes]\nsnapshots = ["u"]\n[lifecycle]\nspawn = "eager"\nidle_reap_secs = 0\n'
    )
    told = manifests.read(write(tmp_path, text)).manifest
    assert told.provides == Provides(["s"], ["/c"], ["n"], ["t"])
    assert told.subscribes == Subscribes(["u"])
    assert told.lifecycle == Lifecycle("eager", 0)


@pytest.mark.clause("AINB-04")
def test_unknown_keys_are_linted_and_out_of_the_way(tmp_path):
    text = GOOD + (
        'license = "MIT"\n[capabilities]\nread_paths = ["~/x"]\n"secrets:read" = ["k"]\n'
        '[subscribes]\nlatest_state = ["t"]\n[[config]]\nkey = "a"\n[provides]\npreferred_min_size = [80, 24]\n'
    )
    read = manifests.read(write(tmp_path, text))
    assert read.manifest == AinbManifest(AinbAbout("puppet", "1.2.3", 2))
    assert [(lint.line, lint.field) for lint in read.lints] == [
        (5, "plugin.license"),
        (7, "capabilities.read_paths"),
        (8, "capabilities.secrets:read"),
        (10, "subscribes.latest_state"),
        (11, "config"),
        (14, "provides.preferred_min_size"),
    ]


words = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=3)
grants = st.one_of(st.booleans(), words)


@pytest.mark.clause("AINB-04")
@given(
    told=st.builds(
        AinbManifest,
        st.builds(
            AinbAbout,
            st.text(st.characters(exclude_categories=["Cs"])),
            st.just("1.0.0"),
            st.just(2),
            st.text(st.characters(exclude_categories=["Cs"])),
        ),
        st.builds(Capabilities, grants, grants, grants, grants, grants, grants, grants),
        st.builds(Provides, words, words, words, words),
        st.builds(Subscribes, words),
        st.builds(Lifecycle, st.sampled_from(["lazy", "eager"]), st.integers(0, 2**32 - 1)),
    )
)
def test_what_is_written_is_read_back_equal(told):
    import tomllib

    import msgspec

    assert msgspec.convert(tomllib.loads(manifests.write(told)), AinbManifest) == told


@pytest.mark.clause("AINB-05", "AINB-18")
def test_one_broken_plugin_is_reported_and_the_others_load(tmp_path):
    for name in ("zeta", "alpha", "broken", "old", "loose", "host"):
        folder(tmp_path, name)
    (tmp_path / "broken/manifest.toml").write_text("[plugin\n")
    old = tmp_path / "old/manifest.toml"
    old.write_text(old.read_text().replace("abi_version = 2", "abi_version = 1"))
    loose = tmp_path / "loose/manifest.toml"
    loose.write_text(loose.read_text().replace('"1.2.3"', '"v1"'))
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "alpha")
    found = config.load_root(tmp_path)
    assert [spec.name for spec in found.specs] == ["alpha", "zeta"]
    assert {problem.file.split("/")[-2] for problem in found.problems} == {"broken", "host", "loose", "old"}
    assert all(problem.line for problem in found.problems)


@pytest.mark.clause("AINB-06")
def test_a_root_that_is_not_there_is_empty(tmp_path):
    assert config.load_root(tmp_path / "nowhere") == config.Root([], [])
    assert str(config.DEFAULT_ROOT) == "dist/plugins"


@pytest.mark.clause("AINB-02")
async def test_grants_narrow_what_is_declared_and_never_widen_it(host, tmp_path):
    place = folder(tmp_path, capabilities={"network": ["a.example", "b.example"], "event_bus": True})
    plugin = await host.add(spec(place))
    assert {str(capability) for capability in _capabilities(plugin)} == {
        "event_bus",
        "network[a.example, b.example]",
    }
    await host.remove("puppet")
    plugin = await host.add(spec(place, grants=("network=b.example", "network=c.example", "read_sessions")))
    assert {str(capability) for capability in _capabilities(plugin)} == {"network[b.example]"}
    await host.remove("puppet")
    for wrong in ("teleport", "network=", "declared=x", "event_bus=topic", "read_sessions=x"):
        with pytest.raises(plughost.InvalidSpec, match="unknown grant"):
            await host.add(spec(place, grants=(wrong,)))


def _capabilities(plugin):
    return getattr(plugin, "asynchronous", plugin).capabilities


@pytest.mark.clause("AINB-38")
async def test_the_operator_is_told_what_is_not_enforced(host, tmp_path):
    plugin = await host.add(folder(tmp_path, capabilities={}))
    assert any("spawn_subprocess" in lint for lint in plugin.inspect()["lints"])
    shutil.rmtree(tmp_path / "puppet")
    await host.remove("puppet")
    plugin = await host.add(folder(tmp_path, capabilities={"spawn_subprocess": ["git"]}))
    assert plugin.inspect()["lints"] == []


def test_a_granted_log_folder_that_its_process_cannot_open_in_a_sandbox_is_linted(tmp_path, monkeypatch):
    """Existing plugins open log files themselves; in a sandbox only the host opens them, unless it is allowed."""
    monkeypatch.delenv("AINB_HOME", raising=False)
    told = spec(folder(tmp_path, capabilities={"read_claude_logs": True, "event_bus": True}))

    def lints(**changes):
        return CONTRACT.resolve(msgspec.structs.replace(told, **changes)).lints

    (lint,) = lints(sandbox="strict")
    assert lint.startswith(
        "read_claude_logs is granted, but in class strict the plugin's process cannot open ~/.claude"
    )
    assert "--allow read=~/.claude/projects" in lint
    allowed = parse.parse_access({"read": ["~/.claude"]}, str(tmp_path))
    assert lints(sandbox="strict", allow=allowed) == ()
    assert not any("read_claude_logs" in lint for lint in lints(sandbox="none"))


def test_a_folder_whose_path_is_not_text_is_refused_before_anything_runs(tmp_path):
    """Its path is told to the plugin, in JSON."""
    place = tmp_path / os.fsdecode(b"\xff")
    place.mkdir()
    found = config.load_folder(folder(place, "p"))
    with pytest.raises(plughost.InvalidSpec, match="is not valid UTF-8"):
        CONTRACT.resolve(found)
