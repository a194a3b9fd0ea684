"""Names of secrets: what is one, and who sees which."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plughost.gateway.secrets.uri import SecretUri, is_secret_name, parse_uri
from plughost.vai.bindings.binding import Scope
from tests.gateway.secrets.conftest import ORG, OTHER_ORG, OTHER_PROJECT, PROJECT

PARTS = st.from_regex(r"[A-Za-z0-9_.-]{1,128}", fullmatch=True).filter(lambda part: part not in (".", ".."))
LETTERS = st.sampled_from("aZ0_.-/:%\\ \n\0é~")
NEARLY = st.builds("secret://{}".format, st.text(LETTERS, max_size=12)) | st.text(max_size=300)


@pytest.mark.clause("GW-31")
@given(PARTS, st.none() | PARTS, PARTS)
def test_a_uri_that_is_written_is_read_back(org: str, project: str | None, name: str) -> None:
    uri = SecretUri(Scope(org, project), name)
    assert parse_uri(str(uri)) == uri
    assert is_secret_name(name)


@given(NEARLY)
def test_a_text_is_a_uri_exactly_if_all_its_parts_are_names(text: str) -> None:
    uri = parse_uri(text)
    prefix, _, rest = text.partition("secret://")
    parts = rest.split("/")
    proper = (
        not prefix
        and text.startswith("secret://")
        and len(parts) in (2, 3)
        and all(re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", part) and part not in (".", "..") for part in parts)
    )
    assert (uri is not None) == proper
    if uri is not None:
        assert str(uri) == text


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "a\n", "\na", "é", "a" * 129, "%2e", "a\0"])
def test_what_is_not_a_name(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize("name", ["a", "...", ".a", "a.", "..a", "a..", "-", "_", "a" * 128])
def test_what_is_a_name(name: str) -> None:
    assert is_secret_name(name)
    assert parse_uri(f"secret://org/{name}") == SecretUri(Scope("org"), name)


@pytest.mark.clause("GW-31")
def test_a_project_sees_its_own_secrets_and_those_of_its_organisation() -> None:
    assert SecretUri(PROJECT, "a").is_visible_to(PROJECT)
    assert SecretUri(ORG, "a").is_visible_to(PROJECT)
    assert SecretUri(ORG, "a").is_visible_to(ORG)
    assert not SecretUri(OTHER_PROJECT, "a").is_visible_to(PROJECT)
    assert not SecretUri(OTHER_ORG, "a").is_visible_to(PROJECT)
    assert not SecretUri(Scope("org_2", "proj_1"), "a").is_visible_to(PROJECT)
    assert not SecretUri(PROJECT, "a").is_visible_to(ORG), "all projects could use it"
