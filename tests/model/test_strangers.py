"""Protocols are known by their first bytes; what strangers do is told sparingly."""

import pytest

from pocketmq.model.strangers import PROXY, REMOTING, TLS, TOLD_S, UNKNOWN, Sparingly, protocol_of

HEADER = b'{"code":105,"language":"JAVA","version":495}'
FRAME = (4 + len(HEADER)).to_bytes(4, "big") + len(HEADER).to_bytes(4, "big") + HEADER


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (FRAME, REMOTING),
        (FRAME[:8], REMOTING),
        (b"\0\0\0\x20\x01\0\0\x10" + bytes(8), REMOTING),
        (b"\x16\3\1\0\5", TLS),
        (b"PROXY TCP4 192.0.2.1", PROXY),
        (b"\r\n\r\n\0\r\nQUIT\n", PROXY),
        (b"PRI * HTTP/2.0\r\n", "HTTP/2 without TLS"),
        (b"PROPFIND / HTTP/1.1", "HTTP/1.1"),
        (b"SSH-2.0-OpenSSH_9", "SSH"),
        (b"*1\r\n$4\r\nPING\r\n", "Redis"),
    ],
)
def test_a_protocol_is_known_by_its_first_bytes(data: bytes, name: str) -> None:
    assert protocol_of(data) == name


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        FRAME[:7],
        b"\0\0\0\x09\x02\0\0\x04" + bytes(8),
        b"\0\0\0\x07\0\0\0\x04" + bytes(8),
        b"\0\0\0\x09\0\0\0\0" + bytes(8),
        b"\x01\0\0\x01\0\0\0\x10" + bytes(8),
        b"get / HTTP/1.1",
        b"\xff" * 40,
    ],
)
def test_what_is_none_is_called_so(data: bytes) -> None:
    assert protocol_of(data) == UNKNOWN


def test_one_is_told_and_the_others_are_counted() -> None:
    telling = Sparingly()
    assert telling.may_tell(5.0)
    assert telling.told() == 0
    assert not any(telling.may_tell(5.0 + TOLD_S / 2) for _ in range(3))
    assert telling.may_tell(5.0 + TOLD_S)
    assert telling.told() == 3
    assert telling.told() == 0
