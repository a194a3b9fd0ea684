"""Signatures of releases: a DSSE envelope around an in-toto statement, and the verdict on it.

Other tools can create and verify them: the formats are https://github.com/secure-systems-lab/dsse and
https://in-toto.io/Statement/v1.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from plughost._util.text import escape_controls
from plughost.vai.packages.archive.limits import MAX_DOCUMENT_BYTES
from plughost.vai.packages.errors import Altered, PackageRefused, Untrusted
from plughost.vai.packages.release import Release
from plughost.vai.packages.trust.keys import PublicKey, exact_base64, public_of, require
from plughost.vai.packages.trust.publishers import REVOKED, TrustedPublishers, default_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FILE = "marketplace.signature.json"
STATEMENT = "https://in-toto.io/Statement/v1"
PAYLOAD = "application/vnd.in-toto+json"
PREDICATE = "vai:plugin.release.v1"
_SKEW = timedelta(hours=1)
"""By how much a signer's clock may be ahead."""
_MAX_SIGNATURES = 16

Posture = Literal["trusted", "unknown_key", "unsigned", "altered", "invalid"]


class SignatureVerdict(msgspec.Struct, frozen=True):
    """The verdict on the signature of a release."""

    posture: Posture
    publisher: str = ""
    key_id: str = ""
    """The key that counts, or the first one that does not."""
    why: str = ""

    def refusal(self, release: Release | str) -> PackageRefused | None:
        """The error for a release without a trusted signature; None when it has one."""
        if self.posture == "trusted":
            return None
        if self.posture == "altered":
            return Altered(self.why, plugin=str(release))
        return Untrusted(self.why, plugin=str(release), hint=self._remedy())

    def _remedy(self) -> str:
        """What to do about a release without a trusted signature."""
        trusted = f"{default_file()} (or the file given with --trust)"
        if self.posture == "unsigned":
            return (
                f"get a signed package from {self.publisher}; if it is your own, `plughost sign` it and list "
                f"the key in {trusted}, or run it from its folder: plughost invoke ./FOLDER"
            )
        if self.posture == "invalid":
            return f"get the package and its signature from {self.publisher} again"
        if self.why.endswith(REVOKED):
            return f"do not use it: ask {self.publisher} for a release that is signed with another key"
        return f"if you trust that key, list it under publishers.{self.publisher} in {trusted}"


class _Signature(msgspec.Struct):
    sig: str
    keyid: str = ""


class _Envelope(msgspec.Struct):
    payload: str
    payloadType: str
    signatures: list[_Signature]


class _Sum(msgspec.Struct):
    sha256: str


class _Subject(msgspec.Struct):
    name: str
    digest: _Sum


class _Predicate(msgspec.Struct):
    package_id: str
    version: str
    manifest: _Sum
    signed_at: datetime


class Statement(msgspec.Struct):
    """The in-toto statement that is signed: this version of this package has these bytes."""

    type: str = msgspec.field(name="_type")
    subject: list[_Subject]
    predicateType: str
    predicate: _Predicate

    @classmethod
    def of(cls, release: Release, signed_at: datetime) -> Statement:
        """The statement for a release."""
        return cls(
            type=STATEMENT,
            subject=[_Subject(release.package_id, _Sum(release.digest.removeprefix("sha256:")))],
            predicateType=PREDICATE,
            predicate=_Predicate(
                release.package_id,
                release.version,
                _Sum(release.manifest_digest.removeprefix("sha256:")),
                signed_at,
            ),
        )


def sign(release: Release, private: Ed25519PrivateKey, signed_at: datetime) -> bytes:
    """Signs a release. Returns the envelope, as it is stored in `marketplace.signature.json`."""
    require()
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import CryptoSigner  # type: ignore[attr-defined]

    statement = msgspec.json.encode(Statement.of(release, signed_at.replace(microsecond=0)))
    envelope = Envelope(statement, PAYLOAD, {})
    envelope.sign(CryptoSigner(private, _to_sslib_key(public_of(private))))
    return msgspec.json.encode(envelope.to_dict()) + b"\n"


