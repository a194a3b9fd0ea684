"""Validation of bindings: all problems at once, each with its place."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import msgspec
import pytest

from plughost.contracts.vai import manifest
from plughost.errors import InvalidSpec
from plughost.gateway.bindings.documents import BindingContent, BindingDocument, BindingDraft, Rollout
from plughost.gateway.bindings.reading import patched
from plughost.gateway.bindings.validate import Validator
from plughost.gateway.problems import FieldError
from plughost.vai.bindings.binding import BindingPolicy
from plughost.vai.bindings.package import Package
from plughost.vai.packages.errors import Damaged
from tests.gateway.bindings.test_reading import DOCUMENT

MANIFEST = """
api_version = "vai.plugin.v1"
package_id = "acme/jira"
version = "1.0.0"
name = "Jira"

[runtime]
protocol = "vai.rpc.v1"
transport = "stdio"
entrypoint = ["./bin/plugin"]
os = ["linux"]
arch = ["amd64"]

[[exports]]
id = "search"
kind = "tool"
display_name = "Search"
default_timeout_ms = 20000
max_concurrency = 4
config_schema = "config.json"
[exports.permissions]
filesystem = "scratch"
gateway_api_scopes = ["runs:read"]
secret_slots = ["token", "other"]
[exports.tool]
effect_class = "read_only"
input_schema = "input.json"

