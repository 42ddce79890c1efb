"""The signature of RocketMQ's clients, as they all write it."""

import pytest

from pocketmq.format.signature import (
    Signed,
    authorization_of,
    date_from_ms,
    is_signature,
    ms_from_date,
    signature_of,
    signed_from_text,
)

DATE = "20261120T220952Z"
SIGNATURE = "771d25b8de79e745002e143c49ec19f9ccd7fe1f"
"""What the client for Python made of it with the secret sk1; that for Node.js in upper case."""


def test_a_signature_is_that_of_the_clients() -> None:
    assert signature_of("sk1", DATE) == SIGNATURE


@pytest.mark.parametrize("key", ["ak", "ak//Rocketmq", "ak/cn-hangzhou/RocketMQ"])
@pytest.mark.parametrize("signature", [SIGNATURE, SIGNATURE.upper()])
def test_every_client_is_understood(key: str, signature: str) -> None:
    text = f"MQv2-HMAC-SHA1 Credential={key}, SignedHeaders=x-mq-date-time, Signature={signature}"
    signed = signed_from_text(text)
    assert signed == Signed("ak", SIGNATURE)
    assert is_signature(signed, "sk1", DATE)
    assert not is_signature(signed, "sk2", DATE)
    assert not is_signature(signed, "sk1", DATE[:-1])


def test_what_is_written_here_is_read_here() -> None:
    assert signed_from_text(authorization_of("ak", "sk1", DATE)) == Signed("ak", SIGNATURE)


@pytest.mark.parametrize(
    "text",
    [
        "", "MQv2-HMAC-SHA1", "MQv2-HMAC-SHA1 Credential=, SignedHeaders=, Signature=",
        "MQv2-HMAC-SHA1 Credential=ak", "MQv2-HMAC-SHA256 Credential=ak, Signature=00",
        "Bearer Credential=ak, Signature=00", "MQv2-HMAC-SHA1 Credential=/x, Signature=00",
    ],
)  # fmt: skip
def test_what_is_no_signature_is_none(text: str) -> None:
    assert signed_from_text(text) is None


def test_a_signature_that_is_no_text_of_ascii_is_wrong_and_no_crash() -> None:
    assert not is_signature(Signed("ak", "ÿ\udc80".encode("utf-8", "replace").decode()), "s", DATE)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("20261120T220952Z", 1795212592000),
        ("2026-11-20T22:09:52.123456789Z", 1795212592123),
        ("2026-11-20T23:09:52+01:00", 1795212592000),
        ("2026-11-20T22:09:52", 1795212592000),
        ("yesterday", None),
        ("", None),
    ],
)
def test_dates_of_all_clients_are_read(text: str, ms: int | None) -> None:
    assert ms_from_date(text) == ms


def test_dates_are_written_as_clients_do() -> None:
    assert date_from_ms(1795212592999) == "20261120T220952Z"
