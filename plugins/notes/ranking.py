"""Which notes fit a query best: BM25 over their words, and a little more for the new ones."""

import collections
import math
import re
import unicodedata

SATURATION = 1.2
"""How soon a word that comes again and again counts no more."""
LENGTH = 0.75
"""How much a long text must say more often what a short one says once; from 0 to 1."""
FRESH = 0.25
"""What a note of this moment is worth more than a very old one that says the same: a quarter."""
HALF_LIFE = 30 * 24 * 3600.0
"""Seconds after which half of that is gone."""


def words(text):
    """Its words as they are compared: case, ligatures and widths make no difference."""
    return re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())


def freshness(age):
    """From 1 + FRESH now down to 1; a clock that was set back makes nothing better than new."""
    return 1 + FRESH * 0.5 ** (max(age, 0.0) / HALF_LIFE)


def ranked(query, notes, now):
    """The notes that share a word with the query, the best first: (score, key).

    `notes` are (key, text, time). A query without words fits every note. Equal scores: the newer first, then
    by key, so that the same notes always come in the same order.
    """
    wanted = set(words(query))
    counted = [(key, collections.Counter(words(text)), time) for key, text, time in notes]
    lengths = {key: counts.total() for key, counts, _ in counted}
    usual = (sum(lengths.values()) / len(lengths) if lengths else 0) or 1
    rarity = _rarity(wanted, [counts for _, counts, _ in counted])
    found = []
    for key, counts, time in counted:
        shared = sorted(wanted & counts.keys())
        if shared or not wanted:
            stretch = SATURATION * (1 - LENGTH + LENGTH * lengths[key] / usual)
            fits = math.fsum(
                rarity[word] * counts[word] * (SATURATION + 1) / (counts[word] + stretch) for word in shared
            )
            found.append(((fits if wanted else 1) * freshness(now - time), key, time))
    found.sort(key=lambda one: (-one[0], -one[2], one[1]))
    return [(score, key) for score, key, _ in found]


def _rarity(wanted, every):
    """What a word tells: the fewer notes have it, the more; never nothing."""
    holders = {word: sum(word in counts for counts in every) for word in wanted}
    return {word: math.log(1 + (len(every) - n + 0.5) / (n + 0.5)) for word, n in holders.items()}
