"""What the reader publishes, when, and what it costs."""

from __future__ import annotations

import pytest
from session_reader import prices as pricing
from session_reader import reader as reading
from session_reader import totals
from session_reader.publisher import Publisher
from session_reader.reader import Reader

from plughost.contracts.ainb import chunks as ours
from tests.support.burndown import HOME, Heard, MemoryFiles, answer, claude, codex, context, counters, log

UNKNOWN = {"message": {"model": "nova-1"}}


def reader_of(memory: MemoryFiles, prices) -> tuple[Reader, Heard]:
    heard = Heard(memory)
    return Reader(heard, HOME, prices), heard


@pytest.mark.clause("AINB-50", "AINB-52")
def test_a_complete_batch_has_the_sums_first_and_all_calls_in_their_order(prices, monkeypatch):
    monkeypatch.setattr("session_reader.publisher.CHUNK", 5000)
    monkeypatch.setattr("session_reader.publisher.PACE", 0)
    lines = [answer(n, timestamp=f"2025-11-{10 + n % 5}T09:00:00.{n:03}Z") for n in range(99)]
    reader, heard = reader_of(MemoryFiles(a=log(*lines)), prices)
    reader.look_once()
    told = heard.usage()
    assert len(told) > 3
    assert [chunk["chunk_index"] for chunk in told] == [*range(len(told))]
    assert [chunk["is_final"] for chunk in told] == [False] * (len(told) - 1) + [True]
    assert {(chunk["version"], chunk["published_ns"], chunk["partial"]) for chunk in told} == {
        (3, told[0]["published_ns"], False)
    }
    assert told[0]["data"]["grand_total"]["call_count"] == 99
    assert all({**chunk["data"], "calls": []}["daily"] == [] for chunk in told[1:])
    calls = [call for chunk in told for call in chunk["data"]["calls"]]
    assert [call["timestamp"] for call in calls] == sorted(line["timestamp"] for line in lines)
    assert len({call["id"] for call in calls}) == 99


def test_the_shapes_are_the_contracts(prices):
    memory = MemoryFiles(a=log(answer(1, gitBranch="main"), answer(2, **UNKNOWN)))
    memory.write(codex("b"), log(context("gpt-5-codex"), counters((100, 40, 20, 5))))
    reader, heard = reader_of(memory, prices)
    reader.look_once()
    (chunk,) = heard.usage()
    data = chunk["data"]
    assert set(data) == set(ours.UsageData.__struct_fields__)
    assert set(ours.UsageBucket.__struct_fields__) <= set(data["grand_total"])
    assert data["daily"][0][0] == data["weekly"][0][0] == "2025-11-10"
    (first, *_) = data["calls"]
    assert (first["provider"], first["project"], first["project_path"]) == ("claude", "tea", "/home/ada/tea")
    assert (first["branch"], first["tools"], first["user_message"]) == ("main", [], "")
    assert data["sessions"][0]["provider"] in ("claude", "codex")
    assert data["model_project_counts"][0] == ["claude-sonnet-4-5", [["tea", 1]]]


# Cost


def test_a_model_without_a_price_costs_nobody_knows_what_and_not_nothing(prices):
    reader, heard = reader_of(MemoryFiles(a=log(answer(1), answer(2, **UNKNOWN))), prices)
    reader.look_once()
    (chunk,) = heard.usage()
    by_model = {row["model"]: row["bucket"] for row in chunk["data"]["models"]}
    assert by_model["nova-1"]["cost_usd"] is None
    assert by_model["nova-1"]["unpriced_calls"] == 1
    known = (2 * 3.0 + 5 * 0.3 + 10 * 15.0) / 1e6
    assert by_model["claude-sonnet-4-5"]["cost_usd"] == pytest.approx(known)
    assert chunk["data"]["grand_total"]["cost_usd"] == pytest.approx(known)
    assert chunk["data"]["grand_total"]["unpriced_calls"] == 1
    assert [call["cost_usd"] for call in chunk["data"]["calls"]] == [pytest.approx(known), None]


def test_the_longest_name_that_fits_has_the_price(prices):
    one = [1_000_000, 0, 0, 0, 0]
    assert prices.cost("gpt-5-codex", one) == pytest.approx(1.25)
    assert prices.cost("gpt-5-mini-2025", one) == pytest.approx(0.25)
    assert prices.cost("gpt-4", one) is None
    assert prices.cost("claude-opus-4-5-20251101", [0, 0, 0, 1_000_000, 1_000_000]) == pytest.approx(50)
    assert prices.cost("o3", [0, 1_000_000, 0, 0, 0]) == pytest.approx(2.0), (
        "as input, where nothing else is told"
    )


def test_an_operator_has_prices_of_their_own(tmp_path, monkeypatch):
    table = tmp_path / "prices.toml"
    table.write_text('as_of = "2030-01-01"\n[prices]\n"nova" = { input = 1, output = 2 }\n')
    monkeypatch.setenv("SESSION_READER_PRICES", str(table))
    own = pricing.load()
    assert (own.as_of, own.cost("nova-1", [0, 0, 0, 10**6, 0])) == ("2030-01-01", 2.0)
    for wrong in ("", "[prices]", 'as_of = "x"\n[prices]\n"a" = { input = -1, output = 2 }', "not toml"):
        table.write_text(wrong)
        with pytest.raises(ValueError, match=r"prices\.toml is no table of prices"):
            pricing.load()


