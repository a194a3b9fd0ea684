"""Every way out that we know of is tried, and fails; and succeeds when what holds it is left out.

Nothing here runs as root without a user of its own, and what is left out is left out as nobody only.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from plughost.permissions.access import Endpoint
from tests.support.escapes import CONTRACTS, build, tried
from tests.support.network import needs
from tests.support.sandbox import as_nobody

pytestmark = pytest.mark.usefixtures("strict")

FILES = {"view", "landlock"}
OTHERS = {"bubblewrap", "landlock", "seccomp"}
HELD_BY: dict[str, set[str]] = {
    # by what each try is held: one of them is enough, and without all of them it succeeds
    "read": FILES, "listing": FILES, "write": FILES, "code": FILES, "run": FILES, "memfd": FILES, "bring": FILES,
    "truncate": FILES, "chmod": {"view"}, "touch": {"view"}, "tag": {"view"}, "watch": {"view"},
    "unix": {"view"}, "tcp": {"network", "landlock"}, "udp": {"network"}, "abstract": {"network", "landlock"},
    "kill": {"pids", "landlock"}, "proc": {"pids"}, "limit_of": {"pids", "seccomp"}, "nice": {"pids"}, "pin": {"pids"},
    "environ": {"bubblewrap", "landlock"}, "ptrace": OTHERS, "memory_of": OTHERS,
    "userns": {"seccomp", "userns"}, "mount": {"seccomp", "userns", "landlock"},
    "io_uring": {"seccomp"}, "keyctl": {"seccomp"}, "userfaultfd": {"seccomp"}, "tiocsti": {"seccomp"},
    "forks": {"processes"}, "memory": {"memory"},
}  # fmt: skip
BUBBLEWRAP = {"bubblewrap", "view", "network", "pids", "userns", "processes"}
"""What goes with it; without a user namespace, processes are counted with all others of the user."""
SOME = {"read", "write", "run", "tcp", "udp", "abstract", "unix", "kill", "environ", "proc"}
"""What every language can try."""
SEVERAL = {
    "c": set(HELD_BY) - {"listing", "code", "memfd", "bring", "truncate", "chmod", "touch", "tag", "watch",
                         "memory_of", "limit_of", "nice", "pin", "tiocsti"},
    "go": SOME | {"ptrace", "userns", "mount", "io_uring", "keyctl", "userfaultfd", "forks", "memory"},
    "node": SOME - {"abstract"} | {"forks", "memory"},
}  # fmt: skip


@pytest.fixture(scope="module")
def programs() -> Iterator[dict[str, Path]]:
    for command in ("cc", "go", "node"):
        needs(command)
    folder = Path(tempfile.mkdtemp(prefix="plughost-escapees-"))
    folder.chmod(0o755)
    yield build(folder)
    shutil.rmtree(folder)


def outcomes(programs, who, *kinds, **how):
    """Of a host that is root, or nobody."""

    def deed():
        return asyncio.run(tried(programs, kinds, **how))

    if who == "nobody":
        return as_nobody(deed)
    if os.geteuid() != 0:
        pytest.skip("only root is root")
    return deed()


def done(told):
    return {name for name, outcome in told.items() if outcome == "done"}


@pytest.mark.parametrize("who", ["root", "nobody"])
@pytest.mark.parametrize("contract", CONTRACTS)
def test_nothing_gets_out_of_strict(programs, who, contract):
    told = outcomes(programs, who, ("python", contract))[f"python-{contract}"]
    assert told.keys() == HELD_BY.keys()
    assert done(told) == set()


@pytest.mark.parametrize("who", ["root", "nobody"])
def test_a_way_out_leads_to_what_is_granted_and_nowhere_else(programs, who):
    """It has a network then, made by the launcher: with a loopback of its own, where nobody else listens."""
    granted = [Endpoint("localhost", 1, private=True)]
    told = outcomes(programs, who, ("python", "mcptest"), connect=granted)["python-mcptest"]
    assert told.keys() == HELD_BY.keys()
    assert done(told) == set()


@pytest.mark.parametrize("who", ["root", "nobody"])
@pytest.mark.parametrize("language", SEVERAL)
def test_nor_in_another_language(programs, who, language):
    kinds = [(language, contract) for contract in CONTRACTS]
    told = outcomes(programs, who, *kinds, only=SEVERAL[language])
    assert {name: done(each) for name, each in told.items()} == {
        f"{language}-{contract}": set() for contract in CONTRACTS
    }
    assert all(each.keys() == SEVERAL[language] for each in told.values())


@pytest.mark.parametrize("language", ["python", *SEVERAL])
def test_without_a_sandbox_each_succeeds(programs, language):
    tries = SEVERAL.get(language, set(HELD_BY))
    told = outcomes(programs, "nobody", (language, "mcptest"), class_="none", mode="subreaper", only=tries)
    assert {name: outcome for name, outcome in told[f"{language}-mcptest"].items() if outcome != "done"} == {}


DROPPED = sorted(
    {frozenset({name}) for names in HELD_BY.values() for name in names}
    | {frozenset(names) for names in HELD_BY.values()},
    key=lambda names: (len(names), sorted(names)),
)


@pytest.mark.parametrize("drop", DROPPED, ids=lambda names: " and ".join(sorted(names)))
def test_each_is_held_by_just_what_we_say(programs, drop):
    """Left out are these mechanisms, and exactly what only they hold gets out."""
    told = outcomes(programs, "nobody", ("python", "mcptest"), drop=sorted(drop))["python-mcptest"]
    out = set(drop) | (BUBBLEWRAP if "bubblewrap" in drop else set())
    assert done(told) == {name for name, holders in HELD_BY.items() if holders <= out}


@pytest.mark.parametrize("who", ["root", "nobody"])
def test_what_the_landlock_class_promises_where_there_are_no_namespaces(programs, who):
    """All but two: the names of others' processes can be read, and where a plugin is its host's own user, its
    processes cannot be counted apart from its host's."""
    told = outcomes(programs, who, ("python", "mcptest"), class_="landlock", mode="subreaper")[
        "python-mcptest"
    ]
    assert told.keys() == HELD_BY.keys()
    assert done(told) == {"proc"} | ({"forks"} if who == "nobody" else set())
