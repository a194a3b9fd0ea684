"""A gateway in the test's process, and clients with keys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from plughost.gateway.api.all_routes import ROUTES
from plughost.gateway.app import create_app
from plughost.gateway.bootstrap import bootstrap
from plughost.gateway.services import GatewayOptions, GatewayServices
from plughost.testing import VirtualClock
from plughost.vai.database.database import Database
from plughost.vai.database.open_database import open_database
from plughost.vai.database.sealing import Seal

KEY = bytes(range(32))


class Client(httpx.AsyncClient):
    """A client with a credential."""

    def __init__(self, app: Any, credential: str | None) -> None:
        headers = {} if credential is None else {"Authorization": f"Bearer {credential}"}
        super().__init__(
            transport=httpx.ASGITransport(app, raise_app_exceptions=False),
            base_url="http://localhost",
            headers=headers,
        )


class InProcess:
    """One gateway process, as far as its application and services go."""

    def __init__(self, database: Database, options: GatewayOptions | None = None) -> None:
        self.database = database
        self.clock = VirtualClock()
        self.time = 1_795_000_000.0
        self.services = GatewayServices(database, Seal(KEY), self.clock, options, now=lambda: self.time)
        self.app = create_app(self.services, ROUTES)
        self.admin = ""

    def client(self, credential: str | None = None) -> Client:
        return Client(self.app, self.admin if credential is None else credential)

    async def key(self, *scopes: str, **wanted: Any) -> str:
        """A new key of the administrator's organisation."""
        body = {"name": "test", "scopes": list(scopes), **wanted}
        answer = await self.client().post("/v1/keys", json=body)
        assert answer.status_code == 201, answer.text
        key: str = answer.json()["key"]
        return key

    async def org_admin(self) -> str:
        """The administrator's key of another organisation, which is made as the operator would."""
        from plughost.gateway.auth import api_keys
        from plughost.gateway.auth.api_keys import KeyRequest
        from plughost.gateway.auth.principal import Principal

        org = (await self.client().post("/v1/orgs", json={"name": "other"})).json()
        owner = Principal(kind="key", id="x", name="x", org_id=org["org_id"], scopes=frozenset({"admin"}))
        wanted = KeyRequest(name="other", scopes=("admin",))
        made = await self.database.write(api_keys.create, owner, wanted, self.time)
        assert made.key is not None
        return made.key


@pytest.fixture
async def gateway(database: Database, tmp_path: Path) -> AsyncIterator[InProcess]:
    made = InProcess(database)
    path = await bootstrap(database, str(tmp_path))
    assert path is not None
    made.admin = Path(path).read_text().strip()
    yield made
    await made.services.close()


@pytest.fixture
async def second(gateway: InProcess, tmp_path: Path, database_url: str | None) -> AsyncIterator[InProcess]:
    """Another process on the same database."""
    database = open_database(str(tmp_path), database_url)
    made = InProcess(database)
    made.admin = gateway.admin
    yield made
    await made.services.close()
    await database.close()
