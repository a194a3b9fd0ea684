"""Contracts of other packages: one that is broken, or takes a name twice, does not harm the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from plughost import InvalidConfig, InvalidSpec, config
from plughost.cli.commands.doctor import _contracts
from plughost.contracts import registry
from tests.support import ROOT

NOTES = ROOT / "plugins" / "notes"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Installs a package with one contract, for this test only."""

    def install(package: str, name: str, value: str) -> None:
        info = tmp_path / f"{package.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{registry.CONTRACTS.group}]\n{name} = {value}\n")

    monkeypatch.syspath_prepend(tmp_path)
    registry.CONTRACTS.forget()
    yield install
    registry.CONTRACTS.forget()


def test_a_contract_that_cannot_be_imported_is_left_out_with_one_warning(install):
    install("acme-broken", "acme", "acme_of_yesterday:CONTRACT")
    with pytest.warns(RuntimeWarning, match="'acme' of acme-broken cannot be loaded: ModuleNotFound"):
        assert config.load_folder(NOTES).name == "notes"
    assert config.load_root(NOTES.parent).specs  # a second warning would be an error here


def test_a_contract_that_cannot_be_imported_is_an_error_with_its_cause_when_it_is_named(install):
    install("acme-broken", "acme", "acme_of_yesterday:CONTRACT")
    for _ in range(2):
        with pytest.raises(InvalidSpec, match="'acme' of acme-broken cannot be loaded: ModuleNotFo") as error:
            registry.get_contract("acme")
        assert isinstance(error.value.__cause__, ModuleNotFoundError)
        assert error.value.hint == "update or uninstall acme-broken"
    assert registry.get_contract("mcptest").name == "mcptest"


def test_a_file_that_names_a_broken_contract_is_told_so_at_that_line(install, tmp_path):
    install("acme-broken", "acme", "acme_of_yesterday:CONTRACT")
    file = tmp_path / "plughost.toml"
    file.write_text('[plugins.a]\ncommand = ["true"]\ncontract = "acme"\n')
    with pytest.raises(
        InvalidConfig, match=r"plughost.toml:3: plugins.a.contract: the contract 'acme' of acme-b"
    ):
        config.load(file)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("math:pi", "'float' object has no attribute 'name'"),
        ("plughost.contracts.mcptest.contract:CONTRACT", "its name is 'mcptest'"),
    ],
)
def test_an_entry_point_that_is_not_a_contract_of_that_name_is_refused(install, value, reason):
    install("acme-odd", "acme", value)
    with pytest.raises(InvalidSpec, match=reason):
        registry.get_contract("acme")


def test_a_package_whose_import_ends_the_program_is_refused_and_ends_nothing(install, tmp_path):
    (tmp_path / "acme_exits.py").write_text("raise SystemExit(0)\n")
    install("acme-exits", "acme", "acme_exits:CONTRACT")
    with pytest.raises(
        InvalidSpec, match="'acme' of acme-exits cannot be loaded: .*importing it would end this program"
    ):
        registry.get_contract("acme")


@pytest.mark.parametrize(
    ("packages", "name"), [(["acme-one", "acme-two"], "acme"), (["acme-one", "plughost"], "mcptest")]
)
def test_a_name_that_two_packages_register_is_refused_and_both_are_named(install, packages, name):
    for package in packages:
        if package != "plughost":
            install(package, name, "plughost.contracts.mcptest.contract:CONTRACT")
    message = f"the contract '{name}' is registered by several packages: {' and '.join(packages)}"
    with pytest.raises(InvalidSpec, match=message) as error:
        registry.get_contract(name)
    assert error.value.hint == "uninstall all of them but one"
    with pytest.raises(InvalidSpec, match=message):
        config.load_folder(NOTES)
    assert registry.get_contract("rune").name == "rune"


def test_the_doctor_names_every_contract_that_cannot_be_used(install):
    assert _contracts().ok
    install("acme-broken", "acme", "acme_of_yesterday:CONTRACT")
    registry.CONTRACTS.forget()
    finding = _contracts()
    assert (finding.ok, finding.hint) == (False, "update or uninstall acme-broken")
    assert "ModuleNotFoundError: No module named 'acme_of_yesterday'" in finding.detail


def test_a_contract_that_lacks_members_is_told_which(install, tmp_path):
    (tmp_path / "acme_half.py").write_text("class Half:\n    name = 'half'\n\nCONTRACT = Half()\n")
    install("acme-half", "half", "acme_half:CONTRACT")
    with pytest.raises(InvalidSpec, match="it lacks options, host_methods, services.*BaseContract"):
        registry.get_contract("half")
