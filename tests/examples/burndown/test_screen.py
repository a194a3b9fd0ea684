"""The screen: what it shows of what is published, and what keys do. All over the wire, in this process."""

from __future__ import annotations

import base64

import msgspec
import pytest
from burndown_screen import inbox as inboxes
from burndown_screen import usage as usages
from burndown_screen.plugin import make
from burndown_screen.words import columns

from plughost_sdk import chunks
from tests.support import ROOT

FOLDER = ROOT / "plugins/burndown"
TOPIC = "sessions.usage_data"


def bucket(tokens: int, cost: float | None = 1.0, unpriced: int = 0) -> dict:
    told = {**chunks.nothing()["grand_total"], "input_tokens": tokens, "call_count": 2, "cost_usd": cost}
    return {**told, "unpriced_calls": unpriced}


def call(
    day: str, project: str, model: str, tokens: int, cost: float | None = 0.5, path: str | None = None
) -> dict:
    return {
        "timestamp": f"{day}T09:00:00.000Z",
        "project": project,
        "project_path": f"/home/ada/{project}" if path is None else path,
        "model": model,
        "input_tokens": tokens,
        "cost_usd": cost,
    }


USAGE = {
    "daily": [["2025-11-10", bucket(1000)], ["2025-11-11", bucket(2_500_000, 12.5)]],
    "projects": [
        {"name": "tea", "path": "/home/ada/tea", "bucket": bucket(2_000_000, 10.0)},
        {"name": "wx", "path": "/home/ada/weather", "bucket": bucket(501_000, 3.5)},
    ],
    "models": [
        {"model": "gpt-5", "bucket": bucket(2_000_000, 10.0)},
        {"model": "nova", "bucket": bucket(501_000, None, 2)},
    ],
    "grand_total": bucket(2_501_000, 13.5, 2),
    "calls": [
        call("2025-11-10", "tea", "gpt-5", 1000),
        call("2025-11-11", "tea", "gpt-5", 1_999_000),
        call("2025-11-11", "wx", "nova", 501_000, None, "/home/ada/weather"),
    ],
}
CODES = {"up", "down", "tab", "back_tab", "left", "right", "enter", "esc", "backspace", "home", "end", "page_up", "page_down"}  # fmt: skip


class Screen:
    def __init__(self, host) -> None:
        self.host = host

    def publish(self, data: dict, **changes) -> None:
        for chunk in chunks.split(data, 7, **changes):
            self.host.event(TOPIC, chunk)

    def tell(self, scanned: int, total: int, project: str = "tea") -> None:
        told = {"scanned": scanned, "total": total, "current_project": project}
        self.host.event("sessions.scan_progress", msgspec.msgpack.encode(told))

    def expects(self) -> bool:
        """Whether it asks for the next frame soon."""
        viewport = {"width": 80, "height": 24}
        return self.host.call("plugin/render", {"viewport": viewport}).get("redraw", False)

    def lines(self, width: int = 100, height: int = 12) -> list[str]:
        told = self.host.call("plugin/render", {"viewport": {"width": width, "height": height}})["buffer"]
        assert (told["width"], told["height"]) == (width, height)
        lines = [[" "] * width for _ in range(height)]
        self.reversed = set()
        for place, cell in told["cells"]:
            lines[place["y"]][place["x"]] = cell["symbol"]
            if cell["modifier"] & 16:
                self.reversed.add(place["y"])
        return ["".join(line).rstrip() for line in lines]

    def text(self, **size: int) -> str:
        return "\n".join(self.lines(**size))

    def press(self, *keys: str, **more) -> None:
        for key in keys:
            code = {"type": key} if key in CODES else {"type": "char", "ch": key}
            event = {"code": code, "mods": 0, "kind": "press", **more}
            self.host.notify("plugin/handle_key", {"screen_id": "usage", "key": event, "generation": 0})

    def selected(self) -> str:
        lines = self.lines()
        (row,) = self.reversed - {0}
        return lines[row].split()[0]


@pytest.fixture
def screen(plughost_drive):
    return Screen(plughost_drive(make(str(FOLDER / "manifest.toml")), FOLDER))


@pytest.fixture
def filled(screen):
    screen.publish(USAGE)
    return screen


