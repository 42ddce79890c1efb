"""Clients that use a protocol which a port does not serve, recognized by their first bytes.

    00 00 00 9c  00  00 00 86  {…    RocketMQ's remoting: length · serialization · header length
    16 03 01                         TLS
    "SSH-", "GET ", "PROXY ", …      text that names the protocol

Source: RemotingCommand, the classic protocol of RocketMQ's clients.
"""

import re
from typing import Final

REMOTING: Final = "RocketMQ remoting (a classic client; rpc.classic is off)"
TLS: Final = "TLS (this port has no certificate)"
PROXY: Final = "the PROXY protocol (rpc.proxy_protocol is off)"
UNKNOWN: Final = "an unknown protocol"
TOLD_S: Final = 10.0
"""Minimum interval between two logged events, in seconds; other events are only counted."""
FRAME_SIZE_MAX: Final = 16 * 1024 * 1024
"""Maximum size of a frame of RocketMQ's remoting (NettyDecoder)."""
START_SIZE: Final = 16
_HEAD_SIZE: Final = 8
_STARTS: Final = (
    (b"PROXY ", PROXY),
    (b"\r\n\r\n\x00\r\nQUIT", PROXY),
    (b"PRI ", "HTTP/2 without TLS"),
    (b"SSH-", "SSH"),
    (b"AMQP", "AMQP"),
    (b"*", "Redis"),
    (b"\x10", "MQTT"),
    (b"STOMP", "STOMP"),
    (b"CONNECT\n", "STOMP"),
)
_HTTP1: Final = re.compile(rb"[A-Z]{3,12} ")


def protocol_of(data: bytes) -> str:
    """Returns the protocol of a connection by its first bytes, as text for people."""
    if data.startswith(b"\x16\x03"):
        return TLS
    if _is_remoting(data):
        return REMOTING
    for start, name in _STARTS:
        if data.startswith(start):
            return name
    return "HTTP/1.1" if _HTTP1.match(data) else UNKNOWN


def _is_remoting(data: bytes) -> bool:
    if len(data) < _HEAD_SIZE or data[4] > 1:
        return False
    size, header_size = int.from_bytes(data[:4], "big"), int.from_bytes(data[5:8], "big")
    return 0 < header_size <= size - 4 and size <= FRAME_SIZE_MAX


class Sparingly:
    """Limits the rate of log events that clients can cause to one each TOLD_S."""

    __slots__ = ("_quiet_until_s", "left_out")

    def __init__(self) -> None:
        self._quiet_until_s = float("-inf")
        self.left_out = 0
        """Number of events since the last logged event."""

    def may_tell(self, now_s: float) -> bool:
        """Returns whether to log an event; counts an event that is not logged.

        now_s   monotonic time in seconds
        """
        if now_s < self._quiet_until_s:
            self.left_out += 1
            assert self.left_out > 0, "event was not counted"
            return False
        self._quiet_until_s = now_s + TOLD_S
        return True

    def told(self) -> int:
        """Returns the number of events that were not logged, and resets it."""
        left_out, self.left_out = self.left_out, 0
        return left_out
