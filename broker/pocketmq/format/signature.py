"""The signature by which RocketMQ's clients authenticate.

    x-mq-date-time  20261120T220952Z
    authorization   MQv2-HMAC-SHA1 Credential=KEY, SignedHeaders=x-mq-date-time, Signature=HEX

The signature is over the bytes of the date alone, and its key is the secret. So a reader of a call
on its way can make others while the date is accepted: it belongs inside TLS.
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
    """Returns the header that signs a date."""
    signature = signature_of(secret, date)
    return f"{ALGORITHM} {_CREDENTIAL}={access_key}, {_SIGNED}={DATE_KEY}, {_SIGNATURE}={signature}"


def signed_from_text(text: str) -> Signed | None:
    """Parses an authorization, None when it is none of these.

    Some clients write KEY/REGION/SERVICE, some the signature in upper case.
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
    """Returns whether a date was signed with a secret, in the same time whether or not."""
    wanted = signature_of(secret, date).encode()
    return hmac.compare_digest(wanted, signed.signature.encode())


def page_token_of(access_key: str, secret: str) -> str:
    """Returns the bearer token by which a user reads pages; it opens nothing else.

    The secret does not follow from it. It is worth as much as the secret is: one that is changed
    ends it.
    """
    proof = hmac.new(secret.encode(), _PAGES, sha256).hexdigest()
    return b64encode(f"{access_key}:{proof}".encode()).decode()


def is_page_proof(proof: str, secret: str) -> bool:
    """Returns whether a token was made with a secret, in the same time whether or not."""
    wanted = hmac.new(secret.encode(), _PAGES, sha256).hexdigest()
    return hmac.compare_digest(wanted.encode(), proof.encode())


def pair_from_text(authorization: str) -> tuple[str, str, str]:
    """Returns scheme, access key, and secret or proof of an HTTP authorization.

    The scheme is in lower case, "" when it is neither basic nor bearer, or holds no pair.
    """
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() not in {BASIC, BEARER}:
        return "", "", ""
    try:
        access_key, separator, value = b64decode(encoded, validate=True).decode().partition(":")
    except ValueError:  # base64's and Unicode's errors are of these
        return "", "", ""
    return (scheme.lower(), access_key, value) if separator else ("", "", "")


def date_from_ms(now_ms: int) -> str:
    """Returns the date of a time, in ms since 1970, as clients write it: UTC, whole seconds."""
    return datetime.fromtimestamp(now_ms / 1000, UTC).strftime(DATE_FORMAT)


def ms_from_date(text: str) -> int | None:
    """Returns the time of a date, in ms since 1970, None when it is none.

    Most clients write local time as if it were UTC, others RFC 3339 with its zone.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