[[exports]]
id = "quick"
kind = "tool"
display_name = "Quick"
execution_class = "inline"
default_timeout_ms = 1000
[exports.permissions]
network = "egress"
[exports.tool]
effect_class = "read_only"
input_schema = "input.json"
"""
CONFIG = {
    "type": "object",
    "properties": {"site": {"type": "string"}, "depth": {"type": "array", "items": {"type": "integer"}}},
    "required": ["site"],
    "additionalProperties": False,
}
MAPPED = {"token": "secret://org_1/token", "other": "secret://org_1/proj_1/other"}


class Shelf:
    """The packages of an organisation: one version, another that is yanked, and a damaged one."""

    def __init__(self, folder: Path, *, trusted_inline: bool) -> None:
        self._folder = folder
        self._trusted_inline = trusted_inline

    def find(self, package_id: str, version: str) -> Package:
        if version not in ("1.0.0", "1.1.0", "1.2.0"):
            raise InvalidSpec(f"{package_id}@{version} is not installed")

        def check() -> None:
            if version == "1.2.0":
                raise Damaged("the installed files were changed")

        return Package(
            folder=str(self._folder),
            digest="sha256:x",
            manifest=manifest.read(self._folder),
            trusted_inline=self._trusted_inline,
            check=check,
        )

    async def is_yanked(self, package_id: str, version: str) -> bool:
        return version == "1.1.0"


@pytest.fixture
def shelf(tmp_path: Path) -> Callable[..., Shelf]:
    (tmp_path / "vai-plugin.toml").write_text(MANIFEST)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "input.json").write_text("{}")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/plugin").write_text("")

    def make(*, trusted_inline: bool = False) -> Shelf:
        return Shelf(tmp_path, trusted_inline=trusted_inline)

    return make


async def none_missing(uris: Collection[str]) -> set[str]:
    return set()


def draft(version: str = "1.0.0", export: str = "search", **content: Any) -> BindingDraft:
    content = {"config": {"site": "x"}, "secrets": MAPPED, **content} if export == "search" else content
    return BindingDraft(
        package_id="acme/jira", package_version=version, export_id=export, content=BindingContent(**content)
    )


async def wrong(
    shelf: Shelf, one: BindingDraft, *others: BindingDocument, missing: Any = none_missing
) -> dict[str, str]:
    found = await Validator(BindingPolicy()).draft_errors(one, shelf, missing, others)
    return {each.pointer: each.message for each in found}


def document(version: str, percent: int, status: Any = "active") -> BindingDocument:
    return msgspec.structs.replace(
        DOCUMENT,
        package_version=version,
        config={"site": "x"},
        secrets=MAPPED,
        policy=BindingPolicy(),
        status=status,
        rollout=Rollout(percent),
    )


async def test_a_valid_draft_has_no_errors(shelf: Callable[..., Shelf]) -> None:
    assert await wrong(shelf(), draft()) == {}
    narrow = BindingPolicy(
        network="none",
        filesystem="none",
        scopes=frozenset(),
        timeout_ms=20000,
        max_concurrency=4,
        execution_class="isolated",
    )
    assert await wrong(shelf(), draft(policy=narrow)) == {}
    assert (
        await wrong(
            shelf(), draft(policy=BindingPolicy(filesystem="scratch", scopes=frozenset({"runs:read"})))
        )
        == {}
    )


@pytest.mark.clause("GW-26", "VAI-61", "VAI-64")
async def test_all_problems_are_reported_at_once_each_with_its_place(shelf: Callable[..., Shelf]) -> None:
    asked: list[set[str]] = []

    async def missing(uris: Collection[str]) -> set[str]:
        asked.append({*uris})
        return {"secret://org_2/theirs"}

    one = draft(
        "1.1.0",
        config={"depth": [1, "two"], "a/b": 1},
        secrets={
            "token": "secret://org_2/theirs",
            "spare": "secret://org_1/spare",
            "odd": "file:///etc/passwd",
        },
        policy=BindingPolicy(
            network="egress",
            egress_domains=("example.org",),
            filesystem="assets_ro",
            scopes=frozenset({"runs:read", "chains:write"}),
            timeout_ms=20001,
            max_concurrency=5,
            execution_class="worker",
        ),
        traffic_percent=50,
    )
    found = await wrong(shelf(), one, document("0.9.0", 100), missing=missing)
    assert found.keys() == {
        "/config",  # site is required, and a/b is not allowed
        "/config/depth/1",
        "/secrets/token",
        "/secrets/other",
        "/secrets/spare",
        "/secrets/odd",
        "/policy/network",
        "/policy/egress_domains",
        "/policy/filesystem",
        "/policy/scopes",
        "/policy/timeout_ms",
        "/policy/max_concurrency",
        "/policy/execution_class",
        "/rollout/traffic_percent",
        "/package_version",
    }
    assert found["/secrets/token"] == "there is no secret secret://org_2/theirs"
    assert found["/secrets/other"] == "the slot is not mapped"
    assert "yanked" in found["/package_version"]
    assert asked == [{"secret://org_2/theirs", "secret://org_1/spare"}]


@pytest.mark.clause("GW-26")
async def test_values_that_no_manifest_could_ask_for_are_named(shelf: Callable[..., Shelf]) -> None:
    policy = BindingPolicy(network="wifi", timeout_ms=0, scopes=frozenset({"root"}), execution_class="bare")
    found = await wrong(shelf(), draft(policy=policy))
    assert found.keys() == {
        "/policy/network",
        "/policy/timeout_ms",
        "/policy/scopes",
        "/policy/execution_class",
    }
    assert found["/policy/network"] == "'wifi' is not one of none, egress"


@pytest.mark.clause("GW-26", "VAI-12")
async def test_a_class_that_is_not_allowed_is_named(shelf: Callable[..., Shelf]) -> None:
    assert (await wrong(shelf(), draft(export="quick"))).keys() == {"/policy/execution_class"}
    assert await wrong(shelf(trusted_inline=True), draft(export="quick")) == {}
    confined = BindingPolicy(execution_class="worker", egress_domains=("example.org",))
    assert await wrong(shelf(), draft(export="quick", policy=confined)) == {}


@pytest.mark.clause("GW-26", "VAI-65")
@pytest.mark.parametrize(
    ("version", "message"),
    [("1.1.0", "yanked"), ("9.9.9", "is not installed"), ("1.2.0", "files were changed")],
)
async def test_a_version_that_cannot_be_bound_is_named(
    shelf: Callable[..., Shelf], version: str, message: str
) -> None:
    found = await wrong(shelf(), draft(version))
    assert found.keys() == {"/package_version"}
    assert message in found["/package_version"]


async def test_an_unknown_export_is_named_with_those_that_there_are(shelf: Callable[..., Shelf]) -> None:
    found = await wrong(shelf(), draft(export="find"))
    assert found == {"/export_id": "the package has no such export; it has: search, quick"}


@pytest.mark.parametrize(
    "uri", ["secret://org_1", "secret://a/../b", "secret://a/b/c/d", "secret://a//b", "secret://a/."]
)
async def test_a_name_that_is_not_a_secrets_is_not_looked_up(shelf: Callable[..., Shelf], uri: str) -> None:
    async def missing(uris: Collection[str]) -> set[str]:
        assert uri not in uris
        return set()

    found = await wrong(shelf(), draft(secrets={**MAPPED, "token": uri}), missing=missing)
    assert found.keys() == {"/secrets/token"}


@pytest.mark.clause("GW-26", "GW-28")
async def test_a_third_version_and_one_that_is_bound_already_are_named(shelf: Callable[..., Shelf]) -> None:
    two = [document("0.8.0", 90), document("0.9.0", 10)]
    assert (await wrong(shelf(), draft(), *two)).keys() == {"/status"}
    assert await wrong(shelf(), draft(status="disabled"), *two) == {}
    assert (await wrong(shelf(), draft(), document("1.0.0", 0, "disabled"))).keys() == {"/package_version"}


@pytest.mark.clause("GW-26", "VAI-61")
async def test_a_stored_binding_is_checked_as_it_is_now(shelf: Callable[..., Shelf]) -> None:
    async def errors(binding: BindingDocument, *others: BindingDocument) -> list[FieldError]:
        return await Validator(BindingPolicy()).binding_errors(binding, shelf(), none_missing, others)

    assert await errors(document("1.0.0", 30), document("0.9.0", 70)) == []
    assert await errors(document("1.0.0", 0, "disabled"), document("0.9.0", 100)) == []
    assert [each.pointer for each in await errors(document("1.0.0", 30), document("0.9.0", 60))] == [
        "/rollout/traffic_percent"
    ]
    assert [each.pointer for each in await errors(document("1.1.0", 100))] == ["/package_version"]


async def test_a_bad_binding_can_always_be_disabled_and_its_share_changed(
    shelf: Callable[..., Shelf],
) -> None:
    bad = msgspec.structs.replace(document("1.1.0", 30), config={}, secrets={})

    async def errors(patch: dict[str, Any]) -> set[str]:
        found = await Validator(BindingPolicy()).change_errors(
            bad, patched(bad, patch), shelf(), none_missing
        )
        return {each.pointer for each in found}

    assert await errors({"status": "disabled"}) == set()
    assert await errors({"rollout": {"traffic_percent": 0}}) == set()
    assert await errors({"config": {"depth": []}}) == {"/config", "/secrets/token", "/secrets/other"}
    assert await errors({"config": {"site": "x"}, "secrets": MAPPED}) == set()  # although it is yanked


@pytest.mark.clause("VAI-61")
async def test_a_configuration_whose_check_takes_long_is_checked_in_a_worker(
    shelf: Callable[..., Shelf], tmp_path: Path
) -> None:
    costly = {
        "type": "object",
        "properties": {f"p{n}": {"type": "string", "pattern": "^[a-z]{1,9}$"} for n in range(1000)},
    }
    (tmp_path / "config.json").write_text(json.dumps(costly))
    assert await wrong(shelf(), draft(config={"p1": "ok"})) == {}
    found = await wrong(shelf(), draft(config={"p1": "ok", "p2": 5}))
    assert found.keys() == {"/config"}
    assert found["/config"].startswith("p2: ")


async def test_a_schema_that_cannot_be_used_is_a_problem_and_not_a_failure(
    shelf: Callable[..., Shelf], tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text('{"type": 5}')
    assert (await wrong(shelf(), draft())).keys() == {"/config"}
