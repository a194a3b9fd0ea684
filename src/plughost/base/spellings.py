"""The forms of a secret that are looked for in a text once its escapes are undone: plain, base64 and hex."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from plughost.base.unescape import TRIGGER, unescaped

SHORTEST = 4
"""A shorter text is found in the middle of words, so it is hidden only where it stands alone."""
SHORTEST_BASE64 = 6
"""Characters of base64 from the middle of something: fewer are in any picture by chance."""
PIECE = 128
"""A longer form is looked for piece by piece, so that the longest of a text that is cut is short."""
PASSES = 3
"""How often escapes are undone: JSON in JSON in JSON."""


def forms(secret: str) -> Iterator[str]:
    """All but hex. A secret of several lines is also told line by line, where one is long enough without its
    indentation, which many lines may have in common."""
    lines = map(str.strip, secret.splitlines())
    for part in {secret, secret.strip(), *(line for line in lines if len(line) >= SHORTEST)}:
        yield from _plain(part)
    data = secret.encode(errors="surrogatepass")
    if not secret.isascii():  # each byte as a character, as in the repr of bytes
        yield from _plain(data.decode("latin-1"))
    for each in {data, data.strip()}:
        yield from _encoded(each)


def hex_forms(secret: str) -> Iterator[str]:
    """In lower case: they are looked for in a text whose hex digits are, see `lower_hex`."""
    data = secret.encode(errors="surrogatepass")
    for each in {data, data.strip()}:
        if len(each) >= SHORTEST:
            yield from pieces(each.hex())


def lower_hex(text: str) -> str:
    """The same text, as long as it was, with all hex digits in lower case."""
    for digit in "ABCDEF":
        text = text.replace(digit, digit.lower())
    return text


def _plain(part: str) -> Iterator[str]:
    """As it is, and as it is after each pass: what looks like an escape in a secret is undone there, too."""
    for _ in range(PASSES + 1):
        yield from pieces(part)
        if " " in part:
            yield from pieces(part.replace(" ", "+"))  # in a form that was sent
        if not TRIGGER.search(part):
            return
        part = unescaped(part)


def _encoded(data: bytes) -> Iterator[str]:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield from pieces(encode(data).decode().rstrip("="))
        for before in range(3):
            # The characters that are the same whatever stands before and after the secret.
            first, last = -(-8 * before // 6), 8 * (before + len(data)) // 6
            if last - first >= SHORTEST_BASE64:
                yield from pieces(encode(bytes(before) + data).decode()[first:last])


def pieces(form: str) -> Iterator[str]:
    """A long form in several, of which none is short."""
    while len(form) > 2 * PIECE:
        yield form[:PIECE]
        form = form[PIECE:]
    yield form
