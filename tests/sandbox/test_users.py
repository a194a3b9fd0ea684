"""Users of plugins: each its own, the same again, never one that somebody has."""

from __future__ import annotations

import os

import pytest

from plughost.errors import SandboxUnavailable
from plughost.sandbox import users as module
from plughost.sandbox.users import UIDS, User, Users, barrier, check_reachable
from tests.support import fds


@pytest.fixture
def locks(folder):
    return str(folder / "uids")


def test_a_plugin_has_one_user_of_its_own_and_gets_it_again(locks):
    first = Users(locks)
    one, other = first.take("one"), first.take("other")
    assert one != other
    assert {one.uid, other.uid} <= set(UIDS)
    assert first.take("one") == one
    first.close()
    again = Users(locks)
    assert again.take("other") == other
    assert again.take("one") == one
    again.close()


def test_a_user_that_was_given_back_is_the_same_for_the_next_host(locks):
    first, second = Users(locks), Users(locks)
    before = len(fds())
    user = first.take("one")
    assert second.take("one") != user, "it is one host's at a time"
    first.give_back("one")
    second.give_back("one")
    assert len(fds()) == before
    assert second.take("one") == user
    for users in (first, second):
        users.close()


def test_whom_a_plugin_would_become_is_foreseen_and_nothing_is_recorded(locks):
    dry_run = Users(locks, dry_run=True).take("one")
    assert not os.path.exists(locks)
    host = Users(locks)
    assert host.take("one") == dry_run
    before = {name: os.stat(f"{locks}/{name}").st_mtime_ns for name in os.listdir(locks)}
    assert Users(locks, dry_run=True).take("one") == dry_run, "also while a host has it"
    assert {name: os.stat(f"{locks}/{name}").st_mtime_ns for name in os.listdir(locks)} == before
    host.close()


def test_two_hosts_never_share_one(locks):
    first, second = Users(locks), Users(locks)
    taken = [users.take(f"p{n}").uid for n in range(20) for users in (first, second)]
    assert len(set(taken)) == len(taken)
    first.close()
    second.close()


def test_names_that_fall_on_one_uid_get_two(locks, monkeypatch):
    monkeypatch.setattr(module.zlib, "crc32", lambda data: 7)
    users = Users(locks)
    assert [users.take(name).uid for name in "abc"] == [UIDS[7], UIDS[8], UIDS[9]]
    users.close()


def test_a_uid_stays_with_the_name_that_had_it_first(locks, monkeypatch):
    monkeypatch.setattr(module.zlib, "crc32", lambda data: 7)
    first = Users(locks)
    victim = first.take("victim")
    first.close()
    second = Users(locks)
    assert second.take("chosen to fall on it") != victim
    assert second.take("victim") == victim
    second.close()


def test_when_all_were_given_the_one_that_was_not_used_for_longest_changes_hands(locks, monkeypatch):
    monkeypatch.setattr(module, "UIDS", range(61184, 61187))
    had = {}
    for time, name in ((1000, "recent"), (999, "old"), (998, "held")):
        users = Users(locks)
        had[name] = users.take(name)
        users.close()
        os.utime(f"{locks}/{had[name].uid}", (time, time))
    live, users = Users(locks), Users(locks)
    assert live.take("held") == had["held"]
    os.utime(f"{locks}/{had['held'].uid}", (1, 1))
    assert users.take("new") == had["old"]
    assert users.take("recent") == had["recent"]
    with pytest.raises(SandboxUnavailable, match="no user id is left"):
        users.take("one too many")
    live.close()
    users.close()


def test_a_uid_that_is_known_or_not_mapped_is_passed_over(locks, monkeypatch):
    monkeypatch.setattr(module.zlib, "crc32", lambda data: 0)
    monkeypatch.setattr(module, "_named_uids", lambda: {UIDS[0]})
    monkeypatch.setattr(module, "_dynamic_uids", lambda: {UIDS[1]})
    monkeypatch.setattr(module, "is_mapped", lambda uid: uid != UIDS[2])
    users = Users(locks)
    assert users.take("a").uid == UIDS[3]
    users.close()
    monkeypatch.setattr(module, "is_mapped", lambda uid: False)
    with pytest.raises(SandboxUnavailable, match="no user id is left") as caught:
        users.take("b")
    assert "container" in caught.value.hint


def test_what_bars_the_way_is_named(folder):
    deep = folder / "a" / "b"
    deep.mkdir(parents=True)
    file = deep / "file"
    file.write_text("")
    user = User(61300, 61300)
    assert barrier(str(file), user) is None
    file.chmod(0o600)
    assert barrier(str(file), user) == str(file)
    (folder / "a").chmod(0o700)
    assert barrier(str(file), user) == str(folder / "a")
    with pytest.raises(SandboxUnavailable, match=f"{folder}/a has mode 0700"):
        check_reachable([str(file)], user)
    (folder / "a").chmod(0o755)
    with pytest.raises(SandboxUnavailable) as caught:
        check_reachable([str(deep)], user, os.R_OK | os.W_OK)
    assert f"chown 61300 {deep}" in caught.value.hint
    assert barrier(str(file), User(os.getuid(), os.getgid())) is None