def test_at_first_it_asks_for_usage_and_says_that_there_is_none(screen):
    asked = {"topic": "sessions.refresh_request", "payload": ""}
    assert screen.host.notifications == [("host/snapshot/publish", asked)]
    assert "No usage yet" in screen.text()
    assert "is it running" in screen.text()


def test_days_projects_and_models_with_tokens_and_cost(filled):
    days = filled.lines()
    assert "2.5M tokens  $13.50 + ?" in days[0]
    assert days[2].split()[0] == "2025-11-11", "the newest first"
    assert days[2].split()[-6:] == ["2.5M", "2.5M", "0", "0", "2", "$12.50"]
    assert days[3].split()[-1] == "$1.00"
    filled.press("tab")
    assert [line.split()[0] for line in filled.lines()[2:4]] == ["tea", "wx"]
    filled.press("tab")
    models = filled.lines()
    assert [line.split()[0] for line in models[2:4]] == ["gpt-5", "nova"]
    assert models[3].split()[-1] == "?", "no price is not the price 0"
    assert "2 without a price" in models[-1]
    filled.press("tab")
    assert filled.lines() == days, "round and round"


def test_names_in_any_script_are_shown_whole_and_the_numbers_stay_in_their_columns(screen):
    names = ["漢字プロジェクト名", "cafe\u0301", "tea", "漢" * 40]
    projects = [{"name": name, "path": f"/{name}", "bucket": bucket(2000)} for name in names]
    screen.publish({**USAGE, "projects": projects})
    screen.press("tab")
    for _ in range(4):
        cut = f"{'漢' * 13} …"
        rows = [line for line in screen.lines() if "2.0k" in line and "tokens" not in line]
        assert [row.split("▇")[0].strip() for row in rows] == [*names[:3], cut]
        assert len({columns(row[: row.index("2.0k")]) for row in rows}) == 1
        screen.press("down")
    screen.press("enter")
    assert "漢" in screen.lines()[1]


def test_keys_move_and_stop_at_the_ends(filled):
    filled.press("2")
    assert filled.selected() == "tea"
    filled.press("down")
    assert filled.selected() == "wx"
    filled.press("down", "page_down", "j")
    assert filled.selected() == "wx"
    filled.press("up")
    assert filled.selected() == "tea"
    filled.press("end")
    assert filled.selected() == "wx"
    filled.press("k", "page_up", "up")
    assert filled.selected() == "tea"
    filled.press("G", "home")
    assert filled.selected() == "tea"
    filled.press("right", "back_tab", "left", "left")
    assert filled.selected() == "gpt-5"
    filled.press("1", kind="release")
    filled.press("1", mods=2)
    assert filled.selected() == "gpt-5"


def test_the_selected_row_is_always_on_the_screen(screen):
    days = [[f"2025-{1 + n // 28:02}-{1 + n % 28:02}", bucket(n)] for n in range(300)]
    screen.publish({**USAGE, "daily": days})
    for keys in (["end"], ["up"] * 20, ["home"], ["page_down"] * 3, ["page_up"]):
        screen.press(*keys)
        screen.selected()
    screen.press("end")
    assert screen.selected() == "2025-01-01"


def test_a_search_narrows_as_it_is_typed_and_esc_ends_it(filled):
    filled.press("2", "/", "W", "e", "a")
    text = filled.text()
    assert "search: Wea" in text
    assert "1 project ·" in text, "by its path, in any case"
    assert filled.selected() == "wx"
    filled.press("backspace", "x", "q")
    assert "0 projects" in filled.text()
    filled.press("enter", "esc")
    assert filled.selected() == "tea"
    filled.press("/", "x" * 1, "esc")
    assert "search:" not in filled.text()
    filled.press("/", *"r2s/", "enter")
    assert "search: r2s/" in filled.text(), "letters are letters while a search is typed"


def test_s_orders_by_cost_and_by_tokens(filled):
    filled.press("s", "s")
    assert "by tokens" in filled.text()
    assert filled.selected() == "2025-11-11"
    filled.press("s")
    assert "by" not in filled.lines()[-1].split("·")[-1]


def test_enter_shows_what_a_row_is_made_of(filled):
    filled.press("down", "down", "enter")
    assert "2025-11-10" in filled.lines()[1]
    filled.press("enter", "home", "enter")
    lines = filled.lines(height=16)
    assert lines[1].split() == ["2025-11-11"]
    shown = [line.split()[0] for line in lines[2:] if line]
    assert shown[:6] == ["projects", "tea", "wx", "models", "gpt-5", "nova"]
    assert "2.0M" in lines[3]
    assert lines[4].split()[-1] == "?"
    filled.press("esc")
    assert filled.selected() == "2025-11-11"


