"""Signatures that others can check, and exactly one word on what each is worth."""

from __future__ import annotations

import base64
import json
import os
import secrets
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from hypothesis import given
from hypothesis import strategies as st
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

from plughost.errors import InvalidConfig, InvalidSpec
from plughost.vai.packages import sign
from plughost.vai.packages.locate import PackageLocation
from plughost.vai.packages.oci.errors import NotFound
from plughost.vai.packages.oci.layout.folder import LayoutFolder
from plughost.vai.packages.release import Release
from plughost.vai.packages.trust import keys, signature
from plughost.vai.packages.trust import publishers as trust
from plughost.vai.packages.verify import verify_package
from tests.support import sample_package as little

NOW = datetime(2026, 6, 1, tzinfo=UTC)
RELEASE = Release("acme/little", "0.1.0", "sha256:" + "a" * 64, "sha256:" + "b" * 64)


@pytest.fixture
def envelope(signer):
    return signature.sign(RELEASE, keys.read_private(signer[0]), NOW)


def test_others_verify_it(envelope, signer):
    """Once with securesystemslib's own words, once by hand over the bytes that DSSE says are signed."""
    public = load_pem_public_key(Path(f"{signer[0]}.pub").read_bytes())
    document = json.loads(envelope)
    payload = base64.b64decode(document["payload"])
    (one,) = document["signatures"]
    kind = document["payloadType"].encode()
    encoded = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    public.verify(base64.b64decode(one["sig"]), encoded)
    with pytest.raises(InvalidSignature):
        public.verify(base64.b64decode(one["sig"]), encoded + b" ")
    key = SSlibKey.from_crypto(public, keyid=one["keyid"])
    assert Envelope.from_dict(document).verify([key], 1) == {signer[1].id: key}


@pytest.mark.clause("VAI-84")
def test_it_is_an_in_toto_statement_about_the_artifact(envelope):
    document = json.loads(envelope)
    assert document["payloadType"] == "application/vnd.in-toto+json"
    assert json.loads(base64.b64decode(document["payload"])) == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "acme/little", "digest": {"sha256": "a" * 64}}],
        "predicateType": "vai:plugin.release.v1",
        "predicate": {
            "package_id": "acme/little",
            "version": "0.1.0",
            "manifest": {"sha256": "b" * 64},
            "signed_at": "2026-06-01T00:00:00Z",
        },
    }


def test_what_others_sign_is_accepted(signer):
    """An envelope made without us, spaces and all."""
    from securesystemslib.signer import CryptoSigner

    payload = json.dumps(
        {
            "predicate": {
                "signed_at": "2026-06-01T02:00:00+02:00",
                "manifest": {"sha256": "b" * 64},
                "version": "0.1.0",
                "package_id": "acme/little",
            },
            "predicateType": "vai:plugin.release.v1",
            "subject": [{"digest": {"sha256": "a" * 64}, "name": "acme/little"}],
            "_type": "https://in-toto.io/Statement/v1",
        },
        indent=2,
    ).encode()
    theirs = Envelope(payload, "application/vnd.in-toto+json", {})
    key = SSlibKey.from_crypto(signer[1].to_crypto(), keyid=signer[1].id)
    theirs.sign(CryptoSigner(keys.read_private(signer[0]), key))
    text = json.dumps(theirs.to_dict(), indent=2).encode()
    assert signature.verify(text, RELEASE, little.trusting(signer[1]), NOW).posture == "trusted"


def other(**fields):
    return Release(**{**{name: getattr(RELEASE, name) for name in RELEASE.__struct_fields__}, **fields})


