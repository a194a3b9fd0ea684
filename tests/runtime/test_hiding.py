"""Secrets that come back in what a plugin says are not shown."""

import base64
import json
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

import plughost
from plughost.base.events import Dropped, Logged
from plughost.base.hiding import HIDDEN, Hidden
from plughost.contracts.vai import framed
from plughost.contracts.vai.errors import InvalidFrame
from tests.support import until

SECRET = 'p4ss"word\\ ü/?'
texts = st.text(min_size=4).filter(lambda text: text.strip() and "*" not in text)


@given(texts, st.text(), st.text())
def test_a_secret_is_hidden_wherever_it_stands(secret: str, before: str, after: str) -> None:
    hidden = Hidden()
    hidden.learn([secret])
    assert secret not in hidden.text(before + secret + after).replace(HIDDEN, "")
    assert hidden.value({"a": [before, {secret: 1}]}) != {"a": [before, {secret: 1}]}


@pytest.mark.parametrize(
    "spelled",
    [
        lambda secret: secret,
        json.dumps,
        lambda secret: json.dumps(secret, ensure_ascii=False),
        lambda secret: base64.b64encode(secret.encode()).decode(),
        lambda secret: "https://example.test/?key=" + __import__("urllib.parse").parse.quote(secret, safe=""),
    ],
)
def test_in_the_spellings_that_programs_use(spelled) -> None:
    hidden = Hidden()
    hidden.learn([SECRET])
    shown = hidden.text(f"failed: {spelled(SECRET)}!")
    assert HIDDEN in shown
    assert "p4ss" not in shown
    assert "cDRzc3" not in shown


def test_the_lines_of_a_key_are_hidden_each_and_short_ones_are_words() -> None:
    hidden = Hidden()
    hidden.learn(["-----BEGIN KEY-----\nMIIabcdef\nab\n-----END KEY-----"])
    assert hidden.text("line 2 is MIIabcdef") == f"line 2 is {HIDDEN}"
    assert hidden.text("absolutely") == "absolutely"
    assert "MII" not in repr(hidden)


def test_of_secrets_that_overlap_nothing_is_shown() -> None:
    hidden = Hidden()
    hidden.learn(["left-middle", "middle-right", "mid"])
    assert hidden.text("a left-middle-right b") == f"a {HIDDEN} b"
    assert hidden.text("left-middlemiddle-right") == HIDDEN + HIDDEN


def test_a_short_secret_is_hidden_where_it_stands_alone() -> None:
    hidden = Hidden()
    hidden.learn(["n0", ".*", "x", ""])
    assert hidden.value({"pin": "n0", "n0": "pin=n0;"}) == {"pin": HIDDEN, HIDDEN: f"pin={HIDDEN};"}
    assert hidden.text("n0pe, anything, and an x") == "n0pe, anything, and an x"


def test_a_number_that_is_a_secret_is_hidden() -> None:
    hidden = Hidden()
    hidden.learn(["4711", "12"])
    assert hidden.value({"pin": 4711, "count": 12, "yes": True}) == {"pin": HIDDEN, "count": 12, "yes": True}


def test_what_has_a_shape_needs_not_be_learned_one_by_one() -> None:
    hidden = Hidden()
    for _ in range(3):
        hidden.learn_shape("tok_[a-z]+")
    assert hidden.text("tok_a and tok_b") == f"{HIDDEN} and {HIDDEN}"
    assert repr(hidden) == "<Hidden: 1 texts>"


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
    plugin.hidden.learn([SECRET])
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
    hidden = Hidden()
    hidden.learn(["the-secret-of-somebody"])
    with pytest.raises(InvalidFrame) as failure:
        framed.read(json.dumps({"protocol": type * 2, "type": "event"}).encode())
    shown = hidden.text(failure.value.message)
    assert "the-s" not in shown
    assert "hellohello" in shown or "something of 346 characters" in shown
