"""The mutants themselves: each still is a change of the code as it stands. `make mutants` runs them."""

from __future__ import annotations

import ast

import pytest

from plughost.vai.database.statements import parse_statements
from tests.mutants.__main__ import ROOT, place
from tests.mutants.mutants import MUTANTS


def test_names_tell_mutants_apart():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_one_change_that_can_be_run(mutant):
    text = place(mutant).read_text()
    assert text.count(mutant.old) == 1, f"{mutant.file} holds this text {text.count(mutant.old)} times"
    changed = text.replace(mutant.old, mutant.new)
    if mutant.file.endswith(".sql"):
        parse_statements(changed)
    else:
        ast.parse(changed)
    for word in mutant.tests.split():
        assert (ROOT / word).exists(), word
