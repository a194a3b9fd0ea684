"""GatewaySecrets: reveals the secrets of the gateway to invocations.

Every value is read and decrypted when an invocation needs it. No decrypted value is kept: a new value, a
deleted secret and a new restriction count for the next invocation in every process.
"""

from __future__ import annotations

from plughost.clock import Clock
from plughost.errors import Denied, HostFailed, InvalidSpec
from plughost.gateway.audit import DONE, AuditEntry
from plughost.gateway.secrets.envelope import Envelope, open_value
from plughost.gateway.secrets.mapping import may_have
from plughost.gateway.secrets.reveal_log import RevealLog
from plughost.gateway.secrets.secret_store import allowed_packages, find
from plughost.gateway.secrets.uri import SecretUri, parse_uri
from plughost.vai.bindings.secret_source import SecretUse
from plughost.vai.database.database import Database
from plughost.vai.database.sealing import Seal, WrongSeal
from plughost.vai.database.statements import Row

ACTION = "secrets.reveal"


class GatewaySecrets:
    """A `SecretSource` over the database. Each reveal has a line in the audit log, refused ones, too."""

    def __init__(self, database: Database, master: Seal, clock: Clock) -> None:
        self._database = database
        self._master = master
        self._log = RevealLog(database, clock)

    async def reveal(self, uri: str, use: SecretUse) -> str:
        """The current value of a secret. InvalidSpec when the binding's tenant has no such secret, Denied
        when the package may not have it, HostFailed when it cannot be decrypted."""
        parsed = parse_uri(uri)
        row = None
        if parsed is not None and parsed.is_visible_to(use.owner):
            row = (await self._database.read(find(parsed))).first()
        if parsed is None or row is None:
            await self._record(uri, use, "not_found")
            raise InvalidSpec(
                f"there is no secret {uri}", hint="store it with PUT /v1/secrets, or map another one"
            )
        if not may_have(use.package_id, allowed_packages(row["packages"])):
            await self._record(uri, use, "forbidden")
            raise Denied(
                f"the package {use.package_id} is not among those that may have {uri}",
                hint="add the package to the secret's `packages`, or map another secret",
            )
        try:
            value = self._open(parsed, row)
        except WrongSeal:
            await self._record(uri, use, "internal_error")
            raise _undecryptable(parsed, row["master_key_id"], self._master) from None
        await self._record(uri, use, DONE)
        return value

    async def close(self) -> None:
        """Stores the lines of the audit log that wait. Nothing is revealed afterwards."""
        await self._log.close()

    def _open(self, uri: SecretUri, row: Row) -> str:
        envelope = Envelope(row["master_key_id"], bytes(row["data_key"]), bytes(row["sealed"]))
        return open_value(envelope, uri, row["version"], self._master)

    async def _record(self, uri: str, use: SecretUse, outcome: str) -> None:
        entry = AuditEntry(
            org_id=use.tenant.org_id,
            project_id=use.tenant.project_id or "",
            actor=f"binding:{use.binding_id}",
            action=ACTION,
            # A text that no database takes would hold up all other lines.
            target=uri.encode(errors="replace").decode(),
            outcome=outcome,
            request_id=use.invocation_id,
        )
        await self._log.add(entry)


def _undecryptable(uri: SecretUri, key_id: str, master: Seal) -> HostFailed:
    if key_id not in master.key_ids:
        return HostFailed(
            f"the secret {uri} is encrypted with the master key {key_id}; this process has "
            f"{', '.join(master.key_ids)}",
            hint="start the process with that master key, too, or store the secret again",
        )
    return HostFailed(
        f"the secret {uri} cannot be decrypted: its row in the database was changed",
        hint="store the secret again, and find out who can write to the database",
    )
