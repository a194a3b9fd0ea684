"""Lines that anybody may have written are counted as an obviously correct reader would, however they come."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from session_reader import ahead
from session_reader import files as reading
from session_reader.call import Unusable, moment
from session_reader.lines import holding, whole
from session_reader.prices import load
from session_reader.reader import AGAIN, Reader

from plughost_sdk.ainb import Error
from tests.support.burndown import (
    HOME,
    Heard,
    MemoryFiles,
    answer,
    claude,
    codex,
    context,
    counters,
    log,
    tokens,
)

PRICES = load()
WORD = b'"output_tokens"'


def read(memory: MemoryFiles) -> Reader:
    reader = Reader(Heard(memory), HOME, PRICES)
    reader.look_once()
    return reader


def total(reader: Reader) -> dict[str, Any]:
    return reader.aggregates()["grand_total"]


# Which lines are looked at


@given(
    st.binary(max_size=300),
    st.lists(st.sampled_from([b"ab", b"b\x00", b"aaa", b'"']), min_size=1, unique=True),
)
def test_the_lines_that_hold_a_word_are_found(data, words):
    data = data.replace(b"\x01", b"\n").replace(b"\x02", b"ab")
    end = whole(data)
    found = [*holding(data, end, tuple(words))]
    lines = data[:end].split(b"\n")[:-1]
    assert [line for _, line in found] == [line for line in lines if any(word in line for word in words)]
    assert all(data[place : place + len(line)] == line for place, line in found)


# What is believed of them


def fits(told: Any) -> bool:
    """The slow reader: what a line must be like for anything in it to be believed."""

    def text(value: Any, most: int = 200) -> bool:
        return value is None or (isinstance(value, str) and len(value) <= most)

    def count(value: Any) -> bool:
        return value is None or (type(value) is int and 0 <= value <= 10**12)

    message = told.get("message")
    if not text(told.get("timestamp"), 10**9) or not text(told.get("cwd"), 4096):
        return False
    if not all(text(told.get(name)) for name in ("sessionId", "requestId", "gitBranch")):
        return False
    if message is None:
        return True
    if not isinstance(message, dict) or not text(message.get("id")) or not text(message.get("model")):
        return False
    usage = message.get("usage")
    names = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return usage is None or (isinstance(usage, dict) and all(count(usage.get(name)) for name in names))


def slowly(content: bytes) -> tuple[list[int], int, int]:
    """Tokens by kind, calls, and lines left out."""
    calls: dict[Any, list[int]] = {}
    skipped = 0
    for place, line in enumerate(content.split(b"\n")[:-1]):
        if WORD not in line:
            continue
        try:
            told = json.loads(line)
        except ValueError:
            told = None
        kind = told.get("type", "") if isinstance(told, dict) else ""
        if not isinstance(told, dict) or not isinstance(kind, str) or not fits(told):
            skipped += not isinstance(kind, str) or kind in ("assistant", "")
            continue
        message = told.get("message") or {}
        usage = message.get("usage")
        if kind != "assistant" or usage is None:
            continue
        names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
        counts = [usage.get(name) or 0 for name in names]
        if not any(counts):
            continue
        if told.get("timestamp") not in GOOD_TIMES:
            skipped += 1
            continue
        key = (message["id"], told.get("requestId")) if message.get("id") else place
        before = calls.get(key, [0] * 4)
        calls[key] = [max(pair) for pair in zip(before, counts, strict=True)]
    sums = [sum(column) for column in zip(*calls.values(), strict=True)] if calls else [0] * 4
    return [*sums, 0], len(calls), skipped


GOOD_TIMES = (
    "2025-11-10T09:00:00.000Z",
    "2025-11-10T09:00:00Z",
    "2025-11-10",
    "2024-02-29T23:59:59+14:00",
)
BAD_TIMES = (
    "",
    "yesterday",
    "1969-12-31T23:59:59Z",
    "9999-12-31T23:59:59-14:00",
    "2025-02-29T00:00:00Z",
    "２０２５-11-10T09:00:00.000Z",
)
hostile = st.sampled_from([None, -1, 0, 7, 10**12, 10**13, 2**70, "7", 1.5, True, [], {}, "x" * 201])
line = st.builds(
    answer,
    st.integers(1, 4),
    output=st.integers(0, 50),
    usage=st.dictionaries(st.sampled_from(["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "other"]), hostile, max_size=2),
    message=st.dictionaries(st.sampled_from(["id", "model"]), hostile, max_size=1),
    timestamp=st.sampled_from(GOOD_TIMES + BAD_TIMES) | hostile,
    type=st.sampled_from(["assistant", "assistant", "assistant", "user", "summary", 3]),
    requestId=hostile | st.just("r"),
    sessionId=st.sampled_from(["s", "t", None, 5]),
    cwd=st.sampled_from(["/home/ada/tea", None, "x" * 4097]),
)  # fmt: skip
written = line.map(lambda told: json.dumps(told).encode()) | st.builds(
    lambda told, cut: json.dumps(told).encode()[:-cut], line, st.integers(1, 200)
)
junk = st.sampled_from([b"", b"[]", b"null", b'"output_tokens"', b"[" * 2000, b"\xff\xfe", b'{"output_tokens":', WORD + b"\\ud800"])  # fmt: skip
logs = st.lists(written | written | junk, max_size=12).map(lambda lines: log(*lines))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(logs)
def test_what_is_counted_is_what_a_slow_reader_counts(content):
    reader = read(MemoryFiles(a=content))
    sums, calls, skipped = slowly(content)
    assert (tokens(total(reader)), total(reader)["call_count"]) == (sums, calls)
    assert reader.counted.skipped == skipped


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(logs, st.lists(st.integers(1, 400), max_size=8), st.integers(70, 500))
def test_lines_that_are_appended_in_any_pieces_add_up_to_the_same(content, pieces, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "BLOCK", block)
        patch.setattr(reading, "OVERLAP", 16)
        memory = MemoryFiles()
        reader = Reader(Heard(memory), HOME, PRICES)
        end = 0
        for piece in [*pieces, len(content)]:
            end += piece
            memory.write(claude("a"), content[:end])
            reader.look_once()
    whole_at_once = read(MemoryFiles(a=content))
    assert reader.aggregates() == whole_at_once.aggregates()
    assert (reader.counted.skipped, reader.counted.bytes) == (whole_at_once.counted.skipped, len(content))


@given(st.permutations([0, 1, 2, 3]))
def test_the_order_of_files_makes_no_difference(order):
    """One message in two files, told with more tokens in one of them, counts once with the most."""
    contents = [
        log(answer(1, output=3), answer(2)),
        log(answer(1, output=30, usage={"input_tokens": 1})),
        log(answer(3, cwd="/home/ada/wx")),
        log(answer(3, cwd="/home/ada/wx"), answer(4, message={"model": "gpt-5"})),
    ]
    memory = MemoryFiles()
    for number in order:
        memory.write(claude(f"f{number}"), contents[number])
    told = total(read(memory))
    assert (told["call_count"], tokens(told)) == (4, [8, 0, 20, 60, 0])


# Codex's counters


def test_counters_are_differences_and_told_twice_count_once():
    memory = MemoryFiles()
    memory.write(
        codex("a"),
        log(
            context("gpt-5-codex"),
            counters((100, 40, 20, 5), second=1),
            counters((100, 40, 20, 5), second=1),
            context("gpt-5-mini"),
            counters((150, 60, 30, 5), second=2),
            {"type": "event_msg", "timestamp": "x", "payload": {"type": "token_count", "info": None}},
            counters((10, 0, 5, 0), (10, 0, 5, 0), second=3),  # they have begun anew
        ),
    )
    told = read(memory).aggregates()
    assert tokens(told["grand_total"]) == [100, 0, 60, 30, 5]
    by_model = {row["model"]: tokens(row["bucket"]) for row in told["models"]}
    assert by_model == {"gpt-5-codex": [60, 0, 40, 15, 5], "gpt-5-mini": [40, 0, 20, 15, 0]}
    assert told["projects"][0]["path"] == "/home/ada/wx"


rises = st.lists(st.tuples(*[st.integers(0, 1000)] * 4), max_size=10)


@given(rises, st.integers(70, 400))
def test_rising_counters_add_up_to_the_last(steps, block):
    at = [0, 0, 0, 0]
    lines = []
    for second, step in enumerate(steps):
        at = [now + more for now, more in zip(at, step, strict=True)]
        lines.append(counters(tuple(at), second=second))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "BLOCK", block)
        patch.setattr(reading, "OVERLAP", 16)
        memory = MemoryFiles()
        memory.write(codex("a"), log(*lines))
        told = total(read(memory))
    fresh, _, cached, output, reasoned = tokens(told)
    assert (fresh + cached, output + reasoned) == (at[0], at[2])


# Files that change


def test_only_what_was_added_is_read_again():
    memory = MemoryFiles(a=log(*map(answer, range(100))))
    reader = read(memory)
    size = len(memory.content[claude("a")])
    memory.asked.clear()
    reader.look_once()
    assert memory.asked == []
    memory.write(claude("a"), memory.content[claude("a")] + log(answer(200)))
    reader.look_once()
    assert memory.asked == [(claude("a"), size - reading.OVERLAP)]
    assert total(reader)["call_count"] == 101


def test_a_line_counts_when_it_is_whole():
    begun = log(answer(1))
    memory = MemoryFiles(a=begun[:-1])
    reader = read(memory)
    assert total(reader)["call_count"] == 0
    memory.write(claude("a"), begun)
    reader.look_once()
    assert total(reader)["call_count"] == 1


@pytest.mark.parametrize("then", [(3,), (3, 4, 5, 6, 7), (1, 3)])
def test_a_file_that_is_another_one_is_read_from_its_beginning(then):
    """Shorter, longer, or as long as it was: truncated or rotated. What was used stays used."""
    memory = MemoryFiles(a=log(answer(1), answer(2)))
    reader = read(memory)
    memory.write(claude("a"), log(*map(answer, then)))
    reader.look_once()
    reader.look_once()
    assert total(reader)["call_count"] == len({1, 2, *then})


def test_a_line_without_an_id_is_another_call_than_the_one_that_stood_in_its_place():
    def nameless(day: int, output: int) -> dict[str, Any]:
        return answer(1, output=output, message={"id": None}, timestamp=f"2025-11-{day}T09:00:00.000Z")

    memory = MemoryFiles(a=log(nameless(10, 12000)))
    reader = read(memory)
    for replaced in ([nameless(11, 1000)], [nameless(11, 1000), answer(2)], [nameless(10, 12000)]):
        memory.write(claude("a"), log(*replaced))
        reader.look_once()
        reader.look_once()
    by_day = {day: tokens(bucket)[3] for day, bucket in reader.aggregates()["daily"]}
    assert by_day == {"2025-11-10": 12010, "2025-11-11": 1000}, "each once, also when it comes back"
    assert len({call.id for call in reader._totals.calls()}) == 3


def test_codex_counters_of_a_truncated_file_do_not_count_twice():
    lines = [context("gpt-5"), counters((100, 0, 10, 0), second=1), counters((300, 0, 40, 0), second=2)]
    memory = MemoryFiles()
    memory.write(codex("a"), log(*lines))
    reader = read(memory)
    memory.write(codex("a"), log(*lines[:2]))
    reader.look_once()
    memory.write(codex("a"), log(*lines))
    reader.look_once()
    assert tokens(total(reader)) == [300, 0, 0, 40, 0]


def test_new_files_and_folders_are_found_and_those_that_go_stay_counted():
    memory = MemoryFiles(a=log(answer(1)))
    reader = read(memory)
    memory.write(claude("b", "-home-ada-wx"), log(answer(2)))
    memory.write(f"{HOME}/.claude/projects/notes.txt", log(answer(3)))
    del memory.content[claude("a")]
    reader.look_once()
    assert (total(reader)["call_count"], reader.file_count) == (2, 1)


def test_what_the_host_does_not_give_out_is_told_and_the_rest_is_read():
    memory = MemoryFiles(a=log(answer(1)), b=Error(-32001, "capability denied: read_claude_logs"))
    reader = read(memory)
    assert total(reader)["call_count"] == 1
    unreadable = {claude("b"): "capability denied: read_claude_logs"}
    assert unreadable.items() <= reader.counted.unreadable.items()
    memory.write(claude("b"), log(answer(2)))
    reader.look_once()
    assert claude("b") not in reader.counted.unreadable
    assert total(reader)["call_count"] == 2


@pytest.mark.parametrize("asked", [True, False])
def test_what_could_not_be_read_is_tried_again_although_nothing_about_it_has_changed(asked):
    memory = MemoryFiles(a=log(answer(1)), b=log(answer(2)))
    memory.closed.add(claude("a"))
    reader = read(memory)
    assert "Permission denied" in reader.counted.unreadable[claude("a")]
    memory.asked.clear()
    reader.look_once()
    assert memory.asked == [], "not with every look"
    memory.closed.clear()
    if asked:
        reader.refresh()
    for _ in range(1 if asked else AGAIN):
        reader.look_once()
    assert total(reader)["call_count"] == 2
    assert claude("a") not in reader.counted.unreadable
    assert [path for path, _ in memory.asked].count(claude("b")) == 0


def test_what_could_not_be_read_and_is_gone_is_not_told_of_any_more():
    memory = MemoryFiles(a=log(answer(1)), b=log(answer(2)))
    memory.write(f"{HOME}/.claude/projects/closed/x.jsonl", b"")
    memory.closed = {claude("a"), f"{HOME}/.claude/projects/closed"}
    reader = read(memory)
    told = reader.counted.unreadable
    assert {claude("a"), f"{HOME}/.claude/projects/closed"} < set(told)
    del memory.content[claude("a")], memory.content[f"{HOME}/.claude/projects/closed/x.jsonl"]
    reader.look_once()
    assert [*told] == [f"{HOME}/.codex/sessions"], "where there is still nothing"


def test_what_is_no_log_is_asked_once_whether_it_is_a_folder():
    memory = MemoryFiles(a=log(answer(1)))
    link, notes = f"{HOME}/.claude/projects/link", f"{HOME}/.claude/projects/notes.txt"
    memory.write(link, b"/elsewhere")
    memory.write(notes, b"tea")
    asked = []

    def read_dir(folder):
        asked.append(folder)
        return [] if folder == link and memory.content[link] else MemoryFiles.read_dir(memory, folder)

    memory.read_dir = read_dir
    reader = read(memory)
    reader.look_once()
    assert (asked.count(link), asked.count(notes)) == (1, 1)
    assert reader.counted.unreadable[link] == "a link to a folder: not followed"
    assert notes not in reader.counted.unreadable
    memory.write(link, b"")
    reader.look_once()
    assert (asked.count(link), asked.count(notes)) == (2, 1)
    assert link not in reader.counted.unreadable, "it is a file by now"


def test_a_folder_that_is_not_granted_is_asked_for_once():
    memory = MemoryFiles(a=log(answer(1)))
    asked = []

    def read_dir(folder):
        asked.append(folder)
        if folder.endswith("/.codex/sessions"):
            raise Error(-32001, "capability denied: read_codex_logs")
        return MemoryFiles.read_dir(memory, folder)

    memory.read_dir = read_dir
    reader = read(memory)
    reader.look_once()
    assert asked.count(f"{HOME}/.codex/sessions") == 1
    assert asked.count(f"{HOME}/.claude/projects") == 2
    assert reader.counted.unreadable == {f"{HOME}/.codex/sessions": "capability denied: read_codex_logs"}
    assert total(reader)["call_count"] == 1


def test_a_line_without_end_takes_no_room_and_the_lines_around_it_count(monkeypatch):
    monkeypatch.setattr(reading, "BLOCK", 1000)
    monkeypatch.setattr(reading, "OVERLAP", 16)
    monkeypatch.setattr(reading, "LONGEST", 2000)
    endless = json.dumps({"note": "x" * 9000, **answer(9)}).encode()
    memory = MemoryFiles(a=log(answer(1), endless, answer(2)))
    reader = read(memory)
    assert (total(reader)["call_count"], reader.counted.skipped) == (2, 1)
    assert max(len(file._rest) for tree in reader._trees for file in tree._files.values()) <= 2000
    memory.write(claude("a"), log(answer(1), endless, answer(2), answer(3)))
    reader.look_once()
    assert total(reader)["call_count"] == 3


def test_a_line_that_is_too_long_is_left_out_wherever_blocks_begin(monkeypatch):
    monkeypatch.setattr(reading, "LONGEST", 2000)
    reader = read(MemoryFiles(a=log(answer(1), answer(9, note="x" * 3000), answer(2))))
    assert (total(reader)["call_count"], reader.counted.skipped) == (2, 1)


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("2025-11-10T09:00:00.123Z", "2025-11-10T09:00:00.123Z"),
        ("2025-11-10T09:00:00Z", "2025-11-10T09:00:00.000Z"),
        ("2025-11-10T09:00:00.123456+02:00", "2025-11-10T07:00:00.123Z"),
        ("2025-11-10", "2025-11-10T00:00:00.000Z"),
        ("2024-02-29T23:59:59+14:00", "2024-02-29T09:59:59.000Z"),
        ("2025-02-29T00:00:00.000Z", None),
        ("2025-11-10T24:00:00.000Z", None),
        ("1969-12-31T23:59:59.000Z", None),
        ("2100-01-01T00:00:00.000Z", None),
        ("9999-12-31T23:59:59-14:00", None),
        ("２０２５-11-10T09:00:00.000Z", None),
        ("", None),
        (None, None),
    ],
)
def test_times_are_in_utc_or_not_believed(written, read_as):
    if read_as is not None:
        assert moment(written) == read_as
    else:
        with pytest.raises(Unusable):
            moment(written)


def test_an_answer_that_used_nothing_is_no_call():
    nothing = answer(1, output=0, usage={"input_tokens": 0, "cache_read_input_tokens": None})
    reader = read(MemoryFiles(a=log(nothing)))
    assert (total(reader)["call_count"], reader.counted.skipped) == (0, 0)


def test_the_newest_files_come_first():
    memory = MemoryFiles(old=log(answer(1)), older=b"", newest=log(answer(2)))
    memory.modified |= {claude("old"): 5, claude("older"): 1, claude("newest"): 9}
    read(memory)
    assert [path for path, _ in memory.asked] == [claude("newest"), claude("old"), claude("older")]


# Many files, and large ones


def test_of_small_files_many_are_under_way_and_all_are_taken_in_their_order(monkeypatch):
    memory = MemoryFiles(**{f"f{n:02}": log(answer(n)) for n in range(99)})
    taken = []
    take = reading.File.take
    monkeypatch.setattr(
        reading.File, "take", lambda file, *told: taken.append(file.path) or take(file, *told)
    )
    reader = read(memory)
    assert memory.most_under_way == ahead.MOST_READS
    assert taken == [claude(f"f{n:02}") for n in reversed(range(99))], "the newest first"
    assert (total(reader)["call_count"], memory.under_way) == (99, [])


def test_of_large_blocks_one_is_under_way_while_another_is_looked_at(monkeypatch):
    monkeypatch.setattr(reading, "BLOCK", 1000)
    monkeypatch.setattr(ahead, "MOST_BYTES", 1000)
    lines = log(*map(answer, range(50)))
    memory = MemoryFiles(large=lines[:5000], larger=lines)
    reader = read(memory)
    assert memory.most_under_way == 1
    assert total(reader)["call_count"] == 50


def test_what_was_asked_for_is_taken_when_something_goes_wrong(monkeypatch):
    memory = MemoryFiles(**{f"f{n}": log(answer(n)) for n in range(9)})
    reader = Reader(Heard(memory), HOME, PRICES)
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(reading.File, "take", lambda *told: 1 / 0)
        reader.look_once()
    assert memory.under_way == []
