"""Imports RocketMQ's broker.conf as PocketMQ settings.

The file is a Java properties file: `name = value` lines, comments after `#` and `!`, and a
backslash at the end continues a line. The result starts from the preset `server`, because its
defaults are RocketMQ's: each name, value and default then means the same as in RocketMQ. Settings
without a meaning in PocketMQ are left out and reported with the reason. Unknown names are left out
as well, or are errors in a strict import. A value that cannot be parsed is always an error.

A proxy's rmq-proxy.json can be imported, too. Its unknown names are left out even in a strict
import, and names with an empty value are ignored. Secrets are not shown.
Source: MixAll.properties2Object, java.util.Properties.load.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from pocketmq.config import rocketmq
from pocketmq.config.document import settings_text
from pocketmq.config.load import Layers, checked, nearest
from pocketmq.config.sections import KNOBS, PRESET, SERVER
from pocketmq.model.errors import IllegalConfig

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
    "classic clients are not served: there is one port, for gRPC": """remotingListenPort
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

    Errors   IllegalConfig, which does not contain values
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 0)
        why = f"line {line}: it is not JSON" if line else "it is not JSON"
        raise IllegalConfig(field=str(path), why=why) from None
    if not isinstance(document, dict):
        raise IllegalConfig(field=str(path), why="it is not a JSON object; write {...}")
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
    "this broker has no replicas": r"""
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
HIDDEN: Final = "(not shown)"
_SECRET: Final = re.compile(
    r"secret|password|passwd|credential|token|private|authenticationUser", re.IGNORECASE
)
"""Pattern of names and values that may be secrets, which are not shown."""
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


class Imported(NamedTuple):
    """An imported file as PocketMQ settings.

    text       TOML, with comments for settings that are left out
    left_out   names that are left out
    unknown    names of `left_out` that are no known RocketMQ settings, with the nearest known name
    warnings   notes for the operator
    problems   errors; if there are any, the text must not be used
    """

    text: str
    left_out: list[str]
    unknown: list[str]
    warnings: list[str]
    problems: list[IllegalConfig]


def import_file(path: Path, *, strict: bool = False) -> Imported:
    """Imports a broker.conf or rmq-proxy.json; the result is valid only without problems.

    strict   unknown names in broker.conf are problems; those in rmq-proxy.json never are
    Errors   IllegalConfig: the file cannot be read, or rmq-proxy.json is not a JSON object
    """
    text = text_of(path)
    layers = Layers()
    layers.put(PRESET, SERVER, str(path))
    left_out: dict[str, LeftOut] = {}
    said: dict[str, str] = {}
    take = _take_proxy if is_proxy_conf(path) else _take_broker
    take(path, text, layers, said, left_out, strict)
    loaded = checked(layers)
    head = (
        f"# From {_on_one_line(str(path))} of RocketMQ, whose defaults are those of this preset.\n"
    )
    head += f"{PRESET} = {json.dumps(SERVER)}\n"
    values = {key: loaded.config.value(key) for key in layers.origins}
    remarks = {key: _on_one_line(remark) for key, remark in said.items()}
    parts = [head, settings_text(values, remarks), _left_out_text(left_out)]
    text = "\n".join(part for part in parts if part)
    unknown = [f"{name}{item.hint}" for name, item in left_out.items() if item.why == UNKNOWN]
    return Imported(text, [*left_out], unknown, [*loaded.config.warnings], loaded.problems)


def text_of(path: Path) -> str:
    """Returns the text of a file.

    Errors   IllegalConfig: the file cannot be read, or is not UTF-8
    """
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise IllegalConfig(field=str(path), why=str(error.strerror)) from error
    except ValueError:
        raise IllegalConfig(field=str(path), why="it is not UTF-8") from None


def _take_broker(
    path: Path, text: str, layers: Layers, said: dict[str, str], left_out: dict[str, LeftOut],
    strict: bool,
) -> None:  # fmt: skip
    """Imports the entries of broker.conf."""
    for item in properties(text):
        why, hint = _why_left_out(item.name)
        if why and not (strict and why == UNKNOWN):
            left_out[item.name] = LeftOut(item, why, hint)
            continue
        layers.put_any(item.name, item.value, f"{path}:{item.line}")
        said |= {knob.key: f"{item.name} = {item.value}" for knob in rocketmq.knobs_of(item.name)}


def _take_proxy(
    path: Path, text: str, layers: Layers, said: dict[str, str], left_out: dict[str, LeftOut],
    strict: bool,
) -> None:  # fmt: skip
    """Imports the entries of rmq-proxy.json."""
    for name, value in proxy_pairs(path, text):
        key = TAKEN.get(name)
        if key is None:
            left_out[name] = LeftOut(Property(0, name, value), why_proxy_leaves_out(name), "")
        elif value:
            layers.put(key, value, f"{path}: {name}")
            said[key] = f"{name} = {value}"


def _why_left_out(name: str) -> tuple[str, str]:
    """Returns (why a name is left out, hint); ("", "") for a known setting."""
    if name in KNOBS or name == PRESET or rocketmq.knobs_of(name):
        return "", ""
    why = rocketmq.why_meaningless(name) or why_left_out(name)
    if why:
        return why, ""
    near = nearest(name, rocketmq.names())
    return UNKNOWN, f" (did you mean {near}?)" if near else ""


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


def _left_out_text(left_out: dict[str, LeftOut]) -> str:
    by_reason: dict[str, list[LeftOut]] = {}
    for item in left_out.values():
        by_reason.setdefault(item.why, []).append(item)
    lines = ["# Left out:\n"] if by_reason else []
    for why, items in by_reason.items():
        lines.append(f"#   {why}\n")
        for (_, name, value), _, hint in items:
            shown = HIDDEN if _SECRET.search(name) or _SECRET.search(value) else value
            lines.append(f"#     {_on_one_line(f'{name} = {shown}{hint}')}\n")
    return "".join(lines)


def _on_one_line(text: str) -> str:
    """Returns text for a TOML comment: characters that cannot be printed are replaced."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