@pytest.mark.clause("VAI-84")
def test_exactly_one_posture(envelope, signer, folder):
    _, stranger = little.key(folder, "stranger")
    mine = little.trusting(signer[1])
    elsewhere = trust.TrustedPublishers(publishers={"other": mine.publishers["acme"]})
    document = json.loads(envelope)

    def changed(**fields):
        return json.dumps({**document, **fields}).encode()

    forged = [{"keyid": signer[1].id, "sig": base64.b64encode(bytes(64)).decode()}]
    renamed = [{**document["signatures"][0], "keyid": stranger.id}]
    both = [*renamed, *document["signatures"]]
    cases = [
        ("trusted", envelope, RELEASE, mine, ""),
        ("trusted", changed(signatures=both), RELEASE, mine, ""),
        ("unsigned", None, RELEASE, mine, "not signed"),
        ("unknown_key", envelope, RELEASE, trust.TrustedPublishers(), "is unknown"),
        ("unknown_key", envelope, RELEASE, little.trusting(stranger), "is unknown"),
        ("unknown_key", envelope, RELEASE, elsewhere, "belongs to other, and is not trusted for acme"),
        ("unknown_key", changed(signatures=renamed), RELEASE, mine, "is unknown"),
        (
            "invalid",
            changed(signatures=renamed),
            RELEASE,
            little.trusting(stranger),
            "not valid for that key",
        ),
        ("invalid", changed(signatures=forged), RELEASE, mine, "not valid for that key"),
        ("invalid", changed(signatures=[]), RELEASE, mine, "expected 1 to 16"),
        ("invalid", changed(signatures=both + both), RELEASE, mine, "different keys"),
        ("invalid", changed(payloadType="text/plain"), RELEASE, mine, "not a signature of a package"),
        ("invalid", changed(payload="e30="), RELEASE, mine, "cannot be read"),
        ("invalid", changed(payload=document["payload"] + "\n"), RELEASE, mine, "cannot be read"),
        ("invalid", b"", RELEASE, mine, "cannot be read"),
        ("invalid", b"[" * 100_000, RELEASE, mine, "cannot be read"),
        ("invalid", b" " * (2 << 20), RELEASE, mine, "larger than"),
        ("altered", envelope, other(digest="sha256:" + "c" * 64), mine, "different contents"),
        ("altered", envelope, other(manifest_digest="sha256:" + "c" * 64), mine, "different contents"),
        ("altered", envelope, other(version="0.1.1"), mine, "different contents of acme/little@0.1.0"),
        (
            "altered",
            envelope,
            other(package_id="acme/large"),
            mine,
            "different contents of acme/little@0.1.0",
        ),
    ]
    for posture, text, release, who, why in cases:
        verdict = signature.verify(text, release, who, NOW)
        assert (verdict.posture, why in verdict.why) == (posture, True), verdict
        assert (verdict.refusal(release) is None) == (posture == "trusted")


def test_a_strangers_words_are_shown_so_that_no_terminal_obeys_them(envelope, signer):
    document = json.loads(envelope)
    document["signatures"][0]["keyid"] = "\x1b[2J" * 100
    verdict = signature.verify(json.dumps(document).encode(), RELEASE, little.trusting(signer[1]), NOW)
    assert verdict.posture == "unknown_key"
    assert (verdict.why + verdict.key_id).isprintable()
    assert len(verdict.why) < 200


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


