"""Registry credentials: from the environment, or from the auth file of docker and podman.

Never from the command line, which every user of the machine can read, and never shown.
"""

from __future__ import annotations

import base64
import binascii
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from plughost.errors import InvalidSpec

MAX_FILE = 1 << 20
HELPER_TIMEOUT = 30.0
USER, PASSWORD = "PLUGHOST_REGISTRY_USER", "PLUGHOST_REGISTRY_PASSWORD"
HOST = "PLUGHOST_REGISTRY_HOST"
"""The only registry, `HOST[:PORT]`, to which these credentials are sent; without it, any registry."""
_HELPER = re.compile(r"[A-Za-z0-9._-]+")
_PATHS = ("", "/", "/v1", "/v1/", "/v2", "/v2/")


Value = TypeVar("Value")


class Credentials:
    """A user with a password, or with a `refresh` token from a login in a browser."""

    def __init__(self, user: str, password: str, refresh: str = "") -> None:
        self.user = user
        self.password = password
        self.refresh = refresh

    @property
    def basic(self) -> str:
        """The value of a basic Authorization header."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()

    @property
    def secrets(self) -> list[str]:
        """The texts to redact, in every form that is sent."""
        return [text for text in (self.password, self.refresh, self.basic.removeprefix("Basic ")) if text]

    def __repr__(self) -> str:
        return f"Credentials({self.user!r}, ***)"


class AuthFileEntry(msgspec.Struct, frozen=True):
    """The entry of one registry in an auth file."""

    auth: str = ""
    username: str = ""
    password: str = ""
    identitytoken: str = ""


class AuthFile(msgspec.Struct, frozen=True):
    """The auth file of docker or podman."""

    auths: dict[str, AuthFileEntry] = {}
    credHelpers: dict[str, str] = {}
    credsStore: str = ""


class HelperAnswer(msgspec.Struct, frozen=True):
    """The answer of a docker credential helper."""

    Username: str = ""
    Secret: str = ""


def credentials_for(registry: str, environ: Mapping[str, str]) -> Credentials | None:
    """The credentials for `HOST[:PORT]`; None is anonymous. Blocking: a helper may be a program."""
    user, password = environ.get(USER), environ.get(PASSWORD)
    if (user is None) != (password is None):
        raise InvalidSpec(f"{USER} and {PASSWORD} must be set together")
    if user is not None and password is not None and environ.get(HOST, registry).lower() == registry:
        return Credentials(user, password)
    return next(filter(None, (_from_file(path, registry, environ) for path in auth_files(environ))), None)


def auth_files(environ: Mapping[str, str]) -> list[Path]:
    """The auth files to read; the first that knows the registry counts. Podman's own lasts for a login
    session."""
    if named := environ.get("REGISTRY_AUTH_FILE"):
        return [Path(named)]
    docker = Path(environ.get("DOCKER_CONFIG") or Path(environ.get("HOME", "/"), ".docker")) / "config.json"
    session = environ.get("XDG_RUNTIME_DIR")
    return [docker, Path(session, "containers/auth.json")] if session else [docker]


def _from_file(path: Path, registry: str, environ: Mapping[str, str]) -> Credentials | None:
    file = read_auth_file(path)
    helper = _entry_for(file.credHelpers, registry)
    if helper is not None:
        return _run_helper(helper, registry, path, environ)
    entry = _entry_for(file.auths, registry)
    if entry is not None and (found := _read(entry, registry, path)) is not None:
        return found
    return _run_helper(file.credsStore, registry, path, environ) if file.credsStore else None


def read_auth_file(path: Path) -> AuthFile:
    """Reads an auth file; empty when it does not exist."""
    try:
        with path.open("rb") as opened:
            body = opened.read(MAX_FILE + 1)
        return msgspec.json.decode(body[:MAX_FILE], type=AuthFile)
    except (FileNotFoundError, NotADirectoryError):
        return AuthFile()
    except OSError as error:
        raise InvalidSpec(f"{path}: {error.strerror}") from error
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        raise InvalidSpec(
            f"{path} is not a valid docker configuration: no credentials can be read from it"
        ) from None


def _entry_for(entries: Mapping[str, Value], registry: str) -> Value | None:
    """The entry for that host and port, in any spelling; an entry for a part of a registry does not count."""
    for key, value in entries.items():
        host, slash, path = key.removeprefix("https://").removeprefix("http://").partition("/")
        if host.lower() == registry and slash + path in _PATHS:
            return value
    return None


def _read(entry: AuthFileEntry, registry: str, path: Path) -> Credentials | None:
    user, password = entry.username, entry.password
    if entry.auth:
        try:
            user, _, password = base64.b64decode(entry.auth, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeError):
            raise InvalidSpec(f"{path}: `auth` of {registry} is not base64") from None
    password = password.rstrip("\0")
    if not (password or entry.identitytoken):
        return None
    return Credentials(user, password, entry.identitytoken)


def _run_helper(helper: str, registry: str, path: Path, environ: Mapping[str, str]) -> Credentials | None:
    """Runs a docker credential helper: the host on stdin, JSON on stdout, a failing exit status when it knows
    none."""
    if not _HELPER.fullmatch(helper):
        raise InvalidSpec(f"{path}: {helper[:64]!a} is not the name of a credential helper")
    try:
        done = subprocess.run(
            [f"docker-credential-{helper}", "get"],
            input=registry.encode(),
            capture_output=True,
            timeout=HELPER_TIMEOUT,
            env=dict(environ),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InvalidSpec(f"{path} names the helper docker-credential-{helper}: {_reason(error)}") from None
    if done.returncode != 0:
        return None
    try:
        answer = msgspec.json.decode(done.stdout[:MAX_FILE], type=HelperAnswer)
    except (msgspec.DecodeError, UnicodeError):
        raise InvalidSpec(f"docker-credential-{helper} did not answer with credentials") from None
    if answer.Username == "<token>":
        return Credentials("", "", answer.Secret)
    return Credentials(answer.Username, answer.Secret)


def _reason(error: Exception) -> str:
    return str(error.strerror) if isinstance(error, OSError) else f"no answer within {HELPER_TIMEOUT:g} s"
