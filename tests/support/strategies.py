"""Bytes in every split."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import strategies as st

from plughost.wire.framing import Frames, Framing


@st.composite
def splits(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """`data` cut anywhere, empty pieces left out."""
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    edges = [0, *cuts, len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges) if a < b]


def fed(framing: Framing, pieces: Sequence[bytes]) -> Frames:
    frames: Frames = []
    for piece in pieces:
        frames += framing.feed(piece)
    return frames + framing.end()
