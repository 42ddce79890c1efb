"""The settings of the ports: which clients may connect, and by which protocols."""

from dataclasses import dataclass
from typing import Final

from pocketmq.config.knob import INT32_MAX, knob, live_knob
from pocketmq.config.texts import address_from_text, optional_address_from_text

OWN: Final = "own"
GRPCIO: Final = "grpcio"


@dataclass(frozen=True, kw_only=True)
class RpcSection:
    """The port of all clients: gRPC, and over HTTP/1.1 metrics, health and version."""

    listen: str = knob(
        "127.0.0.1:8081", "Address of gRPC; port 0: any.", "listenPort", read=address_from_text
    )
    shutdown_grace_ms: int = live_knob(
        25_000, "How long calls may finish after SIGTERM; stays below the 30 s of Kubernetes."
    )
    transport: str = knob(
        OWN,
        "own: everything on one port, and fast; grpcio: gRPC's own library, for comparison, "
        "which ignores the following settings.",
        choices=(OWN, GRPCIO),
    )  # fmt: skip
    tls: bool = knob(
        True,
        "Accept TLS on the same port, with the certificate below or, without one, with one that "
        "the broker makes in pocketmq/tls/ of the store.",
    )  # fmt: skip
    tls_cert: str = knob(
        "", "File with the server's certificate and those it is signed by, as PEM; empty: one of "
        "the broker's own, which clients cannot check unless they are given it.",
        "tls.server.certPath",
    )  # fmt: skip
    tls_key: str = knob(
        "", "File with the certificate's key, as PEM, without a password.", "tls.server.keyPath"
    )
    tls_only: bool = knob(False, "With TLS: close connections without it.")
    proxy_protocol: bool = knob(
        False, "Each connection begins with a PROXY header, version 1 or 2, of a load balancer; "
        "others are closed.",
    )  # fmt: skip
    connections_max: int = knob(
        16_384, "Connections at once, at most a third of the files that the process may open; "
        "those beyond are closed as they come.",
        lower=1, upper=INT32_MAX,
    )  # fmt: skip
    connection_age_ms: int = knob(
        0, "How old a connection may get before its client is asked to make a new one, so that "
        "load balancers can spread clients anew; calls that have not ended a minute later end "
        "with UNAVAILABLE. 0: any age.",
    )  # fmt: skip
    connection_idle_ms: int = knob(0, "Idle time after which a connection is closed; 0: never.")

    @property
    def offers_tls(self) -> bool:
        """Whether TLS connections are answered."""
        return self.tls and self.transport == OWN


@dataclass(frozen=True, kw_only=True)
class HttpSection:
    """An extra port for metrics, health and version only."""

    listen: str = knob(
        "127.0.0.1:5557", "Extra address of HTTP; port 0: any; empty: none.",
        read=optional_address_from_text,
    )  # fmt: skip
