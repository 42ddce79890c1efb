"""The settings of the ports: of clients, of pages, and of slave brokers."""

from dataclasses import dataclass
from typing import Final

from pocketmq.config.knob import INT32_MAX, knob, live_knob
from pocketmq.config.texts import (
    address_from_text,
    leader_from_text,
    networks_from_text,
    optional_address_from_text,
    path_from_text,
)
from pocketmq.config.units import GIB

OWN: Final = "own"
GRPCIO: Final = "grpcio"
AUTO: Final = "auto"
ON: Final = "on"
OFF: Final = "off"


@dataclass(frozen=True, kw_only=True)
class RpcSection:
    """The port of all clients: gRPC, and over HTTP/1.1 metrics, health and version."""

    listen: str = knob(
        "127.0.0.1:8081", "Address of gRPC; port 0: any free port.", "listenPort",
        read=address_from_text,
    )  # fmt: skip
    shutdown_grace_ms: int = live_knob(
        25_000, "Time that calls get to end after SIGTERM; keep it below Kubernetes' 30 s."
    )
    transport: str = knob(
        OWN,
        "own: PocketMQ's server, fast, with all protocols on one port; grpcio: gRPC's library, for "
        "comparison, which does not support the settings that follow in this section.",
        choices=(OWN, GRPCIO),
    )  # fmt: skip
    classic: str = knob(
        AUTO,
        "Serve classic clients (RocketMQ 4, or 5 with a name server) on the same port, as name "
        "server and broker; auto: if the transport is own. access.check applies to their calls.",
        choices=(AUTO, ON, OFF),
    )  # fmt: skip
    classic_vip: bool = knob(
        True, "Also listen on the port minus 2, which RocketMQ's Dashboard and clients up to 4.5.0 "
        "use. If that port is in use, the broker only logs a warning. Without effect for port 0.",
    )  # fmt: skip
    tls: bool = knob(
        True,
        "Accept TLS on the same port, with the certificate of rpc.tls_cert, or with one that the "
        "broker generates in pocketmq/tls/ of the store.",
    )  # fmt: skip
    tls_cert: str = knob(
        "", "PEM file with the server's certificate chain; empty: a generated certificate, which "
        "clients can verify only if they trust it.",
        "tls.server.certPath",
    )  # fmt: skip
    tls_key: str = knob(
        "", "PEM file with the certificate's key, without a password.", "tls.server.keyPath"
    )
    tls_only: bool = knob(False, "Close connections without TLS; needs rpc.tls.")
    proxy_protocol: bool = knob(
        False, "Each connection must begin with a load balancer's PROXY header, version 1 or 2; "
        "connections without one are closed.",
    )  # fmt: skip
    connections_max: int = knob(
        16_384, "Upper limit of open connections, at most a third of the process's open-file "
        "limit; further connections are closed at once.",
        lower=1, upper=INT32_MAX,
    )  # fmt: skip
    connection_age_ms: int = knob(
        0, "Age at which the client of a connection is asked to open a new one, so that load "
        "balancers can redistribute clients; 0: never. Calls that still run a minute later end "
        "with UNAVAILABLE.",
    )  # fmt: skip
    connection_idle_ms: int = knob(0, "Idle time after which a connection is closed; 0: never.")

    @property
    def offers_classic(self) -> bool:
        """Whether classic clients are served."""
        return self.classic != OFF and self.transport == OWN

    @property
    def offers_tls(self) -> bool:
        """Whether TLS connections are accepted."""
        return self.tls and self.transport == OWN


@dataclass(frozen=True, kw_only=True)
class HttpSection:
    """An extra port for metrics, health and version only."""

    listen: str = knob(
        "127.0.0.1:5557", "Extra address of HTTP; port 0: any free port; empty: no extra address.",
        read=optional_address_from_text,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ConsoleSection:
    """The web console (docs/howto/console.md), on all ports of HTTP; needs the extra `console`."""

    enabled: bool = knob(
        True, "Serve the console, in a process that starts with the first request. Off without the "
        "extra, and where other machines reach a port without users, unless access.check is off.",
    )  # fmt: skip
    path: str = knob("/", "Path below which its pages are, such as /console.", read=path_from_text)
    changes_need_login: bool = knob(
        False, "Callers without a login see pages, but change nothing; for a broker that checks no "
        "users the console then only reads.",
    )  # fmt: skip
    backup_path: str = knob(
        "", "Directory to which admins copy the store from the page Store, by pocketmq store "
        "backup; empty: the page only shows the command.",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ReplicationSection:
    """Brokers that copy the log: followers, and slaves of RocketMQ (docs/howto/replicating.md)."""

    listen: str = knob(
        "", "Address of RocketMQ's HA protocol for slaves, such as 127.0.0.1:10912; empty: no "
        "slave is served. The protocol has neither signatures nor TLS.",
        read=optional_address_from_text,
    )  # fmt: skip
    peers: str = knob(
        "127.0.0.0/8,::1/128", "Networks whose slaves are served, separated by commas.",
        read=networks_from_text,
    )  # fmt: skip
    lag_max_bytes: int = knob(
        10 * GIB, "Upper limit of the log that retention keeps for a follower or slave that lags."
    )
    leader: str = knob(
        "", "PocketMQ broker whose log and tables this one copies, HOST:PORT or tls://HOST:PORT, "
        "or a master of RocketMQ 5, rocketmq://HOST:10911; empty: this broker leads. After a "
        "promotion the store's own role replaces the setting.",
        read=leader_from_text,
    )  # fmt: skip
    user: str = knob(
        "", "Access key of an admin of the leader, with which a follower signs; empty: unsigned."
    )
    secret_path: str = knob(
        "", "File with the secret of replication.user, read for each connection to the leader."
    )
    in_sync_replicas: int = knob(
        1, "Number of brokers, this one included, that must have a message before it is "
        "acknowledged and visible to consumers; 1: no follower.",
        "inSyncReplicas", lower=1, upper=16,
    )  # fmt: skip
    all_in_sync: bool = knob(
        False, "If replication.in_sync_replicas is above 1: wait also for every other follower "
        "that has caught up once, until it disconnects.",
        "allAckInSyncStateSet",
    )  # fmt: skip
    ack_timeout_ms: int = knob(
        3_000, "Time after which a producer gets FLUSH_SLAVE_TIMEOUT: the message is stored, and "
        "visible once enough followers have it.",
        "slaveTimeout", lower=1,
    )  # fmt: skip
    count_legacy_acks: bool = knob(
        False, "Count slaves of RocketMQ for replication.in_sync_replicas, although they report "
        "messages in memory, not on disk.",
    )  # fmt: skip
