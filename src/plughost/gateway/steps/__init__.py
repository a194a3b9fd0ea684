"""The steps of every request, in order; each may refuse it with a `Problem`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from plughost.gateway.api_request import ApiRequest
from plughost.gateway.steps.authenticate import authenticate
from plughost.gateway.steps.authorise import authorise
from plughost.gateway.steps.check_media_type import check_media_type
from plughost.gateway.steps.limit_rate import limit_rate
from plughost.gateway.steps.refuse_while_ending import refuse_while_ending

Step = Callable[[ApiRequest], Awaitable[None]]

STEPS: tuple[Step, ...] = (refuse_while_ending, authenticate, limit_rate, authorise, check_media_type)
