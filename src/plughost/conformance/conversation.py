"""Conversation: what a raw process says, recorded within bounds."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any

from plughost.conformance.axis import require
from plughost.conformance.raw_process import RawProcess

DRAIN_TIMEOUT = 2.0
"""Maximum seconds to drain a plugin that never falls silent."""

MAX_MESSAGES, MAX_BYTES = 50_000, 32 << 20
"""Maximum number and total bytes of messages of one process, all of which are kept."""

Message = dict[str, Any]


class Conversation(ABC):
    """The host's side of a conversation with one raw process, which records everything that the plugin
    sends."""

    def __init__(self, wire: RawProcess) -> None:
        self.wire = wire
        self.transcript: list[Message] = []
        """Every message of the plugin, in order."""

    async def drain(self) -> None:
        """Reads messages until the plugin falls silent."""
        try:
            async with asyncio.timeout(DRAIN_TIMEOUT):
                while (message := await self.wire.message_soon()) is not None:
                    self._take(message)
        except TimeoutError:
            return

    @abstractmethod
    def _take(self, message: Message) -> None:
        """Handle a message that was read."""

    def _record(self, message: Message, noun: str = "messages") -> None:
        bearable = len(self.transcript) < MAX_MESSAGES and self.wire.taken < MAX_BYTES
        require(bearable, f"it keeps sending after {len(self.transcript)} {noun}")
        self.transcript.append(message)