def test_a_row_that_is_looked_at_stays_the_same_when_others_come_before_it(filled):
    newer = {**USAGE, "daily": [*USAGE["daily"], ["2025-11-12", bucket(7)]]}
    filled.press("down")
    assert filled.selected() == "2025-11-10"
    filled.publish(newer)
    assert filled.selected() == "2025-11-10"
    filled.press("enter")
    filled.publish({**USAGE, "daily": [*newer["daily"], ["2025-11-13", bucket(7)]]})
    assert filled.lines()[1].split() == ["2025-11-10"]
    filled.publish(newer)
    filled.press("up")
    assert filled.lines()[1].split() == ["2025-11-11"], "one up from where it is by now"


def test_a_row_that_is_looked_at_and_gone_does_not_become_another(filled):
    filled.press("enter")
    assert filled.lines()[1].split() == ["2025-11-11"]
    filled.publish({**USAGE, "daily": USAGE["daily"][:1]}, partial=True)
    assert filled.lines()[1].split() == ["2025-11-11"]
    filled.press("esc")
    assert filled.selected() == "2025-11-10"


def test_of_two_rows_with_one_name_the_one_that_was_chosen_is_kept(screen):
    def published(*folders: str) -> dict:
        rows = [{"name": "same", "path": folder, "bucket": bucket(5)} for folder in folders]
        return {**USAGE, "projects": rows}

    screen.publish(published("/a/same", "/b/same"))
    screen.press("2", "down", "enter")
    assert screen.lines()[1].split() == ["same", "/b/same"]
    screen.publish(published("/b/same", "/c/same", "/a/same"))
    assert screen.lines()[1].split() == ["same", "/b/same"]


def test_parts_that_are_not_all_of_a_row_say_how_much_of_it_they_are(filled):
    filled.press("2", "enter")
    assert not [line for line in filled.lines(height=16) if "newest" in line], "they are all of it"
    rows = [{**USAGE["projects"][0], "bucket": bucket(600_000_000)}, *USAGE["projects"][1:]]
    filled.publish({**USAGE, "projects": rows})
    assert "of the newest 3 calls (2.0M of 600M tokens)" in filled.text(height=16)
    filled.publish({**USAGE, "projects": rows, "calls": []}, partial=True)
    assert "from before all logs were read (2.0M of 600M tokens)" in filled.text(height=16)


def test_a_row_of_calls_that_are_too_old_to_be_published_says_so_when_all_is_read(filled):
    filled.publish({**USAGE, "daily": [["2024-01-01", bucket(9)], *USAGE["daily"]]})
    filled.press("end", "enter")
    lines = filled.lines()
    assert lines[1].split() == ["2024-01-01"]
    assert "older than those published one by one" in lines[3]
    assert "when all logs have been read" not in filled.text()


def test_two_projects_of_one_name_are_made_of_their_own_calls(screen):
    projects = [
        {"name": "same", "path": path, "bucket": bucket(tokens)}
        for path, tokens in (("/b", 350), ("/a", 150))
    ]
    calls = [call("2025-11-11", "same", "gpt-5", row["bucket"]["input_tokens"], 0.5, row["path"]) for row in projects]  # fmt: skip
    screen.publish({**USAGE, "projects": projects, "calls": calls})
    screen.press("2", "enter")
    lines = screen.lines(height=16)
    assert lines[1].split() == ["same", "/b"]
    assert lines[3].split()[-6:] == ["350", "350", "0", "0", "1", "$0.50"]
    screen.press("1", "enter")
    parts = [line.split()[-6] for line in screen.lines(height=16) if line.split()[:1] == ["same"]]
    assert parts == ["350", "150"], "side by side where a day is made of both"