def verify(
    envelope: bytes | None, release: Release, trust: TrustedPublishers, now: datetime
) -> SignatureVerdict:
    """The verdict on an envelope: exactly one posture, and why."""
    publisher = release.publisher
    if envelope is None:
        return SignatureVerdict("unsigned", publisher, why="it is not signed")
    try:
        read, statement = _read(envelope)
    except ValueError as error:
        return SignatureVerdict("invalid", publisher, why=f"its signature cannot be read: {error}")
    if (signed_at := statement.predicate.signed_at).tzinfo is None or signed_at > now + _SKEW:
        return SignatureVerdict(
            "invalid", publisher, why="its signature is dated in the future, or without a time zone"
        )
    if statement != Statement.of(release, signed_at):
        claimed = escape_controls(f"{statement.predicate.package_id}@{statement.predicate.version}"[:200])
        why = f"it was changed after it was signed: the signature is for different contents of {claimed}"
        return SignatureVerdict("altered", publisher, escape_controls(read.signatures[0].keyid[:64]), why)
    return _judge_signatures(read, signed_at, publisher, trust)


def _judge_signatures(
    read: _Envelope, signed_at: datetime, publisher: str, trust: TrustedPublishers
) -> SignatureVerdict:
    keys = trust.keys_of(publisher)
    verdicts: list[SignatureVerdict] = []
    for signature in read.signatures:
        key_id = escape_controls(signature.keyid[:64])
        if (key := keys.get(signature.keyid)) is None:
            owner = trust.owner_of(key_id)
            whose = f"belongs to {owner}" if owner else "is unknown"
            why = f"the key {key_id[:16]} of its signature {whose}, and is not trusted for {publisher}"
            verdicts.append(SignatureVerdict("unknown_key", publisher, key_id, why))
        elif not _is_valid(read, signature, key.public):
            why = f"the signature by {key_id[:16]} is not valid for that key"
            verdicts.append(SignatureVerdict("invalid", publisher, key_id, why))
        elif objection := key.objection(signed_at):
            why = f"the key {key_id[:16]} of {publisher} {objection}"
            verdicts.append(SignatureVerdict("unknown_key", publisher, key_id, why))
        else:
            return SignatureVerdict("trusted", publisher, key_id)
    invalid = [verdict for verdict in verdicts if verdict.posture == "invalid"]
    return (invalid or verdicts)[0]


def _read(text: bytes) -> tuple[_Envelope, Statement]:
    if len(text) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"it is larger than {MAX_DOCUMENT_BYTES} bytes")
    try:
        read = msgspec.json.decode(text, type=_Envelope)
        payload = exact_base64(read.payload)
        statement = msgspec.json.decode(payload, type=Statement)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    ids = [signature.keyid for signature in read.signatures]
    if not 0 < len(ids) <= _MAX_SIGNATURES or len(set(ids)) != len(ids):
        raise ValueError(f"expected 1 to {_MAX_SIGNATURES} signatures by different keys")
    if read.payloadType != PAYLOAD or statement.type != STATEMENT or statement.predicateType != PREDICATE:
        raise ValueError("it is not a signature of a package")
    for signature in read.signatures:
        exact_base64(signature.sig)
    return read, statement


def _is_valid(read: _Envelope, signature: _Signature, key: PublicKey) -> bool:
    require()
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import VerificationError

    alone = {**msgspec.to_builtins(read), "signatures": [msgspec.to_builtins(signature)]}
    try:
        Envelope.from_dict(alone).verify([_to_sslib_key(key)], 1)
    except VerificationError:
        return False
    return True


def _to_sslib_key(key: PublicKey) -> Any:
    from securesystemslib.signer import SSlibKey  # type: ignore[attr-defined]

    return SSlibKey.from_crypto(key.to_crypto(), keyid=key.id)
