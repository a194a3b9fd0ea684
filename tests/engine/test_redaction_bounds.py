"""To hide secrets takes a bounded time, whatever the text is and however many secrets there are."""

import random
import time
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plughost._util.redaction.redactor import AT_ONCE, HEAD, Redactor
from plughost._util.redaction.secret_set import HIDDEN, MOST_SECRETS
from plughost._util.redaction.text_set import FEW, Span, TextSet
from plughost.testing.redaction import TrafficRedactor
from tests.support.cpu_time import within_cpu_seconds

SECRET = "s3cret-of-thirty-four-characters-x"
COSTLY = "%252526&amp;"


def knowing(*secrets: str) -> Redactor:
    hidden = Redactor()
    hidden.add(secrets)
    return hidden


@pytest.mark.parametrize("at", range(HEAD - len(SECRET), HEAD + 1))
def test_of_a_very_long_text_the_beginning_is_shown_without_a_part_of_a_secret(at: int) -> None:
    shown = knowing(SECRET).redact("q" * at + SECRET + "q" * AT_ONCE)
    assert shown.startswith("q" * (HEAD - len(SECRET)))
    assert "s3" not in shown
    assert shown.endswith(f"({at + len(SECRET) + AT_ONCE} characters in all)")


@pytest.mark.parametrize("way", ["redact", "redact_fragment"])
def test_a_costly_text_takes_no_longer_than_its_beginning(way: str) -> None:
    hide = getattr(knowing(SECRET), way)
    within_cpu_seconds(1, lambda: hide(COSTLY * 1_000_000))  # whole, it takes 7


def test_of_a_value_only_so_much_is_looked_at_and_the_rest_hidden() -> None:
    shown = within_cpu_seconds(2, lambda: knowing(SECRET).redact_json([COSTLY * 1000] * 1000))
    assert shown[0] == COSTLY * 1000
    assert shown[-1] == HIDDEN
    small = ["x" * 100] * (AT_ONCE // 103)
    assert knowing(SECRET).redact_json(small) == small


async def test_all_of_a_large_value_or_text_is_looked_at_where_there_is_time() -> None:
    said = {"a": ["x" * 100_000 + SECRET, *[SECRET, 1.5] * 20_000]}
    shown = {"a": ["x" * 100_000 + HIDDEN, *[HIDDEN, 1.5] * 20_000]}
    assert await knowing(SECRET).redact_json_async(said) == shown
    assert await Redactor().redact_json_async(said) is said
    assert knowing(SECRET).redact_unbounded("x" * 100_000 + SECRET) == "x" * 100_000 + HIDDEN


@given(st.integers(0, 1 << 32), st.text("abAB", max_size=40))
def test_many_texts_are_found_where_few_are(seed: int, said: str) -> None:
    chance = random.Random(seed)
    texts = {"".join(chance.choices("abAB", k=chance.randint(4, 9))) for _ in range(2 * FEW)}
    many, found = TextSet(), set[int]()
    many.add(texts)
    assert len(many) > FEW
    for text in texts:
        one = TextSet()
        one.add([text])
        its = {start for start in range(len(said)) if said.startswith(text, start)}
        covered = {at for start in its for at in range(start, start + len(text))}
        assert _covered(one.spans(said)) == covered
        found |= covered
    assert _covered(many.spans(said)) == found
    assert many.is_in(said) == bool(found)
    ends = [size for size in range(len(said) + 1) if any(text.endswith(said[:size]) for text in texts)]
    begins = [
        size
        for size in range(len(said) + 1)
        if any(text.startswith(said[len(said) - size :]) for text in texts)
    ]
    assert (many.ends_in(said), many.begins_in(said)) == (max(ends), max(begins))


def test_thousands_of_secrets_are_learned_and_hidden_in_seconds() -> None:
    frames = [msgspec.json.encode({"token": f"token-{n:06}", "said": f"<token-{n:06}>"}) for n in range(6000)]
    began = time.thread_time()
    redactor = TrafficRedactor(["token"])
    for frame in frames:
        redactor.learn(frame)
    assert {redactor.clean(frame) for frame in frames} == {b'{"token":"***","said":"<***>"}'}
    assert (
        knowing(*(f"token-{n:06}" for n in range(6000))).redact_fragment("it is token-00")
        == f"it is {HIDDEN}"
    )
    assert time.thread_time() - began < 15  # one by one it takes 50


async def test_where_there_are_too_many_secrets_every_text_is_hidden() -> None:
    hidden = knowing(*(f"{n:06}" for n in range(MOST_SECRETS + 1)))
    assert hidden.redact_json({"a": ["words", 1]}) == {HIDDEN: [HIDDEN, HIDDEN]}
    assert await hidden.redact_json_async({"a": ["words", 1]}) == {HIDDEN: [HIDDEN, HIDDEN]}
    assert (
        hidden.redact("words"),
        hidden.redact_fragment("words"),
        hidden.redact_unbounded("words" * 9999),
    ) == (HIDDEN,) * 3


def _covered(spans: Iterable[Span]) -> set[int]:
    return {at for start, stop in spans for at in range(start, stop)}


INDENTED = "\n".join("    " + "x" * number for number in range(200))
"""As a key file in JSON or YAML is: many lines that begin the same."""


@pytest.mark.parametrize(
    ("secrets", "said"),
    [
        ([INDENTED], " "),
        ([INDENTED], "\\x20"),
        ([INDENTED], "    xxxxxxxy"),
        (["aaaa"], "a"),
        (["aaaa"], "%61"),
        (["aaaa"], "%2561"),
        (["abab" * 5000], "ab"),
        (["a" * 20_000], "a"),
        (["a" * size for size in range(4, 24)], "a"),
        (["a" * size for size in range(4, 250)], "a"),
        (["a" * size + "b" for size in range(4, 250)], "a"),
        (["\0\0\0\0", "0000"], "0"),
    ],
)
@pytest.mark.serial
@pytest.mark.parametrize("way", ["redact", "redact_fragment", "redact_json"])
def test_no_secrets_and_no_text_take_long_together(way: str, secrets: list[str], said: str) -> None:
    """CPU time, far above what is wanted, some 50 ms, for a busy machine."""
    hidden = knowing(*secrets)
    said = said * (AT_ONCE // len(said))
    within_cpu_seconds(0.3, lambda: getattr(hidden, way)(said))


def test_what_takes_too_many_steps_to_look_through_is_hidden_whole() -> None:
    hidden = knowing(*("a" * size + "b" for size in range(4, 250)))
    assert hidden.redact("a" * AT_ONCE) == HIDDEN
    assert hidden.redact("a" * 100 + "q") == "a" * 100 + "q"


def test_lines_of_a_secret_are_known_without_their_indentation() -> None:
    hidden = knowing('{\n    "id": "acme",\n    "key": "0123456789"\n    }\n')
    shown = hidden.redact('{\n    "name": "x",\n    "k": ["key": "0123456789"]\n    }')
    assert shown == f'{{\n    "name": "x",\n    "k": [{HIDDEN}]\n    }}'
