"""kaged: the words for what a plugin may, and what declaring and granting them comes to."""

from __future__ import annotations

import os

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import plughost
from plughost.contracts.kaged.capabilities import HeldCapabilities, by_name, contradicts, parse, together
from plughost.contracts.kaged.contract import CONTRACT
from plughost.permissions.access import NONE, Access, Endpoint
from plughost.permissions.capability import Capability
from plughost.permissions.intersection import intersect
from tests.support.kaged import folder, spec


@pytest.mark.clause("KAGED-10")
@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("read:fs:/srv/notes", HeldCapabilities(access=Access(read=("/srv/notes",)))),
        ("read:fs:/srv//notes/", HeldCapabilities(access=Access(read=("/srv/notes",)))),
        ("read:fs://srv", HeldCapabilities(access=Access(read=("/srv",)))),
        ("read:fs:/a:b", HeldCapabilities(access=Access(read=("/a:b",)))),
        ("read:fs:/", HeldCapabilities(access=Access(read=("/",)))),
        ("write:fs:/srv", HeldCapabilities(access=Access(write=("/srv",)))),
        ("exec:git:/usr/bin/git", HeldCapabilities(access=Access(execute=("/usr/bin/git",)))),
        (
            "net:api.example.com:443",
            HeldCapabilities(access=Access(connect=(Endpoint("api.example.com", 443),))),
        ),
        ("net:API.example.com:1", HeldCapabilities(access=Access(connect=(Endpoint("api.example.com", 1),)))),
        (
            "net:[2001:db8::1]:65535",
            HeldCapabilities(access=Access(connect=(Endpoint("2001:db8::1", 65535),))),
        ),
        ("net:api.example.com:*", HeldCapabilities(access=Access(connect=(Endpoint("api.example.com", 0),)))),
        ("net:[::1]:*", HeldCapabilities(access=Access(connect=(Endpoint("::1", 0),)))),
        ("net:*", HeldCapabilities(access=Access(connect=(Endpoint("*", 0),)))),
        ("net:[]", HeldCapabilities()),
        ("kaged:storage:read", HeldCapabilities(frozenset({Capability("kaged:storage:read")}))),
        ("kaged:storage:write", HeldCapabilities(frozenset({Capability("kaged:storage:write")}))),
    ],
)
def test_a_word_is_one_value(word, meant):
    assert parse(word) == meant


@pytest.mark.clause("KAGED-10")
@pytest.mark.parametrize(
    "word",
    [
        "", "read", "read:fs", "read:fs:", "read:fs:notes", "read:fs:./notes", "read:fs:~/notes", "read:/srv",
        "read:fs:/a/../b", "read:fs:/a\0b", "write:fs:srv", "append:fs:/srv", "READ:fs:/srv", " read:fs:/srv",
        "exec:/usr/bin/git", "exec:git", "exec:git:", "exec::/usr/bin/git", "exec:git:bin/git",
        "exec:a/b:/usr/bin/b", "net:", "net:example.com", "net:example.com:", "net:example.com:0",
        "net:example.com:65536", "net:example.com:http", "net:example.com:-1", "net:::1:80", "net:[::1]",
        "net:[::1:80", "net:*:443", "net:*:*", "net:*.example.com:443", "net:example.com:443 private",
        "net:0x7f.1:80", "net:127.1:80", "net:[] ", "kaged:storage", "kaged:storage:delete", "kaged:storage:",
    ],
)  # fmt: skip
def test_what_is_no_word_is_refused(word):
    with pytest.raises(ValueError):
        parse(word)


