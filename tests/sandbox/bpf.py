"""Classic BPF as seccomp runs it, and the policy read the slow and obvious way: two opinions to compare."""

from __future__ import annotations

import errno
import struct
from collections.abc import Sequence
from typing import Any

ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000


def run(
    program: Sequence[tuple[int, int, int, int]], number: int, architecture: int, args: Sequence[int]
) -> int:
    """The answer of a program of (code, value, if_so, if_not) to one system call."""
    data = struct.pack("<IIQ6Q", number, architecture, 0, *args)
    accumulator = at = 0
    while True:
        code, value, if_so, if_not = program[at]
        at += 1
        match code:
            case 0x20:  # load a word
                (accumulator,) = struct.unpack_from("<I", data, value)
            case 0x54:  # and
                accumulator &= value
            case 0x15:  # equal
                at += if_so if accumulator == value else if_not
            case 0x35:  # at least
                at += if_so if accumulator >= value else if_not
            case 0x05:  # always
                at += value
            case 0x06:
                return value
            case _:
                raise ValueError(f"no such instruction: {code:#x}")


def verdict(policy: dict[str, Any], call: str | None, args: Sequence[int], cases: Sequence[str] = ()) -> int:
    """What policy.toml says about a call by name; None for one it does not name."""
    if any(call in group["calls"] for group in policy["allow"]):
        return ALLOW
    for group in policy["refuse"]:
        if call in group["calls"]:
            return ERRNO | getattr(errno, group["answer"])
    for check in policy["check"]:
        if call in check["calls"]:
            given = [check[case] for case in cases if case in check]
            rows = [] if [] in given else (given or [check["rows"]])[0]
            if any(all(holds(text, policy["names"], args) for text in row) for row in rows):
                return ALLOW
            return ERRNO | getattr(errno, check["otherwise"])
    return ERRNO | getattr(errno, policy["default"])


def holds(text: str, names: dict[str, int], args: Sequence[int]) -> bool:
    words = [str(names.get(word, word)) for word in text.split()]
    if words[0] == "high":
        value = args[int(words[1])] // 2**32
        words = words[2:]
    else:
        value = args[int(words.pop(0))] % 2**32
    if words[0] == "&":
        value &= int(words[1], 0)
        words = words[2:]
    if words[0] == "not":
        return str(value) not in words[2:]
    return str(value) in words[1:]