def test_parts_that_do_not_fit_are_counted_and_a_page_away(screen):
    days = [f"2025-11-{day:02}" for day in range(1, 15)]
    rows = [{"name": "tea", "path": "/home/ada/tea", "bucket": bucket(14 * 15 // 2)}]
    calls = [call(day, "tea", "gpt-5", 15 - number) for number, day in enumerate(days, 1)]
    screen.publish({**USAGE, "projects": rows, "calls": calls})
    screen.press("2", "enter")

    def seen() -> list[str]:
        words = [line.split()[0] for line in screen.lines()[2:-1] if line]
        return [word for word in words if word in (*days, "gpt-5")]

    assert seen() == days[:7]
    assert "… 8 more, page down" in screen.lines()[-2]
    screen.press("page_down")
    assert seen() == [*days[6:14]]
    assert "… 6 above, page up · 1 more, page down" in screen.lines()[-2]
    screen.press("page_down", "page_down")
    assert seen()[-1] == "gpt-5"
    assert "… 9 above, page up" in screen.lines()[-2]
    screen.press("page_up", "page_up", "page_up")
    assert seen() == days[:7]
    assert "above" not in screen.text(height=24)
    assert "more" not in screen.text(height=24)


def test_newer_sums_come_first_and_the_calls_stand_until_there_are_newer_ones(filled):
    newer = {**USAGE, "grand_total": bucket(9_000_000, 99.0), "calls": []}
    filled.publish(newer, partial=True)
    assert "$99.00" in filled.lines()[0]
    filled.press("enter")
    assert "tea" in filled.text(height=16)
    filled.publish({**newer, "calls": [call("2025-11-11", "new", "gpt-5", 7)]})
    text = filled.text(height=16)
    assert ("new" in text, "tea" in text) == (True, False)


def test_parts_are_told_to_come_when_there_are_no_calls_yet(screen):
    screen.publish({**USAGE, "calls": []}, partial=True)
    screen.press("enter")
    assert "when all logs have been read" in screen.text()


def test_a_batch_in_many_chunks_is_shown_from_the_first_on(screen):
    calls = [call("2025-11-11", "tea", "gpt-5", 10) for _ in range(500)]
    payloads = [*chunks.split({**USAGE, "calls": calls}, 7, target=5000)]
    assert len(payloads) > 5
    screen.host.event(TOPIC, payloads[1])
    assert "No usage yet" in screen.text()
    screen.host.event(TOPIC, payloads[0])
    assert "$13.50" in screen.lines()[0]
    for payload in payloads[1:]:
        screen.host.event(TOPIC, payload)
    screen.press("enter")
    assert any(line.split()[:1] == ["tea"] and "500" in line for line in screen.lines(height=16))


@pytest.mark.clause("AINB-43")
def test_another_wire_version_is_shown_as_such_until_ours_comes(filled):
    filled.host.event(TOPIC, msgspec.msgpack.encode({"version": 4, "anything": True}))
    text = filled.text()
    for told in ("Schema mismatch", "published: version 4", "understood here: version 3", "Update"):
        assert told in text
    filled.press("tab", "enter", "/", "x")
    assert "Schema mismatch" in filled.text(width=30, height=3)
    filled.publish(USAGE)
    assert "Schema mismatch" not in filled.text()


@pytest.mark.parametrize(
    "changes",
    [
        {"daily": [["2025-11-10"]]},
        {"daily": [[1, 2]]},
        {"projects": ["p"]},
        {"models": [{"model": "m", "bucket": {"input_tokens": -1}}]},
        {"grand_total": {"cost_usd": "much"}},
        {"grand_total": {"cost_usd": float("nan")}},
        {"grand_total": {"cost_usd": float("inf")}},
    ],
)
def test_data_that_is_none_is_told_and_what_was_there_stays(filled, changes):
    filled.publish({**USAGE, **changes})
    assert "is no usage data" in filled.text(width=200)
    assert "2025-11-11" in filled.text()
    filled.publish(USAGE)
    assert "is no usage data" not in filled.text(width=200)


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        5,
        {},
        {"model": 1},
        call("2025-11-11", "p", "m", -5),
        call("2025-11-11", "p", "m", 5, float("nan")),
    ],
)
def test_calls_that_are_none_are_told_and_the_batch_is_not_taken(filled, wrong):
    filled.publish({**USAGE, "calls": [wrong]})
    assert "is no usage data" in filled.text(width=200)
    filled.press("enter")
    assert "tea" in filled.text(height=16), "the calls before them stand"


def test_nothing_that_a_terminal_obeys_is_shown(screen):
    evil = "a\x1b[31mb\r\n\x07\u202e"
    screen.publish({**USAGE, "projects": [{"name": evil, "path": evil, "bucket": bucket(5)}]})
    screen.host.event(
        "sessions.scan_progress", msgspec.msgpack.encode({"scanned": 1, "total": 9, "current_project": evil})
    )
    for keys in (["2"], ["enter"], ["/", "\x1b"]):
        screen.press(*keys)
        assert all(line.isprintable() for line in screen.lines(width=200))


@pytest.mark.parametrize("size", [(0, 0), (1, 1), (3, 2), (20, 3), (39, 5), (80, 24), (300, 100)])
def test_every_size_can_be_painted(filled, size):
    width, height = size
    for keys in ([], ["enter"], ["esc", "/", "t"]):
        filled.press(*keys)
        filled.lines(width, height)
    assert len(filled.lines(39, 5)[0]) <= 39


def test_progress_is_shown_while_files_are_read(screen):
    screen.tell(0, 0)
    assert "session-reader looks for logs" in screen.text()
    screen.tell(3, 40)
    assert "reading 3 of 40 files  tea" in screen.text()
    screen.publish(USAGE, partial=True)
    assert "reading 3 of 40 files" in screen.lines()[-1]
    screen.tell(40, 40)
    screen.host.event("sessions.scan_progress", b"junk")
    assert "reading" not in screen.text()


class TestFramesWhileThereIsNothingToShow:
    """A host that takes a picture waits for one that stays the same; usage is about to come."""

    @pytest.fixture
    def passes(self, monkeypatch):
        """Time that passes when it is told to."""
        now = [100.0]
        monkeypatch.setattr(inboxes, "monotonic", lambda: now[0])

        def passes(seconds: float) -> None:
            now[0] += seconds

        return passes

    @pytest.fixture
    def screen(self, passes, plughost_drive):
        return Screen(plughost_drive(make(str(FOLDER / "manifest.toml")), FOLDER))

    def test_the_next_one_is_asked_for_while_somebody_reads(self, screen, passes):
        for told in ((0, 0), (0, 40), (7, 40)):
            assert screen.expects()
            passes(inboxes.PATIENCE - 0.5)
            assert screen.expects()
            screen.tell(*told)
        screen.publish(USAGE, partial=True)
        assert not screen.expects()

    def test_not_for_long_when_nobody_does(self, screen, passes):
        assert screen.expects()
        passes(inboxes.PATIENCE)
        assert not screen.expects()
        screen.tell(7, 40)
        assert screen.expects()
        passes(inboxes.PATIENCE)
        assert not screen.expects(), "it may have died"

    def test_not_when_there_is_something_else_to_show(self, screen):
        screen.host.event(TOPIC, msgspec.msgpack.encode({"version": 4}))
        assert not screen.expects()


def test_r_asks_again_and_shift_r_for_everything_anew(screen):
    before = len(screen.host.notifications)
    screen.press("r", "R")
    screen.lines()
    told = [told["payload"] for _, told in screen.host.notifications[before:]]
    assert told[0] == ""
    assert msgspec.msgpack.decode(base64.b64decode(told[1])) == {"hard": True}


def test_progress_ends_with_the_final_chunk_of_a_complete_batch(screen):
    """Not every publisher tells that it has scanned all."""
    screen.publish(chunks.nothing())
    without = screen.text()
    screen.tell(1, 9)
    assert screen.text() != without
    screen.publish(chunks.nothing(), partial=True)
    assert "1/9" in screen.text() or "1 of 9" in screen.text()
    screen.publish(chunks.nothing())
    assert screen.text() == without


def test_what_is_kept_is_bounded(screen, monkeypatch):
    monkeypatch.setattr(usages, "MOST_CELLS", 3)
    monkeypatch.setattr(usages, "MOST_ROWS", 5)
    calls = [call("2025-11-11", f"p{n}", "m", 1) for n in range(50)]
    projects = [{"name": f"p{n}", "path": "", "bucket": bucket(1)} for n in range(50)]
    screen.publish({**USAGE, "calls": calls, "projects": projects})
    screen.press("2")
    assert "5 projects" in screen.text()
    screen.press("1", "enter")
    shown = [line.split()[0] for line in screen.lines(height=80) if line]
    assert [name for name in shown if name.startswith("p") and name != "projects"] == ["p0", "p1", "p2"]