@given(st.data())
def test_whatever_is_said_to_be_a_signature_gets_one_word(data):
    """Parts of a right one, replaced by anything: never trusted, never an exception."""
    statement = msgspec.to_builtins(signature.Statement.of(RELEASE, NOW))
    envelope = {
        "payload": "",
        "payloadType": signature.PAYLOAD,
        "signatures": [{"keyid": "x", "sig": "AA=="}],
    }
    where = data.draw(
        st.sampled_from([statement, statement["predicate"], statement["subject"][0], envelope, {}])
    )
    if where:
        where[data.draw(st.sampled_from(sorted(where)))] = data.draw(json_values)
    if envelope["payload"] == "":
        envelope["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()
    text = data.draw(st.just(json.dumps(envelope).encode()) | st.binary(max_size=50))
    verdict = signature.verify(text, RELEASE, trust.TrustedPublishers(), NOW)
    assert verdict.posture in ("unknown_key", "altered", "invalid")


def test_a_signer_known_by_his_key(envelope, signer):
    verdict = signature.verify(envelope, RELEASE, little.trusting(signer[1]), NOW)
    assert (verdict.publisher, verdict.key_id) == ("acme", signer[1].id)


@pytest.mark.parametrize(
    ("options", "posture", "why"),
    [
        ({"valid_from": NOW, "valid_until": NOW + timedelta(days=1)}, "trusted", ""),
        ({"valid_from": NOW + timedelta(days=1)}, "unknown_key", "is valid from 2026-06-02 on"),
        ({"valid_until": NOW}, "unknown_key", "was valid until 2026-06-01"),
        ({"revoked": True}, "unknown_key", "is revoked"),
    ],
)
@pytest.mark.clause("VAI-84")
def test_a_key_counts_while_it_is_valid_and_never_once_it_is_revoked(options, posture, why, envelope, signer):
    much_later = NOW + timedelta(days=4000)
    verdict = signature.verify(envelope, RELEASE, little.trusting(signer[1], **options), much_later)
    assert (verdict.posture, why in verdict.why) == (posture, True), verdict


def test_a_publisher_may_have_several_keys(envelope, signer, folder):
    _, newer = little.key(folder, "newer")
    both = [trust.TrustedKey(key=newer.text), trust.TrustedKey(key=signer[1].text)]
    who = trust.TrustedPublishers(publishers={"acme": trust.Publisher(keys=both)})
    assert signature.verify(envelope, RELEASE, who, NOW).key_id == signer[1].id


def test_a_signature_from_the_future_is_none(envelope, signer):
    verdict = signature.verify(envelope, RELEASE, little.trusting(signer[1]), NOW - timedelta(days=1))
    assert verdict.posture == "invalid"


async def test_a_file_that_was_changed_is_altered_whoever_signed_it(signed, trust):
    assert (await verify_package(little.place(signed), trust)).verdict.posture == "trusted"
    path = Path(signed.file)
    whole = path.read_bytes()
    for cut in (bytearray(whole[:-1]), bytearray(whole), bytearray()):
        if len(cut) == len(whole):
            cut[whole.index(b"#!/bin/sh")] ^= 1
        path.write_bytes(cut)
        found = await verify_package(little.place(signed), trust)
        assert found.verdict.posture == "altered", found


async def test_what_is_not_there_is_not_altered(folder, trust):
    layout = LayoutFolder(folder / "layout")
    layout.prepare()
    with pytest.raises(NotFound):
        await verify_package(PackageLocation(layout, "1.0.0"), trust)


def test_a_key_is_for_its_owner_alone_and_never_overwritten(folder):
    path, public = little.key(folder)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_bytes()
    with pytest.raises(InvalidSpec, match="already exists"):
        keys.generate(path)
    (folder / "key.pub").unlink()
    with pytest.raises(InvalidSpec, match="already exists"):
        keys.generate(path)
    assert path.read_bytes() == text
    assert not (folder / "key.pub").exists()
    assert keys.public_of(keys.read_private(path)) == public == keys.parse_public(public.text)
    path.chmod(0o640)
    with pytest.raises(InvalidSpec, match="other users can read the key"):
        keys.read_private(path)


@pytest.mark.parametrize(
    "text", ["", "ed25519:", "ed25519:AAAA", "rsa:x", "ed25519:" + "A" * 43, "ed25519: "]
)
def test_what_is_no_key_is_told(text):
    with pytest.raises(ValueError):
        keys.parse_public(text)


@pytest.mark.clause("VAI-84")
def test_a_trust_file(folder):
    _, public = little.key(folder)
    file = folder / "trust.toml"
    file.write_text(
        'mode = "development"\n[publishers.acme]\ninline = true\n[[publishers.acme.keys]]\n'
        f'key = "{public.text}"\nvalid_from = 2026-01-01T00:00:00Z\nrevoked = true\n'
    )
    read = trust.read(file)
    assert (read.mode, read.publishers["acme"].inline, list(read.keys_of("acme"))) == (
        "development",
        True,
        [public.id],
    )
    file.write_text('mode = "test"\n[publishers.acme]\ninline = "yes"\n[[publishers.acme.keys]]\nkye = "x"\n')
    with pytest.raises(InvalidConfig) as caught:
        trust.read(file)
    assert [problem.line for problem in caught.value.problems] == [1, 3, 4, 5]
    file.write_text(
        f'[[publishers.a.keys]]\nkey = "{public.text}"\nvalid_until = 2026-01-01T00:00:00\n'
        f'[[publishers.a.keys]]\nkey = "{public.text}"\n[[publishers.a.keys]]\nkey = "ed25519:xx"\n'
    )
    with pytest.raises(InvalidConfig) as caught:
        trust.read(file)
    assert [problem.line for problem in caught.value.problems] == [3, 5, 7]


def test_without_a_trust_file_nobody_is_trusted(folder, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    assert trust.read() == trust.TrustedPublishers(mode="production", publishers={})
    with pytest.raises(InvalidConfig, match="No such file"):
        trust.read(folder / "trust.toml")


async def test_a_signature_is_not_written_through_somebody_elses_link(made, signer, folder, monkeypatch):
    (folder / "mine").write_text("mine")
    beside = Path(made.file).with_name(signature.FILE)
    for number in (os.getpid(), "0" * 16):
        beside.with_name(f".{signature.FILE}.{number}").symlink_to(folder / "mine")
    monkeypatch.setattr(secrets, "token_hex", lambda size: "0" * 2 * size)
    private = keys.read_private(signer[0])
    with pytest.raises(InvalidSpec, match="File exists"):
        await sign.sign(little.place(made), private, trust.now())
    assert (folder / "mine").read_text() == "mine"


@pytest.mark.parametrize(
    "point",
    [
        "01" + "00" * 31,
        "00" * 31 + "80",
        "ec" + "ff" * 30 + "7f",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    ],
)
def test_a_key_for_which_anybody_can_sign_is_none(point):
    with pytest.raises(ValueError, match="anybody can forge"):
        keys.parse_public(keys.PublicKey(bytes.fromhex(point)).text)
