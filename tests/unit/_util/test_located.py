"""Files that people write: every problem at once, each at its line."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import plughost
from plughost import config
from plughost._util.located.toml import LARGEST_OF_AUTHORS, MOST_MARKS, load_authors_toml, load_toml
from tests.support.cpu_time import within_cpu_seconds

BROKEN = """\
# a comment = with signs
title = "x"

[plugins.good]
contract = "mcptest"
command = ["python3", "echo.py"]

[plugins.bad]
contract = "mcptest"
command = "python3"
env = { A = 1, B = "${NO_SUCH_VARIABLE}" }
max_in_flight = 0
call_timeout = "long"
nonsense = '''
[plugins.fake]
'''

[plugins."worse.one"]
contract = "nope"

[plugins.bare]
command = []
"""


def problems(tmp_path: Path, text: str) -> list[tuple[int, str, str]]:
    path = tmp_path / "plughost.toml"
    path.write_text(text)
    with pytest.raises(plughost.InvalidConfig) as caught:
        config.load(path, {})
    assert all(problem.file == str(path) for problem in caught.value.problems)
    return [(problem.line, problem.field, problem.message) for problem in caught.value.problems]


LARGE = "an integer of more than 64 bits"


@pytest.mark.parametrize(
    "number", ["0x" + "f" * 5000, "0b" + "1" * 65, "18446744073709551616", "-9223372036854775809"]
)
def test_an_integer_of_more_than_64_bits_is_a_problem_at_its_line(tmp_path, number):
    text = f"""
[plugins.a]
contract = "mcptest"
command = ["x"]
call_timeout = {number}
env = {{ A = [1, {number}] }}
"""
    assert problems(tmp_path, text) == [
        (5, "plugins.a.call_timeout", LARGE),
        (6, "plugins.a.env.A[1]", LARGE),
    ]


def test_so_is_one_that_cannot_be_read(tmp_path):
    assert problems(tmp_path, f"a = 1\nb = {'9' * 5000}\n") == [(2, "", LARGE)]


def test_every_problem_is_told_at_once_with_its_line_and_field(tmp_path):
    found = {(line, field) for line, field, _ in problems(tmp_path, BROKEN)}
    assert found == {
        (2, "title"),
        (10, "plugins.bad.command"),
        (11, "plugins.bad.env.A"),
        (12, "plugins.bad.max_in_flight"),
        (13, "plugins.bad.call_timeout"),
        (14, "plugins.bad.nonsense"),
        (18, "plugins.worse.one"),
        (19, "plugins.worse.one.contract"),
        (21, "plugins.bare"),
        (22, "plugins.bare.command"),
    }


def test_problems_say_what_was_expected(tmp_path):
    text = "\n".join(message for _, _, message in problems(tmp_path, BROKEN))
    for words in (
        "expected `array`",
        "expected `int` >= 1",
        "known: ",
        "`contract` is missing; expected str",
    ):
        assert words in text


def test_a_missing_variable_and_a_secret_reference_are_located(tmp_path):
    text = '[plugins.p]\ncontract = "mcptest"\ncommand = ["x"]\n[plugins.p.env]\nA = "${GONE}"\nB = "secret://vault/b"\n'
    (a, b) = problems(tmp_path, text)
    assert a[:2] == (5, "plugins.p.env.A")
    assert "${GONE}" in a[2]
    assert b[:2] == (6, "plugins.p.env.B")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a = 1\nb = \n", 2, "Invalid value"),
        ("[x\n", 1, "Expected"),
        ("a = 1\na = 2\n", 2, "overwrite"),
    ],
)
def test_a_file_that_is_no_toml_is_one_located_problem(tmp_path, text, line, words):
    ((found, _, message),) = problems(tmp_path, text)
    assert found == line
    assert words.lower() in message.lower()


def test_a_file_that_cannot_be_read_is_a_problem_too(tmp_path):
    with pytest.raises(plughost.InvalidConfig, match="No such file"):
        config.load(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b'a = "\xff"')
    with pytest.raises(plughost.InvalidConfig, match="UTF-8"):
        config.load(tmp_path / "latin.toml")


def test_a_contracts_own_refusal_is_located_at_the_plugin(tmp_path):
    text = '\n[plugins.p]\ncontract = "rune"\ncommand = ["x"]\ngrants = ["a", "a"]\n'
    ((line, field, message),) = problems(tmp_path, text)
    assert (line, field) == (2, "plugins.p")
    assert "listed twice" in message


def test_values_are_expanded_and_folders_are_the_files_own(tmp_path):
    (tmp_path / "sub").mkdir()
    path = tmp_path / "plughost.toml"
    path.write_text(
        '[plugins.p]\ncontract = "mcptest"\ncommand = ["x"]\ncwd = "sub"\ncall_timeout = 3\nenv = { A = "<${X}>" }\n'
    )
    spec = config.load(path, {"X": "1"})["p"]
    assert (spec.env, spec.cwd, spec.options) == ({"A": "<1>"}, str(tmp_path / "sub"), {"call_timeout": 3})


keys = st.sampled_from(["a", "b-c", '"d e"', "'f'", "g.h", '"i.j".k'])
values = st.sampled_from(
    [
        "1",
        '"x # y"',
        "'''\nz = 1\n[q]\n'''",
        '"""\n\\"""\n"""',
        "[1,\n 2, # c ]\n 3]",
        "{ m = 1, n = [2] }",
        "1979-05-27",
    ]
)


