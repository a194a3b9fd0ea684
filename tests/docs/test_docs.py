"""The documents tell the truth: clauses are proved, links lead somewhere."""

from __future__ import annotations

import ast
import re

from tests.support import ROOT

CONTRACTS = sorted((ROOT / "docs/contracts").glob("*.md"))


def promised() -> set[str]:
    rows = [re.findall(r"^\| ([A-Z]+-\d+) \| ", path.read_text(), re.M) for path in CONTRACTS]
    return {clause for row in rows for clause in row}


def cited() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in (ROOT / "tests").rglob("*.py"):
        text = path.read_text()
        if "clause" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            for mark in getattr(node, "decorator_list", []):
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.clause":
                    for word in mark.args:
                        assert isinstance(word, ast.Constant)
                        found.setdefault(word.value, []).append(f"{path.name}::{node.name}")
    return found


def test_every_clause_is_cited_by_a_test_and_every_cited_clause_exists():
    assert len(promised()) > 50
    clauses = cited().keys()
    assert promised() - clauses == set(), "promised, but no test cites it"
    assert clauses - promised() == set(), "cited, but not promised anywhere"


def test_every_link_in_the_documents_leads_to_a_file():
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_every_path_that_the_architecture_names_exists():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    for name in re.findall(r"`((?:src|tests|docs|plugins|launcher|benchmarks)/[\w./-]+)`", text):
        assert (ROOT / name).exists(), name


def test_the_documents_name_no_machine_and_no_registry():
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "requirements").glob("*")]:
        text = path.read_text()
        assert "/work/" not in text, path
        assert not re.search(r"--(extra-)?index-url|--find-links", text), path


def test_what_the_walks_call_exists_in_the_code():
    """Each `name(` on an arrow of a sequence diagram is a function or a class of ours."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    called = {
        name
        for line in re.findall(r"^    \w+-?->>\w+: (.*)$", text, re.M)
        for name in re.findall(r"\b(\w+)\(", line)
    }
    assert len(called) > 20
    source = "\n".join(path.read_text() for path in (ROOT / "src/plughost").rglob("*.py"))
    defined = set(re.findall(r"^\s*(?:async )?(?:def|class) (\w+)", source, re.M))
    assert called - defined == set()