# When


def test_while_changes_go_on_sums_are_published_and_calls_when_it_is_quiet(prices, monkeypatch):
    monkeypatch.setattr(Publisher, "FEW", 1)
    memory = MemoryFiles(a=log(answer(1), answer(2)))
    reader, heard = reader_of(memory, prices)
    reader.look_once()
    assert [chunk["partial"] for chunk in heard.usage()] == [False]
    memory.write(claude("a"), memory.content[claude("a")] + log(answer(3)))
    reader.look_once()
    (news,) = heard.usage()
    assert (news["partial"], news["data"]["calls"], news["data"]["grand_total"]["call_count"]) == (
        True,
        [],
        3,
    )
    reader.look_once()
    (all_of_it,) = heard.usage()
    assert (all_of_it["partial"], len(all_of_it["data"]["calls"])) == (False, 3)
    reader.look_once()
    assert heard.usage() == [], "nothing new, nothing published"


def test_changes_that_never_end_are_published_whole_after_a_while(prices, monkeypatch):
    monkeypatch.setattr(Publisher, "FEW", 1)
    monkeypatch.setattr(reading, "OWED", 0.0)
    memory = MemoryFiles(a=log(answer(1), answer(2)))
    reader, heard = reader_of(memory, prices)
    reader.look_once()
    heard.usage()
    memory.write(claude("a"), memory.content[claude("a")] + log(answer(3)))
    reader.look_once()
    assert [chunk["partial"] for chunk in heard.usage()] == [False]


def test_whoever_asks_gets_all_of_it_and_hard_reads_it_anew(prices):
    memory = MemoryFiles(a=log(answer(1)))
    reader, heard = reader_of(memory, prices)
    reader.look_once()
    heard.usage()
    reader.refresh()
    reader.look_once()
    assert [len(chunk["data"]["calls"]) for chunk in heard.usage()] == [1]
    memory.write(claude("a"), log(answer(2)))
    memory.asked.clear()
    reader.refresh(hard=True)
    reader.look_once()
    (chunk,) = heard.usage()
    assert chunk["data"]["grand_total"]["call_count"] == 1, "what is not in the logs any more is gone"
    assert memory.asked == [(claude("a"), 0)]


def test_there_is_a_picture_before_everything_is_read(prices, monkeypatch):
    monkeypatch.setattr(reading, "FIRST_PICTURE", 0.0)
    monkeypatch.setattr(reading, "PICTURES", 0.0)
    memory = MemoryFiles(**{f"f{n}": log(answer(n)) for n in range(5)})
    reader, heard = reader_of(memory, prices)
    reader.look_once()
    progress = [told for topic, told in heard.published if topic == "sessions.scan_progress"]
    assert [(told["scanned"], told["total"]) for told in progress] == [
        (0, 0),
        *((n, 5) for n in (0, 1, 2, 3, 4, 5, 5)),
    ]
    counts = [(chunk["partial"], chunk["data"]["grand_total"]["call_count"]) for chunk in heard.usage()]
    assert counts == [(True, 1), (True, 2), (True, 3), (True, 4), (True, 5), (False, 5)]


def test_who_waits_is_told_before_it_looks_for_logs_and_not_with_every_look(prices):
    memory = MemoryFiles(a=log(answer(1)))
    reader, heard = reader_of(memory, prices)
    told = []

    def read_dir(folder):
        told.append([payload for topic, payload in heard.published if topic == "sessions.scan_progress"])
        return MemoryFiles.read_dir(memory, folder)

    memory.read_dir = read_dir
    reader.look_once()
    assert told[0] == [{"scanned": 0, "total": 0, "current_project": ""}]
    heard.published.clear()
    told.clear()
    reader.look_once()
    assert told[0] == []


def test_what_is_kept_is_bounded_and_the_sums_are_of_everything(prices, monkeypatch):
    monkeypatch.setattr(totals, "MOST_CALLS", 10)
    lines = [answer(n, timestamp=f"2025-11-10T09:{n // 60:02}:{n % 60:02}.000Z") for n in range(100)]
    reader, heard = reader_of(MemoryFiles(a=log(*lines, *lines)), prices)
    reader.look_once()
    (chunk,) = heard.usage()
    assert chunk["data"]["grand_total"]["call_count"] == 100
    assert [call["timestamp"] for call in chunk["data"]["calls"]] == [
        line["timestamp"] for line in lines[-10:]
    ]
    assert len(reader._totals._calls) < 20


def test_sessions_without_number_are_counted_without_their_names(prices, monkeypatch):
    monkeypatch.setattr(totals, "MOST_CELLS", 5)
    reader, heard = reader_of(MemoryFiles(a=log(*(answer(n, sessionId=f"s{n}") for n in range(50)))), prices)
    reader.look_once()
    (chunk,) = heard.usage()
    assert chunk["data"]["grand_total"]["call_count"] == 50
    assert len(reader._totals._cells) == 6
    assert len(chunk["data"]["sessions"]) == 5
