"""Tenants: organisations and their projects."""

from __future__ import annotations

import secrets

import msgspec

from plughost.gateway.auth.principal import Principal
from plughost.gateway.problems import FieldError, Problem, not_found
from plughost.vai.bindings.binding import Scope
from plughost.vai.database.database import Database, Steps
from plughost.vai.database.filters import Filters
from plughost.vai.database.statements import Row, load_statements

_SQL = load_statements(__file__)
INSERT_ORG, FIND_ORG, LOCK_ORG, RENAME_ORG, ANY_ORG = (
    _SQL[name] for name in ("insert_org", "find_org", "lock_org", "rename_org", "any_org")
)
INSERT_PROJECT, FIND_PROJECT, LOCK_PROJECT, RENAME_PROJECT = (
    _SQL[name] for name in ("insert_project", "find_project", "lock_project", "rename_project")
)

MAX_NAME = 200
MAX_CACHED = 10_000

ORGS = Filters(
    "SELECT org_id, name, created_at, revision FROM orgs",
    equal={"org": "org_id"},
    at_least={},
    below={},
    needs={},
    newest_first=("created_at", "org_id"),
)
PROJECTS = Filters(
    "SELECT project_id, org_id, name, created_at, revision FROM projects",
    equal={"org": "org_id", "project": "project_id"},
    at_least={},
    below={},
    needs={"project": "org"},
    newest_first=("created_at", "project_id"),
)


class Org(msgspec.Struct, frozen=True, kw_only=True):
    """An organisation."""

    org_id: str
    name: str
    created_at: float
    revision: int


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """A project of an organisation."""

    project_id: str
    org_id: str
    name: str
    created_at: float
    revision: int


def create_org(name: str, now: float) -> Steps[Org]:
    """Creates an organisation."""
    _check_name(name)
    org = Org(org_id=f"org_{secrets.token_hex(8)}", name=name, created_at=now, revision=1)
    yield INSERT_ORG(org_id=org.org_id, name=name, created_at=now)
    return org


def create_project(org_id: str, name: str, now: float) -> Steps[Project]:
    """Creates a project of an organisation."""
    _check_name(name)
    project = Project(
        project_id=f"proj_{secrets.token_hex(8)}", org_id=org_id, name=name, created_at=now, revision=1
    )
    yield INSERT_PROJECT(project_id=project.project_id, org_id=org_id, name=name, created_at=now)
    return project


def rename_org(principal: Principal, org_id: str, name: str, expected: int | None) -> Steps[Org]:
    """Renames the principal's organisation. `stale` when it is not at the expected revision."""
    _check_name(name)
    row = (yield LOCK_ORG(org_id=org_id)).first()
    if row is None or (row["org_id"] != principal.org_id and not principal.is_operator):
        raise not_found("organisation", org_id)
    check_revision(row["revision"], expected)
    return org((yield RENAME_ORG(org_id=org_id, name=name)).rows[0])


def rename_project(principal: Principal, project_id: str, name: str, expected: int | None) -> Steps[Project]:
    """Renames a project of the principal. `stale` when it is not at the expected revision."""
    _check_name(name)
    row = (yield LOCK_PROJECT(project_id=project_id)).first()
    if row is None or not is_visible(principal, row):
        raise not_found("project", project_id)
    check_revision(row["revision"], expected)
    return project((yield RENAME_PROJECT(project_id=project_id, name=name)).rows[0])


def check_revision(current: int, expected: int | None) -> None:
    """Raises `stale` when a record is not at the revision that a caller expects (If-Match)."""
    if expected is not None and expected != current:
        raise Problem("stale", f"the record is at revision {current}, not {expected}")


def is_visible(principal: Principal, row: Row) -> bool:
    """Whether a row with the columns org_id and project_id belongs to what the principal may see."""
    return row["org_id"] == principal.org_id and principal.project_id in (None, row["project_id"])


def org(row: Row) -> Org:
    """An organisation from its row."""
    return Org(**dict(row))


def project(row: Row) -> Project:
    """A project from its row."""
    return Project(**dict(row))


def _check_name(name: str) -> None:
    if not 0 < len(name) <= MAX_NAME:
        error = FieldError("/name", f"a name has 1 to {MAX_NAME} characters")
        raise Problem("invalid_request", "the name is not valid", errors=[error])


class KnownProjects:
    """Which project belongs to which organisation. That never changes, so it is read once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._org_of: dict[str, str] = {}

    async def check(self, scope: Scope) -> None:
        """Raises `not_found` when the organisation has no such project."""
        assert scope.project_id is not None
        org_id = self._org_of.get(scope.project_id)
        if org_id is None:
            row = (await self._database.read(FIND_PROJECT(project_id=scope.project_id))).first()
            if row is not None:
                if len(self._org_of) >= MAX_CACHED:
                    self._org_of.clear()
                org_id = self._org_of[scope.project_id] = row["org_id"]
        if org_id != scope.org_id:
            raise not_found("project", scope.project_id)