@given(
    st.lists(st.tuples(keys, values), max_size=6, unique_by=lambda pair: pair[0]),
    st.lists(st.sampled_from(["t", "u.v"]), unique=True),
)
def test_every_key_of_a_valid_file_is_found_at_the_line_where_it_stands(tmp_path_factory, pairs, tables):
    text = "".join(f"{key} = {value}\n" for key, value in pairs) + "".join(
        f"\n[[{table}]] # c\nkey = 1\n[[{table}]]\nkey = 2\n" for table in tables
    )
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    path = tmp_path_factory.mktemp("toml") / "f.toml"
    path.write_text(text)
    document = load_toml(path)
    lines = text.split("\n")
    for key, _ in pairs:
        field = {'"d e"': ("d e",), "'f'": ("f",), "g.h": ("g", "h"), '"i.j".k': ("i.j", "k")}.get(
            key, (key,)
        )
        assert lines[document.line(field) - 1].startswith(f"{key} = ")
    for table in tables:
        for place in (0, 1):
            assert lines[document.line((*table.split("."), place, "key")) - 1] == f"key = {place + 1}"


def test_a_repr_never_shows_the_environment():
    spec = plughost.PluginSpec(contract="mcptest", name="p", command=["x"], env={"TOKEN": "hunter2"})
    assert "hunter2" not in repr(spec)
    assert b"hunter2" in msgspec.json.encode(spec)


def test_escaped_keys_are_found_where_they_stand(tmp_path):
    text = '[plugins."caf\\u00e9"]\ncontract = "mcptest"\ncommand = ["x"]\n"bo\\u0067us" = 2\n'
    assert [(line, field) for line, field, _ in problems(tmp_path, text)] == [(4, "plugins.café.bogus")]


@pytest.mark.parametrize(
    "text",
    [
        "a." * 60_000 + "a = 1\n",
        "[" + "a." * 60_000 + "a]\n",
        "[[" + "a . " * 30_000 + "a]]\n",
        "x = { b = 1, " + "a." * 60_000 + "a = 1 }\n",
        '"a\\".b".' * 10_000 + "'a' = 1\n",
        "x = [1.5, {" + "a\t.\t" * 30_000 + "a = 1}]\n",
    ],
)
def test_a_key_of_many_parts_is_refused_at_its_line_before_it_is_parsed(tmp_path, text):
    file = tmp_path / "long.toml"
    file.write_text('# one\ns = """\n.\n"""\n' + text)

    def load() -> None:
        with pytest.raises(plughost.InvalidConfig, match=r"long.toml:5: a key of more than 32 parts"):
            load_toml(file)

    within_cpu_seconds(2, load)


@pytest.mark.parametrize(
    "text",
    [
        ".".join("a" * 32) + " = 1\n",
        "[" + ".".join(["'a.b'"] * 32) + "]\n",
        "a = [" + "1.5, " * 1000 + "]\n",
        "a = " + repr("1.2.3." * 100) + '\nb = "' + 'x.\\"' * 100 + '"\n#' + "." * 100,
        "a = '''" + "." * 100 + "'''\nb = \"\"\"\n" + "." * 100 + '\\""""\n',
        "".join(f"a.b.c.d{n} = 1.5\n" for n in range(100)),
    ],
)
def test_dots_of_honest_documents_are_not_parts_of_one_key(tmp_path, text):
    file = tmp_path / "honest.toml"
    file.write_text(text)
    assert load_toml(file).data == tomllib.loads(text)


