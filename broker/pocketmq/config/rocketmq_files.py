"""Reads RocketMQ's files of settings: broker.conf, and a proxy's rmq-proxy.json.

broker.conf is a Java properties file: `name = value` lines, comments after `#` and `!`, and a
backslash at the end continues a line. Names without a counterpart in PocketMQ have a reason.
Source: MixAll.properties2Object, java.util.Properties.load.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pocketmq.config import rocketmq
from pocketmq.config.sections import KNOBS, PRESET
from pocketmq.model.errors import SettingsFileUnusable
from pocketmq.model.nearness import nearest

# -- rmq-proxy.json ----------------------------------------------------------------------------
TAKEN: Final[Mapping[str, str]] = {
    "grpcServerPort": "rpc.listen",
    "metricsPromExporterPort": "http.listen",
    "tlsCertPath": "rpc.tls_cert",
    "tlsKeyPath": "rpc.tls_key",
    "rocketMQClusterName": "broker.cluster",
}
"""PocketMQ's setting by name in rmq-proxy.json."""
_REASONS: Final[Mapping[str, str]] = {
    "classic clients use the port of rpc.listen: see rpc.classic": """remotingListenPort
        remotingAccessAddr useEndpointPortFromRequest enableRemotingLocalProxyGrpc""",
    "clients connect to this broker without a name server": """namesrvAddr namesrvDomain
        namesrvDomainSubgroup""",
    "broker and proxy are one process here": """proxyMode proxyClusterName proxyName
        localServeAddr heartbeatSyncerTopicClusterName""",
    "the broker generates a certificate if none is set": "tlsTestModeEnable",
    "users and grants are in the store: pocketmq user, pocketmq acl": """enableACL
        authenticationEnabled authorizationEnabled authenticationProvider authorizationProvider
        innerClientAuthenticationCredentials initAuthenticationUser""",
    "metrics are shown on the HTTP port": "metricsExporterType metricsPromExporterHost",
}
_LEFT_OUT: Final = {name: why for why, words in _REASONS.items() for name in words.split()}
OTHER: Final = "it has no counterpart here"


def is_proxy_conf(path: Path) -> bool:
    """Returns whether a file is a rmq-proxy.json, by its suffix."""
    return path.suffix.lower() == ".json"


