"""What takes part in a comparison: something that carries a payload to a child process and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import Any

from benchmarks import payload, timing


class Contender(ABC):
    """Opened once, then measured round by round in turn with all others."""

    name: str
    pipelines = True
    """Whether more than one call can be in flight."""

    @abstractmethod
    async def open(self) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def check(self, size: int) -> None:
        """One call; what comes back is what was sent."""

    @abstractmethod
    async def one_at_a_time(self, size: int, seconds: float) -> list[float]:
        """The seconds that each call took."""

    @abstractmethod
    async def in_flight(self, size: int, width: int, seconds: float) -> float:
        """Calls per second."""


class Caller(Contender):
    """One that has a call to await, which gives the decoded result."""

    @abstractmethod
    def call(self, params: Any, method: str = "echo") -> Awaitable[Any]: ...

    def text(self, answer: Any) -> str:
        """The text that came back."""
        text: str = answer["text"]
        return text

    async def check(self, size: int) -> None:
        params = payload.params(size)
        assert self.text(await self.call(params)) == params["text"]

    async def one_at_a_time(self, size: int, seconds: float) -> list[float]:
        params = payload.params(size)
        await self.check(size)
        return await timing.one_at_a_time(lambda: self.call(params), seconds)

    async def in_flight(self, size: int, width: int, seconds: float) -> float:
        params = payload.params(size)
        return await timing.in_flight(lambda: self.call(params), width, seconds)
