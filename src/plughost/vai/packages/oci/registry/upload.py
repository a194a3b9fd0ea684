"""Uploads a blob to a registry in one piece; resumed after a cut if the registry reports the offset."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import msgspec

from plughost._util.threads import in_thread
from plughost.permissions.addresses import UrlTarget
from plughost.vai.packages.oci.content_store import Descriptor, Progress
from plughost.vai.packages.oci.errors import BadContent, TransferFailed, disk_error
from plughost.vai.packages.oci.registry.client import RegistryClient, follow
from plughost.vai.packages.oci.registry.retry import Retryable, TransferPace, pacing

PIECE = 1 << 20
"""Bytes read from the file at a time."""
_RANGE = re.compile(r"(?:bytes=)?0-([0-9]{1,16})")


class Upload:
    """The upload of one blob."""

    def __init__(
        self,
        client: RegistryClient,
        uploads: UrlTarget,
        blob: Descriptor,
        source: Path | bytes,
        progress: Progress,
    ) -> None:
        self._client = client
        self._uploads = uploads
        self._blob = blob
        self._source = source
        self._progress = progress
        self._location: UrlTarget | None = None
        self._sent = 0

    async def run(self) -> None:
        """Uploads the blob, with retries."""
        await self._client.retry(self._attempt)

    async def _attempt(self) -> None:
        offset = kept = await self._resume_offset()
        if self._location is None:
            self._location = await self._start()
        try:
            if 0 < offset < self._blob.size:
                rest = {"Content-Range": f"{offset}-{self._blob.size - 1}"}
                await self._send("PATCH", self._location, offset, rest)
                offset = self._blob.size
            await self._send("PUT", _with_digest(self._location, self._blob.digest), offset, {})
        except Retryable as again:
            again.reached = kept
            raise

    async def _start(self) -> UrlTarget:
        response, _ = await self._client.ask("POST", self._uploads, good=(202,))
        return follow(self._uploads, response.headers.get("location", ""))

    async def _resume_offset(self) -> int:
        """The bytes that the registry has; 0, and a new upload, when it does not report that."""
        if self._location is None:
            return 0
        response = await self._client.open("GET", self._location)
        try:
            match = _RANGE.fullmatch(response.headers.get("range", ""))
            if response.status_code == 204 and match is not None and 0 < int(match[1]) < self._blob.size:
                self._follow_location(response.headers.get("location"))
                return int(match[1]) + 1
        finally:
            await response.aclose()
        self._location = None
        return 0

    async def _send(self, method: str, target: UrlTarget, offset: int, headers: dict[str, str]) -> None:
        """Sends the rest from `offset` on, and remembers the location in the answer for the next request."""
        headers["Content-Type"] = "application/octet-stream"
        headers["Content-Length"] = str(self._blob.size - offset)
        async with pacing(self._client.policy, self._client.clock, str(target)) as pace:
            body = partial(self._pieces, offset, pace)
            response = await self._client.open(method, target, headers, body, timeout=math.inf)
        try:
            if response.status_code not in (201, 202, 204):
                failure = await self._client.refusal(response, target)
                if offset and not isinstance(failure, Retryable):  # it refuses to resume
                    self._location = None
                    failure = Retryable(TransferFailed(str(failure)))
                raise failure
            self._follow_location(response.headers.get("location"))
        finally:
            await response.aclose()

    def _follow_location(self, location: str | None) -> None:
        if location is not None and self._location is not None:
            self._location = follow(self._location, location)

    async def _pieces(self, offset: int, pace: TransferPace) -> AsyncIterator[bytes]:
        self._progress(offset - self._sent)
        self._sent = offset
        while self._sent < self._blob.size:
            piece = await in_thread(partial(_read, self._source, self._sent, self._blob))
            yield piece
            pace.moved(len(piece))
            self._progress(len(piece))
            self._sent += len(piece)
        pace.all_sent()


def _with_digest(location: UrlTarget, digest: str) -> UrlTarget:
    mark = "&" if "?" in location.path else "?"
    return msgspec.structs.replace(location, path=f"{location.path}{mark}digest={digest}")


def _read(source: Path | bytes, at: int, blob: Descriptor) -> bytes:
    if isinstance(source, bytes):
        piece = source[at : at + PIECE]
    else:
        try:
            with source.open("rb", buffering=0) as opened:
                opened.seek(at)
                piece = opened.read(min(PIECE, blob.size - at))
        except OSError as error:
            raise disk_error(error, source) from error
    if not piece:
        raise BadContent(f"{blob.digest}: the file has fewer than {blob.size} bytes")
    return piece
