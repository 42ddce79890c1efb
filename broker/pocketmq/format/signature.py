"""The signature with which RocketMQ's clients authenticate.

    x-mq-date-time  20261120T220952Z
    authorization   MQv2-HMAC-SHA1 Credential=KEY, SignedHeaders=x-mq-date-time, Signature=HEX

Only the date is signed, with the user's secret as the HMAC key. So anyone who reads a call on the
network can send other calls while the broker accepts the date: use TLS.
Source: AuthenticationHeader, Signature of rocketmq-clients; DefaultAuthenticationContextBuilder.
"""

import hmac
from base64 import b64decode, b64encode
from datetime import UTC, datetime
from hashlib import sha1, sha256
from typing import Final, NamedTuple

ALGORITHM: Final = "MQv2-HMAC-SHA1"
AUTHORIZATION_KEY: Final = "authorization"
DATE_KEY: Final = "x-mq-date-time"
DATE_FORMAT: Final = "%Y%m%dT%H%M%SZ"
BEARER: Final = "bearer"
BASIC: Final = "basic"
_PAGES: Final = b"PocketMQ pages 1"
_CREDENTIAL: Final = "Credential"
_SIGNED: Final = "SignedHeaders"
_SIGNATURE: Final = "Signature"


class Signed(NamedTuple):
    """The content of an authorization header: access key, and signature in lower case."""

    access_key: str
    signature: str


def signature_of(secret: str, date: str) -> str:
    """Returns the signature of a date, in lower case."""
    return hmac.new(secret.encode(), date.encode(), sha1).hexdigest()


def authorization_of(access_key: str, secret: str, date: str) -> str:
    """Returns the authorization header for a signed date."""
    signature = signature_of(secret, date)
    return f"{ALGORITHM} {_CREDENTIAL}={access_key}, {_SIGNED}={DATE_KEY}, {_SIGNATURE}={signature}"


def signed_from_text(text: str) -> Signed | None:
    """Parses an MQv2-HMAC-SHA1 authorization header; returns None for any other text.

    Some clients write KEY/REGION/SERVICE as credential, some the signature in upper case.
    """
    algorithm, _, rest = text.partition(" ")
    if algorithm != ALGORITHM:
        return None
    pairs = (part.strip().partition("=") for part in rest.split(","))
    parts = {name: value for name, _, value in pairs}
    access_key = parts.get(_CREDENTIAL, "").partition("/")[0]
    signature = parts.get(_SIGNATURE, "").lower()
    if not access_key or not signature:
        return None
    return Signed(access_key, signature)


def is_signature(signed: Signed, secret: str, date: str) -> bool:
    """Returns whether a date was signed with a secret; compares in constant time."""
    wanted = signature_of(secret, date).encode()
    return hmac.compare_digest(wanted, signed.signature.encode())


def content_signature(secret: str, content: bytes) -> str:
    """Returns the signature of a classic request's content: base64 of HMAC-SHA1."""
    return b64encode(hmac.digest(secret.encode(), content, "sha1")).decode()


def is_content_signature(signature: str, secret: str, content: bytes) -> bool:
    """Returns whether a classic client signed content with a secret; compares in constant time.

    Source   AclUtils.calSignature
    """
    wanted = content_signature(secret, content)
    return hmac.compare_digest(wanted.encode(), signature.encode())


def page_token_of(access_key: str, secret: str) -> str:
    """Returns the bearer token with which a user reads HTTP pages; it grants nothing else.

    The secret cannot be computed from the token. The token is valid until the secret changes.
    """
    proof = hmac.new(secret.encode(), _PAGES, sha256).hexdigest()
    return b64encode(f"{access_key}:{proof}".encode()).decode()


def is_page_proof(proof: str, secret: str) -> bool:
    """Returns whether a page token was made with a secret; compares in constant time."""
    wanted = hmac.new(secret.encode(), _PAGES, sha256).hexdigest()
    return hmac.compare_digest(wanted.encode(), proof.encode())


def pair_from_text(authorization: str) -> tuple[str, str, str]:
    """Parses an HTTP authorization to (scheme in lower case, access key, secret or proof).

    Returns  three empty texts if the scheme is not basic or bearer, or if a part is missing
    """
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() not in {BASIC, BEARER}:
        return "", "", ""
    try:
        access_key, separator, value = b64decode(encoded, validate=True).decode().partition(":")
    except ValueError:  # binascii.Error and UnicodeDecodeError are ValueErrors.
        return "", "", ""
    return (scheme.lower(), access_key, value) if separator else ("", "", "")


def date_from_ms(now_ms: int) -> str:
    """Formats ms since 1970 as the date header of a call: UTC, whole seconds."""
    return datetime.fromtimestamp(now_ms / 1000, UTC).strftime(DATE_FORMAT)


def ms_from_date(text: str) -> int | None:
    """Parses a date to ms since 1970; returns None for an invalid date.

    Most clients write local time as if it were UTC, others RFC 3339 with a zone.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
