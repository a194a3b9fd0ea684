"""The context of a request: ids, deadline, scratch folder, and the gateway credentials that were granted."""

from __future__ import annotations

import time
from functools import lru_cache

from plughost.contracts.vai.request_bodies import GatewayAccess, RequestContext
from plughost.errors import InvalidSpec
from plughost.vai.invocations.execution import Execution
from plughost.vai.invocations.process_spec import GATEWAY_HOST
from plughost.vai.invocations.token_issuer import TokenIssuer
from plughost.vai.invocations.tokens import SHAPE

BASE_URL = f"http://{GATEWAY_HOST}"
_NO_ACCESS = GatewayAccess(base_url=BASE_URL)
_MILLISECONDS = [f".{number:03d}Z" for number in range(1000)]


def context(execution: Execution, scratch: str | None, gateway: TokenIssuer | None) -> RequestContext:
    """The request context of an invocation. Only an export with scopes gets a delegation token."""
    scope, related, scopes = execution.scope, execution.invocation.related, execution.prepared.granted.scopes
    access = _NO_ACCESS
    if scopes:
        if gateway is None:
            raise InvalidSpec("this host has no gateway, so no scopes can be granted")
        access = GatewayAccess(
            base_url=BASE_URL, delegation_token=gateway.admit(execution), scopes=list(scopes)
        )
        execution.redactor.add_pattern(SHAPE)
    return RequestContext(
        invocation_id=execution.id,
        trace_id=execution.trace_id,
        org_id=scope.org_id,
        project_id=scope.project_id,
        session_id=related.session_id,
        chain_id=related.chain_id,
        run_id=related.run_id,
        deadline_at=_rfc3339(execution.ends_at),
        scratch_dir=scratch,
        gateway=access,
    )


def _rfc3339(moment: float) -> str:
    seconds, rest = divmod(int(moment * 1000), 1000)
    return _format_second(seconds) + _MILLISECONDS[rest]


@lru_cache(maxsize=64)
def _format_second(seconds: int) -> str:
    """A time without its fraction; cached, since many deadlines lie in the same second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
