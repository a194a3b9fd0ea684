"""Secrets that come back in what a plugin says are not shown."""

import base64
import html
import json
import re
import struct
import textwrap
from html.entities import html5
from itertools import pairwise
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plughost
from plughost._util.redaction.json_pieces import pieces as pieces_of
from plughost._util.redaction.redactor import Redactor
from plughost._util.redaction.secret_set import HIDDEN
from plughost.contracts.vai import frames
from plughost.contracts.vai.errors import InvalidFrame
from plughost.events import Dropped, Logged
from tests.support import until

SECRET = 'p4ss"word\\ ü/?'
GIVEN = [SECRET, "tok%41en&<b>-\U0001f600", "aXaXa", "two words+more", "n0t"]
NAMES = {each: f"&{name}" for name, each in html5.items() if name[-1] == ";" and len(each) == 1}
SPELLINGS = {
    "quote": quote,
    "quote_plus": quote_plus,
    "encodeURIComponent": lambda secret: quote(secret, safe="!'()*~"),
    "encodeURI": lambda secret: quote(secret, safe="!'()*~;,/?:@&=+$#"),
    "lower-case URL": lambda secret: re.sub("%..", lambda found: found[0].lower(), quote(secret, safe="")),
    "JSON": json.dumps,
    "JSON, UTF-8": lambda secret: json.dumps(secret, ensure_ascii=False),
    "JSON, slashes": lambda secret: json.dumps(secret).replace("/", "\\/"),
    "JSON, Go": lambda secret: re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", json.dumps(secret)),
    "JSON, all escaped": lambda secret: "".join(
        f"\\u{each:04X}"
        for each in struct.unpack(f">{len(secret.encode('utf-16-be')) // 2}H", secret.encode("utf-16-be"))
    ),
    "HTML": html.escape,
    "HTML, numbers": lambda secret: "".join(f"&#{ord(each)};" for each in secret),
    "HTML, names": lambda secret: "".join(NAMES.get(each, each) for each in secret),
    "JavaScript": lambda secret: "".join(f"\\u{{{ord(each):x}}}" for each in secret),
    "hex, mixed": lambda secret: "".join(
        each.upper() if number % 3 else each for number, each in enumerate(secret.encode().hex())
    ),
    "repr": lambda secret: ascii(secret)[1:-1],
    "repr of bytes": lambda secret: repr(secret.encode())[2:-1],
    "Basic, user": lambda secret: "Basic " + base64.b64encode(f"user:{secret}".encode()).decode(),
    "Basic, me": lambda secret: "Basic " + base64.b64encode(f"me:{secret}".encode()).decode(),
    "Basic, joe": lambda secret: "Basic " + base64.b64encode(f"joe:{secret}".encode()).decode(),
    "base64, URL": lambda secret: base64.urlsafe_b64encode(f"joe:{secret}!".encode()).decode().rstrip("="),
    "hex": lambda secret: secret.encode().hex(),
    "HEX": lambda secret: secret.encode().hex().upper(),
}
SPELLINGS |= {
    "shell": lambda secret: re.sub(r"([^\w@%+=:,./-])", r"\\\1", secret),
    "octal": lambda secret: "".join(
        each if each.isascii() and each.isprintable() and each != "\\" else "".join(f"\\{b:03o}" for b in each.encode())
        for each in secret
    ),
}  # fmt: skip
CODED = {name for name in SPELLINGS if name.startswith(("Basic", "base64", "hex", "HEX"))}
BYTEWISE = {"repr of bytes", "octal"}
"""Around another escape, some letters that are not ASCII would be spelled as bytes and others as letters."""
texts = st.text(min_size=4).filter(lambda text: text.strip() and "*" not in text)


@given(texts, st.text(), st.text())
def test_a_secret_is_hidden_wherever_it_stands(secret: str, before: str, after: str) -> None:
    hidden = Redactor()
    hidden.add([secret])
    assert secret not in hidden.redact(before + secret + after).replace(HIDDEN, "")
    assert hidden.redact_json({"a": [before, {secret: 1}]}) != {"a": [before, {secret: 1}]}


