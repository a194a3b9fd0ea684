"""Who we are: from the environment or from docker's file; never shown."""

from __future__ import annotations

import base64
import json

import pytest

from plughost.errors import InvalidSpec
from plughost.vai.packages.oci.registry.credentials import credentials_for


def auth(user, password):
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


@pytest.fixture
def file(tmp_path):
    """Writes docker's file, and gives the environment that leads to it."""

    def write(content):
        (tmp_path / "config.json").write_text(content if isinstance(content, str) else json.dumps(content))
        return {"DOCKER_CONFIG": str(tmp_path), "PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": "/nowhere"}

    return write


def found(registry, environ):
    who = credentials_for(registry, environ)
    return None if who is None else (who.user, who.password)


def test_the_environment_comes_first_and_whole(file):
    environ = file({"auths": {"r.example": auth("file", "secret")}})
    named = {"PLUGHOST_REGISTRY_USER": "ada", "PLUGHOST_REGISTRY_PASSWORD": "hunter2"}
    assert found("r.example", environ | named) == ("ada", "hunter2")
    assert found("r.example", environ) == ("file", "secret")
    only = named | {"PLUGHOST_REGISTRY_HOST": "R.example:5000"}
    assert found("r.example:5000", environ | only) == ("ada", "hunter2")
    assert found("r.example", environ | only) == ("file", "secret")
    with pytest.raises(InvalidSpec, match="must be set together"):
        found("r.example", environ | {"PLUGHOST_REGISTRY_USER": "ada"})


@pytest.mark.parametrize(
    "key", ["r.example:5000", "https://r.example:5000", "http://r.example:5000/v2/", "R.Example:5000"]
)
def test_an_entry_is_found_however_its_host_is_written(file, key):
    environ = file({"auths": {key: auth("ada", "pass:word")}})
    assert found("r.example:5000", environ) == ("ada", "pass:word")
    for other in ("r.example", "r.example:5001", "other.example:5000", "example:5000"):
        assert found(other, environ) is None


def test_an_entry_for_a_part_of_a_registry_is_not_for_all_of_it(file):
    assert found("r.example", file({"auths": {"r.example/team": auth("ada", "x")}})) is None


def test_podmans_variable_wins(file, tmp_path):
    (tmp_path / "auth.json").write_text(
        json.dumps({"auths": {"r.example": {"username": "u", "password": "p"}}})
    )
    environ = file({"auths": {"r.example": auth("ada", "x")}})
    assert found("r.example", environ | {"REGISTRY_AUTH_FILE": str(tmp_path / "auth.json")}) == ("u", "p")


def test_podmans_own_file_is_read_where_docker_s_knows_nobody(file, tmp_path):
    (tmp_path / "containers").mkdir()
    logins = {"auths": {"r.example": auth("podman", "p"), "other.example": auth("podman", "p")}}
    (tmp_path / "containers/auth.json").write_text(json.dumps(logins))
    environ = file({"auths": {"r.example": auth("docker", "d")}}) | {"XDG_RUNTIME_DIR": str(tmp_path)}
    assert found("r.example", environ) == ("docker", "d")
    assert found("other.example", environ) == ("podman", "p")
    assert found("third.example", environ) is None


def test_a_login_in_a_browser_leaves_a_token(file):
    who = credentials_for("r.example", file({"auths": {"r.example": {"identitytoken": "refresh"}}}))
    assert (who.refresh, "refresh" in repr(who)) == ("refresh", False)


@pytest.mark.parametrize("key", ["credHelpers", "credsStore"])
def test_a_helper_is_asked(file, tmp_path, key):
    program = tmp_path / "docker-credential-safe"
    program.write_text(
        '#!/bin/sh\nread host\n[ "$1 $host" = "get r.example" ] || exit 1\necho \'{"Username": "ada", "Secret": "x"}\'\n'
    )
    program.chmod(0o755)
    environ = file({key: {"r.example": "safe"} if key == "credHelpers" else "safe"})
    assert found("r.example", environ) == ("ada", "x")
    assert found("other.example", environ) is None


@pytest.mark.parametrize("helper", ["missing", "../../bin/sh", "a b"])
def test_a_helper_that_is_none_is_told(file, helper):
    with pytest.raises(InvalidSpec, match="helper"):
        found("r.example", file({"credHelpers": {"r.example": helper}}))


@pytest.mark.parametrize(
    "content", ["", "[]", '{"auths": {"r.example": {"auth": "%%%"}}}', '{"auths": 1}', "[" * 99999]
)
def test_a_broken_file_is_told_by_name(file, content, tmp_path):
    with pytest.raises(InvalidSpec, match=str(tmp_path)):
        found("r.example", file(content))


def test_no_file_is_nobody(tmp_path):
    assert found("r.example", {"HOME": str(tmp_path)}) is None


def test_secrets_are_not_shown(file):
    who = credentials_for("r.example", file({"auths": {"r.example": auth("ada", "hunter2")}}))
    assert "hunter2" not in f"{who!r} {who}"
