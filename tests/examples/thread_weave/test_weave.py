"""What the weaver keeps and weaves: over values, for arbitrary threads."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from thread_weave.thread import BadThread, read
from thread_weave.tokens import BYTES, CLASSES, PER_BLOCK, PER_ITEM, Estimator, least
from thread_weave.weave import TooSmall, weave


def block(kind, text, **more):
    return {"kind": kind, "content": [{"type": "text", "text": text}], **more}


def cost(blocks, estimator=CLASSES):
    """No block that comes in has a lineage here."""
    return sum(Estimator(estimator).block(each, woven=is_woven(each)) for each in blocks)


def is_woven(seed):
    return any("lineage" in item for item in seed["content"])


def lineage(seed):
    return seed["content"][0]["lineage"]


texts = st.text(max_size=120) | st.text("abcdefghij \n", max_size=400)
items = st.builds(lambda text: {"type": "text", "text": text}, texts) | st.just(
    {"type": "image", "data": "AAAA"}
)
kinds = st.sampled_from(["system", "input", "output", "task", "tool_call", "tool_result", "\n"])
blocks = st.builds(
    lambda kind, content, more: {"kind": kind, "content": content, **more},
    kinds,
    st.lists(items, max_size=3),
    st.fixed_dictionaries(
        {},
        optional={
            "id": st.sampled_from("abcdefg"),
            "status": st.sampled_from(["open", "done"]),
            "name": texts,
        },
    ),
)
threads = st.lists(blocks, max_size=14)
own = st.builds(lambda text: {"text": text}, texts) | st.builds(
    lambda block: {"content": block["content"]}, blocks
)
pins = st.lists(own, max_size=2)


@pytest.mark.clause("VAI-85", "VAI-48")
@settings(max_examples=200, deadline=None)
@given(threads, pins, st.integers(1, 900), st.integers(0, 90), st.sampled_from([CLASSES, BYTES]), st.data())
def test_the_budget_holds_and_what_must_stay_stays_while_it_allows(
    thread, pins, budget, share, estimator, data
):
    known = [block["id"] for block in thread if "id" in block]
    if known:
        pins = pins + data.draw(st.lists(st.sampled_from(known), max_size=2))
    strands = read(thread, pins)
    told = {"chain_id": "ch_1", "woven_percent": share, "estimator": Estimator(estimator)}
    costs = [cost([strand.block], estimator) for strand in strands]
    try:
        cloth = weave(strands, budget, **told)
    except TooSmall:
        musts = [price for price, strand in zip(costs, strands, strict=True) if strand.rank]
        assert budget < min([*musts, 60])  # nor is there room to name what is left out
        assert costs[-1] > budget or strands[-1].block["kind"] == "tool_result"
        return
    assert cost(cloth.blocks, estimator) == cloth.output_tokens <= budget
    assert cloth.diagnostics["output_tokens_at_least"] <= cloth.output_tokens
    assert cloth.input_tokens == sum(costs)
    verbatim = [seed for seed in cloth.blocks if not is_woven(seed)]
    everything = [strand.block for strand in strands]
    assert is_subsequence(verbatim, everything)
    if sum(costs) <= budget:
        assert cloth.blocks == everything
    # What must stay is taken in its order, each if there is room after those before it.
    left = budget
    ranked = {
        rank: [s.block for s in strands if s.rank == rank] for rank in ("system", "pinned", "open_tasks")
    }
    for must in [*ranked["system"], *ranked["pinned"], *reversed(ranked["open_tasks"])]:
        if (price := cost([must], estimator)) <= left:
            assert must in verbatim
            left -= price
    assert json.dumps(weave(strands, budget, **told).blocks) == json.dumps(cloth.blocks)


def is_subsequence(some, everything):
    rest = iter(everything)
    return all(any(one is other for other in rest) for one in some)


@pytest.mark.clause("VAI-85")
@settings(max_examples=200, deadline=None)
@given(threads, st.integers(60, 900))
def test_every_block_is_kept_woven_or_counted_as_dropped(thread, budget):
    thread = [{**block, "id": f"b{at}"} for at, block in enumerate(thread)]
    strands = read(thread, [])
    try:
        cloth = weave(strands, budget, chain_id="ch_1")
    except TooSmall:
        return
    named = [seed["id"] for seed in cloth.blocks if not is_woven(seed)]
    for seed in filter(is_woven, cloth.blocks):
        text = seed["content"][0]["text"]
        assert lineage(seed)["chain_id"] == "ch_1"
        for one in lineage(seed)["ranges"]:
            first, last = int(one["first"][1:]), int(one["last"][1:])
            assert last - first + 1 == one["blocks"]
            named += [f"b{at}" for at in range(first, last + 1)]
        assert lineage(seed)["ranges"][0]["first"] in text.splitlines()[0]
        assert lineage(seed)["ranges"][-1]["last"] in text.splitlines()[0]
    assert len(named) == len({*named}) == len(thread) - cloth.diagnostics["blocks_dropped"]


def long_thread():
    return [
        block("system", "You are a coding agent.", id="s"),
        block("input", "Fix the auth redirect bug\nsrc/auth.py must not redirect twice", id="b1"),
        *(block("output", f"step {n}\nread src/file{n}.py and decided to go on\n" + "word " * 40, id=f"b{n}") for n in range(2, 20)),
        block("task", "Write the tests", id="t1", status="open"),
        block("task", "Read the code", id="t2", status="done"),
        *(block("output", f"late {n} " + "word " * 20, id=f"c{n}") for n in range(5)),
    ]  # fmt: skip


@pytest.mark.clause("VAI-85")
def test_a_long_thread_is_woven_with_lineage():
    thread = long_thread()
    cloth = weave(read(thread, ["b5"]), 900, chain_id="ch_9")
    names = [seed.get("id", "woven") for seed in cloth.blocks]
    assert names == ["s", "woven", "b5", "woven", "t1", "woven", "c1", "c2", "c3", "c4"]
    assert cloth.blocks[0] is thread[0]
    first, second, third = (seed for seed in cloth.blocks if is_woven(seed))
    assert lineage(first) == {"chain_id": "ch_9", "ranges": [{"first": "b1", "last": "b4", "blocks": 4}]}
    assert second["content"][0]["text"].startswith("[woven: 14 blocks of chain ch_9, b6 to b19]\n")
    assert "- b19 output: step 19" in second["content"][0]["text"]
    assert "- b1 input: Fix the auth redirect bug" in first["content"][0]["text"]
    assert "- t2 task (done): Read the code" in third["content"][0]["text"]
    assert cloth.summary == "7 blocks kept as they are, 20 older ones woven into 3; 1 open tasks."


def test_what_yields_first():
    """As the budget falls: lines, the window, the newest, open tasks, pinned items, the system."""
    thread = long_thread()
    lost = {}
    for budget in range(1500, 40, -7):
        seeds = weave(read(thread, ["b5"]), budget, chain_id="c").blocks
        kept = {seed["id"] for seed in seeds if not is_woven(seed)}
        for name in ("c3", "c4", "t1", "b5", "s"):
            if name not in kept:
                lost.setdefault(name, budget)
    assert lost["c3"] > lost["c4"] > lost["t1"] > lost["b5"] > lost.get("s", 0)
    # What is too large leaves its room to what comes after it.
    order = [block("task", "word " * n, id=f"t{n}") for n in (40, 5)]
    small = weave(read(order, []), cost([order[1]]) + 5, chain_id="c").blocks
    assert [seed["id"] for seed in small] == ["t5"]
    tasks = [block("task", "same words", id=name) for name in ("older", "newer")]
    assert weave(read(tasks, []), cost(tasks[:1]), chain_id="c").blocks == tasks[1:]
    both = [
        block("system", "abc " * 9, id="s"),
        block("input", "abc " * 9, id="p"),
        block("task", "abc " * 9, id="t"),
    ]
    for count in (1, 2, 3):
        budget = sum(map(cost, ([each] for each in both[:count])))
        assert weave(read(both, ["p"]), budget, chain_id="c").blocks == both[:count]


def test_the_policy_may_let_go_of_the_system_and_of_tasks():
    thread = [
        block("system", "abc " * 30, id="s"),
        block("task", "abc " * 30, id="t"),
        block("input", "hi", id="n"),
    ]
    budget = cost(thread) - 20
    for told, stays in (
        ({}, "s"),
        ({"retain_system": False}, "t"),
        ({"retain_system": False, "retain_open_tasks": False}, "n"),
    ):
        seeds = weave(read(thread, [], **told), budget, chain_id="c").blocks
        assert stays in [seed.get("id") for seed in seeds]
        assert (thread[0] in seeds) == (not told)


def test_the_window_begins_with_no_result_without_its_call():
    thread = [
        block("tool_call", "word " * 100, id="call"),
        block("tool_result", "found", id="result"),
        block("output", "done", id="end"),
    ]
    seeds = weave(read(thread, []), 120, chain_id="c").blocks
    assert [seed.get("id") for seed in seeds] == [None, "end"]
    assert lineage(seeds[0])["ranges"] == [{"first": "call", "last": "result", "blocks": 2}]


@pytest.mark.parametrize("budget", [0, -5, True, "100", None, 1.5])
def test_a_budget_is_a_number_of_tokens(budget):
    with pytest.raises(TooSmall):
        weave(read([block("input", "hi")], []), budget, chain_id="c")


def test_an_empty_thread_stays_empty():
    assert weave([], 10, chain_id="c").blocks == []


@pytest.mark.parametrize(
    ("thread", "pins", "words"),
    [
        ([{"content": []}], [], "block 0 has no kind"),
        ([5], [], "block 0 has no kind"),
        ([{"kind": "input"}], [], "block 0 has no list of content"),
        ([{"kind": "input", "content": "text"}], [], "block 0 has no list of content"),
        ([{"kind": "input", "content": [{"text": "x"}]}], [], "without a type"),
        ([{"kind": "input", "content": [{"type": "text", "text": 5}]}], [], "text that is none"),
        ([], [{"id": "nobody"}], "pinned item 0 names no block"),
        ([], [{"text": "a"}, 5], "pinned item 1 names no block"),
    ],
)
def test_what_is_no_thread_is_refused_with_its_place(thread, pins, words):
    with pytest.raises(BadThread, match=words):
        read(thread, pins)


LETTERS = ("abcdefghiklmnoprstuvwy", "ABCDEFGHIKLMNOPRSTUVWY")
KNOWN = {a + b for letters in LETTERS for a in letters for b in letters} | {"  ", "\n\n"}
CUTS = re.compile(r"(?<=[A-Z])(?=[A-Z][a-z])|(?<= )(?= [^ ])")


def worst(text):
    """The most tokens that a tokenizer can make which knows no more pairs than it must, and cuts where it may."""
    return sum(_worst(piece) for piece in CUTS.split(text))


def _worst(piece):
    """In what it leaves, no two neighbours are a known pair: it would have merged them."""
    impossible = -(10**9)
    single, pair = [impossible] * (len(piece) + 1), [impossible] * (len(piece) + 1)
    pair[0] = 0
    for at, letter in enumerate(piece):
        after_single = impossible if at and piece[at - 1] + letter in KNOWN else single[at]
        single[at + 1] = max(pair[at], after_single) + len(letter.encode())
        if at and piece[at - 1] + letter in KNOWN:
            pair[at + 1] = max(single[at - 1], pair[at - 1]) + 1
    return max(single[-1], pair[-1])


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200) | st.text("abcXYZ  \n1.", max_size=200))
@example("abcd")
@example("HTTPServer")
@example("aaaa    b\n\n\n")
def test_the_estimate_is_over_and_never_under(text):
    assert len(text.encode()) == Estimator(BYTES).text(text)
    assert worst(text) <= Estimator(CLASSES).text(text) <= Estimator(BYTES).text(text)
    assert least(block("input", text)) <= Estimator(CLASSES).text(text)


def test_all_that_a_model_may_see_is_counted():
    plain = block("input", "hello")
    around = PER_BLOCK + PER_ITEM + Estimator().text("input")
    assert Estimator().block(plain) == around + Estimator().text("hello")
    assert Estimator().block({**plain, "id": "a" * 100}) == Estimator().block(plain)
    called = {"kind": "tool_call", "content": [], "name": "grep", "input": {"pattern": "x" * 100}}
    assert Estimator().block(called) > 100
    assert Estimator().block({**plain, "kind": "9" * 50_000}) > 50_000
    assert Estimator().block({**plain, "id": "9" * 50_000}) > 50_000
    told = {
        "kind": "input",
        "content": [{"type": "text", "text": "hello", "lineage": {"chain_id": "9" * 100}}],
    }
    assert Estimator().block(told) > 100
    assert Estimator().block(told, woven=True) == Estimator().block(plain)
    assert Estimator().block({"kind": "input", "content": [{"type": "image", "data": "9" * 100}]}) > 100


def test_a_long_kind_does_not_slip_past_the_budget():
    with pytest.raises(TooSmall):
        weave(read([{"kind": "k" * 50_000, "content": []}], []), 10, chain_id="c")
