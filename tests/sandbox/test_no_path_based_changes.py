"""Nothing beside a running plugin changes or removes what a path leads to: a plugin may swap what lies there.

`os.chmod(path)` follows a symlink that a plugin has put in the place of a folder. Use a descriptor
(`os.fchmod`, `os.fchown`), `sandbox.temporary_folder` or `sandbox.removal`, or say below why no plugin can
write to the folder around that path at that time.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

import plughost

SOURCE = Path(plughost.__file__).parent
CHANGES = {
    "chmod", "chown", "copytree", "lchmod", "lchown", "mkdtemp", "mkstemp", "move", "NamedTemporaryFile", "removedirs",
    "rmtree", "TemporaryDirectory",
}  # fmt: skip
WITHOUT_PLUGINS = ("vai/packages/", "scaffold/", "cli/commands/tour.py")
"""No plugin that runs can write where these work: in the store, in an author's own project."""
REVIEWED = {
    ("_util/data_owner.py", "mkstemp"): 1,  # beside data folders, in the host's own folder
    (
        "conformance/ainb/canary_root.py",
        "chmod",
    ): 3,  # before the host on trial starts, or beside what it was given
    ("sandbox/data_dir.py", "chown"): 1,  # by descriptor of the folder, and no symlink is followed
    ("sandbox/run_dir.py", "chmod"): 1,  # a copy of our own program, in the host's own folder
    ("sandbox/run_dir.py", "mkdtemp"): 1,  # the host's own folder
    ("_util/rmtree.py", "chmod"): 1,  # of a descriptor
    ("sandbox/untrusted_temp_dir.py", "mkdtemp"): 1,  # what is to be used
    ("sandbox/egress/instance.py", "chmod"): 1,  # in a folder that is the host's alone until then
    ("sandbox/egress/instance.py", "chown"): 1,  # likewise
    ("vai/database/legacy.py", "TemporaryDirectory"): 1,  # in the host's own folder
}


def changes(source: str) -> Counter[str]:
    """The calls that a source has, and imports that would hide one."""
    found: Counter[str] = Counter()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in CHANGES:
            found[node.attr] += 1
        elif isinstance(node, ast.ImportFrom) and node.module in ("os", "shutil", "tempfile"):
            found.update(name.name for name in node.names if name.name in CHANGES)
    return found


def test_no_mode_owner_or_tree_is_changed_by_a_path_where_a_plugin_may_write():
    found = {
        (str(path.relative_to(SOURCE)), name): count
        for path in SOURCE.rglob("*.py")
        if not str(path.relative_to(SOURCE)).startswith(WITHOUT_PLUGINS)
        for name, count in changes(path.read_text()).items()
    }
    assert found == REVIEWED


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.chmod(path, 0o777)",
        "from os import chown",
        "path.chmod(0o755)",
        "change = shutil.rmtree",
        "with tempfile.TemporaryDirectory(dir=root) as place: pass",
    ],
)
def test_such_a_change_is_found(source):
    assert sum(changes(source).values()) == 1