def test_a_quote_that_nothing_closes_takes_no_time_either(tmp_path):
    file = tmp_path / "open.toml"
    file.write_text("a = " + '"\\' * 100_000 + "." * 100)

    def load() -> None:
        with pytest.raises(plughost.InvalidConfig, match="open.toml:1: "):
            load_toml(file)

    within_cpu_seconds(2, load)


LINES = MOST_MARKS // 2 - 1
WORST = {
    "an array": "[zz]\na = [" + "1," * (MOST_MARKS - 10) + "]\n",
    "keys": "".join(f"k{n:x}=1\n" for n in range(LINES)),
    "keys with escapes": "".join(f'"\\n{n:x}"=1\n' for n in range(LINES)),
    "tables": "".join(f"[t{n:x}]\n" for n in range(LINES)),
    "items": "[[t]]\n" * (MOST_MARKS // 3),
    "long keys": "".join(".".join("a" * 31) + f".k{n:x}=1\n" for n in range(MOST_MARKS // 33)),
    "keys of a deep table": "[" + ".".join("a" * 31) + "]\n" + "".join(f"k{n:x}=1\n" for n in range(LINES - 20)),
    "escapes in a string": 'a = "' + "\\n" * 32_000 + '"\n',
    "a string of lines": 'a = """' + "\n" * (MOST_MARKS - 5) + '"""\n',
}  # fmt: skip


@pytest.mark.parametrize("text", WORST.values(), ids=WORST)
def test_the_worst_file_of_an_author_is_read_quickly(tmp_path, text):
    file = tmp_path / "worst.toml"
    file.write_text(text)

    def load() -> None:
        document = load_authors_toml(file)
        document.set_aside_unknown(msgspec.defstruct("Nothing", []), document.data)

    within_cpu_seconds(0.5, load)  # 0.05 where nothing else runs


def test_a_wrong_plughost_toml_of_an_author_is_told_quickly(tmp_path):
    keys = "".join(f"contrac{n:x}=1\n" for n in range(4_000))
    (tmp_path / "plughost.toml").write_text(f'[plugins.p]\ncontract="mcptest"\ncommand=["x"]\n{keys}')

    def load() -> plughost.InvalidConfig:
        with pytest.raises(plughost.InvalidConfig) as caught:
            plughost.config.load_folder(tmp_path)
        return caught.value

    assert len(within_cpu_seconds(1, load).problems) == 4_000


def test_a_folders_file_of_many_plugins_is_refused_before_any_is_looked_at(tmp_path):
    tables = "".join(f'[plugins.p{n}]\ncontract="ainb"\ncommand=["x"]\n' for n in range(1_000))
    (tmp_path / "plughost.toml").write_text(tables)
    (tmp_path / "manifest.toml").write_text(WORST["keys"])

    def load() -> None:
        with pytest.raises(
            plughost.InvalidSpec,
            match="configures 1000 plugins; the file in a plugin folder must configure exactly one",
        ):
            plughost.config.load_folder(tmp_path)

    within_cpu_seconds(1, load)


def test_a_file_of_an_author_has_bounds_and_an_operators_has_wider_ones(tmp_path):
    file = tmp_path / "plughost.toml"
    file.write_text("[zz]\na = [" + "1," * MOST_MARKS + "]\n")
    with pytest.raises(plughost.InvalidConfig, match="more than 10000 commas, dots, brackets"):
        plughost.config.load_folder(tmp_path)
    with pytest.raises(plughost.InvalidConfig, match="unknown key"):
        plughost.config.load(file)
    file.write_text("#" * (LARGEST_OF_AUTHORS + 1))
    with pytest.raises(plughost.InvalidConfig, match="larger than 65536 bytes"):
        plughost.config.load_folder(tmp_path)
    assert plughost.config.load(file) == {}
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "manifest.toml").write_text("#" * (LARGEST_OF_AUTHORS + 1))
    with pytest.raises(plughost.InvalidConfig, match="larger than 65536 bytes"):
        plughost.config.load_folder(tmp_path / "p")


def test_an_array_of_many_numbers_has_its_lines_found_quickly(tmp_path):
    file = tmp_path / "large.toml"
    text = "a = [" + "1,\n" * 100_000 + "]\nb = 'x]\"' # [\nc = {d = 1}\n"
    file.write_text(text)
    document = within_cpu_seconds(3, lambda: load_toml(file))
    assert [document.line((key,)) for key in "abc"] == [1, 100_002, 100_003]
