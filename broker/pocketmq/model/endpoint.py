"""Parses the endpoint of a broker: HOST:PORT, or tls://HOST:PORT for TLS.

A leader may also be a master of RocketMQ: rocketmq://HOST:PORT, with the port of its clients.
"""

import re
from typing import Final

DEFAULT_PORT: Final = 8081
MASTER_PORT: Final = 10_911
"""Port of a master of RocketMQ for clients."""
DEFAULT_HOST: Final = "127.0.0.1"
PORT_MAX: Final = 65_535
TLS: Final = "tls://"
TLS_NAME: Final = "POCKETMQ_CONSOLE_TLS_NAME"
"""Environment variable of a broker's own console with a name of the broker's certificate."""
ROOTS: Final = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"
"""Environment variable with the path of trusted certificates, in gRPC and in PocketMQ."""
ROCKETMQ: Final = "rocketmq://"

_HOST = re.compile(r"[^\s/@\[\]]+")
_BRACKETED = re.compile(r"\[([^\[\]]+)\](?::(.*))?", re.DOTALL)


def endpoint_from_text(text: str, default_port: int = DEFAULT_PORT) -> str:
    """Returns an endpoint with host and port; a missing host or port gets the default.

    Accepts localhost, broker.local:9000, :9000, 9000, ::1, [::1], [::1]:9000, tls://broker.local.

    Errors   ValueError
    """
    from pocketmq.model.decimal import number_of  # Help needs the defaults above alone.

    stripped = text.strip()
    scheme = TLS if stripped.startswith(TLS) else ""
    host, port = _parts(stripped.removeprefix(TLS), default_port)
    number = number_of(port, PORT_MAX)
    if host and number <= 0 and port.isdecimal():
        raise ValueError(f"{text!r}: the port is not in the range 1 to {PORT_MAX}")
    if not (number > 0 and host.isprintable() and _HOST.fullmatch(host)):
        raise ValueError(f"{text!r} is not HOST:PORT, such as localhost:{DEFAULT_PORT}")
    return scheme + (f"[{host}]:{number}" if ":" in host else f"{host}:{number}")


def leader_from_text(text: str) -> str:
    """Returns the endpoint of a leader, also of a master of RocketMQ.

    Errors   ValueError
    """
    stripped = text.strip()
    if not stripped.startswith(ROCKETMQ):
        return endpoint_from_text(stripped)
    found = endpoint_from_text(stripped.removeprefix(ROCKETMQ), MASTER_PORT)
    if found.startswith(TLS):
        raise ValueError(f"{text!r} has two schemes; a master of RocketMQ is reached without TLS")
    return ROCKETMQ + found


def _is_ipv6(text: str) -> bool:
    from ipaddress import IPv6Address

    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def _parts(text: str, default_port: int) -> tuple[str, str]:
    """Returns host and port; "" for a host or port that is invalid."""
    bracketed = _BRACKETED.fullmatch(text)
    if bracketed is not None or text.count(":") > 1:
        host, port = (bracketed[1], bracketed[2]) if bracketed is not None else (text, None)
        return (host, str(default_port) if port is None else port) if _is_ipv6(host) else ("", "")
    host, separator, port = text.partition(":")
    if not separator and host.isascii() and host.isdecimal():
        return DEFAULT_HOST, host
    return host or (DEFAULT_HOST if separator else ""), port if separator else str(default_port)