@pytest.mark.clause("KAGED-10")
@given(st.text(alphabet="readwitxcngfskolb:/.*[]-0159 \0", max_size=40))
def test_any_text_is_a_word_or_is_refused_with_a_reason(text):
    try:
        parse(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017


@pytest.mark.clause("KAGED-10")
def test_no_network_stands_alone(tmp_path):
    assert contradicts(["net:[]", "net:a.example:1"])
    assert not contradicts(["net:[]", "net:[]", "read:fs:/srv"])
    place = folder(tmp_path)
    with pytest.raises(plughost.InvalidSpec, match="net:"):
        CONTRACT.resolve(spec(place, "net:[]", "net:*"))


WORDS = [
    "read:fs:/a", "read:fs:/a/b", "write:fs:/a", "write:fs:/a/b", "exec:x:/bin/x", "exec:y:/bin/y", "net:*",
    "net:a.example:1", "net:a.example:2", "net:a.example:*", "net:b.example:1", "kaged:storage:read",
]  # fmt: skip
some = st.lists(st.sampled_from(WORDS), max_size=4)


@given(some, some)
def test_what_covers_another_gains_nothing_from_it(one, other):
    """Against the overlap of access, which is tested against a model of its own."""
    held, wanted = together(one), together(other)
    both = intersect(wanted.access, held.access)
    covered = wanted.capabilities <= held.capabilities and HeldCapabilities(access=both).covers(
        HeldCapabilities(access=wanted.access)
    )
    assert held.covers(wanted) == covered


def bound(place, *grants, **more):
    return CONTRACT.resolve(spec(place, *grants, **more))


def effective(resolved, allow=NONE):
    """What the host makes of a resolved: what both sides say, and what is its own."""
    return HeldCapabilities(access=intersect(resolved.permissions.declared, allow)) | HeldCapabilities(
        access=resolved.permissions.own
    )


@pytest.mark.clause("KAGED-11", "KAGED-12")
def test_a_declaration_alone_gives_nothing_but_its_data_folder(tmp_path):
    place = folder(tmp_path, capabilities=["read:fs:/srv", "net:a.example:443", "kaged:storage:read"])
    resolved = bound(place)
    assert (resolved.permissions.capabilities, resolved.permissions.own) == (
        frozenset(),
        Access(write=(f"{tmp_path}/data/puppet",)),
    )
    assert resolved.permissions.declared == Access(read=("/srv",), connect=(Endpoint("a.example", 443),))
    assert effective(resolved).access == resolved.permissions.own
    assert [lint for lint in resolved.lints if "sandbox" not in lint] == [
        f"declared, but not granted: {word}"
        for word in ("read:fs:/srv", "net:a.example:443", "kaged:storage:read")
    ]
    assert (CONTRACT.sandbox, CONTRACT.default_grants) == ("strict", ())


@pytest.mark.clause("KAGED-11")
def test_what_is_granted_is_held_and_a_grant_may_add_what_a_manifest_forgot(tmp_path):
    place = folder(tmp_path, capabilities=["read:fs:/usr/share", "kaged:storage:read"])
    resolved = bound(place, "declared", "exec:mkdir:/usr/bin/mkdir")
    data = f"{tmp_path}/data/puppet"
    held = Access(read=("/usr/share",), write=(data,), execute=("/usr/bin/mkdir",))
    assert effective(resolved).access == held
    assert resolved.permissions.capabilities == {Capability("kaged:storage:read")}
    assert [lint for lint in resolved.lints if "sandbox" not in lint] == [
        "granted, though its manifest does not declare it: exec:mkdir:/usr/bin/mkdir"
    ]


@pytest.mark.clause("KAGED-11")
def test_declared_gives_no_private_files_and_nothing_to_write(tmp_path):
    private = tmp_path / "secret"
    private.write_text("secret")
    private.chmod(0o600)
    (tmp_path / "open").write_text("others may read it, but not reach it")
    (tmp_path / "link").symlink_to("/etc/shadow")
    wanted = [
        *(
            f"read:fs:{path}"
            for path in (private, tmp_path / "open", tmp_path / "link", "/home", "/root", "/etc")
        ),
        *("write:fs:/usr/share", f"write:fs:{tmp_path}", f"exec:secret:{private}", "net:127.0.0.1:80"),
        "net:localhost:80",
    ]
    public = [
        "read:fs:/etc/passwd",
        "read:fs:/usr/share/doc",
        "exec:env:/usr/bin/env",
        "net:*",
        "net:a.example:443",
    ]
    resolved = bound(folder(tmp_path, capabilities=[*wanted, *public]), "declared")
    data = f"{tmp_path}/data/puppet"
    assert effective(resolved).access == Access(
        read=("/etc/passwd", "/usr/share/doc"),
        write=(data,),
        execute=("/usr/bin/env",),
        connect=(Endpoint("*", 0), Endpoint("a.example", 443)),
    )
    told = [lint for lint in resolved.lints if lint.startswith("declared, but not granted: ")]
    assert [lint.split()[4] for lint in told if "net:" not in lint] == wanted[:-2]
    assert all("grant those by name" in lint for lint in told)
    by_name = bound(folder(tmp_path / "again", capabilities=wanted), *wanted)
    assert str(private) in effective(by_name).access.read


@pytest.mark.clause("KAGED-11")
def test_a_narrower_grant_is_a_narrower_power(tmp_path):
    place = folder(tmp_path, capabilities=["write:fs:/srv"])
    resolved = bound(place, "write:fs:/srv/one", "read:fs:/srv/two")
    assert (resolved.permissions.own.read, resolved.permissions.own.write) == (
        ("/srv/two",),
        ("/srv/one", f"{tmp_path}/data/puppet"),
    )
    assert "declared, but not granted: write:fs:/srv" in resolved.lints
    assert not any("does not declare" in lint for lint in resolved.lints)


@pytest.mark.clause("KAGED-11")
def test_what_the_operator_allows_beside_grants_counts_as_far_as_it_is_declared(tmp_path):
    resolved = bound(folder(tmp_path, capabilities=["read:fs:/srv"]))
    held = effective(resolved, Access(read=("/srv/one", "/etc"))).access
    assert held.read == ("/srv/one",)


@pytest.mark.clause("KAGED-11")
@pytest.mark.parametrize("grant", ["read:fs:/", "write:fs:/", "read:fs:srv", "all", "", "net:*:1"])
def test_a_grant_that_cannot_be_given_is_refused(tmp_path, grant):
    with pytest.raises(plughost.InvalidSpec, match="grant"):
        bound(folder(tmp_path), grant)


@pytest.mark.clause("KAGED-11")
def test_a_manifest_that_wants_the_whole_machine_is_not_granted_it_in_one_word(tmp_path):
    place = folder(tmp_path, capabilities=["read:fs:/"])
    with pytest.raises(plughost.InvalidSpec, match="whole file system"):
        bound(place, "declared")
    assert bound(place, "read:fs:/srv").permissions.own.read == ("/srv",)


@pytest.mark.clause("KAGED-13")
@pytest.mark.parametrize(
    ("word", "private"),
    [
        ("net:127.0.0.1:80", True),
        ("net:10.1.2.3:80", True),
        ("net:[::1]:80", True),
        ("net:localhost:80", True),
        ("net:db:5432", True),
        ("net:db.internal:5432", True),
        ("net:api.example.com:443", False),
        ("net:93.184.216.34:80", False),
        ("net:localhost:*", False),
        ("net:*", False),
    ],
)
def test_a_private_host_is_reached_when_it_is_granted_by_name(tmp_path, word, private):
    (meant,) = by_name(word).access.connect
    assert meant.private == private
    place = folder(tmp_path, capabilities=[word])
    assert bound(place, word).permissions.own.connect == (meant,)
    assert not any(each.private for each in bound(place, "declared").permissions.own.connect)


@pytest.mark.clause("KAGED-13")
def test_what_only_a_proxy_can_honour_is_said_at_load(tmp_path):
    place = folder(tmp_path, capabilities=["net:a.example:443", "net:b.example:*"])
    (lint,) = [lint for lint in bound(place, "declared").lints if "proxy" in lint]
    assert "net:b.example:*" in lint
    assert "public addresses" in lint


def test_without_a_sandbox_the_operator_is_told(tmp_path):
    place = folder(tmp_path)
    assert any("without a sandbox" in lint for lint in bound(place).lints)
    assert not any("without a sandbox" in lint for lint in bound(place, sandbox="strict").lints)


@pytest.mark.clause("KAGED-12")
async def test_every_plugin_has_a_data_folder_of_its_own(host, tmp_path, mark):
    place = folder(tmp_path / mark)
    plugin = await host.add(spec(place))
    env = (await plugin.call("p.about"))["env"]
    data = tmp_path / mark / "data" / "puppet"
    assert env["KAGED_CONFIG_ROOT"] == str(data)
    assert os.stat(data).st_mode & 0o777 == 0o700


@pytest.mark.clause("KAGED-12")
async def test_a_data_folder_that_others_may_read_is_not_used(host, tmp_path, mark):
    place = folder(tmp_path / mark)
    data = tmp_path / mark / "data" / "puppet"
    data.mkdir(parents=True, mode=0o755)
    with pytest.raises(plughost.LaunchFailed, match="is not private to this user"):
        await host.add(spec(place))


@pytest.mark.clause("KAGED-12")
def test_the_usual_place_of_data_follows_the_desktop_rules(tmp_path, monkeypatch):
    place = folder(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", "/x")
    plain = msgspec.structs.replace(spec(place), options={})
    assert CONTRACT.resolve(plain).env["KAGED_CONFIG_ROOT"] == "/x/plughost/kaged/puppet"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/h")
    for uid, usual in ((1000, "/h/.local/share"), (0, "/var/lib")):
        monkeypatch.setattr(os, "geteuid", lambda uid=uid: uid)
        assert CONTRACT.resolve(plain).env["KAGED_CONFIG_ROOT"] == f"{usual}/plughost/kaged/puppet"