def proxy_pairs(path: Path, text: str) -> list[tuple[str, str]]:
    """Returns (name, value) pairs of a rmq-proxy.json, in order.

    Errors   SettingsFileUnusable, which does not contain values
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 0)
        why = f"line {line}: it is not JSON" if line else "it is not JSON"
        raise SettingsFileUnusable(field=str(path), why=why) from None
    if not isinstance(document, dict):
        raise SettingsFileUnusable(field=str(path), why="it is not a JSON object; write {...}")
    return [(name, _text(value)) for name, value in document.items()]


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def why_proxy_leaves_out(name: str) -> str:
    """Returns why a name of rmq-proxy.json is left out."""
    assert name not in TAKEN
    return _LEFT_OUT.get(name, OTHER)


# -- rocketmq's settings that have no counterpart here, by subject -----------------------------
_WORDS: Final[Mapping[str, str]] = {
    "TLS is accepted by default: see rpc.tls, rpc.tls_cert and rpc.tls_key": r"""
        useTLS ^tls""",
    "users and grants are in the store: pocketmq user, pocketmq acl; import plain_acl.yml": r"""
        ^auth ^acl [Aa]uthorization [Aa]uthentication ^userCache AuthFromV1""",
    "queues, index and tables are files; there is no RocksDB": r"""
        [Rr]ocks [Rr]ocksdb ^storeType$ ^combine CompressionTypeForConsumeQueue ^memTable
        ^configManagerVersion$""",
    "one process is one broker; start one process per file of brokerConfigPaths": r"""
        [Cc]ontainer brokerConfigPaths""",
    "[replication] sets the leader that it follows, and the port of its slaves": r"""
        ^ha[A-Z] [Ss]lave [Rr]eplica SyncState ^dLeger ^dledger [Cc]ontroller [Ll]earner Epoch
        InSync ^preferredLeader BrokerMember BrokerMetadata MasterFlush ^skipPreOnline
        ^forwardTimeout ^storePathBrokerIdentity SkipLongAwaitingAck syncFromLastFile""",
    "clients connect to this broker without a name server": r"""
        [Nn]ame[Ss](erver|rv) [Rr]egist(er|ration) ^clusterName$ ^localHostName$ SplitMetadata
        splitMetadata CleanOfflineBroker cleanOfflineBroker""",
    "one event loop serves all calls; there are no thread pools to size": r"""
        [Tt]hread QueueCapacity ^waitTimeMills Executor [Ss]emaphore MaxAsyncPut maxAsyncPut
        ^spinLock ^useABSLock ^lockInStrict ^batchDispatch ^dispatch AsyncReput Concurrently$
        [Aa]syncSend concurrently""",
    "gRPC manages connections here": r"""
        ^(client|server|channel|socks|connect|write[BO]|shared|maxReconnect) [Nn]etty [Ss]ocket
        Epoll ^bindAddress GoAway EventProcess highSpeedMode FlowControlEnable maxClientEvent
        NetWorkFlow""",
    "the broker sizes its timer wheel itself": r"""^timer [Dd]elayOffset ^schedule Schedule""",
    "this pop setting has no counterpart here": r"""
        ^pop Pop [Rr]evive appendAck appendCk [Cc]kMax CKRe ^ack RetryTopicV[12]
        MessageRequestMode SeparateRetryQueue retryTopic""",
    "this broker creates no light queues": r"""
        ^lite Lite [Ll]mq MultiDispatch StoreReply storeReply""",
    "topics are not compacted here": r"""[Cc]ompaction OffsetMap""",
    "this transaction setting has no counterpart here": r"""^trans [Tt]ransaction""",
    "all files are below store.directory": r"""^readOnlyCommitLog ^storePath""",
    "the store manages it itself": r"""
        [Cc]old [Ss]wap readAhead ReadAhead HotRatio Mmap ^correctLogic ^logicQueue ^commitLog
        ^logicalDisk AcceleratedRecovery OnRecover RunningFlags ^wake ConsumeQueueScan BatchDelete
        readOnlyCommitLog ^indexFile ^iteratorWhen ChecksumRange searchBcq""",
    "metrics are shown on the HTTP port": r"""
        [Mm]etric [Ss]tat[is] ^stat [Cc]ommercial [Aa]ccount Log$ ^log printChannel ^sample
        estimateAcc AutoDeleteUnused""",
    "offsets are durable when a commit is answered": r"""[Oo]ffset""",
}
_FAMILIES: Final = tuple(
    (re.compile("|".join(words.split())), why) for why, words in _WORDS.items()
)


def why_left_out(name: str) -> str:
    """Returns why a RocketMQ name has no meaning here; "" if no pattern matches the name."""
    return next((why for pattern, why in _FAMILIES if pattern.search(name)), "")


# -- broker.conf -------------------------------------------------------------------------------
UNKNOWN: Final = "unknown name, here and in RocketMQ's common settings"

_PAIR = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:\s]?\s*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    """An entry of the file, with the number of its first line."""

    line: int
    name: str
    value: str


class LeftOut(NamedTuple):
    """A property that is left out, the reason, and a hint at a similar name."""

    property: Property
    why: str
    hint: str


def reason_left_out(name: str) -> tuple[str, str]:
    """Returns (why a name is left out, hint); ("", "") for a known setting."""
    if name in KNOBS or name == PRESET or rocketmq.knobs_of(name):
        return "", ""
    why = rocketmq.why_meaningless(name) or why_left_out(name)
    if why:
        return why, ""
    near = nearest(name, rocketmq.names())
    return UNKNOWN, f" (did you mean {near}?)" if near else ""


def is_broker_conf(text: str) -> bool:
    """Returns whether a text is a broker.conf, as it contains names of RocketMQ's settings."""
    names = rocketmq.names_in(text)
    is_other = text.lstrip().startswith("{") or rocketmq.OF_OTHER_FILES & set(names)
    return not is_other and any(rocketmq.is_known(name) or why_left_out(name) for name in names)


def properties(text: str) -> list[Property]:
    """Returns the entries of a properties file, in order."""
    found: list[Property] = []
    whole, begun = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        piece = line.lstrip()
        if not whole and (not piece or piece[0] in "#!"):
            continue
        begun = begun if whole else number
        whole += piece
        backslash_count = len(whole) - len(whole.rstrip("\\"))
        if backslash_count % 2:
            whole = whole[:-1]
            continue
        found += _property(begun, whole)
        whole = ""
    return found + _property(begun, whole)


def repeated(items: Sequence[Property]) -> list[str]:
    """Returns a warning for each name that is set again."""
    lines: dict[str, int] = {}
    return [
        f"{item.name} is set in lines {first} and {item.line}; the last one counts"
        for item in items
        if (first := lines.setdefault(item.name, item.line)) != item.line
    ]


def _property(line: int, whole: str) -> list[Property]:
    pair = _PAIR.fullmatch(whole)
    if not whole or pair is None:
        return []
    return [Property(line, _unescaped(pair[1]), _unescaped(pair[2]).strip())]


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        word = match[1]
        return chr(int(word[1:], 16)) if len(word) > 1 else _CONTROLS.get(word, word)

    return _ESCAPE.sub(character, text)
