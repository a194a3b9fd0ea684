"""What is sent: the media type of the body."""

from __future__ import annotations

from plughost.gateway.api_request import ApiRequest
from plughost.gateway.problems import Problem


async def check_media_type(request: ApiRequest) -> None:
    """Refuses a body of another media type than the route takes."""
    accepted = request.access.body
    if not accepted:
        return
    sent = request.header("content-type").partition(";")[0].strip().lower()
    if sent not in accepted:
        raise Problem(
            "unsupported_media_type", f"expected {' or '.join(accepted)}, got {sent[:100] or 'none'}"
        )
