"""A python-lsp-jsonrpc server that answers in the thread that reads: its faster way."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

from pylsp_jsonrpc.endpoint import Endpoint
from pylsp_jsonrpc.streams import JsonRpcStreamReader, JsonRpcStreamWriter

from benchmarks.plugins.deeds import DEEDS

Params = dict[str, str]


def handler(deed: Callable[[str], str]) -> Callable[[Params], Params]:
    return lambda params: {"text": deed(params["text"])}


logging.disable()
writer = JsonRpcStreamWriter(sys.stdout.buffer)
endpoint = Endpoint({name: handler(deed) for name, deed in DEEDS.items()}, writer.write)
JsonRpcStreamReader(sys.stdin.buffer).listen(endpoint.consume)
