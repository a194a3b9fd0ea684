"""A vai package's folder in its sandbox: its entries can be listed, and nothing can be written, wherever it is."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from plughost.contracts.registry import get_contract
from plughost.contracts.vai.contract import spec_of
from plughost.errors import SandboxUnavailable
from plughost.permissions.access import ResourceLimits
from plughost.sandbox.manager import effective
from plughost.sandbox.plan import SandboxPlan
from plughost.sandbox.prepare import prepare_sandbox
from plughost.sandbox.run_dir import RunDir
from tests.support import ROOT
from tests.support.confinable import needs
from tests.support.newcomer import OUTSIDE_TMP
from tests.support.sandbox import ENV, run

LAB = ROOT / "tests/vai/invocations/lab"
PROBE = '''#!/usr/bin/python3 -ISE
import errno, json, os, sys

def attempt(deed, *words):
    try:
        return deed(*words)
    except OSError as error:
        return errno.errorcode[error.errno]

def places():
    """Every folder that can be named: mounts, the folders above them, and all that can be listed below them."""
    for line in open("/proc/self/mountinfo"):
        mounted = line.split()[4].replace("\\\\040", " ")
        if not (mounted + "/").startswith("/proc/"):
            yield from (folder for folder, _, _ in os.walk(mounted))
            while mounted != "/":
                yield (mounted := os.path.dirname(mounted))

def writable():
    for folder in {*places()}:
        name = os.path.join(folder, "new")
        try:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except OSError:
            continue
        os.unlink(name)
        yield folder

package = os.path.dirname(os.path.dirname(os.path.realpath(sys.argv[0])))
print(json.dumps({
    "names": attempt(os.listdir, package),
    "schemas": attempt(os.listdir, os.path.join(package, "schemas")),
    "asset": attempt(lambda: open(os.path.join(package, "assets/words.txt")).read()),
    "assets": attempt(os.listdir, os.path.join(package, "assets")),
    "written": attempt(lambda: open(os.path.join(package, "new"), "w").close()),
    "replaced": attempt(os.rename, package, package + ".old"),
    "writable": sorted(writable()),
    "temporary": attempt(os.listdir, "/tmp"),
}))
'''


@pytest.fixture(params=["/tmp", OUTSIDE_TMP])
def package(request: pytest.FixtureRequest) -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="plughost-test-", dir=request.param))
    made.chmod(0o755)
    package = made / "lab"
    shutil.copytree(LAB, package)
    (package / "bin/plugin").write_text(PROBE)
    yield Path(os.path.realpath(package))
    shutil.rmtree(made)


def found_in(package: Path, run_dir: RunDir, class_: str = "strict", **options: object) -> dict[str, object]:
    launch = decided(package, run_dir, class_, **options).launch
    ran = run(launch)
    assert ran.status == 0, ran
    return dict(json.loads(ran.out))


def decided(
    package: Path, run_dir: RunDir, class_: str = "strict", told: bool = True, **options: object
) -> SandboxPlan:
    needs(class_)
    spec = msgspec.structs.replace(spec_of(package), options=options, command_from_manifest=told)
    resolved = get_contract("vai").resolve(spec)
    return prepare_sandbox(
        spec,
        ENV,
        effective(spec, resolved),
        ResourceLimits(),
        class_,
        run_dir,
        listable=resolved.sandbox.listable,
        writable_tmp=resolved.sandbox.writable_tmp,
    )


@pytest.mark.clause("VAI-93")
def test_its_names_can_be_listed_and_nothing_can_be_written(package, run_dir):
    found = found_in(package, run_dir, exports=["reads"])
    assert sorted(found["names"]) == ["bin", "schemas", "vai-plugin.toml"], "of its assets not even the name"
    assert found["schemas"]
    assert (found["asset"], found["assets"]) == ("ENOENT", "ENOENT")
    assert found["written"] in ("EROFS", "EACCES")
    assert found["replaced"] in ("EROFS", "EBUSY", "EACCES")
    assert found["writable"] == []


@pytest.mark.clause("VAI-93")
def test_who_may_write_writes_beside_its_package_only(package, run_dir):
    found = found_in(package, run_dir, exports=["writes"])
    assert sorted(found["names"]) == ["bin", "schemas", "vai-plugin.toml"]
    assert found["written"] in ("EROFS", "EACCES")
    assert {"/tmp", "/dev/shm"} <= {*found["writable"]}
    inside = [place for place in found["writable"] if os.path.commonpath([place, package]) == str(package)]
    assert not inside


@pytest.mark.clause("VAI-93")
def test_a_narrowed_permission_takes_the_temporary_folders_away(package, run_dir):
    found = found_in(package, run_dir, exports=["writes"], filesystem="none")
    assert found["writable"] == []
    below_tmp = str(package).startswith("/tmp/")
    assert found["temporary"] == ([package.parts[2]] if below_tmp else [])


def test_in_the_class_landlock_too(package, run_dir):
    found = found_in(package, run_dir, "landlock", exports=["reads"])
    assert {"assets", "bin", "schemas", "vai-plugin.toml"} == {*found["names"]}
    assert found["asset"] == "EACCES", "its name can be seen there, and it cannot be read"
    assert found["written"] == "EACCES"
    assert found["writable"] == []


def test_what_cannot_be_written_is_told_so(package, run_dir):
    held = {each.what: each.by for each in decided(package, run_dir, exports=["reads"]).enforcement}
    [scratch] = [by for what, by in held.items() if what.startswith("scratch")]
    assert "cannot be written" in scratch


@pytest.mark.parametrize("class_", ["strict", "landlock"])
@pytest.mark.parametrize("told", [True, False])
def test_one_that_looks_like_a_venv_is_not_given_somebodys_interpreter(package, run_dir, class_, told):
    """Nor the libraries that are installed for it; also not where the operator names the command."""
    private = package.parent / "private/bin/python3"
    private.parent.mkdir(parents=True, mode=0o700)
    shutil.copy("/usr/bin/python3", private)
    (package / "pyvenv.cfg").touch()
    (package / "bin/python3").symlink_to(private)
    (package / "bin/plugin").write_text(f"#!{package}/bin/python3 -S\n")
    with pytest.raises(SandboxUnavailable, match="neither part of the plugin nor a public program"):
        decided(package, run_dir, class_, told=told)
