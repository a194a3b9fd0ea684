"""The master key: in a file that nobody else can read, or given by the program."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from plughost.errors import HostFailed, InvalidSpec
from plughost.vai.database.master_key import MasterKey, _find_or_create


async def test_the_file_is_created_at_the_first_need_for_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    master = MasterKey(str(folder))
    assert await master.seal(create=False) is None
    assert not folder.exists(), "nothing is created before"
    seal = await master.seal(create=True)
    assert seal is not None
    (file,) = folder.iterdir()
    assert (file.name, file.stat().st_mode & 0o7777, file.stat().st_size) == ("master.key", 0o600, 32)
    again = await MasterKey(str(folder)).seal(create=False)
    assert again is not None
    assert again.unseal(seal.seal(b"value", purpose="p", name="n"), purpose="p", name="n") == b"value"


async def test_the_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        await MasterKey(str(tmp_path)).seal(create=True)
    finally:
        os.umask(before)
    assert (tmp_path / "master.key").stat().st_mode & 0o7777 == 0o600


def test_all_who_create_it_at_once_have_the_same_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        keys = {*threads.map(_find_or_create, [str(tmp_path / "master.key")] * 32)}
    assert len(keys) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["master.key"], "nothing else is left"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o620])
async def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "master.key"
    file.write_bytes(os.urandom(32))
    file.chmod(mode)
    with pytest.raises(HostFailed, match=f"can be read by other users: its mode is {mode:o}") as caught:
        await MasterKey(str(tmp_path)).seal(create=True)
    assert caught.value.hint == f"chmod 600 {file}"


async def test_a_link_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_bytes(os.urandom(32))
    target.chmod(0o600)
    (tmp_path / "master.key").symlink_to(target)
    with pytest.raises(HostFailed, match="it is a symbolic link"):
        await MasterKey(str(tmp_path)).seal(create=True)
    (tmp_path / "master.key").unlink()
    (tmp_path / "master.key").symlink_to(tmp_path / "nowhere")
    with pytest.raises(HostFailed, match="it is a symbolic link"):
        await MasterKey(str(tmp_path)).seal(create=True)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("size", [0, 31, 33, 5000])
async def test_a_file_of_another_size_is_refused_without_its_content(tmp_path: Path, size: int) -> None:
    file = tmp_path / "master.key"
    file.write_bytes(b"k" * size)
    file.chmod(0o600)
    with pytest.raises(HostFailed, match="expected 32") as caught:
        await MasterKey(str(tmp_path)).seal(create=True)
    assert "kkk" not in caught.value.explain()
    assert file.stat().st_size == size, "it is not overwritten"


async def test_a_pipe_in_its_place_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "master.key", 0o600)
    with pytest.raises(HostFailed, match="is not a file"):
        await MasterKey(str(tmp_path)).seal(create=True)


async def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostFailed, match="cannot be"):
        await MasterKey(str(tmp_path / "file")).seal(create=True)


@pytest.mark.parametrize("given", [b"", b"k" * 31, b"k" * 33, "k" * 32, bytearray(b"k" * 32)])
def test_a_given_key_has_32_bytes(tmp_path: Path, given: bytes) -> None:
    with pytest.raises(InvalidSpec, match="expected 32 bytes") as caught:
        MasterKey(str(tmp_path), given)
    assert "kkk" not in caught.value.explain()


async def test_a_given_key_needs_no_file_and_is_not_shown(tmp_path: Path) -> None:
    master = MasterKey(str(tmp_path), b"k" * 32)
    assert await master.seal(create=True) is not None
    assert not [*tmp_path.iterdir()]
    assert repr(master) == "<MasterKey given>"
