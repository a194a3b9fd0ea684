"""Sealed values: they open with their key, purpose and name, and with nothing else."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plughost.vai.database.sealing import Seal, WrongSeal

KEY = os.urandom(32)
texts = st.text(max_size=20)


@given(st.binary(max_size=200), texts, texts)
def test_a_value_opens_with_its_purpose_and_name(value: bytes, purpose: str, name: str) -> None:
    sealed = Seal(KEY).seal(value, purpose=purpose, name=name)
    assert Seal(KEY).unseal(sealed, purpose=purpose, name=name) == value
    assert len(value) < 8 or value not in sealed
    assert Seal(KEY).seal(value, purpose=purpose, name=name) != sealed, "equal values do not look equal"


@given(texts, texts, texts, texts)
def test_a_value_cannot_be_put_in_the_place_of_another(
    purpose: str, name: str, other_purpose: str, other_name: str
) -> None:
    sealed = Seal(KEY).seal(b"value", purpose=purpose, name=name)
    if (purpose, name) != (other_purpose, other_name):
        with pytest.raises(WrongSeal):
            Seal(KEY).unseal(sealed, purpose=other_purpose, name=other_name)


@given(st.data())
def test_a_value_that_was_changed_does_not_open(data: st.DataObject) -> None:
    sealed = bytearray(Seal(KEY).seal(b"value", purpose="p", name="n"))
    place = data.draw(st.integers(0, len(sealed) - 1))
    sealed[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(WrongSeal):
        Seal(KEY).unseal(bytes(sealed), purpose="p", name="n")


@given(st.binary(max_size=60))
def test_anything_else_does_not_open(sealed: bytes) -> None:
    for beginning in (b"", b"\x01"):
        with pytest.raises(WrongSeal):
            Seal(KEY).unseal(beginning + sealed, purpose="p", name="n")


def test_another_key_does_not_open_it_and_no_key_is_shown() -> None:
    sealed = Seal(KEY).seal(b"value", purpose="p", name="n")
    with pytest.raises(WrongSeal) as caught:
        Seal(os.urandom(32)).unseal(sealed, purpose="p", name="n")
    assert str(caught.value) == ""
    assert repr(Seal(KEY)) == "<Seal>"
