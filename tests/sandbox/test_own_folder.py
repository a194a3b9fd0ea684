"""Which folder is a plugin's own, when a plughost.toml binds it: never the file's for being the file's."""

from __future__ import annotations

import json
import shutil

import msgspec
import pytest

from plughost import config
from plughost.contracts.registry import get_contract
from plughost.errors import SandboxUnavailable
from plughost.permissions.access import Access, ResourceLimits
from plughost.sandbox.explain.build import explain
from plughost.sandbox.mechanisms.features import kernel_features
from plughost.sandbox.prepare import prepare_sandbox
from plughost.spec import PluginSpec
from tests.support.confinable import needs
from tests.support.sandbox import ENV, run

LOOK = """
import json, os
def told(path):
    try:
        return open(path).read(1) or "empty"
    except OSError as error:
        return error.strerror
print(json.dumps([os.getcwd(), told("plughost.toml"), told("notes"), told(__file__)]))
"""
HIDDEN = {"No such file or directory", "Permission denied"}


@pytest.fixture
def base(folder):
    (folder / "base").mkdir()
    return folder / "base"


@pytest.fixture
def bound(base):
    """Plugins of one file by what their tables say beside the contract."""
    (base / "notes").write_text("private")
    for place in ("a", "bin"):
        (base / place).mkdir()
        (base / place / "main.py").write_text(LOOK)
    (base / "main.py").write_text(LOOK)

    def bind(*tables):
        (base / "plughost.toml").write_text(
            "".join(f'[plugins.p{n}]\ncontract = "mcptest"\n{text}\n' for n, text in enumerate(tables))
        )
        return [*config.load(base / "plughost.toml").values()]

    return bind


def decided(spec, run_dir, class_="strict"):
    needs(class_)
    return prepare_sandbox(spec, ENV, Access(), ResourceLimits(), class_, run_dir)


def script(path, more=""):
    return f'command = ["/usr/bin/python3", "{path}"]\n{more}'


@pytest.mark.parametrize("class_", ["strict", "landlock"])
@pytest.mark.parametrize("path", ["a/main.py", "bin/main.py", "main.py"])
def test_a_script_starts_where_it_is_bound_and_sees_no_more_than_its_own(bound, run_dir, base, class_, path):
    spec, _ = bound(script(path), script("a/main.py", 'env = { KEY = "secret" }'))
    cwd, binding_file, notes, own = json.loads(run(decided(spec, run_dir, class_).launch).out)
    assert cwd == spec.cwd == str(base)
    assert {binding_file, notes} <= HIDDEN
    assert own == "\n"


def test_the_script_decides_where_no_cwd_is_written(bound, run_dir, base):
    (alone,) = bound(script("main.py"))
    found = decided(alone, run_dir)
    assert str(base) in {place.path for place in found.visible_paths}, (
        "its script is there, with nobody else's"
    )
    spec, _ = bound(script("a/main.py"), script("main.py"))
    shown = {place.path for place in decided(spec, run_dir).visible_paths}
    assert str(base / "a") in shown
    assert str(base) not in shown


def test_a_written_cwd_is_its_own_unless_it_holds_the_file_that_binds_others(bound, run_dir, base):
    (spec,) = bound(script("a/main.py", 'cwd = "."'))
    assert json.loads(run(decided(spec, run_dir).launch).out)[1:3] == ["[", "p"]
    spec, _ = bound(script("a/main.py", 'cwd = "."'), script("main.py"))
    with pytest.raises(SandboxUnavailable, match="far more than its own code") as caught:
        decided(spec, run_dir)
    assert "cwd" in caught.value.hint


def test_a_plugins_folder_is_its_own_without_saying_so(bound, base):
    (spec,) = bound(script("main.py"))
    assert not spec.cwd_is_plugin_dir
    assert config.load_folder(base).cwd_is_plugin_dir


@pytest.mark.parametrize("class_", ["strict", "landlock"])
def test_where_nothing_of_its_folder_is_inside_it_starts_in_its_scratch_folder(bound, run_dir, class_):
    spec, _ = bound(
        'command = ["/usr/bin/python3", "-c", "import os; print(os.getcwd())"]', script("main.py")
    )
    found = decided(spec, run_dir, class_)
    told = explain(
        msgspec.structs.replace(spec, sandbox=class_),
        get_contract("mcptest"),
        get_contract("mcptest").resolve(spec),
        found,
        kernel_features(),
    )
    assert told.bound.starts_in == {"strict": "/tmp", "landlock": "$TMPDIR"}[class_]
    assert any(f"{spec.cwd} is not visible in its sandbox" in lint for lint in told.lints)
    ran = run(found.launch).out.strip()
    assert ran == (found.launch.env["TMPDIR"] if class_ == "landlock" else "/tmp")


def test_a_script_that_comes_later_is_found(bound, run_dir, base):
    spec, _ = bound(script("later/main.py"), script("main.py"))
    decided(spec, run_dir)
    shutil.copytree(base / "a", base / "later")
    assert json.loads(run(decided(spec, run_dir).launch).out)[3] == "\n"


def test_a_path_in_a_manifest_is_not_the_operators(base, run_dir):
    needs("strict")
    (base / "bin").mkdir()
    shutil.copy("/bin/sh", base / "bin" / "python3")
    (base / "code").mkdir()
    (base / "code" / "run").write_text("#!/usr/bin/env python3\n")
    (base / "code" / "run").chmod(0o755)
    env = {"PATH": f"{base}/bin"}
    spec = PluginSpec(contract="mcptest", name="p", command=["./run"], cwd=str(base / "code"))

    def runs(spec):
        return prepare_sandbox(spec, env, Access(), ResourceLimits(), "strict", run_dir).launch

    assert f"{base}/bin/python3" in runs(msgspec.structs.replace(spec, env=env)).command
    for told in (spec, msgspec.structs.replace(spec, env=env, command_from_manifest=True)):
        with pytest.raises(SandboxUnavailable, match="neither part of the plugin nor a public program"):
            runs(told)
