"""How many invocations of one binding run at a time; the others wait for their turn, first come first."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence


class Gate:
    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def enter_now(self) -> bool:
        """Whether there is room, which is taken then."""
        if self._free <= 0 or self._waiting:
            return False
        self._free -= 1
        return True

    async def enter(self) -> None:
        if self.enter_now():
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.leave()  # it was our turn just then: the next one has it
            elif turn in self._waiting:  # whoever left just now may have passed over it
                self._waiting.remove(turn)
            raise

    def leave(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


def enter_now(gates: Sequence[Gate]) -> bool:
    """Whether there is room behind all of them, which is taken then."""
    for number, gate in enumerate(gates):
        if not gate.enter_now():
            leave(gates[:number])
            return False
    return True


async def enter(gates: Sequence[Gate]) -> None:
    """Through one after the other."""
    entered = 0
    try:
        for gate in gates:
            await gate.enter()
            entered += 1
    except BaseException:
        leave(gates[:entered])
        raise


def leave(gates: Sequence[Gate]) -> None:
    for gate in gates:
        gate.leave()
