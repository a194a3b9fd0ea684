"""How many tokens a text is at most, and at least, whatever the model's tokenizer.

`bytes`: one token per byte of UTF-8. No tokenizer that reads bytes makes more of it.

`classes`: closer, and never under for tokenizers that merge pairs of bytes (BPE) and know these pairs as
tokens: two of the 22 common letters of one case, two spaces, two newlines. A run of n such letters is then at
most (2n + 1) // 3 tokens, because two single letters side by side would have been merged. Words may be cut
before a capital that small letters follow, which is why that one is in no run, and before the last of several
spaces, so that n of them are at most n // 2 + 1. Everything else counts by the byte: digits, punctuation, j,
q, x, z, and whatever is not ASCII. So English prose comes to two or three times the tokens that it is.

`least` counts words: a tokenizer that does not join words across a space makes at least as many tokens. The
truth is between the two, and both are told.
"""

from __future__ import annotations

import json
import re

CLASSES, BYTES = "classes", "bytes"
PER_BLOCK = 8
"""What a model's format puts around one block: its role, its beginning, its end."""
PER_ITEM = 2
_COMMON = "abcdefghiklmnoprstuvwy"
_RUNS = re.compile(rf"[{_COMMON}]+|[{_COMMON.upper()}]+(?![a-z])|  +|\n\n+")
_WORDS = re.compile(r"\S+")
LINEAGE = "lineage"
"""Beside a woven text: where it is from, for whoever reads the chain and not for a model."""
AROUND = ("kind", "content", "id")
"""Members of a block that are counted otherwise."""
LONGEST_ID = 128
"""Characters of an id, which no model sees; what is longer is none."""


class Estimator:
    def __init__(self, name: str = CLASSES) -> None:
        if name not in (CLASSES, BYTES):
            raise ValueError(f"an estimator is {CLASSES} or {BYTES}, not {name!r}")
        self.name = name

    def text(self, text: str) -> int:
        """At most so many tokens."""
        most = len(text.encode(errors="surrogatepass"))
        if self.name == BYTES:
            return most
        for run in _RUNS.finditer(text):
            size = run.end() - run.start()
            most -= size - (size // 2 + 1 if run[0][0] in " \n" else (2 * size + 1) // 3)
        return most

    def block(self, block: dict, *, woven: bool = False) -> int:
        """A block with all that a model may see of it. That is a lineage, too, unless it was woven here."""
        total = PER_BLOCK + self.text(block["kind"])
        if not is_name(block.get("id", "-")):
            total += self.text(canonical(block["id"]))
        plain = {"type", "text", LINEAGE} if woven else {"type", "text"}
        for item in block["content"]:
            is_text = item["type"] == "text" and item.keys() <= plain
            total += PER_ITEM + self.text(item["text"] if is_text else canonical(item))
        more = {name: value for name, value in block.items() if name not in AROUND}
        return total + (self.text(canonical(more)) if more else 0)


def is_name(value: object) -> bool:
    """Whether a block can be called so."""
    return isinstance(value, str) and 0 < len(value) <= LONGEST_ID and value.isprintable()


def least(block: dict) -> int:
    """At least so many tokens."""
    texts = [item["text"] for item in block["content"] if isinstance(item.get("text"), str)]
    return sum(len(_WORDS.findall(text)) for text in texts)


def canonical(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