@pytest.mark.parametrize(
    "spelled",
    [
        lambda secret: secret,
        json.dumps,
        lambda secret: json.dumps(secret, ensure_ascii=False),
        lambda secret: base64.b64encode(secret.encode()).decode(),
        lambda secret: "https://example.test/?key=" + quote(secret, safe=""),
        *SPELLINGS.values(),
    ],
)
@pytest.mark.parametrize("secret", [SECRET, "tok%41en&<b>-\U0001f600", "two words+more", "plain-s3cret"])
def test_in_the_spellings_that_programs_use(spelled, secret) -> None:
    hidden = Redactor()
    hidden.add([secret])
    shown = hidden.redact(f"failed: {spelled(secret)} !").removeprefix("failed: ")
    assert HIDDEN in shown
    assert len(shown.removeprefix("https://example.test/?key=")) <= len(f"Basic dXNlcjp{HIDDEN}A== !"), shown


@given(st.sampled_from(list(SPELLINGS)), texts, st.sampled_from(list(SPELLINGS)))
def test_any_secret_is_hidden_in_any_of_them_and_in_one_within_another(spelled, secret, again) -> None:
    hidden = Redactor()
    hidden.add([secret])
    if len(secret.encode()) >= 6:
        assert HIDDEN in hidden.redact(SPELLINGS[spelled](secret))
    if not {spelled, again} & CODED and (again not in BYTEWISE or secret.isascii()):
        assert HIDDEN in hidden.redact(SPELLINGS[again](SPELLINGS[spelled](secret)))


pieces = st.one_of(
    st.builds(
        lambda name, secret: SPELLINGS[name](secret), st.sampled_from(list(SPELLINGS)), st.sampled_from(GIVEN)
    ),
    st.text(alphabet="aX%&\\u0041;\"'amp\U0001f600 \nn0t_", max_size=6),
    st.sampled_from(GIVEN).flatmap(
        lambda secret: st.builds(lambda at: secret[:at], st.integers(0, len(secret)))
    ),
)


@given(st.lists(pieces, max_size=12).map("".join), st.data())
@settings(max_examples=300)
def test_wherever_a_text_is_cut_the_same_is_hidden_as_in_the_whole(text: str, data: st.DataObject) -> None:
    hidden = Redactor()
    hidden.add(GIVEN)
    hidden.add_pattern("t_[a-z]+")
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=12).map(sorted))
    slices = hidden.slices()
    shown = [slices.feed(text[a:b], final=b == len(text)) for a, b in pairwise([0, *cuts, len(text)])]
    if cuts and cuts[-1] == len(text):
        shown = shown[: 1 + cuts.index(len(text))]
    assert "".join(shown) == hidden.redact(text)


@given(
    st.recursive(
        st.one_of(pieces, st.integers(4700, 4720), st.sampled_from([4711.0, -4711, 14711, 0.4711, 1e300])),
        lambda inner: st.lists(inner) | st.dictionaries(pieces, inner),
    )
)
async def test_the_same_is_hidden_in_a_document_as_in_its_value(value) -> None:
    hidden = Redactor()
    hidden.add([*GIVEN, "4711"])
    written = msgspec.json.encode(value)
    assert msgspec.json.decode(
        await hidden.redact_encoded_json(written, pieces_of(written))
    ) == hidden.redact_json(value)


@pytest.mark.parametrize("name", [*SPELLINGS])
@pytest.mark.parametrize("secret", GIVEN[:2])
def test_no_part_of_a_spelled_secret_is_left_where_a_text_was_cut(name: str, secret: str) -> None:
    hidden = Redactor()
    hidden.add([secret])
    spelled = SPELLINGS[name](secret)
    for at in range(1, len(spelled)):
        head, tail = (
            hidden.redact_fragment(f"it is {spelled[:at]}"),
            hidden.redact_fragment(f"{spelled[at:]} it is"),
        )
        # Of an escape that was cut in two, or of what stands before a secret in base64, something may be left.
        assert len(head) <= len("it is Basic dXNlcjp" + 2 * HIDDEN)
        assert len(tail) <= len(f"asic dXNlcjp{HIDDEN}A== it is")


def test_long_secrets_take_no_longer_text_than_short_ones() -> None:
    hidden = Redactor()
    key = "".join(chr(33 + number * 7 % 90) for number in range(10_000))
    hidden.add([key])
    assert hidden.longest <= 256
    assert hidden.redact(f"<{key}>").replace(HIDDEN, "") == "<>"
    assert hidden.redact(f"<{base64.b64encode(b'u:' + key.encode()).decode()}>").replace(HIDDEN, "") in (
        "<dTo>",
        "<dTo=>",
        "<dT>",
    )


def test_a_secret_that_is_not_ascii_is_hidden_in_the_repr_of_bytes() -> None:
    hidden = Redactor()
    hidden.add(["schlüssel-ñ"])
    said = repr({"password": "schlüssel-ñ".encode()})
    assert "\\xc3" in said
    assert hidden.redact(said) == f"{{'password': b'{HIDDEN}'}}"
    assert hidden.redact(json.dumps(said)) == f"\"{{'password': b'{HIDDEN}'}}\""


