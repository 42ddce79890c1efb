"""What the broker is told of itself: name, limits, ports, metrics and logs."""

from dataclasses import dataclass

from broker.config.knob import INT32_MAX, knob
from broker.config.texts import (
    PORT_MAX,
    address_from_text,
    ip_from_text,
    name_from_text,
    profiles_from_text,
)
from broker.config.units import MIB


@dataclass(frozen=True, kw_only=True)
class BrokerSection:
    """What this broker is called and what it takes."""

    name: str = knob("broker-a", "Name of this broker.", "brokerName", read=name_from_text)
    cluster: str = knob(
        "DefaultCluster", "Name of its cluster, kept with each message.", "brokerClusterName",
        read=name_from_text,
    )  # fmt: skip
    advertised_host: str = knob(
        "", "IP address kept with each message; empty: the one listened on, or the machine's.",
        "brokerIP1", read=ip_from_text,
    )  # fmt: skip
    advertised_port: int = knob(
        0, "Its port; 0: the one listened on.", "listenPort", upper=PORT_MAX
    )
    permission: int = knob(
        6, "Sum of 4 (read) and 2 (write); 4 refuses all sends.", "brokerPermission", upper=7
    )
    auto_create_topics: bool = knob(
        True, "Make a topic when the first message for it comes.", "autoCreateTopicEnable"
    )
    default_queue_count: int = knob(
        8, "Queues of a topic made that way.", "defaultTopicQueueNums", lower=1, upper=1024
    )
    accept_from_ms: int = knob(
        0, "Refuse sends before this time, in ms since 1970.", "startAcceptSendRequestTimeStamp"
    )


@dataclass(frozen=True, kw_only=True)
class LimitsSection:
    """How much is too much."""

    max_message_size_bytes: int = knob(
        4 * MIB, "Largest body of a message, and of all messages of one request.",
        "maxMessageSize", lower=1, upper=INT32_MAX,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RpcSection:
    """The gRPC port."""

    listen: str = knob(
        "127.0.0.1:8081", "Where gRPC is served; port 0: any.", "listenPort", read=address_from_text
    )
    shutdown_grace_ms: int = knob(
        25_000, "How long calls may finish after SIGTERM; stays below the 30 s of Kubernetes."
    )


@dataclass(frozen=True, kw_only=True)
class HttpSection:
    """The HTTP port: metrics, health and version."""

    listen: str = knob(
        "127.0.0.1:5557", "Where HTTP is served; port 0: any.", read=address_from_text
    )


@dataclass(frozen=True, kw_only=True)
class MetricsSection:
    """What /metrics shows."""

    profile: str = knob(
        "native", "Names of RocketMQ's metrics: native (with units, from 5.1.4 on), native-legacy "
        'or both, as "native,native-legacy".', read=profiles_from_text,
    )  # fmt: skip
    detail: str = knob(
        "public", "full adds series of every queue.",
        choices=("public", "full"),
    )  # fmt: skip
    max_series: int = knob(
        50_000, "Time series shown at most; what is above is left out and counted.",
        "metricsOtelCardinalityLimit", lower=1, upper=INT32_MAX,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LogsSection:
    """What the broker tells on standard error."""

    level: str = knob(
        "info", "The least that is told.", choices=("debug", "info", "warning", "error")
    )
    format: str = knob(
        "auto", "auto: lines to read on a terminal, JSON elsewhere.",
        choices=("auto", "json", "console"),
    )  # fmt: skip
