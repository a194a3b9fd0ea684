"""The errors: each has a code of its own, and docs/errors.md says its cause and its remedy."""

from __future__ import annotations

from plughost.errors import Crashed, Quarantined
from tests.support import errors_table


def test_the_page_of_errors_is_the_one_of_the_code():
    assert errors_table.FILE.read_text() == errors_table.page(), "run `make tables`"


def test_every_module_with_errors_is_on_the_page():
    assert errors_table.missing() == set()


def test_no_two_classes_share_a_code():
    codes = [line.split("`")[1] for line in errors_table.page().splitlines() if line.startswith("| `")]
    assert len(codes) == len(set(codes)) > 30


def test_an_error_without_a_hint_shows_the_remedy_of_its_class():
    assert Crashed("it ended").lines()[-1] == f"hint: {Crashed.remedy}"
    assert Quarantined("it failed", hint="free the disk").lines()[-1] == "hint: free the disk"
    assert Crashed("it ended").report()["hint"] == Crashed.remedy