def test_the_lines_of_a_key_are_hidden_each_and_short_ones_are_words() -> None:
    hidden = Redactor()
    hidden.add(["-----BEGIN KEY-----\nMIIabcdef\nab\n-----END KEY-----"])
    assert hidden.redact("line 2 is MIIabcdef") == f"line 2 is {HIDDEN}"
    assert hidden.redact("absolutely") == "absolutely"
    assert "MII" not in repr(hidden)


def test_of_secrets_that_overlap_nothing_is_shown() -> None:
    hidden = Redactor()
    hidden.add(["left-middle", "middle-right", "mid"])
    assert hidden.redact("a left-middle-right b") == f"a {HIDDEN} b"
    assert hidden.redact("left-middlemiddle-right") == HIDDEN + HIDDEN


def test_a_short_secret_is_hidden_where_it_stands_alone() -> None:
    hidden = Redactor()
    hidden.add(["n0", ".*", "x", ""])
    assert hidden.redact_json({"pin": "n0", "n0": "pin=n0;"}) == {"pin": HIDDEN, HIDDEN: f"pin={HIDDEN};"}
    assert hidden.redact("n0pe, anything, and an x") == "n0pe, anything, and an x"


def test_a_number_that_is_a_secret_is_hidden() -> None:
    hidden = Redactor()
    hidden.add(["4711", "12"])
    assert hidden.redact_json({"pin": 4711, "count": 12, "yes": True}) == {
        "pin": HIDDEN,
        "count": 12,
        "yes": True,
    }


@pytest.mark.parametrize("number", [9876543210.0, 9876543210.5, -9876543210, 19876543210, 0.9876543210123])
async def test_a_number_whose_digits_hold_a_secret_is_hidden(number: float) -> None:
    hidden = Redactor()
    hidden.add(["9876543210"])
    written = msgspec.json.encode({"n": [number, 12.5]})
    assert hidden.redact_json({"n": [number, 12.5]}) == {"n": [HIDDEN, 12.5]}
    assert msgspec.json.decode(await hidden.redact_encoded_json(written, pieces_of(written))) == {
        "n": [HIDDEN, 12.5]
    }


def test_what_has_a_shape_needs_not_be_learned_one_by_one() -> None:
    hidden = Redactor()
    for _ in range(3):
        hidden.add_pattern("tok_[a-z]+")
    assert hidden.redact("tok_a and tok_b") == f"{HIDDEN} and {HIDDEN}"
    assert repr(hidden) == "<Redactor: 1 texts>"


async def test_neither_stderr_nor_errors_nor_events_show_it(host, tmp_path) -> None:
    program = tmp_path / "leaky.py"
    program.write_text(
        textwrap.dedent(
            f"""
            import sys
            secret = {SECRET!r}
            for line in sys.stdin:
                sys.stderr.write("using " + secret + "\\n")
                sys.stderr.flush()
                sys.stdout.write("not json: " + secret + "\\n")
                sys.stdout.flush()
                break
            sys.exit(3)
            """
        )
    )
    spec = plughost.PluginSpec(contract="mcptest", name="leaky", command=["python3", str(program)])
    plugin = await host.add(spec)
    plugin.redactor.add([SECRET])
    seen = []
    with host.events() as events:
        with pytest.raises(plughost.PluginError) as failure:
            await plugin.call("x")
        await until(lambda: host.service("logs").recent("leaky"))
        while (event := events.take()) is not None:
            seen.append(event)
    told = [failure.value.explain(), repr(failure.value), *map(repr, seen)]
    told += [line.message for line in host.service("logs").recent("leaky")]
    assert any(f"using {HIDDEN}" in each for each in told)
    assert not any("p4ss" in each for each in told)
    assert any(isinstance(event, Dropped | Logged) for event in seen)


@pytest.mark.parametrize("type", ["hello", "x" * 150 + "the-secret-of-somebody"])
def test_a_message_tells_what_a_plugin_said_whole_or_not_at_all(type: str) -> None:
    hidden = Redactor()
    hidden.add(["the-secret-of-somebody"])
    with pytest.raises(InvalidFrame) as failure:
        frames.read(json.dumps({"protocol": type * 2, "type": "event"}).encode())
    shown = hidden.redact(failure.value.message)
    assert "the-s" not in shown
    assert "hellohello" in shown or "something of 346 characters" in shown
