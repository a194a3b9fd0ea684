"""The ledger against a plain dictionary: late, doubled and unknown answers are told apart."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from plughost.wire.ledger import FOREVER, Ledger, expire, next_deadline


@dataclass(eq=False)
class Entry:
    deadline: float


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ledger: Ledger[Entry] = Ledger()
        self.model: dict[int, Entry] = {}
        self.minted: list[int] = []
        self.now = 0.0

    @rule(wait=st.floats(0.1, 100) | st.just(FOREVER))
    def send(self, wait: float) -> None:
        number = self.ledger.mint()
        assert number not in self.minted
        self.minted.append(number)
        self.model[number] = Entry(self.now + wait)
        self.ledger[number] = self.model[number]

    @rule(number=st.integers(-2, 60))
    def answer(self, number: int) -> None:
        assert self.ledger.pop(number, None) is self.model.pop(number, None)
        assert self.ledger.pop(number, None) is None
        assert self.ledger.was_minted(number) == (number in self.minted)

    @rule(seconds=st.floats(0, 50))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        late = expire(self.ledger, self.now)
        assert late == [e for e in self.model.values() if e.deadline <= self.now]
        self.model = {n: e for n, e in self.model.items() if e not in late}

    @precondition(lambda self: self.model)
    @rule()
    def close(self) -> None:
        assert self.ledger.close() == list(self.model.values())
        self.model.clear()

    @invariant()
    def agrees(self) -> None:
        assert len(self.ledger) == len(self.model)
        assert list(self.ledger.values()) == list(self.model.values())
        assert self.ledger.oldest() is next(iter(self.model.values()), None)
        assert next_deadline(self.ledger) == min((e.deadline for e in self.model.values()), default=FOREVER)


TestLedger = LedgerMachine.TestCase
