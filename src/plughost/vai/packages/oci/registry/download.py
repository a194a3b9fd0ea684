"""Downloads a blob from a registry: hashed while it arrives, resumed with a Range request when it was cut."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import httpx

from plughost._util.threads import in_thread
from plughost.permissions.addresses import UrlTarget
from plughost.vai.packages.oci.content_store import Descriptor, Progress
from plughost.vai.packages.oci.errors import BadContent, TransferFailed
from plughost.vai.packages.oci.layout.blob_writer import BlobWriter, receive_blob
from plughost.vai.packages.oci.registry.buffered_writer import BufferedWriter
from plughost.vai.packages.oci.registry.client import RegistryClient, as_transfer_failure
from plughost.vai.packages.oci.registry.retry import Retryable, pacing

_RANGE = re.compile(r"bytes ([0-9]{1,16})-[0-9]{1,16}/(?:[0-9]{1,16}|\*)")


async def download(
    client: RegistryClient, target: UrlTarget, blob: Descriptor, into: Path, progress: Progress
) -> None:
    """Downloads a blob into a file, with retries."""
    async with receive_blob(blob, into) as file:
        resumed = file.offset
        progress(resumed)
        while True:
            await client.retry(partial(_download_rest, client, target, file, progress))
            try:
                return await in_thread(file.finish)
            except BadContent:
                if not resumed:
                    raise
                resumed = 0  # the content of the partial file may have been wrong
                progress(-blob.size)


async def _download_rest(
    client: RegistryClient, target: UrlTarget, file: BlobWriter, progress: Progress
) -> None:
    """Downloads the rest of a blob, as far as it gets; Retryable when that is not all."""
    if file.complete:
        return
    begin = file.offset
    response = await client.open("GET", target, {"Range": f"bytes={begin}-"} if begin else {})
    try:
        if response.status_code == 416 or (response.status_code == 200 and begin):
            await in_thread(file.restart)  # the server cannot resume from that offset
            progress(-begin)
        if response.status_code == 416:
            raise Retryable(TransferFailed(f"{target}: the registry cannot continue from byte {begin}"))
        if response.status_code not in (200, 206):
            raise await client.refusal(response, target)
        _check_head(response, file, target)
        try:
            async with pacing(client.policy, client.clock, str(target)) as pace:
                writer = BufferedWriter(file, progress)
                try:
                    async for chunk in response.aiter_raw():
                        pace.moved(len(chunk))
                        await writer.write(chunk)
                finally:
                    await writer.flush()
        except httpx.TransportError as error:
            raise as_transfer_failure(error, target) from error
        if not file.complete:
            raise Retryable(
                TransferFailed(f"{target}: cut off after {file.offset} of {file.blob.size} bytes")
            )
    except Retryable as again:
        again.reached = file.offset
        raise
    finally:
        await response.aclose()


def _check_head(response: httpx.Response, file: BlobWriter, target: UrlTarget) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise BadContent(f"{target}: the answer has an encoding that was not requested")
    if response.status_code == 206:
        match = _RANGE.fullmatch(response.headers.get("content-range", ""))
        if match is None or int(match[1]) != file.offset:
            raise BadContent(f"{target}: requested the bytes from {file.offset} on, but received others")
    length = response.headers.get("content-length", "")
    if length.isdigit() and int(length) > file.blob.size - file.offset:
        raise BadContent(f"{target}: more than the {file.blob.size} bytes of {file.blob.digest}")
