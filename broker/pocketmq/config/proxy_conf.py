"""RocketMQ's rmq-proxy.json as names and values that an import takes over.

Source: ProxyConfig, MetricsManager.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pocketmq.model.errors import IllegalConfig

TAKEN: Final[Mapping[str, str]] = {
    "grpcServerPort": "rpc.listen",
    "metricsPromExporterPort": "http.listen",
    "tlsCertPath": "rpc.tls_cert",
    "tlsKeyPath": "rpc.tls_key",
    "rocketMQClusterName": "broker.cluster",
}
"""Our setting for a name there."""
_REASONS: Final[Mapping[str, str]] = {
    "classic clients are not served: there is one port, for gRPC": """remotingListenPort
        remotingAccessAddr useEndpointPortFromRequest enableRemotingLocalProxyGrpc""",
    "clients come to this broker without a name server": """namesrvAddr namesrvDomain
        namesrvDomainSubgroup""",
    "broker and proxy are one process here": """proxyMode proxyClusterName proxyName
        localServeAddr heartbeatSyncerTopicClusterName""",
    "the broker makes its own certificate where none is given": "tlsTestModeEnable",
    "users and grants stand in the store: pocketmq user, pocketmq acl": """enableACL
        authenticationEnabled authorizationEnabled authenticationProvider authorizationProvider
        innerClientAuthenticationCredentials initAuthenticationUser""",
    "metrics are shown on the HTTP port": "metricsExporterType metricsPromExporterHost",
}
_LEFT_OUT: Final = {name: why for why, words in _REASONS.items() for name in words.split()}
OTHER: Final = "what it is about has no counterpart here"


def is_proxy_conf(path: Path) -> bool:
    """Returns whether a file is one by its name."""
    return path.suffix.lower() == ".json"


def proxy_pairs(path: Path, text: str) -> list[tuple[str, str]]:
    """Returns names and values of a rmq-proxy.json, in its order.

    Errors   IllegalConfig, which contains none of the values
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 0)
        why = f"line {line}: it is no JSON" if line else "it is no JSON"
        raise IllegalConfig(field=str(path), why=why) from None
    if not isinstance(document, dict):
        raise IllegalConfig(field=str(path), why="it is no object of JSON, as rmq-proxy.json is")
    return [(name, _text(value)) for name, value in document.items()]


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def why_proxy_leaves_out(name: str) -> str:
    """Returns why a name of that file is not taken over."""
    assert name not in TAKEN
    return _LEFT_OUT.get(name, OTHER)
