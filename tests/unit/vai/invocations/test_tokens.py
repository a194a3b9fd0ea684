"""Delegated credentials: good for their scopes while their invocation runs, and for nothing else."""

import base64
import json
from collections.abc import Callable

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, OKPKey

from plughost._util.redaction.redactor import Redactor
from plughost._util.redaction.secret_set import HIDDEN
from plughost.errors import Denied
from plughost.vai.invocations.signing_key import SigningKey
from plughost.vai.invocations.tokens import AUDIENCE, ISSUER, PREFIX, SHAPE, Delegation, SigningIssuer


class Time:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def issuer_of(now: Callable[[], float]) -> SigningIssuer:
    return SigningIssuer([SigningKey.generate()], now)


def delegation(**other: object) -> Delegation:
    told = {
        "invocation_id": "inv_1",
        "org_id": "org_1",
        "project_id": "proj_1",
        "scopes": ("chains:read", "runs:write"),
        "expires_at": 1010.0,
    }
    return Delegation(**{**told, **other})  # type: ignore[arg-type]


@pytest.mark.clause("VAI-04", "VAI-41")
def test_a_token_opens_its_scopes_for_its_tenant_until_its_deadline() -> None:
    time = Time()
    issuer = issuer_of(time)
    token = issuer.mint(delegation())
    assert token.startswith("vai_dlg_")
    assert issuer.verify(token, "chains:read") == delegation()
    with pytest.raises(Denied, match="does not include chains:write"):
        issuer.verify(token, "chains:write")
    time.now = 1010.0
    with pytest.raises(Denied, match="expired"):
        issuer.verify(token, "chains:read")


@pytest.mark.clause("VAI-41")
def test_a_token_ends_with_its_invocation() -> None:
    issuer = issuer_of(Time())
    token = issuer.mint(delegation())
    other = issuer.mint(delegation(invocation_id="inv_2"))
    issuer.revoke("inv_1")
    with pytest.raises(Denied, match="has ended"):
        issuer.verify(token, "chains:read")
    assert issuer.verify(other, "chains:read").invocation_id == "inv_2"
    assert issuer.running == {"inv_2"}


def part(value: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def forged(token: str) -> dict[str, str]:
    """What somebody with one good token and no key may try."""
    head, claims, signature = token.removeprefix(PREFIX).split(".")
    told = json.loads(base64.urlsafe_b64decode(claims + "=="))
    wider = {**told, "scope": "chains:read chains:write"}
    secret = OctKey.import_key(b"k" * 32)
    stranger = OKPKey.generate_key("Ed25519")
    return {
        "wider claims": f"{head}.{part(wider)}.{signature}",
        "no algorithm": f"{part({'alg': 'none'})}.{claims}.",
        "a shared secret": jwt.encode({"alg": "HS256"}, told, secret),
        "a key of its own": jwt.encode({"alg": "Ed25519"}, told, stranger, algorithms=["Ed25519"]),
        "a key in the header": f"{part({'alg': 'Ed25519', 'jwk': stranger.as_dict(private=False)})}.{claims}.{signature}",
        "a critical number": f"{part({'alg': 'Ed25519', 'crit': 7})}.{claims}.{signature}",
        "a deep header": f"{base64.urlsafe_b64encode(b'[' * 1500).decode()}.{claims}.{signature}",
        "no signature": f"{head}.{claims}.",
        "cut": f"{head}.{claims}",
        "nothing": "",
        "huge": "a" * 100_000,
    }


@pytest.mark.parametrize(
    "attack",
    [
        "wider claims", "no algorithm", "a shared secret", "a key of its own", "a key in the header",
        "a critical number", "a deep header", "no signature", "cut", "nothing", "huge",
    ],
)  # fmt: skip
@pytest.mark.clause("VAI-41")
def test_a_forged_token_opens_nothing(attack: str) -> None:
    issuer = issuer_of(Time())
    token = issuer.mint(delegation())
    with pytest.raises(Denied):
        issuer.verify(PREFIX + forged(token)[attack], "chains:read")
    with pytest.raises(Denied):
        issuer.verify(token.removeprefix(PREFIX), "chains:read")


def test_another_hosts_token_opens_nothing_here() -> None:
    token = issuer_of(Time()).mint(delegation())
    with pytest.raises(Denied):
        issuer_of(Time()).verify(token, "chains:read")


@pytest.mark.clause("VAI-41")
def test_a_token_of_an_invocation_in_another_process_opens_nothing_here() -> None:
    key = SigningKey.generate()
    token = SigningIssuer([key], Time()).mint(delegation())
    with pytest.raises(Denied, match="has ended"):
        SigningIssuer([key], Time()).verify(token, "chains:read")


def test_after_a_new_key_tokens_of_the_old_one_are_good_and_new_ones_name_the_new() -> None:
    old, new = SigningKey.generate("delegation-1"), SigningKey.generate("delegation-2")
    before, after = SigningIssuer([old], Time()), SigningIssuer([new, old], Time())
    token = before.mint(delegation())
    after.mint(delegation())
    assert after.verify(token, "chains:read") == delegation()
    issued = after.mint(delegation())
    head = json.loads(base64.urlsafe_b64decode(issued.removeprefix(PREFIX).split(".")[0] + "=="))
    assert head == {"alg": "Ed25519", "typ": "JWT", "kid": "delegation-2"}
    assert after.verify(issued, "chains:read") == delegation()
    with pytest.raises(Denied):
        before.verify(issued, "chains:read")
    relabelled = SigningIssuer([SigningKey("delegation-2", old.sealable())], Time()).mint(delegation())
    with pytest.raises(Denied):
        after.verify(relabelled, "chains:read")


def test_a_signing_key_is_not_shown() -> None:
    key = SigningKey.generate()
    assert repr(key) == str(key) == "<SigningKey delegation-1>"


def test_others_can_read_what_a_token_says() -> None:
    issuer = issuer_of(Time())
    claims = issuer.mint(delegation()).removeprefix(PREFIX).split(".")[1]
    told = json.loads(base64.urlsafe_b64decode(claims + "=="))
    assert (told["iss"], told["aud"], told["jti"]) == (ISSUER, AUDIENCE, "inv_1")
    assert (told["org"], told["project"], told["scope"]) == ("org_1", "proj_1", "chains:read runs:write")
    assert "key" not in repr(issuer).lower()


@pytest.mark.clause("VAI-90")
def test_every_token_is_hidden_by_its_shape() -> None:
    hidden = Redactor()
    hidden.add_pattern(SHAPE)
    token = issuer_of(Time()).mint(delegation())
    assert hidden.redact(f"Bearer {token}, sent") == f"Bearer {HIDDEN}, sent"
    assert hidden.redact(base64.b64encode(token.encode()).decode().rstrip("=")) == HIDDEN
