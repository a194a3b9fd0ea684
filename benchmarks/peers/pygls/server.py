"""A pygls server with plain synchronous handlers: its faster kind."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pygls.protocol import JsonRPCProtocol, default_converter
from pygls.server import JsonRPCServer

from benchmarks.plugins.deeds import DEEDS


def handler(deed: Callable[[str], str]) -> Callable[[Any], dict[str, str]]:
    return lambda params: {"text": deed(params.text)}


logging.disable()
server = JsonRPCServer(JsonRPCProtocol, default_converter)
for name, deed in DEEDS.items():
    server.feature(name)(handler(deed))
server.start_io()
