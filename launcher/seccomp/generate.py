"""Compiles policy.toml into the seccomp filters that plughost-inner installs: `generate.py [TARGET]`.

A filter is a classic BPF program over `struct seccomp_data`. It checks the architecture, then finds the
system call by binary search over runs of numbers with one answer, and ends in that answer. Every piece of
code here is a list of instructions that ends in answers and jumps only forwards, inside itself.
"""

from __future__ import annotations

import errno
import itertools
import sys
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
LOAD, AND, EQUAL, AT_LEAST, JUMP, ANSWER = 0x20, 0x54, 0x15, 0x35, 0x05, 0x06
CASES = ("offline", "uncounted", "lockless")
"""Without a network namespace; without a control group that counts memory; without locks, watches and
times of files. A check that has rows for two of them has the same for both, or none for one, which counts."""
FILTERS = {
    "_".join(["filter", *cases]) if cases else "filter_usual": cases
    for count in range(len(CASES) + 1)
    for cases in itertools.combinations(CASES, count)
}
LONGEST_JUMP = 255
MOST_INSTRUCTIONS = 4096


class Instruction(NamedTuple):
    code: int
    value: int
    if_so: int = 0
    if_not: int = 0


Code = tuple[Instruction, ...]


def answer(word: str) -> Code:
    return (Instruction(ANSWER, ERRNO | getattr(errno, word)),)


ALLOWED: Code = (Instruction(ANSWER, ALLOW),)


class Condition(NamedTuple):
    """`[high] ARGUMENT [& MASK] [not] in VALUE...`"""

    place: int
    """Where the half of the argument is, in the data of the call."""
    mask: int
    wanted: bool
    values: tuple[int, ...]

    @classmethod
    def read(cls, text: str, names: dict[str, int]) -> Condition:
        left, values = text.split(" in ")
        wanted = not left.endswith(" not")
        half, _, mask = left.removesuffix(" not").partition(" & ")
        argument = int(half.removeprefix("high "))
        # Little-endian: the low half is first.
        place = ARGUMENTS_AT + 8 * argument + (4 if half.startswith("high ") else 0)
        numbers = tuple(names[word] if word in names else int(word, 0) for word in values.split())
        return cls(place, names[mask] if mask else 0xFFFFFFFF, wanted, numbers)

    def before(self, then: Code) -> Code:
        """`then` when it holds; past it when not."""
        code = [Instruction(LOAD, self.place)]
        if self.mask != 0xFFFFFFFF:
            code.append(Instruction(AND, self.mask))
        for left, value in zip(reversed(range(len(self.values))), self.values, strict=True):
            if not self.wanted:
                code.append(Instruction(EQUAL, value, if_so=left + len(then)))
            elif left:
                code.append(Instruction(EQUAL, value, if_so=left))
            else:
                code.append(Instruction(EQUAL, value, if_not=len(then)))
        return (*code, *then)


def check(rows: list[list[str]], otherwise: str, names: dict[str, int]) -> Code:
    if [] in rows:
        return ALLOWED
    code = answer(otherwise)
    for row in reversed(rows):
        block = ALLOWED
        for text in reversed(row):
            block = Condition.read(text, names).before(block)
        code = block + code
    return code


def decisions(policy: dict[str, Any], architecture: str, cases: Collection[str]) -> dict[int, Code]:
    """System call number to the code that answers it. `cases` are those of CASES that hold."""
    numbers = tomllib.loads((HERE / "numbers.toml").read_text())
    named = [(call, ALLOWED) for group in policy["allow"] for call in group["calls"]]
    named += [(call, answer(group["answer"])) for group in policy["refuse"] for call in group["calls"]]
    for item in policy["check"]:
        rows = min(
            (item[case] for case in CASES if case in cases and case in item), key=bool, default=item["rows"]
        )
        code = check(rows, item["otherwise"], policy["names"])
        named += [(call, code) for call in item["calls"]]
    if len(named) != len(dict(named)) or dict(named).keys() != numbers.keys():
        raise ValueError("policy.toml and numbers.toml must name the same calls, each once")
    column = list(AUDIT).index(architecture)
    return {numbers[call][column]: code for call, code in named if numbers[call][column] >= 0}


def runs(by_number: dict[int, Code], default: Code) -> list[tuple[int, Code]]:
    """Where each stretch of numbers with one answer begins."""
    found: list[tuple[int, Code]] = []
    for number in range(max(by_number) + 2):
        code = by_number.get(number, default)
        if not found or found[-1][1] != code:
            found.append((number, code))
    return found


def search(stretches: list[tuple[int, Code]]) -> Code:
    if len(stretches) == 1:
        return stretches[0][1]
    middle = len(stretches) // 2
    below, above = search(stretches[:middle]), search(stretches[middle:])
    pivot = stretches[middle][0]
    if len(below) <= LONGEST_JUMP:
        return (Instruction(AT_LEAST, pivot, if_so=len(below)), *below, *above)
    return (Instruction(AT_LEAST, pivot, if_not=1), Instruction(JUMP, len(below)), *below, *above)


def program(policy: dict[str, Any], architecture: str, cases: Collection[str] = ()) -> Code:
    code = (
        Instruction(LOAD, ARCHITECTURE_AT),
        Instruction(EQUAL, AUDIT[architecture], if_so=1),
        Instruction(ANSWER, KILL),
        Instruction(LOAD, NUMBER_AT),
        *search(runs(decisions(policy, architecture, cases), answer(policy["default"]))),
    )
    if len(code) > MOST_INSTRUCTIONS:
        raise ValueError(f"{len(code)} instructions are more than the kernel takes")
    return code


def read_policy() -> dict[str, Any]:
    return tomllib.loads((HERE / "policy.toml").read_text())


def as_c(name: str, code: Code) -> str:
    rows = ",\n".join(f"    {{{i.code:#x}, {i.if_so}, {i.if_not}, {i.value:#x}}}" for i in code)
    return (
        f"static const struct sock_filter {name}_code[] = {{\n{rows}}};\n"
        f"static const struct filter {name} = {{{len(code)}, {name}_code}};\n"
    )


def header() -> str:
    policy = read_policy()
    parts = [
        "/* Made by generate.py from policy.toml; change those. */",
        "#include <linux/filter.h>\n",
        "struct filter {\n    unsigned short length;\n    const struct sock_filter *code;\n};\n",
    ]
    for place, architecture in enumerate(AUDIT):
        parts.append(f"#{'elif' if place else 'if'} defined(__{architecture}__)")
        parts += [as_c(name, program(policy, architecture, cases)) for name, cases in FILTERS.items()]
    parts.append("#else")
    parts += [f"static const struct filter {name} = {{0, 0}};" for name in FILTERS]
    parts.append("#endif\n")
    return "\n".join(parts)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "filters.h"
    target.write_text(header())
